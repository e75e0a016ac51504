/** The parts that the schemas of bodies, parameters and messages are made of, as OpenAPI 3.0 understands them. */
import { Kind, type Static, type TSchema, Type, TypeRegistry } from "@sinclair/typebox";

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

export const text = (description: string, more: object = {}) => Type.String({ description, ...more });
export const nullableText = (description: string, more: object = {}) => nullable(text(description, more));
export const time = (description: string) => text(description, { format: "date-time" });
export const nullableTime = (description: string) => nullable(time(description));
export const int32 = (description: string) => Type.Integer({ format: "int32", minimum: 0, description });
export const int64 = (description: string) => Type.Integer({ format: "int64", minimum: 0, description });
export const double = (description: string) => Type.Number({ format: "double", description });
/** A pool's address, or its hash inside another contract. */
export const poolId = (description: string) => text(description, { pattern: "^0x[0-9a-f]{40}([0-9a-f]{24})?$" });
export const address = (description: string) => text(description, { pattern: "^0x[0-9a-f]{40}$" });
export const digits = (description: string) => text(description, { pattern: "^[0-9]+$" });
export const decimal = (description: string) => text(description, { pattern: "^-?[0-9]+(\\.[0-9]+)?$" });
export const blockHash = (description: string) => text(description, { pattern: "^0x[0-9a-f]{64}$" });

/** Options of a body: a field with a typing error would otherwise be ignored, and a default taken in its place. */
export const STRICT = { additionalProperties: false } as const;

/** A schema whose values may be null. OpenAPI 3.0 has no null type. */
export const nullable = <T extends TSchema>(schema: T) =>
  Type.Unsafe<Static<T> | null>({
    type: schema["type"],
    nullable: true,
    ...schema,
    [Kind]: "Unsafe",
    [NAME]: undefined,
  });

TypeRegistry.Set<{ enum: readonly string[] }>("Word", (schema, value) => schema.enum.includes(value as string));

/** The price of one whole token in the native coin. */
export const nativePrice = (description: string) =>
  Type.Object(
    {
      value: digits("Price of one whole token in the smallest unit of the native coin, truncated"),
      decimals: int32("Decimals of the native coin"),
      name: text("Name of the native coin"),
      symbol: text("Symbol of the native coin"),
      address: address("The wrapped native coin"),
    },
    { description },
  );

/** One of several words. TypeBox's own union makes `anyOf` with constants, which OpenAPI 3.0 does not know. */
export const oneOf = <const T extends readonly string[]>(words: T, description: string) =>
  Type.Unsafe<T[number]>({ [Kind]: "Word", type: "string", enum: [...words], description });

const BLOCK_NUMBER = "^(?:[0-9]{1,16}|0x[0-9a-fA-F]{1,14}|latest)$";

TypeRegistry.Set("BlockNumber", (_schema, value) => new RegExp(BLOCK_NUMBER).test(String(value)));

/** A block in a body: digits or hex in a string, `latest`, or a number. The documents have the string, since generated clients want one type. */
export const blockNumber = (description: string) =>
  Type.Unsafe<string | number>({ [Kind]: "BlockNumber", type: "string", pattern: BLOCK_NUMBER, description });

interface Marked extends TSchema {
  readonly [NAME]?: string;
  readonly [FORMS]?: Readonly<Record<WireTypes, TSchema>>;
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
