/** `backup`, `restore` and `verify` by the real program, while a service writes and after it stopped. */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { runCli } from "../support/cli.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const logUrl = temporaryLogUrl();
const path = logUrl.slice("sqlite://".length);
const file = `${path}.backup`;
let anvil: Anvil;
let service: TestService;
let nft: Deployed;

const start = () => startTestService({ rpcUrl: anvil.url, logUrl });
const cli = (words: readonly string[], url = logUrl) => runCli(words, { EVENT_LOG_URL: url });
const head = async () => Number(await anvil.send("eth_blockNumber"));
const ids = async () =>
  (await synced(service, nft.address, await head())).body.result.map(({ token_id }: { token_id: string }) => token_id);

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
  service = await start();
  await synced(service, nft.address, await head());
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

test("backs up one state of the log while a service appends to it", async () => {
  let isOver = false;
  let appended = 0;
  const log = await openLog(logUrl, systemClock, silentLogger);
  const appending = (async () => {
    for (; !isOver; appended++) await log.setting(`s${appended}`, () => "x".repeat(1_000));
  })();
  const { code, out, err } = await cli(["backup", file, "--json"]);
  isOver = true;
  await appending;
  await log.close();
  expect([code, err, JSON.parse(out).file]).toEqual([0, "", file]);
  expect(appended).toBeGreaterThan(10);
  const verified = await cli(["verify", "--json"], `sqlite://${file}`);
  expect([verified.code, JSON.parse(verified.out).wrong]).toEqual([0, 0]);
  const again = await cli(["backup", file]);
  expect([again.code, again.err]).toEqual([1, expect.stringContaining("exists; a backup replaces no file")]);
});

test("refuses to restore under a service, with or without a lease", async () => {
  const leased = await cli(["restore", file]);
  // Whichever lease of the service is named.
  const running = /a service is running on this log \((?:follow|metadata|index)\//;
  expect([leased.code, leased.err]).toEqual([1, expect.stringMatching(running)]);
  // A process that holds no lease has the file open all the same.
  const idleUrl = temporaryLogUrl();
  const log = await openLog(idleUrl, systemClock, silentLogger);
  const idle = await cli(["restore", file], idleUrl);
  expect([idle.code, idle.err]).toEqual([1, expect.stringContaining("open: stop the service")]);
  await log.close();
  expect((await cli(["restore", file], idleUrl)).code).toBe(0);
});

test("restores the log, keeps the former one, and the service goes on from there", async () => {
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 2n]);
  expect(await ids()).toEqual(["1", "2"]);
  await service.stop();
  const { code, out, err } = await cli(["restore", file, "--json"]);
  expect([code, err]).toEqual([0, ""]);
  expect(existsSync(JSON.parse(out).former)).toBe(true);
  service = await start();
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 3n]);
  expect(await ids()).toEqual(["1", "2", "3"]);
});

test("refuses a file that is no whole log, and leaves the log as it is", async () => {
  const wrong = `${path}.wrong`;
  writeFileSync(wrong, "no database at all, only a text that is long enough to have a header of its own".repeat(20));
  const refused = await cli(["restore", wrong], temporaryLogUrl());
  expect([refused.code, refused.err]).toEqual([69, expect.stringContaining("can't be restored")]);
  expect((await cli(["restore", `${path}.none`], temporaryLogUrl())).err).toContain("there is no file");
  expect((await cli(["backup"])).code).toBe(64);
});

test("verify finds a changed record and exits with 1; on PostgreSQL the others name its own tools", async () => {
  const copy = `${path}.damaged`;
  expect((await cli(["backup", copy])).code).toBe(0);
  const db = new Database(copy);
  db.run("UPDATE events SET data = zeroblob(length(data)) WHERE version = 2");
  db.close();
  const { code, out } = await cli(["verify"], `sqlite://${copy}`);
  expect([code, out]).toEqual([1, expect.stringContaining("WRONG: a record of the event log is damaged")]);
  const postgres = await (await sharedPostgres()).createDatabase();
  for (const [name, tool] of [
    ["backup", "pg_dump"],
    ["restore", "pg_restore"],
  ] as const) {
    const refused = await cli([name, file], postgres);
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining(tool)]);
  }
  expect((await cli(["verify"], `sqlite://${copy}.none`)).code).toBe(69);
});
