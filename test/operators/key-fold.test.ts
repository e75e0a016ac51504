/** The fold of the keys' stream, over a log in memory and a clock that the test turns. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Refusal } from "../../src/core/errors.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { type KeyEvent, keysStream } from "../../src/events/types.ts";
import { ApiKeys, FIRST_KEY_SETTING, hashOfKey } from "../../src/operators/keys.ts";
import { MemoryLog } from "../support/memory-log.ts";
import { TurnedClock } from "../support/turned-clock.ts";

const ENVIRONMENT = [{ name: "API_KEYS#1", scope: "read", hash: hashOfKey("text-of-the-environment") }] as const;
const PER_MINUTE = 600;
const LIMITS = { requestsPerMinute: PER_MINUTE, collectionsPerHour: 300, subscriptions: 1_000 };

/** Opens the keys as a process does at its start. */
async function opened(log: MemoryLog, clock = new TurnedClock(), onDropped: () => void = () => undefined) {
  const options = { log, clock, logger: silentLogger, environment: ENVIRONMENT, limits: LIMITS };
  const keys = new ApiKeys({ ...options, onDropped });
  await keys.begin();
  await keys.read();
  return keys;
}

async function logOf(...events: KeyEvent[]): Promise<MemoryLog> {
  const log = new MemoryLog();
  await log.append({ stream: keysStream, events, expectedVersion: 0 });
  return log;
}

/** The server's limits. */
const SERVERS = { requestsPerMinute: null, collectionsPerHour: null, subscriptions: null };

const added = (name: string, text: string, scope: "read" | "operate" = "read"): KeyEvent => {
  return { type: "KeyAdded", name, scope, hash: hashOfKey(text), ...SERVERS };
};
const rotated = (name: string, text: string, graceUntil: number): KeyEvent => {
  return { type: "KeyRotated", name, hash: hashOfKey(text), graceUntil };
};

/** Name and scope of a text's key; undefined if it is refused. */
function keyOf(keys: ApiKeys, text: string): string | undefined {
  try {
    const { key: name, scope } = keys.check(text);
    return `${name} ${scope}`;
  } catch (error) {
    if (error instanceof Refusal && error.code === "invalid_api_key") return undefined;
    throw error;
  }
}

/** The code of the error that a change is refused with. */
const refusal = (change: Promise<unknown>): Promise<string | undefined> =>
  change.then(
    () => undefined,
    (error: unknown) => (error instanceof Refusal ? error.code : String(error)),
  );

