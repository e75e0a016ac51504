/** `doctor`: checks the configuration, the log and every endpoint, and says what to do about each fault. */
import net from "node:net";
import { type ChainState, loadChainState } from "../chain/view.ts";
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
import { type ChainConfig, type Config, ConfigError, LIMITS } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { isLowFileLimit, openFileLimit, socketsWithin, tryFolder, WAY_TO_MORE_FILES } from "../core/files.ts";
import { bytesText, countedText, wholeText } from "../core/format.ts";
import { quantity } from "../core/hex.ts";
import { silentLogger } from "../core/logger.ts";
import { type Proxies, proxyFor } from "../core/proxies.ts";
import { chainStream } from "../events/types.ts";
import type { LogStatus } from "../log/event-log.ts";
import { assertWhole, checkLog } from "../log/open.ts";
import { readOperatorFiles } from "../operator-files.ts";
import { Portal } from "../rpc/archive/portal.ts";
import { DecodePool } from "../rpc/decode/decode-pool.ts";
import { isHashed } from "../rpc/decode/hashes.ts";
import { NARROW_SPAN, SPANS } from "../rpc/endpoint/capabilities.ts";
import { EndpointProvider } from "../rpc/endpoint/provider.ts";
import type { BlockHeader } from "../rpc/port.ts";
import { HeaderForm } from "../rpc/reading/header-form.ts";
import { newestHeaderOf, skipIn, skipText, someHeadersOf } from "../rpc/reading/headers.ts";
import { askForSpan, firstUnprunedBlock } from "../rpc/reading/logs.ts";
import { runsCreationCode } from "../rpc/reading/many-calls.ts";
import { adviceOf, isHistoryPruned, isUnknownRefusal, RpcError } from "../rpc/rpc-errors.ts";
import { FAILED, openCommandLog } from "./access.ts";
import type { Command } from "./command.ts";

interface Finding {
  readonly what: string;
  readonly result: "ok" | "warning" | "fault";
  readonly text: string;
  /** The way out, for the operator. */
  readonly advice?: string;
}

const LOW_DISK_BYTES = 5e9;
/** Room for fewer sockets is used up by a few clients. */
const LEAST_SOCKETS = 256;
const SYMBOLS = { ok: "✓", warning: "!", fault: "✗" } as const;

const NO_ENDPOINTS: Finding = {
  what: "endpoints",
  result: "warning",
  text: "published ones only, which are slow and refuse many requests",
  advice: "Give your own: RPC_URL_ETH=https://…, and so on for each chain.",
};

export const doctorCommand: Command = {
  name: "doctor",
  usage: "doctor",
  summary: "Checks the configuration, the log, the clock and every endpoint, and says what to do",
  maxWords: 0,
  run: async ({ config: read, print, values }) => {
    const config = read();
    const findings: Finding[] = [
      { what: "configuration", result: "ok", text: countedText(config.chains.length, "chain") },
      ...variableFindings(config),
    ];
    const recorded = new Map<number, RecordedChain>();
    const ofLog = await logFindings(config, recorded);
    const isRunning = ofLog.some(({ text }) => text.endsWith("a service is running"));
    findings.push(...ofLog, ...(await fileFindings(config)), ...folderFindings(config));
    findings.push(await addressFinding(config, isRunning), ...openFileFindings());
    const decoder = new DecodePool(1);
    try {
      // Published endpoints are not asked before a client asks for their chain, so nothing is wrong if they fail.
      const given = config.chains.filter(({ isGiven }) => isGiven);
      if (given.length === 0) findings.push(NO_ENDPOINTS);
      const asked = given.map((one) =>
        chainFindings(one, { decoder, proxies: config.proxies, recorded: recorded.get(one.chain.chainId) }),
      );
      findings.push(...(await Promise.all(asked)).flat());
      for (const { chain, isGiven } of config.chains) {
        if (!isGiven) findings.push(...haltFindings(chain, recorded.get(chain.chainId)));
      }
    } finally {
      decoder.close();
    }
    if (values["json"] === true) print(JSON.stringify(findings, null, 2));
    else {
      for (const { what, result, text, advice } of findings) {
        print(`${SYMBOLS[result]} ${what}: ${text}${advice === undefined ? "" : `\n    ${advice}`}`);
      }
    }
    return findings.some(({ result }) => result === "fault") ? FAILED : 0;
  },
};

