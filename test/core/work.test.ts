/** Turns by key in queues and slots. */
import { describe, expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import { FairQueue, FairSlots, type Requester } from "../../src/core/work.ts";

const reader = (key: string): Requester => ({ key, isOperator: false });
const OPERATOR: Requester = { key: "admin", isOperator: true };
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Work that ends when it is told to, and the order in which pieces began. */
function worker() {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const work = (name: string) => () => {
    begun.push(name);
    return new Promise<void>((resolve) => ends.set(name, resolve));
  };
  const end = async (name: string) => {
    ends.get(name)?.();
    await turn();
  };
  return { begun, work, end };
}

describe("a queue", () => {
  test("takes operators first, then one item of each key in turns", () => {
    const queue = new FairQueue<string>();
    for (const item of ["a1", "a2", "a3", "a4"]) queue.add(item, reader("a"));
    for (const item of ["b1", "b2"]) queue.add(item, reader("b"));
    queue.add("c1", reader("c"));
    queue.add("o1", OPERATOR);
    queue.add("a1", reader("b"));
    queue.delete("a2");
    const order: string[] = [];
    for (let next = queue.take(); next !== undefined; next = queue.take()) order.push(next.item);
    expect(order).toEqual(["o1", "a1", "b1", "c1", "a3", "b2", "a4"]);
    expect(queue.size).toBe(0);
  });

  test("passes over keys that may not go on, which keep their turn", () => {
    const queue = new FairQueue<string>();
    queue.add("a1", reader("a"));
    queue.add("b1", reader("b"));
    queue.add("b2", reader("b"));
    expect(queue.take(({ key }) => key !== "a")?.item).toBe("b1");
    expect(queue.take()?.item).toBe("a1");
    expect(queue.takeMore(reader("b"), 5)).toEqual(["b2"]);
  });
});

describe("slots", () => {
  const shares = { places: 4, perKey: 2, forOperators: 1, maxWaiting: 2, retryAfter: 2, work: "readings" };

  test("give one key its part only, other keys the rest, and the last place to operators", async () => {
    const slots = new FairSlots(shares);
    const { begun, work, end } = worker();
    for (const name of ["a1", "a2", "a3"]) void slots.run(reader("a"), work(name));
    void slots.run(reader("b"), work("b1"));
    void slots.run(reader("c"), work("c1"));
    await turn();
    expect(begun).toEqual(["a1", "a2", "b1"]);
    void slots.run(OPERATOR, work("o1"));
    void slots.run(OPERATOR, work("o2"));
    await turn();
    expect(begun).toEqual(["a1", "a2", "b1", "o1"]);
    await end("b1");
    expect(begun.at(-1)).toBe("o2");
    await end("a1");
    await end("a2");
    expect(begun.slice(5).sort()).toEqual(["a3", "c1"]);
  });

  test("refuse what exceeds a key's share of the queue, and nothing of another key", async () => {
    const slots = new FairSlots(shares);
    const { begun, work, end } = worker();
    for (const name of ["a1", "a2", "a3", "a4"]) void slots.run(reader("a"), work(name));
    const refused = await slots.run(reader("a"), work("a5")).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Refusal);
    expect(refused).toMatchObject({ code: "rate_limited", retryAfter: 2 });
    expect((refused as Error).message).toContain("readings");
    void slots.run(reader("b"), work("b1"));
    await turn();
    expect(begun).toEqual(["a1", "a2", "b1"]);
    await end("a1");
    expect(begun.at(-1)).toBe("a3");
  });

  test("hold back smaller work of other keys while work in turn waits for several places", async () => {
    const slots = new FairSlots(shares);
    const { begun, work, end } = worker();
    for (const name of ["a1", "a2"]) void slots.run(reader("a"), work(name));
    void slots.run(reader("b"), work("b1 and b2"), { places: 2 });
    void slots.run(reader("c"), work("c1"));
    void slots.run(OPERATOR, work("o1"));
    await turn();
    expect(begun).toEqual(["a1", "a2", "o1"]);
    await end("a1");
    expect(begun.at(-1)).toBe("b1 and b2");
    await end("o1");
    expect(begun).toHaveLength(4);
    await end("b1 and b2");
    expect(begun.at(-1)).toBe("c1");
    const refused = [1, 2].map(() =>
      slots.run(reader("a"), work("later"), { places: 2 }).catch(({ code }) => code as string),
    );
    expect(await Promise.race(refused)).toBe("rate_limited");
  });

  test("pass on the place of work that fails, and forget work whose signal aborts", async () => {
    const slots = new FairSlots({ ...shares, places: 1, forOperators: 0 });
    const { begun, work } = worker();
    const failing = slots.run(reader("a"), async () => {
      await turn();
      throw new Error("no");
    });
    const controller = new AbortController();
    const left = slots.run(reader("b"), work("b1"), { signal: controller.signal }).catch((error: unknown) => error);
    void slots.run(reader("c"), work("c1"));
    controller.abort(new Error("gone"));
    expect(await left).toMatchObject({ message: "gone" });
    expect(await failing.catch((error: unknown) => error)).toMatchObject({ message: "no" });
    await turn();
    expect(begun).toEqual(["c1"]);
  });
});
