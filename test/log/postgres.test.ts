/** The PostgreSQL engine: the contract suite, a server that goes away and comes back, and a damaged record. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { SQL } from "bun";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { sharedPostgres, startPostgres } from "../support/postgres.ts";
import { eventually } from "../support/service.ts";
import { committed, describeLogContract, freshStream } from "./contract.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

let url: Promise<string> | undefined;
const database = () => {
  url ??= sharedPostgres().then((postgres) => postgres.createDatabase());
  return url;
};

describeLogContract("PostgreSQL", async () => openLog(await database(), systemClock, silentLogger));

describe("PostgreSQL", () => {
  test("a server that goes away and comes back: errors that may be retried, nothing lost, wake-ups again", async () => {
    const postgres = await startPostgres({ durable: true });
    const log = await openLog(await postgres.createDatabase(), systemClock, silentLogger);
    const stream = freshStream();
    await log.append({ stream, events: [committed(0, 0)], expectedVersion: 0 });
    await postgres.stopServer();
    const failure = await log.append({ stream, events: [committed(1, 1)], expectedVersion: 1 }).catch((error) => error);
    expect(failure).toMatchObject({ code: "log_unavailable", retryable: true });
    expect(failure.message).not.toMatch(/postgres:\/\/|password/);
    await postgres.startServer();
    const version = await eventually("the log is back", () =>
      log.head(stream).then(
        (head) => head.version,
        () => undefined,
      ),
    );
    expect(version).toBe(1);
    const heard = new Promise<number>((resolve) => log.subscribe((name, v) => name === stream && resolve(v)));
    await log.append({ stream, events: [committed(1, 1)], expectedVersion: 1 });
    expect(await heard).toBe(2);
    expect(await log.read(stream)).toHaveLength(2);
    await log.close();
    await postgres.stop();
  }, 60_000);

  test("a damaged record is named and refused", async () => {
    const target = await database();
    const log = await openLog(target, systemClock, silentLogger);
    const stream = freshStream();
    await log.append({ stream, events: [committed(0, 0), committed(1, 1)], expectedVersion: 0 });
    const sql = new SQL(target);
    await sql.unsafe(
      "UPDATE events SET data = set_byte(data, 10, get_byte(data, 10) # 1) WHERE version = 2 AND stream_id = (SELECT id FROM streams WHERE name = $1)",
      [stream],
    );
    await sql.close();
    expect(await log.read(stream, { limit: 1 })).toHaveLength(1);
    await expect(log.read(stream)).rejects.toMatchObject({ code: "invariant", meta: { stream, version: 2 } });
    await log.close();
  });
});