/** The variables that are set, the ones that are likely mistyped, and those that this configuration would gain by. */
function variableFindings({ variables, warnings, host }: Config): Finding[] {
  const what = "variables";
  const has = (name: string) => variables.includes(name);
  const findings: Finding[] = [
    { what, result: "ok", text: variables.length === 0 ? "none is set" : `set: ${variables.join(", ")}` },
    ...warnings.map((text) => ({ what, result: "warning" as const, text })),
  ];
  if (isLoopback(host)) return findings;
  const missing = [
    ["PUBLIC_URL", "links to previews and documents name HOST and PORT, which clients may not reach"],
    ["METRICS_KEY", "/metrics is open to every client that reaches this address"],
    ["API_KEYS", "keys of the log serve, and the first one is shown at the first start only"],
  ] as const;
  for (const [name, text] of missing) {
    if (!has(name)) findings.push({ what, result: "ok", text: `${name} is unset: ${text}` });
  }
  return findings;
}

const isLoopback = (host: string): boolean => /^(?:127\.|localhost$|::1$)/.test(host);

/** @param recorded is given what the log has of each chain */
async function logFindings(config: Config, recorded: Map<number, RecordedChain>): Promise<Finding[]> {
  const what = "event log";
  try {
    const { isChanged, status } = await checkLog(config.eventLogUrl, { clock: systemClock, logger: silentLogger });
    if (status !== undefined) {
      const { freeBytes } = status;
      const free = freeBytes === undefined ? "" : `, ${bytesText(freeBytes)} free`;
      return [diskFinding(what, status, `sqlite, made by the first start${free}`)];
    }
    // Opening it would bring it up to date, which a release before this one could not read any more.
    if (isChanged) {
      const engine = config.eventLogUrl.split(":")[0] === "sqlite" ? "sqlite" : "postgres";
      const made = engine === "sqlite" ? "brought" : "made or brought";
      return [{ what, result: "ok", text: `${engine}, ${made} up to date by the first start` }];
    }
    const log = await openCommandLog(config);
    try {
      await assertWhole(log);
      for (const { chain } of config.chains) {
        recorded.set(chain.chainId, await loadChainState(log, chainStream(chain.chainId)));
      }
      const status = await log.status();
      const leases = await log.leases();
      const free = status.freeBytes === undefined ? "" : `, ${bytesText(status.freeBytes)} free`;
      const running = leases.length === 0 ? "no service is running" : "a service is running";
      return [diskFinding(what, status, `${log.engine}, ${bytesText(status.bytes)}${free}, ${running}`)];
    } finally {
      await log.close();
    }
  } catch (error) {
    return [{ what, result: "fault", text: messageOf(error), advice: "Check EVENT_LOG_URL." }];
  }
}

function diskFinding(what: string, { freeBytes, isWritable }: LogStatus, text: string): Finding {
  if (!isWritable)
    return { what, result: "fault", text, advice: "Nothing new is stored: free space, or use the primary." };
  if (freeBytes === undefined || freeBytes >= LOW_DISK_BYTES) return { what, result: "ok", text };
  const advice = "A million transfers take 40 MB, with metadata several times that.";
  return { what, result: "warning", text, advice };
}

/** The files that the environment names, read as a start reads them. */
async function fileFindings(config: Config): Promise<Finding[]> {
  const { spamList, verifiedList, nameList, priceList, tokenLists } = config;
  const named = [spamList, verifiedList, nameList, priceList, ...tokenLists].filter((path) => path !== undefined);
  if (named.length === 0) return [];
  const what = "list files";
  try {
    await readOperatorFiles({ config, logger: silentLogger, clock: systemClock });
    return [{ what, result: "ok", text: countedText(named.length, "list") }];
  } catch (error) {
    const problems = error instanceof ConfigError ? error.problems : [messageOf(error)];
    const advice = "Correct the file, or unset its variable. A start refuses it.";
    return problems.map((text) => ({ what, result: "fault" as const, text, advice }));
  }
}

function folderFindings({ snapshotDir }: Config): Finding[] {
  const what = "snapshots";
  if (snapshotDir === undefined) return [];
  try {
    tryFolder(snapshotDir);
    return [{ what, result: "ok", text: `${snapshotDir} can be written` }];
  } catch (error) {
    const advice = "Set SNAPSHOT_DIR to a folder that can be written, or to off.";
    return [{ what, result: "fault", text: `${snapshotDir}: ${messageOf(error)}`, advice }];
  }
}

