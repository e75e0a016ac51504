/** The small parts below all others: addresses, redaction, retry, lifecycle. */
import { describe, expect, test } from "bun:test";
import { type Clock, retry, systemClock } from "../../src/core/clock.ts";
import { AppError, redact } from "../../src/core/errors.ts";
import { parseAddress, parseQuantity } from "../../src/core/hex.ts";
import { Lifecycle } from "../../src/core/lifecycle.ts";
import { createLogger, silentLogger } from "../../src/core/logger.ts";

describe("addresses", () => {
  const checksummed = "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D";
  test("are accepted in lower case, in upper case, or with the right checksum", () => {
    for (const text of [checksummed, checksummed.toLowerCase(), `0x${checksummed.slice(2).toUpperCase()}`]) {
      expect(parseAddress(text)).toBe(checksummed.toLowerCase() as never);
    }
  });
  test("are refused in any other form", () => {
    const wrong = checksummed.replace("BC", "bC");
    for (const text of [
      wrong,
      "",
      "0x",
      checksummed.slice(2),
      `${checksummed}0`,
      ` ${checksummed}`,
      `0x${"g".repeat(40)}`,
    ]) {
      expect(parseAddress(text)).toBeUndefined();
    }
  });
  test("come with quantities that are parsed from hex exactly", () => {
    expect(parseQuantity("0x1f")).toBe(31);
    for (const bad of ["31", "0x", "-0x1", "0x20000000000000", 31, null]) expect(() => parseQuantity(bad)).toThrow();
  });
});

describe("redaction", () => {
  const secret = "https://user:pass@rpc.example/v3/SECRET?key=SECRET";
  test("removes secrets from errors, from their meta, and from logged causes", () => {
    const error = new AppError(`no answer from ${secret}`, { code: "x", meta: { where: secret } });
    expect(JSON.stringify([error.message, error.meta])).not.toContain("SECRET");
    expect(redact(`postgres://u:SECRET@h/db and wss://h/SECRET`)).toBe("postgres://[redacted] and wss://[redacted]");
  });
  test("removes secrets from every value passed to the logger", () => {
    const lines: string[] = [];
    const logger = createLogger("debug", { write: (line) => lines.push(line) });
    logger.error(
      { err: new Error(`boom ${secret}`, { cause: new Error(secret) }), url: secret },
      `failed at ${secret}`,
    );
    logger.warn({ err: new AppError("a", { code: "b", cause: new Error(secret) }) }, "x");
    expect(lines).toHaveLength(2);
    expect(lines.join("")).not.toContain("SECRET");
    expect(lines.join("")).not.toContain("rpc.example");
  });
});

describe("retry", () => {
  const instant: Clock = { ...systemClock, random: () => 0.5, sleep: async () => undefined };
  test("repeats a retryable error, stops at any other error, and gives up after the last attempt", async () => {
    const run = async (errors: AppError[]) => {
      let attempts = 0;
      const work = async () => {
        const error = errors[attempts++];
        if (error !== undefined) throw error;
        return "done";
      };
      const outcome = await retry(work, { clock: instant, attempts: 3, baseMs: 1, maxMs: 10 }).catch((e) => e.code);
      return [outcome, attempts];
    };
    const passing = new AppError("later", { code: "later", retryable: true });
    const final = new AppError("never", { code: "never" });
    expect(await run([passing, passing])).toEqual(["done", 3]);
    expect(await run([passing, final])).toEqual(["never", 2]);
    expect(await run([passing, passing, passing, passing])).toEqual(["later", 3]);
  });
});

describe("lifecycle", () => {
  test("stops loops first, then closes in reverse order, and logs a failing task by name", async () => {
    const lines: string[] = [];
    const lifecycle = new Lifecycle(createLogger("error", { write: (line) => lines.push(line) }));
    const order: string[] = [];
    lifecycle.onStop("first", () => void order.push("first"));
    lifecycle.onStop("second", () => void order.push("second"));
    lifecycle.run("loop", async (signal) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      order.push("loop");
    });
    await lifecycle.run("broken", async () => {
      throw new Error("broken on purpose");
    });
    await lifecycle.stop();
    await lifecycle.stop();
    expect(order).toEqual(["loop", "second", "first"]);
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] as string)).toMatchObject({ task: "broken", level: "error" });
  });
  /** Ends every wait in the next turn of the event loop. */
  const hasty: Clock = {
    ...systemClock,
    after: (_ms, callback) => {
      const soon = setImmediate(callback);
      return () => clearImmediate(soon);
    },
  };
  const never = new Promise<void>(() => undefined);

  test("names tasks that do not end and stops waiting for them, and closes the log after all loops", async () => {
    const lines: string[] = [];
    const lifecycle = new Lifecycle(createLogger("warn", { write: (line) => lines.push(line) }), hasty);
    const order: string[] = [];
    const cut = Promise.withResolvers<void>();
    lifecycle.onStopLast("log", () => void order.push("log"));
    lifecycle.onStop("endpoints", () => {
      order.push("endpoints");
      cut.resolve();
    });
    lifecycle.onStop("stuck closer", () => never);
    lifecycle.run("stuck loop", () => never);
    lifecycle.run("waits for a node", async () => {
      await cut.promise;
      order.push("loop");
      throw new AppError("the endpoint is closed", { code: "chain_unavailable", retryable: true });
    });
    await Promise.all([lifecycle.stop(), lifecycle.stop()]);
    expect(order).toEqual(["endpoints", "loop", "log"]);
    const told = lines.map((line) => JSON.parse(line) as { level: string; task?: string; tasks?: string });
    expect(told.map(({ level, task, tasks }) => [level, task ?? tasks])).toEqual([
      ["warn", "stuck closer"],
      ["warn", "stuck loop"],
    ]);
  });
  test("starts no task after the stop", async () => {
    const lifecycle = new Lifecycle(silentLogger);
    await lifecycle.stop();
    let ran = false;
    await lifecycle.run("late", async () => {
      ran = true;
    });
    expect(ran).toBe(false);
  });
});
