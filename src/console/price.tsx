/** A price: what it is, the pools that it comes from, and the same number computed by this browser. */
import { useState } from "preact/hooks";
import { type Answer as Answered, ServiceError, type SkippedPool, type TokenPrice } from "../client/index.ts";
import { CurvePanel } from "./curve.tsx";
import { isAddress, percent, plain, shortened, whole } from "./format.ts";
import { blockIn, useAction, useAnswer, useQuery, useSession } from "./hooks.ts";
import { Address, Curl, Fact, Failure, linkTo, quoted, Scroll } from "./parts.tsx";
import { Origin } from "./route.tsx";

type PriceAnswer = Answered<TokenPrice>;

interface PriceOptions {
  readonly chain: string;
  readonly address: string;
}

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
  const [problem, setProblem] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    const isGood = isAddress(text.trim());
    setProblem(isGood ? "" : "A token's address has 0x and 40 hexadecimal digits. The search finds tokens by symbol.");
    if (isGood) location.hash = linkTo.price(on.trim() || "eth", text.trim().toLowerCase());
  };
  return (
    <form class="row" onSubmit={submit}>
      <label for="chain">Chain</label>
      <input id="chain" class="narrow" value={on} onInput={({ currentTarget }) => setOn(currentTarget.value)} />
      <label for="token">Token</label>
      <input id="token" value={text} placeholder="0x…" onInput={({ currentTarget }) => setText(currentTarget.value)} />
      <button type="submit">Show</button>
      <span role="alert">{problem}</span>
    </form>
  );
}

function Answer({ chain, address }: PriceOptions) {
  const { client } = useSession();
  const [query, change] = useQuery();
  const block = blockIn(query);
  const { value, error, isLoading } = useAnswer<PriceAnswer>(
    (signal) =>
      client.price(address, {
        ...{ chain, include: ["provenance", "percent_change"], signal },
        ...(block === undefined ? {} : { to_block: block }),
      }),
    [chain, address, block],
  );
  const at = block === undefined ? "" : `&to_block=${block}`;
  const path = `/api/v2/erc20/${address}/price?chain=${chain}&include=provenance,percent_change${at}`;
  const command = `price ${address} --chain ${quoted(chain)}${block === undefined ? "" : ` --block ${block}`}`;
  const show = (chosen: number | undefined) => change({ block: chosen?.toString() });
  return (
    <>
      <When key={block ?? "newest"} {...{ chain, address, block }} onBlock={show} />
      <p role="status" class="quiet">
        {isLoading ? "Asking…" : ""}
      </p>
      {error === undefined ? null : <Refused error={error} />}
      {error === undefined && value !== undefined ? <Shown price={value} chain={chain} /> : null}
      {error === undefined && value?.asOf?.time != null ? (
        <CurvePanel {...{ chain, address }} until={value.asOf.time} onBlock={show} />
      ) : null}
      <Curl requests={[{ path }]} command={command} />
    </>
  );
}

interface WhenOptions extends PriceOptions {
  readonly block: number | undefined;
  readonly onBlock: (block: number | undefined) => void;
}

/** The choice of the block, by its number or by a time. */
function When({ chain, address, block, onBlock }: WhenOptions) {
  const { client } = useSession();
  const [text, setText] = useState(block?.toString() ?? "");
  const [state, run, isBusy] = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      const moment = momentOf(text.trim());
      if (moment === undefined)
        return "Enter the number of a block, or a time in UTC such as 2026-01-31 or 2026-01-31 12:30.";
      if (typeof moment !== "string") onBlock(moment.block);
      else {
        // The last block at or before the time.
        const { result } = await client.priceSeries({ chain, address }, { from: moment, to: moment, points: 1 });
        if (result[0] === undefined) return "No block of that time is known.";
        onBlock(result[0].block);
      }
      return "";
    });
  };
  return (
    <form class="row" onSubmit={submit}>
      <label for="at">At the end of block, or at a time</label>
      <input id="at" value={text} placeholder="newest" onInput={({ currentTarget }) => setText(currentTarget.value)} />
      <button type="submit" disabled={isBusy}>
        Go
      </button>
      <span role="alert">{state}</span>
    </form>
  );
}

/** A block, or an ISO time; undefined if the text is neither. An empty text is the newest block. */
function momentOf(text: string): { readonly block: number | undefined } | string | undefined {
  if (text === "") return { block: undefined };
  if (/^\d{1,15}$/.test(text)) return { block: Number(text) };
  const [, day, time, zone = "Z"] =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?))?\s*(Z|UTC|[+-]\d\d:\d\d)?$/i.exec(text) ?? [];
  if (day === undefined) return undefined;
  const iso = `${day}T${time ?? "00:00"}${zone.toUpperCase() === "UTC" ? "Z" : zone.toUpperCase()}`;
  return Number.isNaN(Date.parse(iso)) ? undefined : new Date(iso).toISOString();
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
          <Fact name="Change over 24 hours">
            {change === undefined ? "no price then" : <span title={`${change} %`}>{changeText(change)}</span>}
          </Fact>
          <Fact name="30-minute average">
            {provenance?.twap30m == null ? (
              "not known"
            ) : (
              <span title={`$${provenance.twap30m}`}>${shortened(provenance.twap30m)}</span>
            )}
          </Fact>
        </dl>
        {provenance === undefined ? null : <Trust provenance={provenance} />}
      </section>
      {provenance === undefined || provenance.route.length === 0 ? null : <Origin price={price} chain={chain} />}
    </>
  );
}

/** What spread, depth and confidence mean, in a sentence each. */
function Trust({ provenance }: { readonly provenance: NonNullable<TokenPrice["provenance"]> }) {
  const { confidence, spreadPercent, liquidityUsd, factsOf, disputedStablecoins = [] } = provenance;
  return (
    <p>
      The shallowest pool on the way has ${shortened(liquidityUsd)} on its smaller side. The usable routes differ by{" "}
      {shortened(spreadPercent)} %. Together this is a confidence of {percent(Number(confidence))}
      {Number(confidence) <= 0.5 ? ": treat this price with care." : "."}
      {factsOf === "newest" ? " The node lacks the state of this block: name, symbol and decimals are today's." : ""}
      {disputedStablecoins.length === 0
        ? ""
        : ` ${disputedStablecoins.map(({ symbol }) => plain(symbol, 12)).join(", ")} stand apart from the dollar.`}
    </p>
  );
}

/** Whole coins from the smallest unit. */
function coins(value: string, decimals: number): string {
  const text = value.padStart(decimals + 1, "0");
  const fraction = text.slice(text.length - decimals).replace(/0+$/, "");
  return `${text.slice(0, text.length - decimals)}${fraction === "" ? "" : `.${fraction}`}`;
}

/** `+11.42 %`. */
const changeText = (text: string): string =>
  new Intl.NumberFormat("en-US", { style: "percent", maximumFractionDigits: 2, signDisplay: "exceptZero" }).format(
    Number(text) / 100,
  );
