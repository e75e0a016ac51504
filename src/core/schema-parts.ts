/**
 * The parts that the schemas of bodies, parameters and messages are made of, as OpenAPI 3.0 understands them. A part
 * carries an example, and the example of a whole body or message is made of those of its parts.
 */
import { Kind, type Static, type TSchema, Type, TypeRegistry } from "@sinclair/typebox";
import { invariant } from "./errors.ts";
import { EXAMPLE_HASH, EXAMPLE_TIME, NFT_ADDRESS, POOL_EXAMPLE, WETH_ADDRESS } from "./examples.ts";

/** What is sent by a schema. It may be shared with memory, so it is read only. */
export type Sent<S extends TSchema> = DeepReadonly<Static<S>>;
type DeepReadonly<T> = T extends readonly (infer E)[]
  ? readonly DeepReadonly<E>[]
  : T extends object
    ? ReadonlyFields<T>
    : T;
type ReadonlyFields<T> = { readonly [K in keyof T]: DeepReadonly<T[K]> };

const NAME = Symbol("name");
const FORMS = Symbol("forms");
const EXAMPLE = Symbol("example");
const SELDOM = Symbol("seldom");

export const text = (description: string, example?: string, more: object = {}) =>
  Type.String({ description, ...more, [EXAMPLE]: example });
export const nullableText = (description: string, example?: string) => nullable(text(description, example));
export const time = (description: string, example: string = EXAMPLE_TIME) =>
  text(description, example, { format: "date-time" });
export const nullableTime = (description: string, example?: string | null) => nullable(time(description), example);
export const int32 = (description: string, example?: number) =>
  Type.Integer({ format: "int32", minimum: 0, description, [EXAMPLE]: example });
export const int64 = (description: string, example?: number) =>
  Type.Integer({ format: "int64", minimum: 0, description, [EXAMPLE]: example });
export const double = (description: string, example?: number) =>
  Type.Number({ format: "double", description, [EXAMPLE]: example });
export const boolean = (description: string, example?: boolean) => Type.Boolean({ description, [EXAMPLE]: example });
/** A pool's address, or its hash inside another contract. */
export const poolId = (description: string, example: string = POOL_EXAMPLE) =>
  text(description, example, { pattern: "^0x[0-9a-f]{40}([0-9a-f]{24})?$" });
export const address = (description: string, example: string = NFT_ADDRESS) =>
  text(description, example, { pattern: "^0x[0-9a-f]{40}$" });
/** An address that a client gives, in any case. */
export const givenAddress = (description: string, example: string) =>
  text(description, example, { pattern: "^0x[0-9a-fA-F]{40}$" });
export const digits = (description: string, example?: string) => text(description, example, { pattern: "^[0-9]+$" });
export const decimal = (description: string, example?: string) =>
  text(description, example, { pattern: "^-?[0-9]+(\\.[0-9]+)?$" });
export const blockHash = (description: string, example: string = EXAMPLE_HASH) =>
  text(description, example, { pattern: "^0x[0-9a-f]{64}$" });

/** Options of a body: a field with a typing error would otherwise be ignored, and a default taken in its place. */
export const STRICT = { additionalProperties: false } as const;

/** A schema whose values may be null. OpenAPI 3.0 has no null type. Its example is that of the schema, or null without one. */
export const nullable = <T extends TSchema>(schema: T, example?: Sent<T> | null) =>
  Type.Unsafe<Static<T> | null>({
    type: schema["type"],
    nullable: true,
    ...schema,
    ...(example === undefined ? {} : { [EXAMPLE]: example }),
    [Kind]: "Unsafe",
    [NAME]: undefined,
  });

/** A schema with an example of its own, in place of the one that its parts make. */
export const withExample = <T extends TSchema>(schema: T, example: NoInfer<Sent<T>>): T => ({
  ...schema,
  [EXAMPLE]: example,
});

/** An optional field that examples leave out, because it would say of most answers what is true of few. */
export const seldom = <T extends TSchema>(schema: T) => Type.Optional({ ...schema, [SELDOM]: true } as T);

