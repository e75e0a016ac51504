/**
 * Finds what endpoints leave out: followed blocks in which logs of a contract are missing, and tokens that have an
 * owner by the contract but appear in no log of it.
 */
import { Interface } from "ethers/abi";
import { numbersBetween } from "../../chain/branch.ts";
import { AppError } from "../../core/errors.ts";
import { type Address, ZERO_ADDRESS } from "../../core/hex.ts";
import { type AmountKind, decodeTransfers, type TransferColumns, TransferKind } from "../../events/columns.ts";
import {
  type BlockRange,
  type BlockRef,
  type NftEvent,
  nftStream,
  type Recorded,
  type StreamName,
  type TransferForm,
} from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import { addressIn, wordIn } from "../../rpc/calls.ts";
import { decodeTransferLogs, NFT_TOPICS } from "../../rpc/decode/transfers.ts";
import type { BlockHeader, Call, ChainReader } from "../../rpc/port.ts";
import type { ToldLogs } from "../../rpc/reading/block-logs.ts";
import type { RpcChainReader } from "../../rpc/reading/reader.ts";

/** Most blocks to check, the newest ones: an hour and a half of Ethereum. */
const MAX_BLOCKS = 512;
/** Events per page, read backwards. */
const PAGE = 64;

interface MissingOptions {
  readonly reader: ChainReader;
  readonly log: EventLog;
  readonly chainId: number;
  readonly address: Address;
  readonly forms: readonly TransferForm[];
}

/**
 * Returns the block before the first one that is stored other than in the receipts, logs that only the stream has
 * included. Undefined if all are equal.
 * @throws AppError if the chain does not answer, or has no receipts
 */
export async function lastCompleteBlock(
  { reader, log, chainId, address, forms }: MissingOptions,
  { fromBlock, toBlock }: BlockRange,
): Promise<BlockRef | undefined> {
  const first = Math.max(fromBlock, toBlock - MAX_BLOCKS + 1, 1);
  const [before, ...headers] = await reader.presentHeaders(numbersBetween(first - 1, toBlock));
  if (before === undefined) return undefined;
  const filter = { addresses: [address], topics: NFT_TOPICS, fromBlock: first, toBlock };
  const logs = await reader.completeLogs(filter, headers, { strict: true });
  const there = linesByBlock(decodeTransfers(decodeTransferLogs(logs, forms).transfers));
  const held = new Map<number, string[]>();
  for (const columns of await columnsSince(log, nftStream(chainId, address), first)) {
    for (const [block, lines] of linesByBlock(columns)) held.set(block, [...(held.get(block) ?? []), ...lines]);
  }
  const wrong = headers.find(({ number }) => textOfLines(there.get(number)) !== textOfLines(held.get(number)));
  if (wrong === undefined) return undefined;
  const last = wrong.number === first ? before : headers[wrong.number - first - 1];
  return last && { number: last.number, hash: last.hash };
}

/** Blocks whose receipts are read at once. */
const BLOCKS_AT_ONCE = 8;

/**
 * Returns the first of these blocks of which an endpoint tells other logs than are stored, with receipts that its header
 * doesn't contradict. Undefined if there is none. Blocks that only the stream has a log of count as well.
 * @param blocks in rising order. The contract's state has shown that something is wrong in one of them
 * @throws AppError if an endpoint didn't tell the logs of one: it may be the endpoint that has others
 */
