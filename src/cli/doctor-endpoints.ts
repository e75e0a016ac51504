/**
 * What `doctor` finds out about a chain. In: the configuration of its endpoints and archives, and what the log has of it. Out:
 * findings, each with what to do about it.
 */

import type { ChainState } from "../chain/view.ts";
import type { Chain } from "../chains/chains.ts";
import {
  type ChainTrouble,
  endpointVariable,
  envSuffix,
  HEADERS_CHANGED,
  troubleOfEndpoints,
  troubleText,
  wayOutOf,
} from "../chains/trouble.ts";
import { type ChainConfig, LIMITS } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { wholeText } from "../core/format.ts";
import { quantity } from "../core/hex.ts";
import { PROGRAM } from "../core/program.ts";
import { type Proxies, proxyFor } from "../core/proxies.ts";
import { Portal } from "../rpc/archive/portal.ts";
import type { DecodePool } from "../rpc/decode/decode-pool.ts";
import { isHashed } from "../rpc/decode/hashes.ts";
import { EndpointProvider } from "../rpc/endpoint/provider.ts";
import { NARROW_SPAN, SPANS } from "../rpc/endpoint/span-controller.ts";
import type { BlockHeader } from "../rpc/port.ts";
import { runsCreationCode } from "../rpc/reading/creation-calls.ts";
import { HeaderForm } from "../rpc/reading/header-form.ts";
import { newestHeaderOf, skipIn, skipText, someHeadersOf } from "../rpc/reading/headers.ts";
import { askForSpan, firstUnprunedBlock } from "../rpc/reading/logs.ts";
import { adviceOf, isHistoryPruned, isUnknownRefusal, RpcError } from "../rpc/rpc-errors.ts";

export interface DoctorFinding {
  readonly what: string;
  readonly result: "ok" | "warning" | "fault";
  readonly text: string;
  /** The way out, for the operator. */
  readonly advice?: string;
}

/** A head that is further in the future was not made by this machine's clock. */
const MAX_AHEAD_MS = 30_000;
const OLD_HEAD_MS = 300_000;
const NO_ADDRESS = `0x${"0".repeat(39)}1`;

/** The head and the halt of a chain, as the log records them. */
export type RecordedChain = Pick<ChainState, "head" | "halted">;

/** An endpoint as the examination found it. */
interface Examined {
  readonly state: "available" | "wrong_chain" | "behind" | "failed";
  readonly findings: readonly DoctorFinding[];
}

const slugOf = ({ name }: Pick<Chain, "name">): string => name.replaceAll(" ", "-");

/** Asks the endpoints and the archives of a chain, and says first what they keep from it together. */
export async function chainFindings(config: ChainConfig, parts: ExaminedWith): Promise<DoctorFinding[]> {
  const { chain, urls } = config;
  const { recorded } = parts;
  const examining = Promise.all(
    urls.map((url, index) => {
      const label = `${slugOf(chain)}#${index + 1}`;
      return examined({ url, label, index }, config, parts);
    }),
  );
  const [endpoints, archives] = await Promise.all([examining, Promise.all(archiveFindings(config, parts))]);
  const halted = haltFindings(chain, recorded);
  const trouble = halted.length > 0 ? undefined : troubleOfEndpoints(endpoints.map(({ state }) => state));
  return [
    ...halted,
    ...(trouble === undefined ? [] : [troubleFinding(chain, trouble)]),
    ...endpoints.flatMap(({ findings }) => findings),
    ...archives.flat(),
  ];
}

/** Says if the log has the chain as halted. Needs no endpoint. */
export const haltFindings = (chain: Chain, recorded: RecordedChain | undefined): DoctorFinding[] =>
  recorded?.halted === undefined ? [] : [troubleFinding(chain, "halted")];

/** The words that the console has for it. Their command is this one, unless the chain is halted. */
function troubleFinding({ name }: Chain, trouble: ChainTrouble): DoctorFinding {
  const { text, next } = wayOutOf(name, trouble, PROGRAM);
  const advice = trouble === "halted" ? `${text} ${next.why} ${next.command}` : text;
  const result = trouble === "behind" ? "warning" : "fault";
  return { what: "chain", result, text: troubleText(name, trouble), advice };
}

