/**
 * Flags as clients see them: a rule that matches is recorded by name in the log, the operator's lists are reloaded
 * while the service runs, two processes record each change once, and a restart keeps everything. Runs once per log
 * engine.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, inOneBlock, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue, transact } from "../../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { createLogger, type Logger } from "../../../src/core/logger.ts";
import { nftStream } from "../../../src/events/types.ts";
import { openLog } from "../../../src/log/open.ts";
import { sharedPostgres } from "../../support/postgres.ts";
import { spawnService } from "../../support/process.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../../support/service.ts";

/** Number of receivers of the airdrop, in two blocks. */
const RECEIVERS = 220;
const folder = mkdtempSync(join(tmpdir(), "flags-"));
const spamFile = join(folder, "spam.txt");
const verifiedFile = join(folder, "verified.txt");
const env = { SPAM_LIST: spamFile, VERIFIED_LIST: verifiedFile };

let anvil: Anvil;
let plain: Deployed;
let lure: Deployed;
let drop: Deployed;
let nextId = 1_000;

/** Replaces a file atomically, as an editor does. */
function write(file: string, text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 2 });
  const artifact = await contractArtifact("PlainNft");
  plain = await deploy(anvil, artifact, ["Plain", "PLN"]);
  lure = await deploy(anvil, artifact, ["Voucher Club", "apе-claim.соm"]);
  drop = await deploy(anvil, artifact, ["Members", "MBR"]);
  for (const { contract } of [plain, lure]) await transact(anvil, contract, "mint", [anvil.accounts[1], 1]);
  for (const first of [0, RECEIVERS / 2]) {
    await inOneBlock(anvil, async () => {
      for (let i = first; i < first + RECEIVERS / 2; i++) {
        await queue(anvil, drop.contract, "mint", [`0x${(i + 1).toString(16).padStart(40, "1")}`, i]);
      }
    });
  }
  await anvil.mine(6);
}, 300_000);