export async function firstStoredOtherwise(
  options: MissingOptions & { readonly reader: RpcChainReader },
  blocks: readonly number[],
): Promise<number | undefined> {
  const [first] = blocks;
  if (first === undefined) return undefined;
  const only = new Set(blocks);
  const stored = new Map<number, string[]>();
  for (const columns of await columnsSince(options.log, nftStream(options.chainId, options.address), first)) {
    for (const [block, lines] of linesByBlock(columns, only))
      stored.set(block, [...(stored.get(block) ?? []), ...lines]);
  }
  for (let at = 0; at < blocks.length; at += BLOCKS_AT_ONCE) {
    const some = blocks.slice(at, at + BLOCKS_AT_ONCE);
    const headers = await options.reader.presentHeaders(some);
    const isOther = await Promise.all(
      headers.map((header) => isToldOtherwise(options, header, textOfLines(stored.get(header.number)))),
    );
    const wrong = some.find((_, place) => isOther[place] === true);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

/** True if an endpoint tells other logs of the block. The endpoints that agree with the stream are then benched. */
async function isToldOtherwise(
  { reader, address, forms }: MissingOptions & { readonly reader: RpcChainReader },
  header: BlockHeader,
  held: string,
): Promise<boolean> {
  const { number: block } = header;
  const filter = { addresses: [address], topics: NFT_TOPICS, fromBlock: block, toBlock: block };
  const told = await reader.logsByEach(header, filter);
  const isHeld = ({ logs }: ToldLogs) =>
    textOfLines(linesByBlock(decodeTransfers(decodeTransferLogs([...logs], forms).transfers)).get(block)) === held;
  const [same, other] = [told.filter(isHeld), told.filter((one) => !isHeld(one))];
  if (other.length === 0 && told.length < reader.endpointCount) {
    throw new AppError(`not every endpoint tells the logs of block ${block}`, {
      code: "unverifiable",
      meta: { block },
    });
  }
  if (other.length === 0) return false;
  const fault = `its logs of block ${block} lack what the contract's state shows, and another endpoint has`;
  for (const { endpoint } of same) reader.benchLiar(endpoint, fault);
  return true;
}

/** Yields the transfers of the stream's newest ranges back to a block, the newest range first, without reverted ones. */
export async function* transfersBack(
  log: EventLog,
  stream: StreamName,
  block: number,
): AsyncGenerator<TransferColumns> {
  let end = Number.POSITIVE_INFINITY;
  for (let before: number | undefined; ; ) {
    const page = await log.readBackwards(stream, { limit: PAGE, ...(before === undefined ? {} : { before }) });
    for (const { event } of page as Recorded<NftEvent>[]) {
      // What was recorded before counts no longer.
      if (event.type === "ReindexRequested" || event.type === "CollectionRemoved") return;
      if (event.type === "BlocksReverted") end = Math.min(end, event.ancestor.number);
      if (event.type !== "TransfersCommitted" || event.fromBlock > end) continue;
      if (event.toBlock < block) return;
      if (event.count > 0) yield decodeTransfers(event.transfers);
    }
    before = page.at(-1)?.version;
    if (before === undefined || before === 1) return;
  }
}

/** Returns the transfers of the stream's newest ranges back to a block, in order, without reverted ones. */
async function columnsSince(log: EventLog, stream: StreamName, block: number): Promise<TransferColumns[]> {
  return (await Array.fromAsync(transfersBack(log, stream, block))).reverse();
}

/**
 * Returns the transfers of each block as lines of text, in the order of the columns, for comparison. Without the index of
 * the log: some nodes count the logs of receipts from 0 in each transaction.
 * @param only the blocks that are compared. Default: all
 */
export function linesByBlock(columns: TransferColumns, only?: ReadonlySet<number>): Map<number, string[]> {
  const { count, blocks, kinds, from, to, ids, amounts, addresses } = columns;
  const hex = Buffer.from(addresses).toString("hex");
  const addressAt = (index: number) => hex.slice(index * 40, index * 40 + 40);
  const words = ({ values, words: width }: TransferColumns["ids"], at: number) =>
    [...values.subarray(at * width, (at + 1) * width)].join().replace(/(?:,0)+$/, "");
  const lines = new Map<number, string[]>();
  for (let i = 0; i < count; i++) {
    if (only?.has(blocks[i] as number) === false) continue;
    const parts = [kinds[i], addressAt(from[i]!), addressAt(to[i]!), words(ids, i), words(amounts, i)];
    const block = blocks[i] as number;
    const own = lines.get(block);
    if (own === undefined) lines.set(block, [parts.join(" ")]);
    else own.push(parts.join(" "));
  }
  return lines;
}

/**
 * Returns a block's transfers as one text, for comparison. Sorted: releases up to 1.0 stored transfers by log index alone,
 * and stored transfers keep their order.
 */
export const textOfLines = (lines: readonly string[] | undefined): string => lines?.toSorted().join(";") ?? "";

const ABI = new Interface([
  "function ownerOf(uint256) view returns (address)",
  "function punkIndexToAddress(uint256) view returns (address)",
  "function catOwners(bytes5) view returns (address)",
  "function totalSupply() view returns (uint256)",
  "function tokenByIndex(uint256) view returns (uint256)",
]);
export const DEAD = "0x000000000000000000000000000000000000dead";
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
export type SingleKind = Exclude<TransferKind, AmountKind>;

/** The collection's tokens with one owner, as the log knows them. */
export interface KnownTokens {
  readonly kind: SingleKind;
  /** Number of listed tokens, and number of tokens that ever appeared in the log, burned ones included. */
  readonly listed: number;
  readonly logged: number;
  /** A sample of the listed ids. */
  readonly ids: readonly bigint[];
  /** True if the token ever appeared in the log, in any kind of transfer. */
  readonly isLogged: (id: bigint) => boolean;
}

interface Unexplained {
  readonly tokens: readonly { readonly id: bigint; readonly owner: string }[];
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
  const totalSupply = wordIn(supplied);
  const likely = likelyIds(known, totalSupply, random);
  const controls = controlIds(known.kind, random);
  const places = totalSupply === undefined ? [] : draws(totalSupply, random);
  const lookUps = places.map((at) => ({ to: address, data: ABI.encodeFunctionData("tokenByIndex", [at]) }));
  const [named, owners] = await Promise.all([
    reader.calls(lookUps, block),
    ownersOf(question, known.kind, [...controls, ...likely]),
  ]);
  if (controls.some((id) => owners.has(id))) return { tokens: [], totalSupply };
  const listed = named.flatMap((result) => wordIn(result) ?? []).filter((id) => !known.isLogged(id) && !owners.has(id));
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
    const owner = addressIn(results[index]);
    if (owner !== undefined && ![ZERO_ADDRESS, DEAD, address].includes(owner)) owners.set(id, owner);
  }
  return owners;
}
