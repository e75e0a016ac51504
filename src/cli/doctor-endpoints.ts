/** What `doctor` finds out about the endpoints and the archives of a chain. */

import type { ChainState } from "../chain/view.ts";
import type { Chain } from "../chains/chains.ts";
import {
  type ChainTrouble,
  endpointVariable,
  envSuffix,
  troubleOfEndpoints,
  troubleText,
  wayOutOf,
} from "../chains/trouble.ts";
import { type ChainConfig, LIMITS } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { wholeText } from "../core/format.ts";
import { Portal } from "../rpc/archive/portal.ts";
import type { DecodePool } from "../rpc/decode/decode-pool.ts";
import { NARROW_SPAN, SPANS } from "../rpc/endpoint/capabilities.ts";
import { EndpointProvider } from "../rpc/endpoint/provider.ts";
import type { BlockHeader } from "../rpc/port.ts";
import { newestHeaderOf } from "../rpc/reading/headers.ts";
import { askForSpan, firstBlockWithLogs } from "../rpc/reading/logs.ts";
import { adviceOf, isHistoryPruned } from "../rpc/rpc-errors.ts";

export interface Finding {
  readonly what: string;
  readonly result: "ok" | "warning" | "fault";
  readonly text: string;
  /** What to do about it. */
  readonly advice?: string;
}

/** A head that is further in the future was not made by this machine's clock. */
const MAX_AHEAD_MS = 30_000;
const OLD_HEAD_MS = 300_000;
const NO_ADDRESS = `0x${"0".repeat(39)}1`;

/** What the log has of a chain. */
export type RecordedChain = Pick<ChainState, "head" | "halted">;

/** An endpoint as the examination found it. */
interface Examined {
  readonly state: "available" | "wrong_chain" | "behind" | "failed";
  readonly findings: readonly Finding[];
}

const slugOf = ({ name }: Pick<Chain, "name">): string => name.replaceAll(" ", "-");

/** Asks the endpoints and the archives of a chain, and says first what they keep from it together. */
export async function chainFindings(
  config: ChainConfig,
  decoder: DecodePool,
  recorded: RecordedChain | undefined,
): Promise<Finding[]> {
  const { chain, urls } = config;
  const examining = Promise.all(
    urls.map((url, index) => {
      const label = `${slugOf(chain)}#${index + 1}`;
      return examined({ url, label, index }, config, { decoder, recorded });
    }),
  );
  const [endpoints, archives] = await Promise.all([examining, Promise.all(archiveFindings(config, decoder))]);
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
export const haltFindings = (chain: Chain, recorded: RecordedChain | undefined): Finding[] =>
  recorded?.halted === undefined ? [] : [troubleFinding(chain, "halted")];

/** The words that the console has for it. Their command is this one, unless the chain is halted. */
function troubleFinding({ name }: Chain, trouble: ChainTrouble): Finding {
  const { text, next } = wayOutOf(name, trouble);
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

async function examined(
  { url, label, index }: ExaminedEndpoint,
  config: ChainConfig,
  { decoder, recorded }: { readonly decoder: DecodePool; readonly recorded: RecordedChain | undefined },
): Promise<Examined> {
  const { chain } = config;
  const endpoint = new EndpointProvider({
    ...{ url, label, chainId: chain.chainId, decoder, clock: systemClock },
    ...{ timeoutMs: LIMITS.rpcTimeoutMs, maxBytes: LIMITS.maxRpcAnswer, onRequest: () => undefined },
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
  decoder: DecodePool,
): Promise<Finding[]>[] {
  if (!isGiven) return [];
  return urls.map(async (url, index): Promise<Finding[]> => {
    const what = `archive ${slugOf(chain)}#${index + 1}`;
    const archive = new Portal({ url, label: what, key, per10s, clock: systemClock, decoder });
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
): Promise<Finding[]> {
  const { label: what } = endpoint;
  const ms = endpoint.usage.latencyMs()?.p50 ?? 0;
  const findings: Finding[] = [{ what, result: "ok", text: `head ${wholeText(head.number)}, ${Math.round(ms)} ms` }];
  findings.push(...headFindings(what, head));
  const batch = endpoint.transfersInParts !== undefined;
  findings.push({ what, result: batch ? "ok" : "warning", text: batch ? "takes batches" : "refuses batches" });
  const span = await spanOf(endpoint, head.number);
  if (span === undefined) {
    const advice = "Without eth_getLogs nothing can be indexed here: use another endpoint.";
    findings.push({ what, result: "fault", text: "gives no logs", advice });
  } else {
    findings.push(spanFinding(what, span, config));
    findings.push(...(await prunedFindings(endpoint, head.number, config)));
  }
  if (await hasOldState(endpoint)) findings.push({ what, result: "ok", text: "has the state of old blocks" });
  else {
    const advice = "Indexing and following work. Prices of old blocks come from logs, where logs tell.";
    findings.push({ what, result: "warning", text: "has no state of old blocks", advice });
  }
  return findings;
}

/** Blocks of a history of two years at twelve seconds, to show what a narrow range costs. */
const OLD_HISTORY = 5_000_000;

function spanFinding(what: string, span: number, { chain, archives }: ChainConfig): Finding {
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
): Promise<Finding[]> {
  const { label: what } = endpoint;
  const ask = (block: number) => askForSpan(endpoint, 1, block);
  const isPruned = await ask(1).then(
    () => false,
    (error: unknown) => isHistoryPruned(error),
  );
  if (!isPruned) return [];
  const from = await firstBlockWithLogs(ask, head);
  const text = `history_pruned: it has no logs before block ${wholeText(from)}`;
  const suffix = envSuffix(chain.name);
  const advice =
    archives.urls.length > 0
      ? "Older collections are read from the archive."
      : `Older collections can't be indexed: use an endpoint that keeps all logs, or set ARCHIVE_URL_${suffix}.`;
  return [{ what, result: "warning", text, advice }];
}

function headFindings(what: string, { timestamp }: BlockHeader): Finding[] {
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

/** The most blocks that the endpoint takes in one request for logs; undefined if it takes none. */
async function spanOf(endpoint: EndpointProvider, head: number): Promise<number | undefined> {
  for (const span of SPANS) {
    try {
      await askForSpan(endpoint, span, head);
      return span;
    } catch {
      // The next span is smaller.
    }
  }
  return undefined;
}

const hasOldState = (endpoint: EndpointProvider): Promise<boolean> =>
  endpoint.request("eth_getBalance", [NO_ADDRESS, "0x1"]).then(
    () => true,
    () => false,
  );
