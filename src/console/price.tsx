/** A price: what it is, the pools that it comes from, and the same number computed by this browser. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type UPlot from "uplot";
import {
  type Answer as Answered,
  type PriceQuery,
  type SeriesPoint,
  ServiceError,
  type SkippedPool,
  type TokenPrice,
} from "../client/index.ts";
import { FindingText, findingOf } from "./address.tsx";
import { ChainMenu, useChainChoice, useChains } from "./chain-menu.tsx";
import { blockIn, useAction, useAnswer, useQuery } from "./hooks.ts";
import { ChainNotice } from "./notice.tsx";
import {
  AddressLink,
  apiPath,
  Curl,
  clock,
  Fact,
  Failure,
  Field,
  isAddress,
  linkTo,
  Panel,
  percent,
  plain,
  quoted,
  shortened,
  Table,
  type Where,
  whole,
} from "./parts.tsx";
import { Origin } from "./route.tsx";
import "uplot/dist/uPlot.min.css";
import { useSession } from "./session.ts";
import { noteToken, TokenChoice } from "./tokens.tsx";

type PriceAnswer = Answered<TokenPrice>;

interface ScreenOptions {
  /** The chain of the link; undefined for the first one that is enabled. */
  readonly chain: string | undefined;
  readonly address: string;
}

export function PriceScreen({ chain, address }: ScreenOptions) {
  const chains = useChains();
  const isChosen = chain !== undefined && isAddress(address);
  return (
    <>
      <h1>{isChosen ? "Price" : "Prices"}</h1>
      {chain === undefined ? null : <ChainNotice chain={chain} />}
      <Ask {...{ chain, address, chains }} />
      {isChosen ? <Answer chain={chain} address={address} /> : <TokenChoice {...{ chains, chain }} />}
    </>
  );
}

function Ask({ chain, address, chains }: ScreenOptions & { readonly chains: readonly string[] }) {
  const [text, setText] = useState(address);
  const [on, setOn] = useChainChoice(chains, chain);
  const [problem, setProblem] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    const isGood = isAddress(text.trim());
    setProblem(isGood ? "" : "A token's address has 0x and 40 hexadecimal digits. The search finds tokens by symbol.");
    if (isGood) location.hash = linkTo.price(on, text.trim().toLowerCase());
  };
  return (
    <form class="row" onSubmit={submit}>
      <ChainMenu id="chain" {...{ chains }} chain={on} onChain={setOn} />
      <Field id="token" label="Token" value={text} placeholder="0x…" onInput={setText} />
      <button type="submit">Show</button>
      <span role="alert">{problem}</span>
    </form>
  );
}

function Answer({ chain, address }: Where) {
  const { client } = useSession();
  const [query, change] = useQuery();
  const block = blockIn(query);
  const asked = { chain, include: ["provenance", "percent_change"], to_block: block };
  const { value, error, isLoading } = useAnswer<PriceAnswer>(
    (signal) => client.price(address, { ...asked, signal }),
    [chain, address, block],
  );
  useLayoutEffect(() => {
    if (value !== undefined) noteToken({ chain, address, symbol: value.tokenSymbol, name: value.tokenName });
  }, [value, chain, address]);
  const command = `price ${address} --chain ${quoted(chain)}${block === undefined ? "" : ` --block ${block}`}`;
  const show = (chosen: number | undefined) => change({ block: chosen?.toString() });
  return (
    <>
      <When key={block ?? "newest"} {...{ chain, address, block }} onBlock={show} />
      <p role="status" class="quiet">
        {isLoading ? "Asking…" : ""}
      </p>
      {error === undefined ? null : <Refused {...{ error, chain, address }} />}
      {error === undefined && value !== undefined ? <Shown price={value} chain={chain} /> : null}
      {error === undefined && value !== undefined ? <TradePanel {...{ chain, address, block }} price={value} /> : null}
      {error === undefined && value?.asOf?.time != null ? (
        <CurvePanel {...{ chain, address }} until={value.asOf.time} onBlock={show} />
      ) : null}
      <Curl requests={[{ path: pricePath(address, asked) }]} commands={[command]} />
    </>
  );
}

/** The path of a request for a price. */
const pricePath = (address: string, { include, ...query }: Omit<PriceQuery, "signal">): string =>
  apiPath(["v2", "erc20", address, "price"], { ...query, include: include?.join() });

