/**
 * Events to bytes and back. A record is: u8 codec (1) · u8 schema of its type · u32 length of the JSON · the JSON of all
 * fields except the attachment · the attachment (columns, for types that have them). A CRC-32 over the record's place
 * in the log and its bytes is stored beside it and verified at each read.
 */
import { InvariantError, invariant } from "../core/errors.ts";
import type { DomainEvent, StreamName } from "./types.ts";
import { ATTACHMENTS, SCHEMAS, upcast } from "./upcast.ts";

const CODEC = 1;
const HEAD_BYTES = 6;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

export type EventType = DomainEvent["type"];

/** Bytes of an event, without its checksum. */
export function encodeEvent(event: DomainEvent): Uint8Array {
  const { type, ...rest } = event;
  const fields: Readonly<Record<string, unknown>> = rest;
  const columns = ATTACHMENTS[type];
  const attachment = columns === undefined ? undefined : (fields[columns] as Uint8Array);
  const json = encoder.encode(JSON.stringify(columns === undefined ? fields : { ...fields, [columns]: undefined }));
  const bytes = new Uint8Array(HEAD_BYTES + json.length + (attachment?.length ?? 0));
  bytes[0] = CODEC;
  bytes[1] = SCHEMAS[type];
  new DataView(bytes.buffer).setUint32(2, json.length, true);
  bytes.set(json, HEAD_BYTES);
  if (attachment !== undefined) bytes.set(attachment, HEAD_BYTES + json.length);
  return bytes;
}

/** Decodes a stored event and lifts it to today's schema. @throws InvariantError for anything malformed */
export function decodeEvent(type: string, bytes: Uint8Array): DomainEvent {
  invariant(bytes.length >= HEAD_BYTES && bytes[0] === CODEC, `event ${type} has an unknown codec`);
  const schema = bytes[1] as number;
  const length = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(2, true);
  invariant(HEAD_BYTES + length <= bytes.length, `event ${type} is cut off`);
  let fields: unknown;
  try {
    fields = JSON.parse(decoder.decode(bytes.subarray(HEAD_BYTES, HEAD_BYTES + length)));
  } catch (error) {
    throw new InvariantError(`an event of type ${type} cannot be decoded`, {}, error);
  }
  invariant(typeof fields === "object" && fields !== null, `event ${type} has no fields`);
  return upcast(type, schema, fields as Record<string, unknown>, bytes.subarray(HEAD_BYTES + length));
}

/** CRC-32 over the record's place and content, so that a record in the wrong place fails like a damaged one. */
export function checksum(stream: StreamName, version: number, type: string, time: number, bytes: Uint8Array): number {
  return Bun.hash.crc32(bytes, Bun.hash.crc32(`${stream}\n${version}\n${type}\n${time}\n`));
}