interface ExaminedEndpoint {
  readonly url: string;
  readonly label: string;
  /** Its place in the variable, from zero. */
  readonly index: number;
}

interface ExaminedWith {
  readonly decoder: DecodePool;
  readonly recorded: RecordedChain | undefined;
  readonly proxies: Proxies;
}

async function examined(
  { url, label, index }: ExaminedEndpoint,
  config: ChainConfig,
  { decoder, recorded, proxies }: ExaminedWith,
): Promise<Examined> {
  const { chain } = config;
  const endpoint = new EndpointProvider({
    ...{ url, label, chainId: chain.chainId, decoder, clock: systemClock },
    ...{ timeoutMs: LIMITS.rpcTimeoutMs, maxBytes: LIMITS.maxRpcAnswer, onRequest: () => undefined },
    proxy: proxyFor(proxies, url),
  });
  try {
    // Two requests of one turn are one batch, unless the endpoint refuses it.
    const [head] = await Promise.all([newestHeaderOf(endpoint), endpoint.request("eth_blockNumber", [])]);
    const isBehind = recorded?.head !== undefined && head.number < recorded.head.number;
    return {
      state: isBehind ? "behind" : "available",
      findings: await endpointFindings(endpoint, head, config),
    };
  } catch (error) {
    const what = adviceOf(error);
    const advice = `Check ${endpointVariable(chain.name)}, entry ${index + 1}${what === undefined ? "" : `: ${what}`}.`;
    const state = endpoint.otherChainId === undefined ? "failed" : "wrong_chain";
    return { state, findings: [{ what: label, result: "fault", text: messageOf(error), advice }] };
  } finally {
    endpoint.destroy();
  }
}

/** Says of each archive that the operator named if it answers. The service asks other archives once it needs them. */
function archiveFindings(
  { chain, archives: { urls, isGiven, key, per10s } }: ChainConfig,
  { decoder, proxies }: Pick<ExaminedWith, "decoder" | "proxies">,
): Promise<DoctorFinding[]>[] {
  if (!isGiven) return [];
  return urls.map(async (url, index): Promise<DoctorFinding[]> => {
    const what = `archive ${slugOf(chain)}#${index + 1}`;
    const proxy = proxyFor(proxies, url);
    const archive = new Portal({ url, label: what, key, per10s, proxy, clock: systemClock, decoder });
    try {
      const head = await archive.head(AbortSignal.timeout(LIMITS.rpcTimeoutMs));
      if (head !== undefined) return [{ what, result: "ok", text: `has blocks up to ${wholeText(head.number)}` }];
      return [{ what, result: "warning", text: "has no block yet", advice: "Histories are read from the node." }];
    } catch (error) {
      const suffix = envSuffix(chain.name);
      const advice = `Check entry ${index + 1} of ARCHIVE_URL_${suffix}, and ARCHIVE_KEY_${suffix}. Until then the node is read.`;
      return [{ what, result: "fault", text: messageOf(error), advice }];
    }
  });
}

async function endpointFindings(
  endpoint: EndpointProvider,
  head: BlockHeader,
  config: ChainConfig,
): Promise<DoctorFinding[]> {
  const { label: what } = endpoint;
  const ms = endpoint.usage.latencyMs()?.p50 ?? 0;
  const findings: DoctorFinding[] = [
    { what, result: "ok", text: `head ${wholeText(head.number)}, ${Math.round(ms)} ms` },
  ];
  findings.push(...headFindings(what, head), ...(await formFindings(endpoint, head)));
  findings.push(...(await skipFindings(endpoint, head)));
  const batch = endpoint.transfersInParts !== undefined;
  findings.push({ what, result: batch ? "ok" : "warning", text: batch ? "takes batches" : "refuses batches" });
  findings.push(...(await logFindings(endpoint, head.number, config)));
  findings.push(...(await optionFindings(endpoint, head.number)));
  return findings;
}

/** Something that only some nodes answer: the words that doctor has for it, and how the service goes on without it. */
interface NodeOption {
  readonly has: string;
  readonly lacks: string;
  readonly without: string;
  /** @throws RpcError of an endpoint that refuses */
  readonly ask: (endpoint: EndpointProvider) => Promise<boolean>;
}

