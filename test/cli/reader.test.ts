/**
 * Commands without `--url`, on a log of either engine: they ask no node, take no lease, write nothing but what they are
 * asked to change, and no limit of keys applies to them.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { STREAM_KINDS } from "../../src/log/faults.ts";
import { openLog } from "../../src/log/open.ts";
import { runCli } from "../support/cli.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { temporaryLogUrl } from "../support/service.ts";
import { type SilentRelay, startSilentRelay } from "../support/silent-relay.ts";

const CONTRACT = `0x${"12".repeat(20)}`;
const OTHER = `0x${"34".repeat(20)}`;

/** A node that never answers. */
let node: SilentRelay;
beforeAll(async () => {
  node = await startSilentRelay();
});
afterAll(() => node.stop());

/** The versions of all streams, and what else a service would write. */
async function writtenTo(url: string) {
  const log = await openLog(url, systemClock, silentLogger);
  const kinds = await Promise.all(STREAM_KINDS.map((kind) => log.streams(`${kind}/`, { after: "", limit: 100 })));
  const [leases, secret] = [await log.leases(), await log.findSetting("cursor-secret")];
  await log.close();
  return { versions: Object.fromEntries(kinds.flat().map(({ stream, version }) => [stream, version])), leases, secret };
}

describe.each([
  ["SQLite", async () => temporaryLogUrl()],
  ["PostgreSQL", async () => (await sharedPostgres()).createDatabase()],
] as const)("on %s", (_engine, newLog) => {
  let url: string;
  const run = (...words: string[]) =>
    runCli(words, {
      ...{ EVENT_LOG_URL: url, RPC_URLS_ONLY: "true", RPC_URL_ETH: `http://127.0.0.1:${node.port}` },
      ...{ RATE_LIMIT_PER_MINUTE: "1", COLLECTIONS_PER_HOUR: "1", METADATA_ALLOW_PRIVATE: "true" },
    });
  const outcome = async (...words: string[]) => {
    const { code, out, err } = await run(...words);
    return [code, out, err];
  };

  beforeAll(async () => {
    url = await newLog();
    expect((await run("index", CONTRACT, OTHER)).code).toBe(0);
  });

  test("changes are events of the log, and nothing else is written", async () => {
    expect(await outcome("index", CONTRACT)).toEqual([0, `eth ${CONTRACT}  waiting\n`, ""]);
    expect(await outcome("remove", OTHER)).toEqual([0, `eth ${OTHER}  is removed\n`, ""]);
    expect(await outcome("index", OTHER)).toEqual([0, `eth ${OTHER}  was removed, is indexed again\n`, ""]);
    expect((await run("keys", "add", "shop")).code).toBe(0);
    const versions = { [`nft/1/${CONTRACT}`]: 1, [`nft/1/${OTHER}`]: 3, "keys/api": 1 };
    expect(await writtenTo(url)).toEqual({ versions, leases: [], secret: undefined });
    expect(node.accepted).toBe(0);
  });

  test("commands that read write nothing, and show no key of their own", async () => {
    const before = await writtenTo(url);
    expect((await run("status")).out).toEndWith("leases none\ncollections 2 waiting\n");
    expect(JSON.parse((await run("collections", "--text", OTHER, "--json")).out)).toMatchObject([{ address: OTHER }]);
    expect(JSON.parse((await run("keys", "--json")).out)).toMatchObject([{ name: "shop", scope: "read" }]);
    expect(await outcome("export", CONTRACT)).toEqual([1, "", expect.stringContaining("still being indexed")]);
    expect(await outcome("refresh", CONTRACT)).toEqual([
      1,
      "",
      expect.stringContaining("no metadata of this collection"),
    ]);
    expect(await writtenTo(url)).toEqual(before);
    expect(node.accepted).toBe(0);
  });

  test("a contract of a chain without endpoints can be exported, and is not indexed", async () => {
    expect(await outcome("index", CONTRACT, "--chain", "polygon")).toEqual([
      ...[64, "", expect.stringContaining("polygon is not enabled")],
    ]);
    expect(await outcome("export", CONTRACT, "--chain", "polygon")).toEqual([
      ...[1, "", expect.stringContaining("polygon was never requested")],
    ]);
  });
});
