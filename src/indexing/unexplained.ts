/**
 * Searches for tokens that have an owner by the contract, but appear in no log of it. In: the tokens that the log knows
 * at a block. Out: tokens without a log, as far as a few calls for likely ids find any.
 *
 * These rules prevent false alarms:
 * - `totalSupply` proves nothing: it may be a cap, a constant, or a count that burns do not lower. It only limits the
 *   search, and the warning names it.
 * - `tokenByIndex` proves nothing: the owner of its id is requested as well.
 * - The owner by `ownerOf` at that block counts, unless it is the zero address, the dead address, or the contract
 *   itself, which some contracts name for a token that is not sold yet.
 * - The log explains a token that it shows as burned, even if the contract still names an owner.
 * - A contract that names owners of random ids of 64 bits or more is not believed: it answers for every number.
 */
import { Interface } from "ethers";
import { type Address, ZERO_ADDRESS } from "../core/hex.ts";
import { TransferKind } from "../events/columns.ts";
import type { Call, CallResult, ChainReader } from "../rpc/port.ts";

const ABI = new Interface([
  "function ownerOf(uint256) view returns (address)",
  "function punkIndexToAddress(uint256) view returns (address)",
  "function catOwners(bytes5) view returns (address)",
  "function totalSupply() view returns (uint256)",
  "function tokenByIndex(uint256) view returns (uint256)",
]);
const DEAD = "0x000000000000000000000000000000000000dead";
/** Contracts number their tokens from one of these. */
const FIRST_IDS = [0n, 1n, 2n];
/** Number of listed tokens whose neighbours are checked. */
const NEIGHBOURED = 4;
/** Number of random ids below the supply, and of random indexes of the contract's own list. */
const DRAWN = 5;
/** Bit lengths of the control ids. No collection is large enough to have a token at such a random id. */
const CONTROL_BITS = [64, 160, 256];
const CAT_BITS = 40n;
const LARGEST = 2n ** 256n - 1n;

/** Kinds of token with one owner. */
type SingleKind = Exclude<TransferKind, typeof TransferKind.erc1155>;

/** The collection's tokens with one owner, as the log knows them. */
export interface KnownTokens {
  readonly kind: SingleKind;
  /** Number of listed tokens, and number of tokens that ever appeared in the log. */
  readonly listed: number;
  readonly logged: number;
  /** A sample of the listed ids. */
  readonly ids: readonly bigint[];
  /** True if the token ever appeared in the log, in any kind of transfer. */
  readonly isLogged: (id: bigint) => boolean;
}

interface UnexplainedToken {
  readonly id: bigint;
  readonly owner: string;
}

interface Unexplained {
  readonly tokens: readonly UnexplainedToken[];
  /** The contract's own count, if it has one. */
  readonly totalSupply: bigint | undefined;
}

interface AuditTarget {
  readonly reader: ChainReader;
  readonly address: Address;
  readonly block: number;
  readonly random: () => number;
}

/** Encodes the call for the owner of a token. The id must fit the kind (see `isId`). */
export function ownerCall(to: Address, kind: SingleKind, id: bigint): Call {
  if (kind === TransferKind.cryptopunks) return { to, data: ABI.encodeFunctionData("punkIndexToAddress", [id]) };
  if (kind !== TransferKind.mooncats) return { to, data: ABI.encodeFunctionData("ownerOf", [id]) };
  return { to, data: ABI.encodeFunctionData("catOwners", [`0x${id.toString(16).padStart(10, "0")}`]) };
}

/** True if the number fits the id type of this kind. */
const isId = (kind: SingleKind, id: bigint): boolean =>
  id >= 0n && id <= LARGEST && (kind !== TransferKind.mooncats || id >> CAT_BITS === 0n);

/**
 * Checks likely ids, with at most four requests in all.
 * @throws AppError if the node does not answer, or lacks that block's state
 */
export async function findUnexplained(question: AuditTarget, known: KnownTokens): Promise<Unexplained> {
  const { reader, address, block, random } = question;
  const [supplied] = await reader.calls([{ to: address, data: ABI.encodeFunctionData("totalSupply") }], block);
  const totalSupply = wordOf(supplied);
  const likely = likelyIds(known, totalSupply, random);
  const controls = controlIds(known.kind, random);
  const places = totalSupply === undefined ? [] : draws(totalSupply, random);
  const lookUps = places.map((at) => ({ to: address, data: ABI.encodeFunctionData("tokenByIndex", [at]) }));
  const [named, owners] = await Promise.all([
    reader.calls(lookUps, block),
    ownersOf(question, known.kind, [...controls, ...likely]),
  ]);
  if (controls.some((id) => owners.has(id))) return { tokens: [], totalSupply };
  const listed = named.flatMap((result) => wordOf(result) ?? []).filter((id) => !known.isLogged(id) && !owners.has(id));
  if (listed.length > 0) for (const [id, owner] of await ownersOf(question, known.kind, listed)) owners.set(id, owner);
  return { tokens: [...owners].map(([id, owner]) => ({ id, owner })), totalSupply };
}

/** Returns ids that the log lacks and the contract may have. */
function likelyIds({ ids, logged, isLogged }: KnownTokens, supply: bigint | undefined, random: () => number): bigint[] {
  const beside = ids.slice(0, NEIGHBOURED).flatMap((id) => [id - 1n, id + 1n]);
  const below = supply !== undefined && supply > BigInt(logged) ? draws(supply, random) : [];
  return [...new Set([...FIRST_IDS, ...beside, ...below])].filter((id) => !isLogged(id));
}

function controlIds(kind: SingleKind, random: () => number): bigint[] {
  if (kind === TransferKind.mooncats) return CONTROL_BITS.map(() => drawBits(Number(CAT_BITS), random));
  return CONTROL_BITS.map((bits) => drawBits(bits, random));
}

/** Returns a random number of exactly `bits` bits. */
function drawBits(bits: number, random: () => number): bigint {
  let drawn = 1n;
  for (let left = bits - 1; left > 0; left--) drawn = (drawn << 1n) | (random() < 0.5 ? 0n : 1n);
  return drawn;
}

/** Returns random numbers below `end`, which may be as large as a word. */
function draws(end: bigint, random: () => number): bigint[] {
  if (end === 0n) return [];
  const far = end > 2n ** 48n ? 2n ** 48n : end;
  return Array.from({ length: DRAWN }, () => BigInt(Math.floor(random() * Number(far))));
}

/** Returns the ids that have an owner, with the owner. */
async function ownersOf(
  { reader, address, block }: AuditTarget,
  kind: SingleKind,
  ids: readonly bigint[],
): Promise<Map<bigint, string>> {
  const asked = ids.filter((id) => isId(kind, id));
  const results = await reader.calls(
    asked.map((id) => ownerCall(address, kind, id)),
    block,
  );
  const owners = new Map<bigint, string>();
  for (const [index, id] of asked.entries()) {
    const owner = addressOf(results[index]);
    if (owner !== undefined && ![ZERO_ADDRESS, DEAD, address].includes(owner)) owners.set(id, owner);
  }
  return owners;
}

/** Reads the number that a call returned. Undefined if it returned none. */
function wordOf(result: CallResult | undefined): bigint | undefined {
  return result?.ok === true && /^0x[0-9a-f]{64}$/i.test(result.data) ? BigInt(result.data) : undefined;
}

function addressOf(result: CallResult | undefined): string | undefined {
  if (result?.ok !== true || !/^0x0{24}[0-9a-f]{40}$/i.test(result.data)) return undefined;
  return `0x${result.data.slice(26).toLowerCase()}`;
}