/** Doctor asks for it only where the chain has old blocks. */
const OLD_STATE: NodeOption = {
  has: "has the state of old blocks",
  lacks: "has no state of old blocks",
  without: "Indexing and following work. Prices of old blocks come from logs, where logs tell.",
  ask: async (endpoint) => (await endpoint.request("eth_getBalance", [NO_ADDRESS, "0x1"])) !== null,
};

const OPTIONS: readonly NodeOption[] = [
  {
    has: "runs calls without a contract",
    lacks: "refuses calls without a contract",
    without:
      "Pools of concentrated liquidity rank by the liquidity at their price, with a confidence of at most 0.5, and " +
      "those of Uniswap v4 have no depth.",
    ask: runsCreationCode,
  },
  {
    has: "gives the receipts of a block",
    lacks: "has no eth_getBlockReceipts",
    without: "A block whose logs are in doubt is settled by a second endpoint, or asked again.",
    ask: async (endpoint) => Array.isArray(await endpoint.request("eth_getBlockReceipts", ["latest"])),
  },
  {
    has: "knows the finalized block",
    lacks: "doesn't know the finalized tag",
    without: "Blocks are final at the chain's depth, which FINALITY_DEPTH_<CHAIN> sets.",
    ask: async (endpoint) => (await endpoint.request("eth_getBlockByNumber", ["finalized", false])) !== null,
  },
];

/** True of an error that is no answer to what was asked: the endpoint is busy, lags or can't be reached. */
const isNoAnswer = (error: RpcError): boolean => error.retryable && !isUnknownRefusal(error);

async function optionFindings(endpoint: EndpointProvider, head: number): Promise<DoctorFinding[]> {
  const { label: what } = endpoint;
  const options = head > 0 ? [OLD_STATE, ...OPTIONS] : OPTIONS;
  return Promise.all(
    options.map(async ({ has, lacks, without, ask }): Promise<DoctorFinding> => {
      const isThere = await ask(endpoint).catch((error: unknown) => {
        return error instanceof RpcError && !isNoAnswer(error) ? false : asNotKnown(error);
      });
      if (isThere === true) return { what, result: "ok", text: has };
      if (isThere === false) return { what, result: "warning", text: lacks, advice: without };
      const advice = `Run doctor again. If it doesn't: ${without}`;
      return { what, result: "warning", text: `whether it ${has} is not known: ${isThere}`, advice };
    }),
  );
}

/** Blocks of a history of two years at twelve seconds, to show what a narrow range costs. */
const OLD_HISTORY = 5_000_000;

/** Says how many blocks of logs the endpoint gives at once, and since when it has them. */
async function logFindings(endpoint: EndpointProvider, head: number, config: ChainConfig): Promise<DoctorFinding[]> {
  const { label: what } = endpoint;
  const span = await spanOf(endpoint, head).catch(asNotKnown);
  if (typeof span === "number")
    return [spanFinding(what, span, config), ...(await prunedFindings(endpoint, head, config))];
  if (span === undefined) {
    const advice = "Without eth_getLogs nothing can be indexed here: use another endpoint.";
    return [{ what, result: "fault", text: "gives no logs", advice }];
  }
  const text = `how many blocks of logs it gives at once is not known: ${span}`;
  return [{ what, result: "warning", text, advice: "Run doctor again." }];
}

/** The text of an error of the endpoint, for a finding that says what is not known. */
function asNotKnown(error: unknown): string {
  if (error instanceof RpcError) return messageOf(error);
  throw error;
}

/**
 * The most blocks that the endpoint takes in one request for logs, Infinity if all that there are; undefined if it refuses
 * each number. @throws RpcError of an endpoint that doesn't answer
 */
async function spanOf(endpoint: EndpointProvider, head: number): Promise<number | undefined> {
  for (const span of SPANS) {
    try {
      await askForSpan(endpoint, span, head);
      return head < span ? Number.POSITIVE_INFINITY : span;
    } catch (error) {
      // Many blocks may be the reason why no answer came in time.
      const mayBeLess = error instanceof RpcError && error.kind === "late" && span !== SPANS.at(-1);
      const isRefused = error instanceof RpcError && !isNoAnswer(error);
      if (!mayBeLess && !isRefused) throw error;
    }
  }
  return undefined;
}

