/** A price: what it is, the pools that it comes from, and the same number computed by this browser. */
import { useState } from "preact/hooks";
import {
  type Answer as Answered,
  type PoolState,
  ServiceError,
  type SkippedPool,
  type TokenPrice,
} from "../client/index.ts";
import { CurvePanel } from "./curve.tsx";
import { brief, isAddress, percent, plain, whole } from "./format.ts";
import { useAnswer, useSession } from "./hooks.ts";
import { Address, Curl, Fact, Failure, linkTo, Panel, Scroll } from "./parts.tsx";
import { digits, nearest, reservesOf, type Step, stepsOf, usdOf } from "./recompute.ts";

type PriceAnswer = Answered<TokenPrice>;

interface PriceOptions {
  readonly chain: string;
  readonly address: string;
}

/** Digits shown of the recomputed fraction. */
const PLACES = 30;

export function PriceScreen({ chain, address }: PriceOptions) {
  return (
    <>
      <h1>Price</h1>
      <Ask chain={chain} address={address} />
      {isAddress(address) ? <Answer chain={chain} address={address} /> : <p>Enter the address of an ERC-20 token.</p>}
    </>
  );
}

function Ask({ chain, address }: PriceOptions) {
  const [text, setText] = useState(address);
  const [on, setOn] = useState(chain);
  const submit = (event: Event) => {
    event.preventDefault();
    if (isAddress(text.trim())) location.hash = linkTo.price(on.trim() || "eth", text.trim().toLowerCase());
  };
  return (
    <form class="row" onSubmit={submit}>
      <label for="chain">Chain</label>
      <input id="chain" class="narrow" value={on} onInput={({ currentTarget }) => setOn(currentTarget.value)} />
      <label for="token">Token</label>
      <input id="token" value={text} placeholder="0x…" onInput={({ currentTarget }) => setText(currentTarget.value)} />
      <button type="submit">Show</button>
    </form>
  );
}

function Answer({ chain, address }: PriceOptions) {
  const { client } = useSession();
  const [text, setText] = useState("");
  const [block, setBlock] = useState<number>();
  const { value, error, isLoading } = useAnswer<PriceAnswer>(
    (signal) =>
      client.price(address, {
        ...{ chain, include: ["provenance", "percent_change"], signal },
        ...(block === undefined ? {} : { to_block: block }),
      }),
    [chain, address, block],
  );
  const at = (event: Event) => {
    event.preventDefault();
    setBlock(/^\d+$/.test(text.trim()) ? Number(text) : undefined);
  };
  const query = `chain=${chain}&include=provenance,percent_change${block === undefined ? "" : `&to_block=${block}`}`;
  return (
    <>
      <form class="row" onSubmit={at}>
        <label for="at">At the end of block</label>
        <input
          id="at"
          class="narrow"
          inputMode="numeric"
          value={text}
          placeholder="newest"
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
        <button type="submit">Go</button>
      </form>
      <p role="status" class="quiet">
        {isLoading ? "Asking…" : ""}
      </p>
      {error === undefined ? null : <Refused error={error} />}
      {error === undefined && value !== undefined ? <Shown price={value} chain={chain} /> : null}
      {error === undefined && value?.asOf?.time != null ? (
        <CurvePanel
          {...{ chain, address }}
          until={value.asOf.time}
          onBlock={(chosen) => {
            setText(String(chosen));
            setBlock(chosen);
          }}
        />
      ) : null}
      <Curl
        requests={[{ path: `/api/v2/erc20/${address}/price?${query}` }]}
        command={`bun run cli price ${address} --chain ${chain}`}
      />
    </>
  );
}

