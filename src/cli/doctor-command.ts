/** `doctor`: checks the configuration, the log and every endpoint, and says what to do about each fault. */
import { existsSync } from "node:fs";
import { mkdtemp, rmdir, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ChainConfig, Config } from "../config.ts";
import { LIMITS } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { bytesText, countedText, wholeText } from "../core/format.ts";
import { DecodePool } from "../rpc/decode/decode-pool.ts";
import { EndpointProvider } from "../rpc/endpoint/provider.ts";
import { SPANS } from "../rpc/endpoint/span.ts";
import { newestHeaderOf } from "../rpc/headers.ts";
import { askForSpan } from "../rpc/logs.ts";
import type { BlockHeader } from "../rpc/port.ts";
import { adviceOf } from "../rpc/rpc-errors.ts";
import { FAILED, missingLog, openCommandLog } from "./access.ts";
import type { Command } from "./command.ts";

interface Finding {
  readonly what: string;
  readonly result: "ok" | "warning" | "fault";
  readonly text: string;
  /** What to do about it. */
  readonly advice?: string;
}

const LOW_DISK_BYTES = 5e9;
/** A head that is further in the future was not made by this machine's clock. */
const MAX_AHEAD_MS = 30_000;
const OLD_HEAD_MS = 300_000;
const NO_ADDRESS = `0x${"0".repeat(39)}1`;
const SYMBOLS = { ok: "✓", warning: "!", fault: "✗" } as const;

export const doctorCommand: Command = {
  name: "doctor",
  usage: "doctor",
  summary: "Checks the configuration, the log, the clock and every endpoint, and says what to do",
  maxWords: 0,
  run: async ({ config: read, print, values }) => {
    const config = read();
    const findings: Finding[] = [
      { what: "configuration", result: "ok", text: countedText(config.chains.length, "chain") },
    ];
    findings.push(...(await logFindings(config)));
    const decoder = new DecodePool(1);
    try {
      const all = config.chains.map((chain) => chainFindings(chain, decoder));
      findings.push(...(await Promise.all(all)).flat());
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

async function logFindings(config: Config): Promise<Finding[]> {
  const what = "event log";
  const path = missingLog(config);
  if (path !== undefined) return [await newLogFinding(what, path)];
  try {
    const log = await openCommandLog(config);
    const { bytes, freeBytes, isWritable } = await log.status();
    const leases = await log.leases();
    await log.close();
    const free = freeBytes === undefined ? "" : `, ${bytesText(freeBytes)} free`;
    const running = leases.length === 0 ? "no service is running" : "a service is running";
    const text = `${log.engine}, ${bytesText(bytes)}${free}, ${running}${isWritable ? "" : ", not writable"}`;
    if (!isWritable)
      return [{ what, result: "fault", text, advice: "Nothing new is stored: free space, or use the primary." }];
    const isLow = freeBytes !== undefined && freeBytes < LOW_DISK_BYTES;
    if (!isLow) return [{ what, result: "ok", text }];
    return [
      { what, result: "warning", text, advice: "A million transfers take 40 MB, with metadata several times that." },
    ];
  } catch (error) {
    return [{ what, result: "fault", text: messageOf(error), advice: "Check EVENT_LOG_URL." }];
  }
}

/** Checks the place of a log that no process has made yet, without making it. */
async function newLogFinding(what: string, path: string): Promise<Finding> {
  let folder = dirname(path);
  while (!existsSync(folder)) folder = dirname(folder);
  try {
    // Only an attempt tells: a mount may be read-only, and some file systems take no files.
    await rmdir(await mkdtemp(join(folder, ".doctor-")));
    const { bavail, bsize } = await statfs(folder);
    return { what, result: "ok", text: `sqlite, made by the first start, ${bytesText(bavail * bsize)} free` };
  } catch (error) {
    const text = `${path}: there is no log, and ${folder} takes no files: ${messageOf(error)}`;
    return { what, result: "fault", text, advice: "Check EVENT_LOG_URL." };
  }
}

async function chainFindings({ chain, urls }: ChainConfig, decoder: DecodePool): Promise<Finding[]> {
  const slug = chain.name.replaceAll(" ", "-");
  const findings = urls.map(async (url, index) => {
    const label = `${slug}#${index + 1}`;
    const endpoint = new EndpointProvider({
      ...{ url, label, chainId: chain.chainId, decoder, clock: systemClock },
      ...{ timeoutMs: LIMITS.rpcTimeoutMs, maxBytes: LIMITS.maxRpcAnswer, onRequest: () => undefined },
    });
    try {
      return await endpointFindings(endpoint);
    } catch (error) {
      const variable = `RPC_URL_${slug.replaceAll("-", "_").toUpperCase()}`;
      const what = adviceOf(error);
      const advice = `Check ${variable}, entry ${index + 1}${what === undefined ? "" : `: ${what}`}.`;
      return [{ what: label, result: "fault", text: messageOf(error), advice } satisfies Finding];
    } finally {
      endpoint.destroy();
    }
  });
  return (await Promise.all(findings)).flat();
}

async function endpointFindings(endpoint: EndpointProvider): Promise<Finding[]> {
  const { label: what } = endpoint;
  // Two requests of one turn are one batch, unless the endpoint refuses it.
  const [head] = await Promise.all([newestHeaderOf(endpoint), endpoint.request("eth_blockNumber", [])]);
  const ms = endpoint.usage.latencyMs()?.p50 ?? 0;
  const findings: Finding[] = [{ what, result: "ok", text: `head ${wholeText(head.number)}, ${Math.round(ms)} ms` }];
  findings.push(...headFindings(what, head));
  const batch = endpoint.transfersInParts !== undefined;
  findings.push({ what, result: batch ? "ok" : "warning", text: batch ? "takes batches" : "refuses batches" });
  const span = await spanOf(endpoint, head.number);
  if (span === undefined) {
    const advice = "Without eth_getLogs nothing can be indexed here: use another endpoint.";
    findings.push({ what, result: "fault", text: "gives no logs", advice });
  } else findings.push({ what, result: "ok", text: `gives logs of ${wholeText(span)} blocks at once` });
  if (await hasOldState(endpoint)) findings.push({ what, result: "ok", text: "has the state of old blocks" });
  else {
    const advice = "Indexing and following work. Prices of old blocks come from logs, where logs tell.";
    findings.push({ what, result: "warning", text: "has no state of old blocks", advice });
  }
  return findings;
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
