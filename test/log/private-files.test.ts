/** Files that hold keys, secrets or the log are readable by their owner only, whatever the umask, new or old. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fill } from "../../scripts/bench/fill.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { nftStream } from "../../src/events/types.ts";
import { backUpSqlite, restoreSqlite } from "../../src/log/backup.ts";
import { openLog } from "../../src/log/open.ts";
import { HotCollections } from "../../src/nft/collections/hot-collections.ts";
import { Snapshots } from "../../src/nft/collections/snapshots.ts";
import { runCli } from "../support/cli.ts";

const ADDRESS = `0x${"12".repeat(20)}` as Address;
const root = mkdtempSync(join(tmpdir(), "private-files-"));
let umask: number;

beforeAll(() => {
  // The most generous one.
  umask = process.umask(0);
});
afterAll(() => {
  process.umask(umask);
  rmSync(root, { recursive: true, force: true });
});

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);

/** Writes a log and leaves it open, so that the files beside it are there. */
async function openedLog(path: string) {
  const log = await openLog(`sqlite://${path}`, systemClock, silentLogger);
  await log.setting("cursor-secret", () => "secret");
  return log;
}

test("a new log, its folder and the files beside it", async () => {
  const path = join(root, "new", "deep", "events.db");
  const log = await openedLog(path);
  expect([path, `${path}-wal`, `${path}-shm`].map(modeOf)).toEqual(["600", "600", "600"]);
  expect([join(root, "new"), join(root, "new", "deep")].map(modeOf)).toEqual(["700", "700"]);
  await log.close();
});

test("a log that others could read, with the files beside it, once it is opened", async () => {
  const path = join(root, "old.db");
  const first = await openedLog(path);
  for (const file of [path, `${path}-wal`, `${path}-shm`]) chmodSync(file, 0o664);
  const second = await openedLog(path);
  expect([path, `${path}-wal`, `${path}-shm`].map(modeOf)).toEqual(["600", "600", "600"]);
  await second.close();
  await first.close();
});

test("a folder that was there stays as it is", async () => {
  const folder = join(root, "shared");
  mkdirSync(folder, { mode: 0o755 });
  await (await openedLog(join(folder, "events.db"))).close();
  expect(modeOf(folder)).toBe("755");
});

test("a backup, a restored log and the former one", async () => {
  const path = join(root, "backed-up.db");
  await (await openedLog(path)).close();
  const backup = join(root, "backup.db");
  backUpSqlite(path, backup);
  expect(modeOf(backup)).toBe("600");
  // An operator has copied it, and may have changed its rights.
  chmodSync(backup, 0o666);
  chmodSync(path, 0o666);
  const former = (await restoreSqlite({
    file: backup,
    path,
    now: Date.now(),
    verify: async () => undefined,
  })) as string;
  expect([path, former].map(modeOf)).toEqual(["600", "600"]);
});

test("a backup by the command, the log that it copies to, and nothing else is left", async () => {
  const path = join(root, "command.db");
  await (await openedLog(path)).close();
  const env = { EVENT_LOG_URL: `sqlite://${path}` };
  const [backup, copied] = [join(root, "command.backup"), join(root, "copies", "copied.db")];
  expect((await runCli(["backup", backup], env)).code).toBe(0);
  expect((await runCli(["copy", `sqlite://${path}`, `sqlite://${copied}`, "--with-secrets"], {})).code).toBe(0);
  expect([backup, copied, join(root, "copies")].map(modeOf)).toEqual(["600", "600", "700"]);
  expect(existsSync(`${backup}.part`)).toBe(false);
});

test("snapshots, new ones and those of an older release", async () => {
  const path = join(root, "snapshots.db");
  const log = await openedLog(path);
  await fill(log, { chainId: 1, address: ADDRESS, kind: TransferKind.erc721, tokens: 50, moves: 0 });
  const projections = new HotCollections({ log, logger: silentLogger, maxBytes: 2 ** 26 });
  const collection = await projections.get(1, ADDRESS);
  const options = { folder: join(root, "snapshots"), maxBytes: 1e9, log, logger: silentLogger };
  expect(await new Snapshots(options).save(nftStream(1, ADDRESS), collection, () => false)).toBe(true);
  const files = readdirSync(options.folder).map((name) => join(options.folder, name));
  expect([options.folder, ...files].map(modeOf)).toEqual(["700", "600"]);
  for (const file of files) chmodSync(file, 0o644);
  new Snapshots(options);
  expect(files.map(modeOf)).toEqual(["600"]);
  await projections.close();
  await log.close();
});
