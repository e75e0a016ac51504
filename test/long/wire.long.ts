/**
 * The recorded wire contract: the answers of every route and the socket, byte by byte, on both engines, and the state
 * that a large log folds into.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { differences, ENGINES, keptExchanges, recordCheckout } from "../../scripts/wire/compare.ts";

const ROOT = join(import.meta.dir, "../..");

test.each(ENGINES)("answers over %s as recorded", async (engine) => {
  expect(differences(await keptExchanges(), await recordCheckout(engine, ROOT))).toEqual([]);
});

test("folds a large log into the recorded streams and listings", () => {
  const child = Bun.spawnSync([process.execPath, join(ROOT, "scripts/large-log.ts"), "compare"], {
    stdout: "pipe",
    stderr: "inherit",
  });
  expect(child.stdout.toString()).toEndWith("the same as kept\n");
});
