/** Names from right to left in the console: they do not turn what stands beside them. */
import { expect, test } from "bun:test";
import { isolated } from "../../src/console/parts/format.ts";

test("a name from right to left keeps to itself, and other names stay as they are", () => {
  for (const name of ["שלום", "سلام 12", "a ߊ"]) expect(isolated(name)).toBe(`\u2068${name}\u2069`);
  expect(isolated("Ünïcode 猫 12")).toBe("Ünïcode 猫 12");
});