function spanFinding(what: string, span: number, { chain, archives }: ChainConfig): DoctorFinding {
  if (!Number.isFinite(span)) return { what, result: "ok", text: "gives the logs of all blocks at once" };
  const text = `gives logs of ${wholeText(span)} blocks at once`;
  if (span >= NARROW_SPAN) return { what, result: "ok", text };
  const calls = wholeText(Math.ceil(OLD_HISTORY / span));
  const saves = `${wholeText(OLD_HISTORY)} blocks take ${calls} calls here, and a few hundred with an archive`;
  const suffix = envSuffix(chain.name);
  const isThere = archives.urls.length > 0;
  const advice = isThere
    ? `${saves}. One is used for long histories; ARCHIVE_URL_${suffix} names another, or off.`
    : `${saves}: set ARCHIVE_URL_${suffix} to the data set of a Portal.`;
  return { what, result: isThere ? "ok" : "warning", text, advice };
}

/** Says from which block on the endpoint has logs, if it has dropped older ones. */
async function prunedFindings(
  endpoint: EndpointProvider,
  head: number,
  { chain, archives }: ChainConfig,
): Promise<DoctorFinding[]> {
  const { label: what } = endpoint;
  const ask = (block: number) => askForSpan(endpoint, 1, block);
  const isPruned = await ask(Math.min(1, head)).then(
    () => false,
    (error: unknown) => isHistoryPruned(error),
  );
  if (!isPruned) return [];
  const from = await firstUnprunedBlock(ask, head).catch(asNotKnown);
  const text =
    typeof from === "number"
      ? `history_pruned: it has no logs before block ${wholeText(from)}`
      : `history_pruned: it has no logs of old blocks; since when it has them is not known: ${from}`;
  const suffix = envSuffix(chain.name);
  const advice =
    archives.urls.length > 0
      ? "Older collections are read from the archive."
      : `Older collections can't be indexed: use an endpoint that keeps all logs, or set ARCHIVE_URL_${suffix}.`;
  return [{ what, result: "warning", text, advice }];
}

/** Newest blocks that are looked at for numbers without a block. */
const LOOKED_AT = 64;

/** Says if the chain skips block numbers among its newest ones. */
async function skipFindings(endpoint: EndpointProvider, { number }: BlockHeader): Promise<DoctorFinding[]> {
  const first = Math.max(0, number - LOOKED_AT + 1);
  const numbers = Array.from({ length: number - first + 1 }, (_, at) => first + at);
  const skip = skipIn(await someHeadersOf(endpoint, numbers));
  if (skip === undefined) return [];
  const advice = "Nothing can be followed here. Take the chain out of the configuration.";
  return [{ what: endpoint.label, result: "fault", text: skipText(skip), advice }];
}

function headFindings(what: string, { timestamp }: BlockHeader): DoctorFinding[] {
  const age = systemClock.now() - timestamp * 1_000;
  if (age < -MAX_AHEAD_MS) {
    const text = `its head is ${Math.round(-age / 1_000)} s in the future`;
    return [{ what, result: "warning", text, advice: "Check this machine's clock." }];
  }
  if (age < OLD_HEAD_MS) return [];
  const text = `its head is ${wholeText(age / 1_000)} s old`;
  return [
    { what, result: "warning", text, advice: "The node is behind, the chain stands still, or this clock is ahead." },
  ];
}

/** Says if the endpoint's newest header doesn't make its hash although an older one does. */
async function formFindings(endpoint: EndpointProvider, head: BlockHeader): Promise<DoctorFinding[]> {
  if (head.isHashed !== false) return [];
  const form = new HeaderForm({
    isHashedAt: async (number) => isHashed(await endpoint.request("eth_getBlockByNumber", [quantity(number), false])),
    onChanged: undefined,
  });
  form.note(head);
  await form.explain().catch(() => undefined);
  if (form.changedAt === undefined) return [];
  const { label: what } = endpoint;
  return [{ what, result: "warning", text: `block ${wholeText(form.changedAt)}: ${HEADERS_CHANGED}.` }];
}
