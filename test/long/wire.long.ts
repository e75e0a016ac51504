/**
 * The wire contract as it was recorded: every route and the socket, to the byte, over both engines; and what a large log
 * folds into.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { differences, ENGINES, keptExchanges, recordCheckout } from "../../scripts/wire/compare.ts";

const ROOT = join(import.meta.dir, "../..");

test.each(ENGINES)("answers over %s are those of the recording", async (engine) => {
  expect(differences(await keptExchanges(), await recordCheckout(engine, ROOT))).toEqual([]);
});

test("a large log folds into the streams and listings of the recording", () => {
  const child = Bun.spawnSync([process.execPath, join(ROOT, "scripts/large-log.ts"), "compare"], {
    stdout: "pipe",
    stderr: "inherit",
  });
  expect(child.stdout.toString()).toEndWith("the same as kept\n");
});
