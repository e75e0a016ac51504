/**
 * Declarations of operations: an answer, a body or an example of another shape than the declared schema fails the type
 * check. `bun run check` proves it, because an expected error that is absent is an error itself.
 */

import { expect, test } from "bun:test";
import { Type } from "@sinclair/typebox";
import { operationsFor } from "../../src/api/wire/operation.ts";
import { flag, wholeNumber } from "../../src/api/wire/parameters.ts";
import {
  boolean,
  digits,
  eitherForm,
  exampleOf,
  int32,
  int64,
  named,
  nullable,
  nullableText,
  oneOf,
  seldom,
  text,
  withExample,
} from "../../src/core/schema-parts.ts";
import { KNOWN } from "../support/known-chains.ts";

const { json } = operationsFor<{ readonly word: string }>();
const Echo = named("Echo", Type.Object({ said: text("The word", "hello"), times: int32("How often", 2) }));
const facts = {
  ...({ method: "GET", path: "/api/echo", scope: "read" } as const),
  ...({ id: "echo", summary: "Says it", tag: "Service", errors: [] } as const),
};
const query = { times: wholeNumber({ min: 1, max: 9, default: 1 }, { description: "How often", example: 2 }) };
const incoming = { request: new Request("http://localhost/api/echo"), params: {}, chains: KNOWN, requester: undefined };

test("gives the handler parsed parameters, and takes its answer", async () => {
  const echo = json({
    ...{ ...facts, query, answer: Echo },
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
      ...{ ...facts, query, answer: Echo },
      // @ts-expect-error: a field is missing
      handle: async (_asked, { word }) => ({ body: { said: word } }),
    }),
    json({
      ...{ ...facts, query, answer: Echo },
      // @ts-expect-error: a field has another type
      handle: async ({ query: { times } }) => ({ body: { said: times, times } }),
    }),
    json({
      ...{ ...facts, query, answer: Echo },
      // @ts-expect-error: there is no such parameter
      handle: async ({ query: { time } }, { word }) => ({ body: { said: word, times: time } }),
    }),
    json({
      ...{ ...facts, query: { loud: flag(false, { description: "Loud", example: true }) } },
      // @ts-expect-error: the example is of another shape
      answer: withExample(Echo, { said: "hello" }),
      handle: async (_asked, { word }) => ({ body: { said: word, times: 1 } }),
    }),
  ];
  expect(wrong.length).toBe(4);
});

test("makes an example of a schema's parts", () => {
  const Letter = Type.Object({
    ...{ kind: Type.Literal("letter"), place: oneOf(["here", "there"], "Where it is", "there") },
    ...{ lines: Type.Array(text("A line", "Dear friend")), scraps: Type.Array(text("A scrap")) },
    ...{ pages: eitherForm(digits("Pages", "2"), int64("Pages", 2)), isRead: boolean("Whether it was read", false) },
    ...{ stamp: nullable(int32("Cents", 5)), seal: nullableText("The seal"), reply: nullable(Echo, null) },
    ...{ note: Type.Optional(text("A note", "urgent")), mark: Type.Optional(text("A mark")) },
    ...{ lost: seldom(boolean("Whether it is lost", true)), echo: Type.Union([Echo, Type.Null()]) },
  });
  const known = { kind: "letter", place: "there", lines: ["Dear friend"], scraps: [], isRead: false } as const;
  const rest = { stamp: 5, seal: null, reply: null, note: "urgent", echo: { said: "hello", times: 2 } };
  expect(exampleOf(Letter)).toEqual({ ...known, pages: "2", ...rest });
  expect(exampleOf(Letter, "native")).toEqual({ ...known, pages: 2, ...rest });
  const other = { said: "goodbye", times: 1 };
  expect(exampleOf(withExample(Echo, other))).toEqual(other);
});

test("refuses to make an example without one of a required part", () => {
  const Silent = named("Silent", Type.Object({ said: text("The word") }));
  expect(() => exampleOf(Silent)).toThrow("a field of the schema Silent has no example");
});