TypeRegistry.Set<{ enum: readonly string[] }>("Word", (schema, value) => schema.enum.includes(value as string));

/** The price of one whole token in the native coin. */
export const nativePrice = (description: string) =>
  Type.Object(
    {
      value: digits("Price of one whole token in the smallest unit of the native coin, truncated", "2500000000000000"),
      decimals: int32("Decimals of the native coin", 18),
      name: text("Name of the native coin", "Ether"),
      symbol: text("Symbol of the native coin", "ETH"),
      address: address("The wrapped native coin", WETH_ADDRESS),
    },
    { description },
  );

/** One of several words. TypeBox's own union makes `anyOf` with constants, which OpenAPI 3.0 does not know. */
export const oneOf = <const T extends readonly string[]>(
  words: T,
  description: string,
  example: NoInfer<T[number]> = words[0]!,
) => Type.Unsafe<T[number]>({ [Kind]: "Word", type: "string", enum: [...words], description, [EXAMPLE]: example });

const BLOCK_NUMBER = "^(?:[0-9]{1,16}|0x[0-9a-fA-F]{1,14}|latest)$";

TypeRegistry.Set("BlockNumber", (_schema, value) => new RegExp(BLOCK_NUMBER).test(String(value)));

/** A block in a body: digits or hex in a string, `latest`, or a number. The documents have the string, since generated clients want one type. */
export const blockNumber = (description: string) =>
  Type.Unsafe<string | number>({ [Kind]: "BlockNumber", type: "string", pattern: BLOCK_NUMBER, description });

interface Marked extends TSchema {
  readonly [NAME]?: string;
  readonly [FORMS]?: Readonly<Record<WireTypes, TSchema>>;
  readonly [EXAMPLE]?: unknown;
}

/** The types of counts and flags: strings (`seed`), or numbers and booleans (`native`). */
export type WireTypes = "seed" | "native";

/** Names a schema: documents have it once, under the name, and refer to it. */
export const named = <T extends TSchema>(name: string, schema: T): T => ({ ...schema, [NAME]: name });

/** A schema that depends on the wire types in force. */
export const eitherForm = <A extends TSchema, B extends TSchema>(seed: A, native: B) =>
  Type.Unsafe<Static<A> | Static<B>>({ ...seed, [Kind]: "Unsafe", [FORMS]: { seed, native } });

/** The name of a schema; undefined for a part without one. */
export const nameOfSchema = (schema: TSchema): string | undefined => (schema as Marked)[NAME];

/** The two forms of a schema that depends on the wire types. */
export const formsOf = (schema: TSchema): Readonly<Record<WireTypes, TSchema>> | undefined => (schema as Marked)[FORMS];

/** The example of a schema. @throws if a field that it requires has none */
export function exampleOf<S extends TSchema>(schema: S, wire: WireTypes = "seed"): Sent<S> {
  const example = exampleIn(schema, wire);
  invariant(example !== undefined, `a field of the schema ${nameOfSchema(schema)} has no example`);
  return example as Sent<S>;
}

/** The example that a schema carries, else the one that its parts make; undefined if a field that it requires has none. */
function exampleIn(schema: TSchema, wire: WireTypes): unknown {
  const form: Marked = formsOf(schema)?.[wire] ?? schema;
  const example = EXAMPLE in form ? form[EXAMPLE] : madeExample(form, wire);
  return example === undefined && form["nullable"] === true ? null : example;
}

function madeExample({ type, const: literal, anyOf, items, properties = {}, required = [] }: TSchema, wire: WireTypes) {
  if (literal !== undefined) return literal;
  if (anyOf !== undefined) return exampleIn(anyOf[0], wire);
  if (type === "array") return [exampleIn(items, wire)].filter((item) => item !== undefined);
  if (type !== "object") return undefined;
  const fields: [string, unknown][] = Object.entries<TSchema>(properties)
    .filter(([, field]) => !(SELDOM in field))
    .map(([name, field]) => [name, exampleIn(field, wire)]);
  const example = Object.fromEntries(fields.filter(([, value]) => value !== undefined));
  return required.every((name: string) => name in example) ? example : undefined;
}
