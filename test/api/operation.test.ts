/**
 * Declarations of operations: an answer, a body or an example of another shape than the declared schema fails the type
 * check. `bun run check` proves it, because an expected error that is absent is an error itself.
 */
import { expect, test } from "bun:test";
import { Type } from "@sinclair/typebox";
import { operationsFor } from "../../src/api/wire/operation.ts";
import { flag, wholeNumber } from "../../src/api/wire/parameters.ts";
import { named, text } from "../../src/core/schema-parts.ts";

const { json } = operationsFor<{ readonly word: string }>();
const Echo = named("Echo", Type.Object({ said: text("The word"), times: Type.Integer() }));
const facts = {
  ...({ method: "GET", path: "/api/echo", scope: "read" } as const),
  ...({ id: "echo", summary: "Says it", tag: "Service", errors: [] } as const),
};
const query = { times: wholeNumber({ min: 1, max: 9, default: 1 }, { description: "How often", example: 2 }) };
const example = { said: "hello", times: 2 };
const incoming = { request: new Request("http://localhost/api/echo"), params: {}, requester: undefined };

test("gives the handler parsed parameters, and takes its answer", async () => {
  const echo = json({
    ...{ ...facts, query, answer: Echo, example },
    handle: async ({ query: { times } }, { word }) => ({ body: { said: word, times } }),
  });
  const answered = await echo.handle({ ...incoming, search: "times=3" }, { word: "hello" });
  expect(answered).toEqual({ body: { said: "hello", times: 3 } });
  const refused = echo.handle({ ...incoming, search: "times=10" }, { word: "hello" });
  await expect(refused).rejects.toThrow("times: must be a whole number from 1 to 9");
});

test("refuses another shape at compile time", () => {
  const wrong = [
    json({
      ...{ ...facts, query, answer: Echo, example },
      // @ts-expect-error: a field is missing
      handle: async (_asked, { word }) => ({ body: { said: word } }),
    }),
    json({
      ...{ ...facts, query, answer: Echo, example },
      // @ts-expect-error: a field has another type
      handle: async ({ query: { times } }) => ({ body: { said: times, times } }),
    }),
    json({
      ...{ ...facts, query, answer: Echo, example },
      // @ts-expect-error: there is no such parameter
      handle: async ({ query: { time } }, { word }) => ({ body: { said: word, times: time } }),
    }),
    json({
      ...{ ...facts, query: { loud: flag(false, { description: "Loud", example: true }) }, answer: Echo },
      // @ts-expect-error: the example is of another shape
      example: { said: "hello" },
      handle: async (_asked, { word }) => ({ body: { said: word, times: 1 } }),
    }),
  ];
  expect(wrong.length).toBe(4);
});
