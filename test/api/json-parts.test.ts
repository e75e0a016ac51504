/** JSON answers that are written in slices: the same text as in one piece, and no slice of megabytes. */
import { expect, test } from "bun:test";
import { jsonParts, quotedParts } from "../../src/api/wire/answers.ts";

/** The text, with the most characters that were written between two turns. */
async function written(body: object): Promise<{ text: string; longest: number }> {
  const work = jsonParts(body);
  let slices = 1;
  for (;;) {
    const { done, value } = work.next();
    if (done === true) {
      const text = await new Blob(value).text();
      return { text, longest: text.length / slices };
    }
    slices++;
  }
}

test.each(
  [
    {},
    { result: [] },
    [],
    [1, null, undefined, "é"],
    { a: undefined, b: null, 'quo"ted': [{ c: [1, [2]] }], d: { e: undefined, f: "\u2028" } },
    { result: [{ id: "1" }, { id: "2" }], cursor: null },
  ].map((body) => ({ body })),
)("$body is what JSON.stringify writes", async ({ body }) => {
  expect((await written(body)).text).toBe(JSON.stringify(body));
});

test("a list of megabytes is written over many turns", async () => {
  const result = Array.from({ length: 500 }, (_, id) => ({ id, metadata: "x".repeat(10_000) }));
  const { text, longest } = await written({ result, cursor: null });
  expect(text).toBe(JSON.stringify({ result, cursor: null }));
  expect(longest).toBeLessThan(300_000);
});

test.each(["", "\ufeffa", "é".repeat(300_000), 'a🦊"\\\n'.repeat(200_000)])(
  "a text within JSON stays whole",
  async (text) => {
    const quoted = new Blob(await quotedParts(new Blob([text])));
    expect(JSON.parse(await quoted.text())).toBe(text);
  },
);
