/** The parts that the schemas of bodies are made of, as OpenAPI 3.0 understands them. */
import { type Static, type TSchema, Type } from "@sinclair/typebox";

export const text = (description: string, more: object = {}) => Type.String({ description, ...more });
export const nullableText = (description: string, more: object = {}) =>
  Type.Unsafe<string | null>({ type: "string", nullable: true, description, ...more });
export const nullableTime = (description: string) => nullableText(description, { format: "date-time" });
export const int32 = (description: string) => Type.Integer({ format: "int32", minimum: 0, description });
export const int64 = (description: string) => Type.Integer({ format: "int64", minimum: 0, description });
export const address = (description: string) => text(description, { pattern: "^0x[0-9a-f]{40}$" });
export const digits = (description: string) => text(description, { pattern: "^[0-9]+$" });
export const decimal = (description: string) => text(description, { pattern: "^-?[0-9]+(\\.[0-9]+)?$" });
export const blockHash = (description: string) => text(description, { pattern: "^0x[0-9a-f]{64}$" });

/** One of several words. TypeBox's own union makes `anyOf` with constants, which OpenAPI 3.0 does not know. */
export const oneOf = <const T extends readonly string[]>(words: T, description: string) =>
  Type.Unsafe<T[number]>({ type: "string", enum: [...words], description });

/** References a schema by its name in the document. */
export const named = <T extends TSchema>(name: string, _schema: T) =>
  Type.Unsafe<Static<T>>({ $ref: `#/components/schemas/${name}` });
