/** The SQLite engine: the contract suite, and behaviour that only SQLite has. */
import { Database } from "bun:sqlite";
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { committed, describeLogContract, freshStream } from "../support/log-contract.ts";

const folder = mkdtempSync(join(tmpdir(), "event-log-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describeLogContract("SQLite", () => openLog(`sqlite://${join(folder, "events.db")}`, systemClock, silentLogger));

describe("SQLite", () => {
  const openAt = (name: string) => openLog(`sqlite://${join(folder, name)}`, systemClock, silentLogger);

  test("refuses a damaged record and a missing record, and names them", async () => {
    const log = await openAt("damaged.db");
    const stream = freshStream();
    await log.append({ stream, events: [committed(0, 0), committed(1, 1), committed(2, 2)], expectedVersion: 0 });
    const database = new Database(join(folder, "damaged.db"));
    database.run("UPDATE events SET time = time + 1 WHERE version = 2");
    await expect(log.read(stream)).rejects.toMatchObject({ code: "invariant", meta: { stream, version: 2 } });
    database.run("DELETE FROM events WHERE version = 2");
    await expect(log.read(stream)).rejects.toMatchObject({ code: "invariant", meta: { stream, version: 2 } });
    database.close();
    await log.close();
  });

  test("names a damaged record of a page that was read ahead, and can close during a read", async () => {
    const log = await openAt("ahead.db");
    const stream = freshStream();
    const events = Array.from({ length: 8 }, (_, block) => committed(block, block, 10_000));
    await log.append({ stream, events, expectedVersion: 0 });
    const database = new Database(join(folder, "ahead.db"));
    database.run("UPDATE events SET time = time + 1 WHERE version = 5");
    database.close();
    const options = { maxBytes: 15_000, isReadingOn: true };
    const versions = async (from: number) => (await log.read(stream, { ...options, from })).map((read) => read.version);
    expect(await versions(1)).toEqual([1, 2]);
    expect(await versions(3)).toEqual([3, 4]);
    const damaged = await versions(5).catch((error: unknown) => error);
    expect(damaged).toMatchObject({ code: "invariant", meta: { stream, version: 5 } });
    expect(await versions(1)).toEqual([1, 2]);
    const underWay = versions(3);
    await log.close();
    expect(await underWay).toEqual([3, 4]);
    expect(existsSync(join(folder, "ahead.db-wal"))).toBe(false);
  });

  test("refuses a file that is no database and a log of a newer release, each with its reason", async () => {
    await Bun.write(join(folder, "text.db"), "this is not a database ".repeat(500));
    await expect(openAt("text.db")).rejects.toThrow("database file is damaged");
    await (await openAt("newer.db")).close();
    const database = new Database(join(folder, "newer.db"));
    database.run("INSERT INTO migrations (id, applied_at) VALUES (99, 0)");
    database.close();
    await expect(openAt("newer.db")).rejects.toThrow("schema 99");
  });
});