afterAll(async () => {
  await anvil?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const engines: [string, () => Promise<string>][] = [
  ["SQLite", async () => temporaryLogUrl()],
  ["PostgreSQL", async () => (await sharedPostgres()).createDatabase()],
];

describe.each(engines)("over %s", (_engine, freshLog) => {
  let logUrl: string;
  let service: TestService;
  let second: TestService;
  const warned: unknown[] = [];

  beforeAll(async () => {
    write(spamFile, "# nothing yet\n");
    write(verifiedFile, "");
    logUrl = await freshLog();
    const quiet = createLogger("silent");
    const logger: Logger = Object.assign(Object.create(quiet), { warn: (...args: unknown[]) => warned.push(args) });
    service = await startTestService({ rpcUrl: anvil.url, logUrl, env, logger });
  }, 300_000);

  afterAll(async () => {
    await second?.stop();
    await service?.stop();
  });

  const flagsOf = async ({ address }: Deployed, from = service) => {
    const [record] = (await synced(from, address)).body.result;
    return [record.possible_spam, record.verified_collection];
  };
  const flagged = (deployed: Deployed, spam: boolean, verified: boolean, from = service) =>
    eventually(`${deployed.address} is flagged spam ${spam}, verified ${verified}`, async () => {
      const wanted = [String(spam), String(verified)].join();
      return (await flagsOf(deployed, from)).join() === wanted ? true : undefined;
    });
  /** The flag events of a collection, in order. */
  const facts = async ({ address }: Deployed) => {
    const log = await openLog(logUrl, systemClock, createLogger("silent"));
    try {
      const recorded = await log.read(nftStream(1, address.toLowerCase() as Address));
      return recorded.flatMap(({ event }) =>
        event.type === "FlagsChanged" ? [[event.possibleSpam, event.verifiedCollection, event.rule]] : [],
      );
    } finally {
      await log.close();
    }
  };

  test("records a rule that matches in the log, and sets no flag without one", async () => {
    for (const each of [plain, lure, drop]) await service.get(`/api/v2/nft/${each.address}`);
    await flagged(lure, true, false);
    await flagged(drop, true, false);
    await flagged(plain, false, false);
    expect(await facts(lure)).toEqual([[true, false, "symbol-url"]]);
    expect(await facts(drop)).toEqual([[true, false, "airdrop-shape"]]);
    expect(await facts(plain)).toEqual([]);
    second = await startTestService({ rpcUrl: anvil.url, logUrl, env });
  });

  test("reloads the lists while it runs, for addresses in either case and with or without a chain", async () => {
    write(spamFile, `eth, ${plain.address.toLowerCase()} # reported\n`);
    await flagged(plain, true, false);
    write(verifiedFile, `${lure.address}\n0x1,0x${drop.address.slice(2).toUpperCase()}\n`);
    await flagged(lure, false, true);
    await flagged(drop, false, true);
    // The entry is for another chain now, so this chain's flag goes.
    write(spamFile, `polygon,${plain.address}\n`);
    await flagged(plain, false, false);
    write(verifiedFile, `${drop.address}\n`);
    await flagged(lure, true, false);
    expect(await facts(plain)).toEqual([
      [true, false, "spam-list"],
      [false, false, ""],
    ]);
    expect(await facts(lure)).toEqual([
      [true, false, "symbol-url"],
      [false, true, "verified-list"],
      [true, false, "symbol-url"],
    ]);
  });

  test("warns once about a list that is broken or missing, and keeps the earlier one", async () => {
    const problems = () => JSON.stringify(warned);
    write(verifiedFile, `${drop.address}\n${plain.address}\nmars,${lure.address}\n`);
    await eventually("a warning", async () => (problems().includes("VERIFIED_LIST: line 3") ? true : undefined));
    renameSync(verifiedFile, `${verifiedFile}.gone`);
    await eventually("a second one", async () => (problems().includes("cannot be read") ? true : undefined));
    const before = warned.length;
    // A change of the other list takes effect. By then this list has been checked again, too.
    write(spamFile, plain.address);
    await flagged(plain, true, false);
    expect(warned.length).toBe(before);
    expect(await flagsOf(drop)).toEqual(["false", "true"]);
    write(verifiedFile, `${plain.address}\n`);
    await flagged(plain, true, true);
    await flagged(drop, true, false);
    await flagged(plain, true, true, second);
    expect((await facts(plain)).at(-1)).toEqual([true, true, "spam-list,verified-list"]);
  });

  test("shows the same flags in a wallet, and leaves out of it exactly what they call spam", async () => {
    const wallet = `/api/v2/${anvil.accounts[1]}/nft`;
    const flags = async (path: string): Promise<Record<string, string[]>> => {
      const { result } = (await service.get(path)).body;
      return Object.fromEntries(
        result.map((one: Record<string, string>) => [
          one["token_address"],
          [one["possible_spam"], one["verified_collection"]],
        ]),
      );
    };
    const held = Object.fromEntries(
      await Promise.all([plain, lure].map(async (one) => [one.address.toLowerCase(), await flagsOf(one)] as const)),
    );
    expect(await flags(wallet)).toMatchObject(held);
    expect(await flags(`${wallet}/collections`)).toMatchObject(held);
    for (const path of [wallet, `${wallet}/collections`]) {
      const others = Object.entries(await flags(path)).filter(([, [spam]]) => spam === "false");
      expect(await flags(`${path}?exclude_spam=true`)).toEqual(Object.fromEntries(others));
    }
  });

  test("keeps all flags over a restart without new events, and shows the present flags on a page of the past", async () => {
    const before = [await facts(plain), await facts(lure), await facts(drop)];
    await second.stop();
    await service.stop();
    service = await startTestService({ rpcUrl: anvil.url, logUrl, env });
    second = await startTestService({ rpcUrl: anvil.url, logUrl, env });
    await flagged(plain, true, true);
    await flagged(lure, true, false);
    await flagged(drop, true, false);
    await transact(anvil, plain.contract, "mint", [anvil.accounts[1], nextId++]);
    await synced(service, plain.address, Number(await anvil.send("eth_blockNumber")));
    expect([await facts(plain), await facts(lure), await facts(drop)]).toEqual(before);
    const past = await service.get(`/api/v2/nft/${plain.address}?as_of_block=${plain.blockNumber + 4}&limit=1`);
    expect([past.body.result[0].possible_spam, past.body.result[0].verified_collection]).toEqual(["true", "true"]);
    // Without the settings there are no lists: flags from lists go, flags from rules stay.
    await second.stop();
    await service.stop();
    service = await startTestService({ rpcUrl: anvil.url, logUrl });
    second = await startTestService({ rpcUrl: anvil.url, logUrl });
    await flagged(plain, false, false);
    await flagged(drop, true, false);
  }, 300_000);
});

test("judges a collection of a log without flags when it is followed again", async () => {
  const [old, young] = [temporaryLogUrl(), temporaryLogUrl()];
  const before = await startTestService({ rpcUrl: anvil.url, logUrl: old });
  await synced(before, lure.address);
  await before.stop();
  const [from, to] = [
    await openLog(old, systemClock, createLogger("silent")),
    await openLog(young, systemClock, createLogger("silent")),
  ];
  for (const { stream, headline } of await from.streams("", { limit: 100 })) {
    const events = (await from.read(stream)).map(({ event }) => event);
    const flags = ["rulesVersion", "wordRule", "shapeRule", "spam", "verified", "flagRule"];
    const kept = headline && Object.fromEntries(Object.entries(headline).filter(([key]) => !flags.includes(key)));
    await to.append({
      stream,
      events: events.filter(({ type }) => type !== "FlagsChanged"),
      expectedVersion: 0,
      ...(kept === undefined ? {} : { headline: kept }),
    });
  }
  await from.close();
  await to.close();
  const after = await startTestService({ rpcUrl: anvil.url, logUrl: young });
  try {
    await eventually("the collection is flagged", async () => {
      const [record] = (await synced(after, lure.address)).body.result;
      return record.possible_spam === "true" ? true : undefined;
    });
  } finally {
    await after.stop();
  }
});

test("stops the start with the reason if a list is malformed", async () => {
  write(spamFile, `${"0x12"}\nmars,0x${"12".repeat(20)}\n`);
  const { exited, stderr } = spawnService({
    RPC_URL_ETH: "http://127.0.0.1:9",
    RPC_URLS_ONLY: "true",
    EVENT_LOG_URL: temporaryLogUrl(),
    SPAM_LIST: spamFile,
    VERIFIED_LIST: folder,
  });
  expect(await exited).toBe(78);
  for (const words of [
    "SPAM_LIST: line 1",
    "SPAM_LIST: line 2",
    "VERIFIED_LIST: the file cannot be read: it must be a regular file of at most 16777216 bytes, and is a folder",
  ]) {
    expect(stderr()).toContain(words);
  }
});
