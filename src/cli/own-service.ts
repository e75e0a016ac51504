/**
 * The service in the command's own process: a reader of the log, or a whole one that also asks nodes. Each answers the
 * client as over HTTP, without a socket.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../config.ts";
import { createLogger, prettyLines } from "../core/logger.ts";
import { usageStream } from "../events/types.ts";
import { appendWithRetry } from "../log/event-log.ts";
import type { OwnService } from "../service.ts";
import { missingLog, type NamedContract, openCommandLog, ServiceAccess } from "./access.ts";
import { type CommandRun, knownChain, type ReaderOptions } from "./command.ts";

/** The client refuses a URL without a host. No request leaves the process. */
const accessTo = ({ key, fetch }: OwnService, close: () => Promise<unknown>): ServiceAccess =>
  new ServiceAccess({ url: "http://own-process", key, fetch }, close);

/** Opens a reader of the configuration's log. @throws CommandError */
export async function openReader(
  { config: readConfig, say }: Pick<CommandRun, "config" | "say">,
  { mayCreate, contracts = [], isOfLogAlone = false }: ReaderOptions = {},
): Promise<ServiceAccess> {
  const config = readConfig();
  const named = new Set(contracts.map(({ chain }) => knownChain(chain, config.knownChains)));
  const enabled = config.chains.map(({ chain }) => chain);
  const readsChains = isOfLogAlone ? [...named] : enabled.filter((chain) => named.has(chain));
  const logger = createLogger("warn", prettyLines({ write: (line) => say(line.trimEnd()) }, false));
  // The log opens while the program loads.
  const opening = openCommandLog(config, mayCreate);
  const [{ openOwnService }] = await Promise.all([import("../service.ts"), opening]);
  const service = await openOwnService({ config, logger, readsChains, openLog: () => opening });
  return accessTo(service, service.stop);
}

/**
 * Opens a whole service, which does the work of its log, too.
 * @param onClosed called once the command has closed it
 */
export async function openWholeService(
  run: CommandRun,
  config = run.config(),
  onClosed: () => Promise<void> = async () => undefined,
): Promise<ServiceAccess> {
  const { openOwnService } = await import("../service.ts");
  // Work that a signal ends is no failure.
  const write = (line: string) => (run.signal.aborted ? undefined : run.say(line.trimEnd()));
  const opening = openOwnService({ config, logger: createLogger("error", { write }) });
  const stop = async () => (await opening).stop();
  // A signal ends the process only after the leases are released.
  run.beforeExit(stop);
  return accessTo(await opening, () => stop().then(onClosed));
}

/**
 * Returns the service of `--url`, or opens a whole one for a command that reads nodes and changes nothing. That one has an
 * empty log of its own, which is deleted at the end: it does not work on what the operator's log has queued. Only its bill
 * is written there.
 */
export async function openNodeReader(run: CommandRun, { chain: name }: NamedContract): Promise<ServiceAccess> {
  const running = run.service();
  if (running !== undefined) return running;
  const config = run.config();
  const folder = await mkdtemp(join(tmpdir(), "evm-data-service-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  // Also if the service does not stop in time. An open file stays usable until it is closed.
  run.beforeExit(remove);
  const own: Config = {
    ...{ ...config, eventLogUrl: `sqlite://${join(folder, "events.db")}`, snapshotDir: undefined, blobs: undefined },
    chains: config.chains.filter(({ chain }) => chain.name === name),
  };
  try {
    return await openWholeService(run, own, () => copyBill(own, config).finally(remove));
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Attempts to append while a service writes its own bill. */
const ATTEMPTS = 8;

/** Copies what the command's own service recorded of its calls to the operator's log, if there is one. */
async function copyBill(own: Config, config: Config): Promise<void> {
  if (missingLog(config) !== undefined) return;
  const from = await openCommandLog(own);
  const events = (await from.read(usageStream)).map(({ event }) => event);
  await from.close();
  if (events.length === 0) return;
  const log = await openCommandLog(config);
  try {
    await appendWithRetry(log, ATTEMPTS, async () => {
      const { version } = await log.head(usageStream);
      return { stream: usageStream, expectedVersion: version, events };
    });
  } finally {
    await log.close();
  }
}