interface WhenOptions extends Where {
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
      <Field id="at" label="Block" value={text} placeholder="newest, or a time in UTC" onInput={setText} />
      <button type="submit" disabled={isBusy}>
        Go
      </button>
      {block === undefined ? null : (
        <button type="button" onClick={() => onBlock(undefined)}>
          Newest
        </button>
      )}
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
function Refused({ error, chain, address }: Where & { readonly error: Error }) {
  const pools = error instanceof ServiceError ? (error.details?.pools ?? []) : [];
  const found = findingOf(error);
  // The failure itself says why a token has no price, and the notice what is wrong with the chain.
  const isOther = found !== undefined && found.is !== "token" && found.is !== "unreadable";
  return (
    <>
      <Failure error={error} />
      {isOther ? <FindingText finding={found} {...{ chain, address }} /> : null}
      {pools.length === 0 ? null : (
        <Table label="Pools that were refused" titles={["Exchange", "Pool", "Why it is not used"]}>
          {pools.map((pool) => (
            <tr key={`${pool.pool} ${pool.reason}`}>
              <td>{plain(pool.exchange)}</td>
              <td>
                <AddressLink value={pool.pool} chain={chain} />
              </td>
              <td>{reasonText(pool)}</td>
            </tr>
          ))}
        </Table>
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
        <p class="amount">${shortened(usdPriceFormatted)}</p>
        <p class="exact quiet">exactly ${usdPriceFormatted}</p>
        <dl class="facts">
          <Fact name="In the native coin">
            {nativePrice === null
              ? "not known"
              : `${coins(nativePrice.value, nativePrice.decimals)} ${plain(nativePrice.symbol, 12)}`}
          </Fact>
          <Fact name="Block">{whole(Number(toBlock))}</Fact>
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
  const { confidence, spreadPercent, liquidityUsd, factsOf, limitedBy, disputedStablecoins = [] } = provenance;
  return (
    <p>
      The pool with the least liquidity on the route holds ${shortened(liquidityUsd)} on its smaller side. The prices of
      other routes differ by {percent(Number(spreadPercent) / 100)}. Confidence: {percent(Number(confidence))}
      {Number(confidence) <= 0.5 ? ": treat this price with care." : "."}
      {limitedBy === undefined ? "" : ` ${sentenceOf(plain(limitedBy, 300))}`}
      {factsOf === "newest" ? " The node lacks the state of this block: name, symbol and decimals are today's." : ""}
      {disputedStablecoins.length === 0
        ? ""
        : ` ${disputedStablecoins.map(({ symbol }) => plain(symbol, 12)).join(", ")}: off the dollar by more than other stablecoins.`}
    </p>
  );
}

/** The size of the trade that is shown, in US dollars. */
const TRADE_USD = 1_000;

interface TradeOptions extends Where {
  readonly block: number | undefined;
  /** Each new price has its trade asked for again. */
  readonly price: PriceAnswer;
}

/** What a holder would get. Asked for apart, because it takes the service more requests than the price. */
function TradePanel({ chain, address, block, price }: TradeOptions) {
  const { client } = useSession();
  const asked = { chain, include: ["depth"], size_usd: TRADE_USD, to_block: block };
  const { value, error } = useAnswer(
    (signal) => client.price(address, { ...asked, signal }),
    [chain, address, block, price],
  );
  return (
    <Panel title={`Trading $${whole(TRADE_USD)} of it`}>
      <Failure error={error} />
      {value === undefined ? <p role="status">{error === undefined ? "Computing…" : ""}</p> : <Trade {...value} />}
      <Curl requests={[{ path: pricePath(address, asked) }]} />
    </Panel>
  );
}

function Trade({ depth, why, tokenSymbol }: Pick<TokenPrice, "depth" | "why" | "tokenSymbol">) {
  if (depth == null) return <p>Not known{why === undefined ? "" : `: ${plain(why, 300)}`}.</p>;
  const { sell, buy, impactPercent, move2PercentUsd, sellable, why: more } = depth;
  const sale = sellable === null ? "not known" : sellable ? "went through" : "failed";
  return (
    <>
      <dl class="facts">
        <Fact name="A sale gives">
          {sell === null ? (
            "not known"
          ) : (
            <span title={`$${sell}`}>
              ${shortened(sell)}, {percent(Number(impactPercent) / 100)} less
            </span>
          )}
        </Fact>
        <Fact name="A purchase gives">
          {buy === null ? (
            "not known"
          ) : (
            <span title={buy}>
              {shortened(buy)} {plain(tokenSymbol, 20)}
            </span>
          )}
        </Fact>
        <Fact name="Moving the price by 2 % takes">${shortened(move2PercentUsd)}</Fact>
        <Fact name="A simulated sale">{sale}</Fact>
      </dl>
      {more === undefined ? null : <p class="quiet">{sentenceOf(plain(more, 300))}</p>}
    </>
  );
}

const sentenceOf = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

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

// The curve of a price, as the service computes it at evenly spaced blocks. Each point is the answer for its block.

const HEIGHT = 220;
const SPANS = [
  { name: "24 hours", hours: 24 },
  { name: "7 days", hours: 168 },
  { name: "30 days", hours: 720 },
] as const;
const POINTS = [25, 50, 100, 200] as const;
const HOUR_MS = 3_600_000;

interface CurveOptions extends Where {
  /** ISO time of the shown price: the curve ends there. */
  readonly until: string;
  readonly onBlock: (block: number) => void;
}

function CurvePanel({ chain, address, until, onBlock }: CurveOptions) {
  const { client } = useSession();
  const [hours, setHours] = useState<number>(SPANS[0].hours);
  const [points, setPoints] = useState<number>(POINTS[0]);
  const from = new Date(Math.max(0, Date.parse(until) - hours * HOUR_MS)).toISOString();
  const range = { from, to: until, points };
  const inputs = [chain, address, from, until, points];
  // What the service has stored comes at once, and the rest once the service has read it from the chain.
  const stored = useAnswer(
    (signal) => client.priceSeries({ chain, address }, { ...range, stored: true, signal }),
    inputs,
  );
  const all = useAnswer((signal) => client.priceSeries({ chain, address }, { ...range, signal }), inputs);
  const { error, isLoading } = all;
  const result = (isLoading ? stored.value : all.value)?.result ?? [];
  const known = result.filter(({ usdPrice }) => usdPrice !== null);
  return (
    <Panel title="Price history">
      <p class="row">
        <label for="span">Over</label>
        <select id="span" value={hours} onChange={({ currentTarget }) => setHours(Number(currentTarget.value))}>
          {SPANS.map((one) => (
            <option key={one.name} value={one.hours}>
              {one.name}
            </option>
          ))}
        </select>
        <label for="points">at</label>
        <select id="points" value={points} onChange={({ currentTarget }) => setPoints(Number(currentTarget.value))}>
          {POINTS.map((count) => (
            <option key={count} value={count}>
              {count} blocks
            </option>
          ))}
        </select>
        <span role="status" class="quiet">
          {isLoading
            ? `Computing… ${known.length} of ${result.length} are stored`
            : `${known.length} of ${result.length} blocks have a price`}
        </span>
      </p>
      <Failure error={error} />
      {known.length > 1 ? <Curve points={known} /> : null}
      {result.length === 0 ? null : (
        <details>
          <summary>As a table</summary>
          <PointTable points={result} {...{ chain, onBlock }} />
        </details>
      )}
      <Curl requests={[{ path: apiPath(["prices", chain, address, "series"], range) }]} />
    </Panel>
  );
}

function Curve({ points }: { readonly points: readonly SeriesPoint[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [isBroken, setBroken] = useState(false);
  const prices = points.map(({ usdPrice }) => usdPrice as number);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const style = getComputedStyle(element);
    const [text, line] = [style.getPropertyValue("--quiet"), style.getPropertyValue("--line")];
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    let plot: UPlot | undefined;
    const options: UPlot.Options = {
      ...{ width: element.clientWidth, height: HEIGHT, legend: { show: false } },
      axes: [axis, { ...axis, size: 80, values: (_plot, ticks) => ticks.map((tick) => `$${tick}`) }],
      series: [{}, { stroke: style.getPropertyValue("--accent"), width: 2 }],
    };
    const data: UPlot.AlignedData = [points.map(({ time }) => Date.parse(time) / 1_000), prices];
    const resized = () => plot?.setSize({ width: element.clientWidth, height: HEIGHT });
    const observer = new ResizeObserver(resized);
    observer.observe(element);
    // The library reads the browser's language when it loads, and fails on one that is none. Only the curve fails then.
    import("uplot").then(
      ({ default: Plot }) => {
        if (element.isConnected) plot = new Plot(options, data, element);
      },
      () => setBroken(true),
    );
    return () => {
      observer.disconnect();
      plot?.destroy();
    };
  }, [points]);
  if (isBroken) return <p class="quiet">The curve can't be drawn in this browser. The table has its points.</p>;
  const [first, last] = [points[0], points.at(-1)];
  const label = `Price from ${clock(first?.time ?? "")} to ${clock(last?.time ?? "")}, between $${Math.min(...prices)} and $${Math.max(...prices)}`;
  return <div class="curve" ref={box} role="img" aria-label={label} />;
}

interface PointOptions extends Pick<CurveOptions, "chain" | "onBlock"> {
  readonly points: readonly SeriesPoint[];
}

function PointTable({ points, chain, onBlock }: PointOptions) {
  return (
    <Table label="Prices" titles={["Block", "Time", "Dollars", "Pool"]} numbers={["Dollars"]}>
      {points.map(({ block, time, usdPrice, pool }) => (
        <tr key={block}>
          <td>
            <button type="button" onClick={() => onBlock(block)} aria-label={`Show the price at block ${block}`}>
              {whole(block)}
            </button>
          </td>
          <td>{clock(time)}</td>
          <td class="number">{usdPrice ?? "–"}</td>
          <td>{pool === null ? "–" : <AddressLink value={pool} chain={chain} />}</td>
        </tr>
      ))}
    </Table>
  );
}