/** Why there is no price, with what the service found at each pool. */
function Refused({ error }: { readonly error: Error }) {
  const pools = error instanceof ServiceError ? (error.details?.pools ?? []) : [];
  return (
    <>
      <Failure error={error} />
      {pools.length === 0 ? null : (
        <Scroll label="Pools that were refused">
          <table>
            <thead>
              <tr>
                <th scope="col">Exchange</th>
                <th scope="col">Pool</th>
                <th scope="col">Why it is not used</th>
              </tr>
            </thead>
            <tbody>
              {pools.map((pool) => (
                <tr key={`${pool.pool} ${pool.reason}`}>
                  <td>{plain(pool.exchange)}</td>
                  <td>
                    <Address value={pool.pool} />
                  </td>
                  <td>{reasonText(pool)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </>
  );
}

function reasonText({ reason, liquidityUsd, minLiquidityUsd }: SkippedPool): string {
  const depth = liquidityUsd === undefined ? "" : `: its smaller side has $${liquidityUsd}`;
  return `${reason.replaceAll("_", " ")}${depth}${minLiquidityUsd === undefined ? "" : `, the least is $${minLiquidityUsd}`}`;
}

function Shown({ price, chain }: { readonly price: TokenPrice; readonly chain: string }) {
  const { tokenName, tokenSymbol, usdPriceFormatted, nativePrice, toBlock, exchangeName, provenance } = price;
  const change = price["24hrPercentChange"];
  return (
    <>
      <section class="panel price">
        <h2>
          {plain(tokenName, 60)} <small>{plain(tokenSymbol, 20)}</small>
        </h2>
        <p class="amount">${usdPriceFormatted}</p>
        <dl class="facts">
          <Fact name="In native coin">
            {nativePrice === null
              ? "not known"
              : `${coins(nativePrice.value, nativePrice.decimals)} ${plain(nativePrice.symbol, 12)}`}
          </Fact>
          <Fact name="At block">{whole(Number(toBlock))}</Fact>
          <Fact name="Exchange">{plain(exchangeName, 60) || "none"}</Fact>
          <Fact name="Change over 24 hours">{change === undefined ? "no price then" : `${signed(change)} %`}</Fact>
          <Fact name="30-minute average">{provenance?.twap30m == null ? "not known" : `$${provenance.twap30m}`}</Fact>
        </dl>
        {provenance === undefined ? null : <Trust provenance={provenance} />}
      </section>
      {provenance === undefined || provenance.route.length === 0 ? null : <Origin price={price} chain={chain} />}
    </>
  );
}

/** What spread, depth and confidence mean, in a sentence each. */
function Trust({ provenance }: { readonly provenance: NonNullable<TokenPrice["provenance"]> }) {
  const { confidence, spreadPercent, liquidityUsd, disputedStablecoins = [] } = provenance;
  return (
    <p>
      The shallowest pool on the way has ${shortened(liquidityUsd)} on its smaller side. The usable routes differ by{" "}
      {shortened(spreadPercent)} %. Together this is a confidence of {percent(Number(confidence))}
      {Number(confidence) <= 0.5 ? ": treat this price with care." : "."}
      {disputedStablecoins.length === 0
        ? ""
        : ` ${disputedStablecoins.map(({ symbol }) => plain(symbol, 12)).join(", ")} stand apart from the dollar.`}
    </p>
  );
}

function Origin({ price, chain }: { readonly price: TokenPrice; readonly chain: string }) {
  const route = price.provenance?.route ?? [];
  const [check, setCheck] = useState<string>();
  const isSame = check === price.usdPriceFormatted;
  let steps: Step[] = [];
  try {
    steps = stepsOf(price.tokenAddress, route);
  } catch {
    // A route that can't be followed is told by the check.
  }
  const compute = () => {
    try {
      setCheck(decimalText(nearest(usdOf(price))));
    } catch (error) {
      setCheck((error as Error).message);
    }
  };
  return (
    <Panel title="Where this price comes from">
      <ol class="route" aria-label="Route from the token to the dollar">
        {steps.map(({ pool, from, to, rate }, at) => (
          <li key={pool.pool}>
            <span class="coin">{at === 0 ? plain(price.tokenSymbol, 12) : brief(from)}</span>
            <span class="pool">
              <strong>{plain(pool.exchange, 30)}</strong> × {shortened(digits(rate, 12))}
              <small>{at === steps.length - 1 ? "to a dollar" : `to ${brief(to)}`}</small>
              <small>{heldText(pool)}</small>
            </span>
          </li>
        ))}
        <li>
          <span class="coin">$</span>
        </li>
      </ol>
      <p class="row">
        <button type="button" onClick={compute}>
          Recompute here
        </button>
        {check === undefined ? (
          <span class="quiet">This browser takes the states below, and multiplies whole numbers.</span>
        ) : (
          <span role="status" class={isSame ? "good" : "bad"} data-check={isSame ? "same" : "different"}>
            {isSame ? "✓ the same to the last digit: " : "✗ it differs: "}
            {isSame ? `$${check} (${digits(usdOf(price), PLACES)}…)` : check}
          </span>
        )}
      </p>
      <Scroll label="States of the pools">
        <table>
          <thead>
            <tr>
              {["Exchange", "Pool", "Fee", "Tokens", "State", "Block", "Transaction"].map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {[...route, ...(price.provenance?.nativeRoute ?? [])].map((pool) => (
              <PoolRow key={pool.pool} pool={pool} chain={chain} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

/** What a pool holds of its two tokens; with concentrated liquidity, what it would hold at this price over all prices. */
function heldText(pool: PoolState): string {
  const [first, second] = reservesOf(pool);
  if (first === undefined || second === undefined) return "";
  return `holds ${shortened(digits(first, 6))} and ${shortened(digits(second, 6))}`;
}

function PoolRow({ pool, chain }: { readonly pool: PoolState; readonly chain: string }) {
  const { exchange, fee, token0, token1, reserve0, reserve1, sqrtPriceX96, liquidity, block, transactionHash } = pool;
  return (
    <tr>
      <td>{plain(exchange, 40)}</td>
      <td>
        <Address value={pool.pool} />
      </td>
      <td>{fee / 10_000} %</td>
      <td>
        <Address value={token0} href={linkTo.price(chain, token0)} />{" "}
        <Address value={token1} href={linkTo.price(chain, token1)} />
      </td>
      <td>
        <code>
          {sqrtPriceX96 === undefined ? `${reserve0} / ${reserve1}` : `√P·2⁹⁶ ${sqrtPriceX96}, L ${liquidity ?? "?"}`}
        </code>
      </td>
      <td>{whole(block)}</td>
      <td>
        {transactionHash === undefined ? (
          "read at the head"
        ) : (
          <code title={transactionHash}>{brief(transactionHash)}</code>
        )}
      </td>
    </tr>
  );
}

/** The shortest decimal of a double, without an exponent, as the service writes it. */
function decimalText(value: number): string {
  const text = String(value);
  const [, mantissa = "", power = ""] = /^([\d.]+)e([+-]\d+)$/.exec(text) ?? [];
  if (mantissa === "") return text;
  const [before = "", after = ""] = mantissa.split(".");
  const shift = Number(power);
  if (shift < 0) return `0.${"0".repeat(-shift - before.length)}${before}${after}`;
  return `${before}${after}`.padEnd(before.length + shift, "0");
}

/** Whole coins from the smallest unit. */
function coins(value: string, decimals: number): string {
  const text = value.padStart(decimals + 1, "0");
  const fraction = text.slice(text.length - decimals).replace(/0+$/, "");
  return `${text.slice(0, text.length - decimals)}${fraction === "" ? "" : `.${fraction}`}`;
}

/** Six significant digits of a long decimal. */
const shortened = (text: string): string =>
  new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 }).format(Number(text));
const signed = (text: string): string => (text.startsWith("-") ? text : `+${text}`);
