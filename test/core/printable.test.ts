/** Text from chains and nodes in the log and on the command line: it can neither turn, hide nor forge other text. */
import { describe, expect, test } from "bun:test";
import { printable, printableLines } from "../../src/core/format.ts";
import { createLogger, prettyLines } from "../../src/core/logger.ts";

const HOSTILE = [
  ...[
    "\u202a",
    "\u202b",
    "\u202c",
    "\u202d",
    "\u202e",
    "\u2066",
    "\u2067",
    "\u2068",
    "\u2069",
    "\u200e",
    "\u200f",
    "\u061c",
  ],
  ...[
    "\u001b[2J",
    "\u009b31m",
    "\u0007",
    "\u0000",
    "\r",
    "\n",
    "\u0085",
    "\u2028",
    "\u2029",
    "\u200b",
    "\ufeff",
    "\u{e0001}",
  ],
];
/** The characters themselves, but for the end of a whole line. */
const RAW = /(?!\n$)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

test("hostile characters are shown as escapes, and others as they are", () => {
  for (const text of HOSTILE) expect(printable(`a${text}b`)).toMatch(/^a\\u[0-9a-f]{4}[^\n]*b$/);
  for (const text of ["Ünïcode ✓ 猫 שלום", "👩‍🚀", "می\u200cخواهم", "tab-less"]) expect(printable(text)).toBe(text);
  expect(printable("\u202e\u{e0001}")).toBe("\\u202e\\udb40\\udc01");
  expect(printableLines("a\n\tb\u202e")).toBe("a\n\tb\\u202e");
});

test("escapes leave JSON the same", () => {
  const value = { name: HOSTILE.join("x") };
  const shown = printableLines(JSON.stringify(value, null, 2));
  expect(JSON.parse(shown)).toEqual(value);
  expect(shown).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
});

describe.each(["json", "pretty"] as const)("a %s log", (format) => {
  test.each(HOSTILE.map((text) => [printable(text), text]))(
    "shows %s in each text of a line, on one line",
    (_name, text) => {
      const lines: string[] = [];
      const destination = { write: (line: string) => void lines.push(line) };
      const logger = createLogger("debug", format === "json" ? destination : prettyLines(destination, false));
      const forged = `bad${text}12:00:00 INFO forged`;
      logger.warn({ reason: forged, err: new Error(forged), address: forged }, `the node says ${forged}`);
      logger.child({ chain: forged }).error({ state: forged }, "plain");
      expect(lines.length).toBe(2);
      for (const line of lines) {
        expect(line.trimEnd()).not.toMatch(RAW);
        expect(line).toContain("bad\\");
      }
    },
  );
});
