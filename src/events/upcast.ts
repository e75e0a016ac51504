/**
 * Lifts stored fields of any released schema to today's. A new field or meaning raises the type's number in `SCHEMAS`
 * and adds a step to `STEPS`. The log itself is never rewritten. The frozen logs in `test/fixtures` prove every step.
 */
import { invariant } from "../core/errors.ts";
import type { DomainEvent } from "./types.ts";

type Fields = Record<string, unknown>;

/** Today's schema number of each type. */
export const SCHEMAS = {
  IndexingRequested: 1,
  ContractIdentified: 1,
  TransfersCommitted: 1,
  BlocksReverted: 1,
  IndexingCompleted: 1,
  IndexingFailed: 1,
  IndexingStalled: 1,
  FlagsChanged: 1,
  TokenIdentified: 1,
  PoolDiscovered: 1,
  PriceObserved: 1,
  MetadataResolved: 2,
  MetadataFailed: 2,
  MetadataOutdated: 1,
  MetadataRequested: 1,
  MediaExamined: 1,
  MetadataSettled: 1,
  HeadAdvanced: 1,
  ChainReverted: 1,
  ChainFinalized: 1,
  ChainHalted: 1,
  FollowingBegan: 1,
  ChainCheckpointed: 1,
} as const satisfies Record<DomainEvent["type"], number>;

/** For types with columns: the field that is stored as bytes beside the JSON. */
export const ATTACHMENTS: { readonly [T in DomainEvent["type"]]?: string } = {
  TransfersCommitted: "transfers",
  MetadataResolved: "tokens",
  MetadataFailed: "tokens",
  MetadataRequested: "tokens",
  MediaExamined: "tokens",
};

/** `STEPS[type][n]` lifts schema n to schema n + 1. */
const STEPS: { readonly [T in DomainEvent["type"]]?: { readonly [schema: number]: (fields: Fields) => Fields } } = {
  // Schema 1 counted no bytes. The collection's limit counts from the first event of schema 2 on.
  MetadataResolved: { 1: (fields) => ({ ...fields, bytes: 0 }) },
  MetadataFailed: { 1: (fields) => ({ ...fields, bytes: 0 }) },
};

function isType(type: string): type is DomainEvent["type"] {
  return Object.hasOwn(SCHEMAS, type);
}

/** Today's event from stored fields. @throws InvariantError for an unknown type or schema */
export function upcast(type: string, schema: number, fields: Fields, attachment: Uint8Array): DomainEvent {
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
