/** `doctor`: checks the configuration, the log and every endpoint, and says what to do about each fault. */
import net from "node:net";
import { loadChainState } from "../chain/view.ts";
import { type Config, ConfigError } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { tryFolder } from "../core/files.ts";
import { bytesText, countedText, wholeText } from "../core/format.ts";
import { silentLogger } from "../core/logger.ts";
import { isLowFileLimit, openFileLimit, socketsWithin, WAY_TO_MORE_FILES } from "../core/open-files.ts";
import { chainStream } from "../events/types.ts";
import type { LogStatus } from "../log/event-log.ts";
import { assertWhole } from "../log/open.ts";
import { checkLog } from "../log/start-check.ts";
import { readOperatorFiles } from "../operator-files.ts";
import { DecodePool } from "../rpc/decode/decode-pool.ts";
import { FAILED, openCommandLog } from "./access.ts";
import type { Command } from "./command.ts";
import { blobFindings } from "./doctor-blobs.ts";
import { chainFindings, type DoctorFinding, haltFindings, type RecordedChain } from "./doctor-endpoints.ts";

const LOW_DISK_BYTES = 5e9;
/** Room for fewer sockets is used up by a few clients. */
const LEAST_SOCKETS = 256;
const SYMBOLS = { ok: "✓", warning: "!", fault: "✗" } as const;

const NO_ENDPOINTS: DoctorFinding = {
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
    const findings: DoctorFinding[] = [
      { what: "configuration", result: "ok", text: countedText(config.chains.length, "chain") },
      ...variableFindings(config),
    ];
    const recorded = new Map<number, RecordedChain>();
    const ofLog = await logFindings(config, recorded);
    const isRunning = ofLog.some(({ text }) => text.endsWith("a service is running"));
    findings.push(
      ...ofLog,
      ...(await blobFindings(config.blobs, systemClock)),
      ...(await fileFindings(config)),
      ...folderFindings(config),
    );
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
function variableFindings({ variables, warnings, host }: Config): DoctorFinding[] {
  const what = "variables";
  const has = (name: string) => variables.includes(name);
  const findings: DoctorFinding[] = [
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
async function logFindings(config: Config, recorded: Map<number, RecordedChain>): Promise<DoctorFinding[]> {
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
      const running = leases.length === 0 ? "no process holds a lease" : "a service is running";
      return [diskFinding(what, status, `${log.engine}, ${bytesText(status.bytes)}${free}, ${running}`)];
    } finally {
      await log.close();
    }
  } catch (error) {
    const text = messageOf(error);
    const advice = text.startsWith("BLOB_URL") ? "A start refuses the log without its store." : "Check EVENT_LOG_URL.";
    return [{ what, result: "fault", text, advice }];
  }
}

function diskFinding(what: string, { freeBytes, isWritable }: LogStatus, text: string): DoctorFinding {
  if (!isWritable)
    return {
      what,
      result: "fault",
      text,
      advice: "Nothing new is stored: free space, or on PostgreSQL use the primary.",
    };
  if (freeBytes === undefined || freeBytes >= LOW_DISK_BYTES) return { what, result: "ok", text };
  const advice = "A million transfers take 40 MB, with metadata several times that.";
  return { what, result: "warning", text, advice };
}

/** The files that the environment names, read as a start reads them. */
async function fileFindings(config: Config): Promise<DoctorFinding[]> {
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

function folderFindings({ snapshotDir }: Config): DoctorFinding[] {
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
async function addressFinding({ host, port }: Config, isRunning: boolean): Promise<DoctorFinding> {
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
function openFileFindings(): DoctorFinding[] {
  const limit = openFileLimit();
  if (limit === undefined) return [];
  const what = "open files";
  if (!isLowFileLimit(limit)) return [{ what, result: "ok", text: "the system allows enough" }];
  const text = `at most ${wholeText(limit)}, so at most ${countedText(socketsWithin(limit), "socket")} of clients`;
  const advice = WAY_TO_MORE_FILES[0]?.toUpperCase() + WAY_TO_MORE_FILES.slice(1);
  return [{ what, result: socketsWithin(limit) < LEAST_SOCKETS ? "fault" : "warning", text, advice }];
}
