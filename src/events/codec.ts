/**
 * Events to bytes and back. A record is: u8 codec (1) · u8 schema of its type · u32 length of the JSON · the JSON of
 * all fields except the attachment · the attachment (columns, for types that have them). A CRC-32 over the record's
 * place in the log and its bytes is stored beside it and verified at each read.
 */
import { InvariantError, invariant } from "../core/errors.ts";
import type { DomainEvent, StreamName } from "./types.ts";

type EventFields = Record<string, unknown>;

/** Today's schema number of each type. */
const SCHEMAS = {
  IndexingRequested: 1,
  ContractIdentified: 1,
  TransfersCommitted: 1,
  BlocksReverted: 1,
  ContractDestroyed: 1,
  IndexingCompleted: 1,
  IndexingFailed: 1,
  IndexingStalled: 1,
  LogsDoubted: 1,
  OwnersDoubted: 1,
  OwnersSettled: 1,
  FlagsChanged: 1,
  ContractRenamed: 1,
  HistoryProven: 1,
  TokenIdentified: 1,
  PoolDiscovered: 2,
  PriceObserved: 2,
  TokenPriced: 1,
  HeadPriced: 1,
  PricesWanted: 1,
  PricesThinned: 1,
  MetadataResolved: 2,
  MetadataFailed: 2,
  MetadataOutdated: 2,
  MetadataRequested: 1,
  MediaExamined: 1,
  MetadataSettled: 1,
  HeadAdvanced: 1,
  ChainReverted: 1,
  ChainFinalized: 1,
  ChainHalted: 1,
  FollowingBegan: 1,
  ChainCheckpointed: 2,
  ReindexRequested: 1,
  CollectionRemoved: 1,
  KeyAdded: 2,
  KeyRotated: 1,
  KeyRevoked: 1,
  UsageRecorded: 1,
  ProofsKept: 1,
} as const satisfies Record<DomainEvent["type"], number>;

/** For types with columns: the field that is stored as bytes beside the JSON. */
const ATTACHMENTS: { readonly [T in DomainEvent["type"]]?: string } = {
  TransfersCommitted: "transfers",
  TokenPriced: "price",
  HeadPriced: "head",
  MetadataResolved: "tokens",
  MetadataFailed: "tokens",
  MetadataRequested: "tokens",
  MediaExamined: "tokens",
};

/** `STEPS[type][n]` lifts schema n to schema n + 1. */
const STEPS: {
  readonly [T in DomainEvent["type"]]?: { readonly [schema: number]: (fields: EventFields) => EventFields };
} = {
  // Schema 1 counted no bytes. The collection's limit counts from the first event of schema 2 on.
  MetadataResolved: { 1: (fields) => ({ ...fields, bytes: 0 }) },
  MetadataFailed: { 1: (fields) => ({ ...fields, bytes: 0 }) },
  // Since schema 2 it may be about the document of the collection alone.
  MetadataOutdated: { 1: (fields) => fields },
  // Since schema 2 a pool may be inside another contract, and has a hash in place of an address.
  PoolDiscovered: { 1: (fields) => fields },
  PriceObserved: { 1: (fields) => fields },
  // Schema 1 told orphaned blocks by their hashes alone.
  ChainCheckpointed: { 1: (fields) => ({ ...fields, reverts: [] }) },
  KeyAdded: { 1: (fields) => ({ ...fields, collectionsPerHour: null, subscriptions: null }) },
};

function isType(type: string): type is DomainEvent["type"] {
  return Object.hasOwn(SCHEMAS, type);
}

/** Today's event from stored fields. @throws InvariantError for an unknown type or schema */
function upcast(type: string, schema: number, fields: EventFields, attachment: Uint8Array): DomainEvent {
  invariant(isType(type), `unknown event type ${type}: written by a newer release?`);
  const today = SCHEMAS[type];
  invariant(schema >= 1 && schema <= today, `event ${type} has schema ${schema}, this release knows 1 to ${today}`);
  let lifted = fields;
  for (let step = schema; step < today; step++) {
    const lift = STEPS[type]?.[step];
    invariant(lift !== undefined, `event ${type} cannot be lifted from schema ${step}`);
    lifted = lift(lifted);
  }
  const field = ATTACHMENTS[type];
  return { ...lifted, type, ...(field === undefined ? {} : { [field]: attachment }) } as unknown as DomainEvent;
}

const CODEC = 1;
const HEAD_BYTES = 6;
/** Bytes of the JSON of no field. */
const NO_FIELDS = 2;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** The event's columns; undefined for a type without. */
export function attachmentOf(event: DomainEvent): Uint8Array | undefined {
  const columns = ATTACHMENTS[event.type];
  return columns === undefined ? undefined : ((event as unknown as EventFields)[columns] as Uint8Array);
}

/** Bytes of an event, without its checksum. */
export function encodeEvent(event: DomainEvent): Uint8Array {
  const { type, ...fields } = event;
  const columns = ATTACHMENTS[type];
  const attachment = attachmentOf(event);
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
  let fields: unknown = {};
  try {
    // Most prices have all they say in their columns.
    if (length > NO_FIELDS) fields = JSON.parse(decoder.decode(bytes.subarray(HEAD_BYTES, HEAD_BYTES + length)));
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