/** The address to listen on. A service that runs on this log has it. */
async function addressFinding({ host, port }: Config, isRunning: boolean): Promise<Finding> {
  const what = "address";
  const address = `${host}:${port}`;
  const server = net.createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, resolve);
    });
    return { what, result: "ok", text: `${address} is free` };
  } catch (error) {
    const isTaken = (error as { code?: unknown }).code === "EADDRINUSE";
    if (isTaken && isRunning) return { what, result: "ok", text: `${address} is in use, and a service is running` };
    const text = isTaken ? `${address} is in use by another program` : `${address}: ${messageOf(error)}`;
    return { what, result: "fault", text, advice: "Check HOST and PORT." };
  } finally {
    server.close();
  }
}

/** Room for clients below the limit of open files: each client, endpoint and file of the log takes one. */
function openFileFindings(): Finding[] {
  const limit = openFileLimit();
  if (limit === undefined) return [];
  const what = "open files";
  if (!isLowFileLimit(limit)) return [{ what, result: "ok", text: "the system allows enough" }];
  const text = `at most ${wholeText(limit)}, so at most ${countedText(socketsWithin(limit), "socket")} of clients`;
  const advice = WAY_TO_MORE_FILES[0]?.toUpperCase() + WAY_TO_MORE_FILES.slice(1);
  return [{ what, result: socketsWithin(limit) < LEAST_SOCKETS ? "fault" : "warning", text, advice }];
}

// The endpoints and the archives of a chain.

/** A head that is further in the future was not made by this machine's clock. */
const MAX_AHEAD_MS = 30_000;
const OLD_HEAD_MS = 300_000;
const NO_ADDRESS = `0x${"0".repeat(39)}1`;

/** The head and the halt of a chain, as the log records them. */
type RecordedChain = Pick<ChainState, "head" | "halted">;

/** An endpoint as the examination found it. */
interface Examined {
  readonly state: "available" | "wrong_chain" | "behind" | "failed";
  readonly findings: readonly Finding[];
}

const slugOf = ({ name }: Pick<Chain, "name">): string => name.replaceAll(" ", "-");

/** Asks the endpoints and the archives of a chain, and says first what they keep from it together. */
async function chainFindings(config: ChainConfig, parts: ExaminedWith): Promise<Finding[]> {
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
const haltFindings = (chain: Chain, recorded: RecordedChain | undefined): Finding[] =>
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
): Promise<Finding[]>[] {
  if (!isGiven) return [];
  return urls.map(async (url, index): Promise<Finding[]> => {
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
): Promise<Finding[]> {
  const { label: what } = endpoint;
  const ms = endpoint.usage.latencyMs()?.p50 ?? 0;
  const findings: Finding[] = [{ what, result: "ok", text: `head ${wholeText(head.number)}, ${Math.round(ms)} ms` }];
  findings.push(...headFindings(what, head), ...(await formFindings(endpoint, head)));
  findings.push(...(await skipFindings(endpoint, head)));
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
  findings.push(...(await optionFindings(endpoint)));
  return findings;
}

/** Methods and calls that only some nodes answer: the words for them, and what the service does without. */
const OPTIONS: readonly {
  readonly has: string;
  readonly lacks: string;
  readonly without: string;
  readonly ask: (endpoint: EndpointProvider) => Promise<boolean>;
}[] = [
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

async function optionFindings(endpoint: EndpointProvider): Promise<Finding[]> {
  const { label: what } = endpoint;
  return Promise.all(
    OPTIONS.map(async ({ has, lacks, without, ask }): Promise<Finding> => {
      const isThere = await ask(endpoint).catch((error: unknown) => {
        if (error instanceof RpcError) return error.retryable && !isUnknownRefusal(error) ? messageOf(error) : false;
        throw error;
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
  const from = await firstUnprunedBlock(ask, head);
  const text = `history_pruned: it has no logs before block ${wholeText(from)}`;
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
async function skipFindings(endpoint: EndpointProvider, { number }: BlockHeader): Promise<Finding[]> {
  const first = Math.max(0, number - LOOKED_AT + 1);
  const numbers = Array.from({ length: number - first + 1 }, (_, at) => first + at);
  const skip = skipIn(await someHeadersOf(endpoint, numbers));
  if (skip === undefined) return [];
  const advice = "Nothing can be followed here. Take the chain out of the configuration.";
  return [{ what: endpoint.label, result: "fault", text: skipText(skip), advice }];
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

/** Says if the endpoint's newest header doesn't make its hash although an older one does. */
async function formFindings(endpoint: EndpointProvider, head: BlockHeader): Promise<Finding[]> {
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