describe("the fold of the keys", () => {
  test("knows keys of the environment, of the log and of an earlier release together", async () => {
    const log = await logOf(added("shop", "text-of-shop"), added("admin", "text-of-admin", "operate"));
    await log.setting(FIRST_KEY_SETTING, () => hashOfKey("text-of-the-first"));
    const keys = await opened(log);
    expect(keyOf(keys, "text-of-shop")).toBe("shop read");
    expect(keyOf(keys, "text-of-admin")).toBe("admin operate");
    expect(keyOf(keys, "text-of-the-first")).toBe("first operate");
    expect(keyOf(keys, "text-of-the-environment")).toBe("API_KEYS#1 read");
    expect(keyOf(keys, "text-of-nothing")).toBeUndefined();
    expect(keys.hasOperator).toBe(true);
  });

  test("refuses a revoked key, also the first one after a restart, and a new key may take its name", async () => {
    const log = await logOf(added("shop", "one"), { type: "KeyRevoked", name: "shop" }, added("shop", "two"));
    await log.setting(FIRST_KEY_SETTING, () => hashOfKey("text-of-the-first"));
    const keys = await opened(log);
    expect([keyOf(keys, "one"), keyOf(keys, "two")]).toEqual([undefined, "shop read"]);
    await keys.revoke("first");
    expect(keyOf(keys, "text-of-the-first")).toBeUndefined();
    let drops = 0;
    const restarted = await opened(log, new TurnedClock(), () => {
      drops++;
    });
    expect([keyOf(restarted, "text-of-the-first"), restarted.isFirstStart, drops]).toEqual([undefined, false, 0]);
  });

  test("keeps former texts to the end of their own grace periods, and no longer than a later one allows", async () => {
    const clock = new TurnedClock();
    const at = (ms: number) => clock.now() + ms;
    const log = await logOf(
      added("shop", "one"),
      rotated("shop", "two", at(5_000)),
      rotated("shop", "three", at(9_000)),
    );
    let drops = 0;
    const keys = await opened(log, clock, () => {
      drops++;
    });
    const valid = () => ["one", "two", "three"].filter((text) => keyOf(keys, text) !== undefined);
    expect([valid(), drops]).toEqual([["one", "two", "three"], 0]);
    clock.turn(5_001);
    expect([valid(), drops]).toEqual([["two", "three"], 1]);
    const newest = await keys.rotate("shop", 1_000);
    clock.turn(1_001);
    expect([valid(), keyOf(keys, newest), drops]).toEqual([[], "shop read", 2]);
  });

  test("waits for the end of a grace period that is longer than a timer can wait", async () => {
    const clock = new TurnedClock();
    const days = 30 * 86_400_000;
    const keys = await opened(await logOf(added("shop", "one"), rotated("shop", "two", clock.now() + days)), clock);
    for (let day = 0; day < 29; day++) clock.turn(86_400_000);
    expect(keyOf(keys, "one")).toBe("shop read");
    clock.turn(86_400_001);
    expect([keyOf(keys, "one"), keyOf(keys, "two")]).toEqual([undefined, "shop read"]);
  });

  test("bounds names, limits, grace periods, and the valid texts of a key", async () => {
    const keys = await opened(new MemoryLog());
    expect(await refusal(keys.add("UPPER", "read", undefined))).toBe("invalid_parameter");
    expect(await refusal(keys.add("a".repeat(65), "read", undefined))).toBe("invalid_parameter");
    expect(await refusal(keys.add("shop", "read", { requestsPerMinute: 0 }))).toBe("invalid_parameter");
    await keys.add("shop", "read", { requestsPerMinute: 1 });
    expect(await refusal(keys.add("shop", "read", undefined))).toBe("conflict");
    expect(await refusal(keys.rotate("shop", -1))).toBe("invalid_parameter");
    expect(await refusal(keys.rotate("shop", 31 * 86_400_000))).toBe("invalid_parameter");
    expect(await refusal(keys.rotate("none", 0))).toBe("not_found");
    expect(await refusal(keys.revoke("API_KEYS#1"))).toBe("conflict");
    for (let text = 1; text < 5; text++) await keys.rotate("shop", 60_000);
    expect(await refusal(keys.rotate("shop", 60_000))).toBe("conflict");
    await keys.rotate("shop", 0);
    await keys.rotate("shop", 60_000);
  });

  test("is the same after a replay as live, and in every process", async () => {
    const names = fc.constantFrom("a", "b", "c");
    const change = fc.oneof(
      fc.record({ do: fc.constant("add" as const), name: names }),
      fc.record({ do: fc.constant("rotate" as const), name: names, grace: fc.constantFrom(0, 1_000, 5_000) }),
      fc.record({ do: fc.constant("revoke" as const), name: names }),
      fc.record({ do: fc.constant("turn" as const), ms: fc.constantFrom(500, 3_000) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 30 }), async (changes) => {
        const [log, clock] = [new MemoryLog(), new TurnedClock()];
        const replicas = [await opened(log, clock), await opened(log, clock)];
        const texts: string[] = [];
        for (const [at, one] of changes.entries()) {
          const keys = replicas[at % 2] as ApiKeys;
          if (one.do === "turn") clock.turn(one.ms);
          else if (one.do === "revoke") await refusal(keys.revoke(one.name));
          else {
            const made = one.do === "add" ? keys.add(one.name, "read", undefined) : keys.rotate(one.name, one.grace);
            await refusal(made.then((text) => texts.push(text)));
          }
        }
        for (const keys of replicas) await keys.read();
        const stateOf = (keys: ApiKeys) => {
          const listed = keys.list().map(({ name, createdAt }) => [name, createdAt]);
          return { listed, valid: texts.map((text) => keyOf(keys, text)) };
        };
        const replayed = stateOf(await opened(log, clock));
        expect(replicas.map(stateOf)).toEqual([replayed, replayed]);
      }),
      { numRuns: 60 },
    );
  });
});

describe("the uses of a key", () => {
  test("are counted by day and told to the minute, without an event", async () => {
    const clock = new TurnedClock(Date.UTC(2026, 0, 31, 23, 58, 40));
    const log = await logOf(added("shop", "text-of-shop"));
    const keys = await opened(log, clock);
    const shop = () => keys.list().find(({ name }) => name === "shop");
    expect(shop()).toMatchObject({ lastUse: null, requestsToday: 0, requestsPerMinute: PER_MINUTE });
    for (let use = 0; use < 3; use++) keys.check("text-of-shop");
    expect(shop()).toMatchObject({ lastUse: "2026-01-31T23:58:00.000Z", requestsToday: 3 });
    clock.turn(120_000);
    expect(shop()).toMatchObject({ lastUse: "2026-01-31T23:58:00.000Z", requestsToday: 0 });
    keys.check("text-of-shop");
    expect(shop()).toMatchObject({ lastUse: "2026-02-01T00:00:00.000Z", requestsToday: 1 });
    expect((await log.head(keysStream)).version).toBe(1);
  });
});
