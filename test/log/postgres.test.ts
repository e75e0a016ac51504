/**
 * The PostgreSQL engine: the contract suite, a server that stops and restarts, connections that die silently, and a
 * damaged record.
 */
import { describe, expect, test } from "bun:test";
import { SQL } from "bun";
import { Leases } from "../../src/chain/lease.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { committed, describeLogContract, freshStream } from "../support/log-contract.ts";
import { createSilentDatabase, sharedPostgres, startPostgres } from "../support/postgres.ts";
import { eventually } from "../support/service.ts";
import { type SilentRelay, startSilentRelay } from "../support/silent-relay.ts";

let url: Promise<string> | undefined;
const database = () => {
  url ??= sharedPostgres().then((postgres) => postgres.createDatabase());
  return url;
};

describeLogContract("PostgreSQL", async () => openLog(await database(), systemClock, silentLogger));

describeLogContract("PostgreSQL without pg_notify", async () =>
  openLog(await silentDatabase(), systemClock, silentLogger),
);

let silent: Promise<string> | undefined;
function silentDatabase(): Promise<string> {
  silent ??= createSilentDatabase();
  return silent;
}

describe("PostgreSQL", () => {
  test("counts as out of reach while another session locks its tables against writes, and as writable after it", async () => {
    const postgres = await sharedPostgres();
    const place = await postgres.createDatabase();
    const log = await openLog(place, systemClock, silentLogger);
    const stream = freshStream();
    await log.append({ stream, events: [committed(0, 0)], expectedVersion: 0 });
    const other = new SQL(place, { max: 1 });
    await other.unsafe("BEGIN");
    await other.unsafe("LOCK TABLE events IN EXCLUSIVE MODE");
    const append = log
      .append({ stream, events: [committed(1, 1)], expectedVersion: 1 })
      .catch((error: unknown) => error);
    const seen = async () => [log.isAnswering, (await log.status()).isWritable].join();
    expect(await seen()).toBe("true,true");
    await eventually("the lock is noticed", async () => (await seen()) === "false,false" || undefined, 20_000);
    expect((await log.read(stream)).length).toBe(1);
    expect(await append).toMatchObject({ code: "log_unavailable" });
    expect(await seen()).toBe("false,false");
    await other.unsafe("ROLLBACK");
    await other.close();
    await eventually("the log is writable", async () => (await seen()) === "true,true" || undefined);
    await log.close();
  }, 300_000);

  test("survives a server restart with retryable errors, no lost events, and new wake-ups", async () => {
    const postgres = await startPostgres({ durable: true });
    const log = await openLog(await postgres.createDatabase(), systemClock, silentLogger);
    const stream = freshStream();
    await log.append({ stream, events: [committed(0, 0)], expectedVersion: 0 });
    await postgres.stopServer();
    const failure = await log.append({ stream, events: [committed(1, 1)], expectedVersion: 1 }).catch((error) => error);
    expect(failure).toMatchObject({ code: "log_unavailable", retryable: true });
    expect(failure.message).not.toMatch(/postgres:\/\/|password/);
    await postgres.startServer();
    const version = await eventually("the log answers after the restart", () =>
      log.head(stream).then(
        (head) => head.version,
        () => undefined,
      ),
    );
    expect(version).toBe(1);
    // The poll may still announce version 1, so wait for version 2.
    const heard = new Promise<number>((resolve) => log.subscribe((name, v) => name === stream && v > 1 && resolve(v)));
    await log.append({ stream, events: [committed(1, 1)], expectedVersion: 1 });
    expect(await heard).toBe(2);
    expect(await log.read(stream)).toHaveLength(2);
    await log.close();
    await postgres.stop();
  }, 300_000);

  test("repeats a read whose connection was ended", async () => {
    const target = await (await sharedPostgres()).createDatabase();
    const log = await openLog(target, systemClock, silentLogger);
    const sql = new SQL(target);
    const stream = freshStream();
    await log.append({ stream, events: [committed(0, 0)], expectedVersion: 0 });
    for (let round = 0; round < 20; round++) {
      await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()`;
      expect(await log.read(stream)).toHaveLength(1);
    }
    await Promise.all([log.close(), sql.end()]);
  });

  test("repeats a statement that the server rolled back in favour of another one", async () => {
    const postgres = await startPostgres({ settings: { default_transaction_isolation: "serializable" } });
    const log = await openLog(await postgres.createDatabase(), systemClock, silentLogger, { connections: 20 });
    const guard = { stream: freshStream(), version: 1 };
    await log.append({ stream: guard.stream, events: [committed(0, 0)], expectedVersion: 0 });
    const appends = Array.from({ length: 200 }, (_, at) => ({
      stream: freshStream(),
      events: [committed(at, at)],
      expectedVersion: 0,
      guard,
    }));
    const outcomes = await log.appendAll(appends);
    expect(outcomes.filter((outcome) => "error" in outcome)).toEqual([]);
    await log.close();
    await postgres.stop();
  }, 300_000);

  test("knows within a second or two that the server does not answer, and that it answers again", async () => {
    const direct = await (await sharedPostgres()).createDatabase();
    const url = new URL(direct);
    const relay = await startSilentRelay(Number(url.port));
    url.port = String(relay.port);
    const log = await openLog(url.href, systemClock, silentLogger);
    const changed = async (isAnswering: boolean) => {
      const before = performance.now();
      await eventually("the log notices", async () => (log.isAnswering === isAnswering ? true : undefined));
      return performance.now() - before;
    };
    expect(log.isAnswering).toBe(true);
    relay.silence({ path: true });
    expect(await changed(false)).toBeLessThan(4_000);
    const stuck = log.append({ stream: freshStream(), events: [committed(0, 0)], expectedVersion: 0 });
    stuck.catch(() => undefined);
    relay.restore();
    expect(await changed(true)).toBeLessThan(6_000);
    expect(await log.head(freshStream())).toMatchObject({ version: 0 });
    await log.close();
    await relay.stop();
  });

  test("refuses a damaged record and names it", async () => {
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

describe("a connection that died silently", () => {
  /** Runs timeouts in a fifth of the time, because the real ones are too long for a test. */
  const quickClock: Clock = { ...systemClock, after: (ms, callback) => systemClock.after(ms / 5, callback) };

  async function relayed(): Promise<{ relay: SilentRelay; url: string; direct: string }> {
    const direct = await (await sharedPostgres()).createDatabase();
    const url = new URL(direct);
    const relay = await startSilentRelay(Number(url.port));
    url.port = String(relay.port);
    return { relay, url: url.href, direct };
  }

  test("is given up after a timeout with a retryable error, and the next query uses another connection", async () => {
    const { relay, url } = await relayed();
    const log = await openLog(url, quickClock, silentLogger);
    const stream = freshStream();
    await log.append({ stream, events: [committed(0, 0)], expectedVersion: 0 });
    relay.silence();
    const questions = [log.head(stream), log.read(stream), log.append({ stream, events: [], expectedVersion: 1 })];
    const failures = await Promise.all(questions.map((one) => one.catch((error: unknown) => error)));
    for (const failure of failures) expect(failure).toMatchObject({ code: "log_unavailable", retryable: true });
    expect(await log.head(stream)).toMatchObject({ version: 1 });
    // Notifications of other processes' appends still arrive.
    const heard = new Promise<number>((resolve) => log.subscribe((name, v) => name === stream && resolve(v)));
    const other = await openLog(url, systemClock, silentLogger);
    await other.append({ stream, events: [committed(1, 1)], expectedVersion: 1 });
    expect(await heard).toBe(2);
    await Promise.all([log.close(), other.close()]);
    await relay.stop();
  });

  test("is not confused with a queue of queries: a query's timeout starts when it gets a connection", async () => {
    let [running, most] = [0, 0];
    const clock: Clock = {
      ...systemClock,
      after: (ms, callback) => {
        most = Math.max(most, ++running);
        const end = () => {
          running--;
          end.isOver = true;
        };
        end.isOver = false;
        const cancel = systemClock.after(ms, () => {
          end();
          callback();
        });
        return () => {
          if (!end.isOver) end();
          cancel();
        };
      },
    };
    const log = await openLog(await (await sharedPostgres()).createDatabase(), clock, silentLogger);
    const events = [committed(0, 0)];
    const appends = Array.from({ length: 2_000 }, () => ({ stream: freshStream(), events, expectedVersion: 0 }));
    const outcomes = await log.appendAll(appends);
    expect(outcomes.filter((outcome) => "error" in outcome)).toEqual([]);
    expect(most).toBeLessThan(50);
    await log.close();
  });

  test("does not end the listening for notifications, which resumes when the network path is back", async () => {
    const { relay, url, direct } = await relayed();
    const log = await openLog(url, quickClock, silentLogger);
    const server = new SQL(direct);
    const listening = async () => {
      const [row] = await server`SELECT count(*)::int AS n FROM pg_stat_activity
        WHERE datname = current_database() AND query ILIKE 'listen%'`;
      return row.n as number;
    };
    expect(await listening()).toBe(1);
    relay.silence({ path: true });
    const accepted = relay.accepted;
    expect(await log.head(freshStream()).catch((error: unknown) => error)).toMatchObject({ code: "log_unavailable" });
    // The first attempt over new connections also fails, because the path is still down.
    await eventually("a new listening connection is tried", async () => (relay.accepted > accepted ? true : undefined));
    await log.head(freshStream()).catch(() => undefined);
    relay.restore();
    // The server still counts the old connection, because it doesn't know that it died.
    await eventually("the log listens again", async () => ((await listening()) === 2 ? true : undefined));
    await Promise.all([log.close(), server.end()]);
    await relay.stop();
  });

  test("does not keep the log from closing", async () => {
    const { relay, url } = await relayed();
    const log = await openLog(url, systemClock, silentLogger);
    relay.silence({ path: true });
    const asked = log.head(freshStream()).catch((error: unknown) => error);
    const before = performance.now();
    await log.close();
    expect(performance.now() - before).toBeLessThan(3_000);
    expect(await asked).toMatchObject({ code: "log_unavailable" });
    await relay.stop();
  });

  test("ends the lease that should be renewed over it, and its holder learns when the lease has expired", async () => {
    const { relay, url, direct } = await relayed();
    const [log, other] = [
      await openLog(url, systemClock, silentLogger),
      await openLog(direct, systemClock, silentLogger),
    ];
    // The holder's clock advances only by its own waits, so a busy machine doesn't change the measured time.
    let time = 0;
    const clock: Clock = {
      ...systemClock,
      monotonic: () => time,
      sleep: async (ms) => {
        time += ms;
      },
      after: (ms, callback) =>
        systemClock.after(1, () => {
          time += ms;
          callback();
        }),
    };
    const [name, { signal }] = [`held-${freshStream()}`, new AbortController()];
    const outcome = await new Leases({ log, clock, holder: "a" }).run(name, { signal }, async (lease) => {
      relay.silence();
      await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
      return { after: time, reason: lease.signal.reason as unknown };
    });
    expect(outcome.reason).toMatchObject({ code: "lease_lost" });
    expect(outcome.after).toBe(3_000);
    const leases = new Leases({ log: other, clock: systemClock, holder: "b" });
    expect(await leases.run(name, { signal }, async () => "taken over")).toBe("taken over");
    await Promise.all([log.close(), other.close()]);
    await relay.stop();
  });
});
