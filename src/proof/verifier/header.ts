/** The block header in a proof: its fields by their JSON-RPC names, each in one spelling only, and their hash. Pure. */
import type { Hash } from "../../core/hex.ts";
import { AVALANCHE_FIELDS, HEADER_FIELDS, headerHash } from "../../rpc/decode/header-hash.ts";
import { demand } from "./refusal.ts";

export type HeaderFields = Readonly<Record<string, string>>;

/** Every header has the first 15 fields. Later fields follow in the order of the encoding, and a header may end after any. */
const FIRST = 15;
const FORMS = {
  ethereum: HEADER_FIELDS,
  avalanche: [...HEADER_FIELDS.slice(0, FIRST), ...AVALANCHE_FIELDS],
};

/** Returns the names of the hashed fields, in order. Only Avalanche's headers have `extDataHash`. */
const namesOf = (header: Readonly<Record<string, unknown>>): readonly string[] =>
  (header["extDataHash"] ?? undefined) === undefined ? FORMS.ethereum : FORMS.avalanche;

/** Fields that are numbers, written without leading zeros. All other fields are bytes. */
const NUMBERS = new Set([
  ...["difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed", "excessBlobGas"],
  ...["slotNumber", "extDataGasUsed", "blockGasCost", "timestampMilliseconds", "minDelayExcess", "targetExponent"],
  ...["minPriceExponent", "settledHeight", "settledGasUnix", "settledGasNumerator", "settledExcess"],
]);
/** The largest block number that is accepted, and the last second that a JavaScript date can have. */
const [MAX_NUMBER, MAX_TIME] = [2 ** 32, 8_640_000_000_000];
const NUMBER = /^0x(?:0|[1-9a-f][0-9a-f]{0,63})$/;
const BYTES = /^0x(?:[0-9a-f]{2}){1,2048}$/;

/**
 * Returns the hashed fields of a node's answer, in the spelling of proofs; undefined if they don't make the answer's hash.
 * The encoding has a zero for a missing number if later fields follow, so the number is written as zero.
 */
export function hashedFields(wire: Readonly<Record<string, unknown>>): HeaderFields | undefined {
  const names = namesOf(wire);
  const last = names.findLastIndex((name) => (wire[name] ?? undefined) !== undefined);
  const fields: Record<string, string> = {};
  for (const name of names.slice(0, last + 1)) {
    const value = wire[name] ?? undefined;
    if (value !== undefined) fields[name] = NUMBERS.has(name) ? quantityOf(value) : String(value).toLowerCase();
    else if (NUMBERS.has(name)) fields[name] = "0x0";
  }
  const hash = headerHash(fields);
  return hash !== undefined && hash === String(wire["hash"]).toLowerCase() ? fields : undefined;
}

/** Removes leading zeros. Leaves text that is no number as it is. */
const quantityOf = (value: unknown): string => {
  const text = String(value);
  return /^0x[0-9a-f]{1,64}$/i.test(text) ? `0x${BigInt(text).toString(16)}` : text;
};

/** Returns the hash of the fields. @throws ProofRefused for an unknown field, another spelling, or a missing field */
export function hashOfHeader(header: HeaderFields): Hash {
  const names = namesOf(header);
  for (const [name, value] of Object.entries(header)) {
    demand(names.includes(name), `header.${name} is no field of this header`);
    const form = NUMBERS.has(name) ? NUMBER : BYTES;
    demand(form.test(value) || (name === "extraData" && value === "0x"), `header.${name} is not written as it must be`);
  }
  const last = names.findLastIndex((name) => header[name] !== undefined);
  const gap = names.slice(0, last).find((name) => NUMBERS.has(name) && header[name] === undefined);
  demand(gap === undefined, `header.${gap} is missing`);
  demand(Number(header["number"]) <= MAX_NUMBER, "header.number is no number of a block");
  demand(Number(header["timestamp"]) <= MAX_TIME, "header.timestamp is no time");
  const hash = headerHash(header);
  demand(hash !== undefined, "the header lacks a field");
  return hash;
}

/** Ids of chains whose headers have the state root of an earlier block: Monad's is three blocks old (docs.monad.xyz). */
const DELAYED: ReadonlySet<number> = new Set([143, 10_143]);

/** Says why the header does not commit to the state of its own block; undefined if it does. */
export function delayReason(chainId: number, header: Readonly<Record<string, unknown>>): string | undefined {
  const settled = header["settledHeight"];
  if (settled !== undefined && settled !== null) {
    return `the state root in this block's header is that of block ${Number(settled)}, which it settles (ACP-194)`;
  }
  return DELAYED.has(chainId) ? "the state root in this chain's headers is that of an earlier block" : undefined;
}
