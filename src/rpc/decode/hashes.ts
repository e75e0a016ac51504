/**
 * Hashes of headers and roots of receipts, from their fields. Both tie an archive's answer, or a node's, to a block's
 * hash (Ethereum Yellow Paper, sections 4.3 and 4.3.1; EIP-2718 for typed receipts). Pure.
 */
import { encodeRlp, keccak256 } from "ethers";
import type { Hash } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";

type BlockFields = Readonly<Record<string, unknown>>;

const HEX = /^0x(?:[0-9a-f]{2})*$/i;
const QUANTITY = /^0x[0-9a-f]{1,64}$/i;
const ROOT = /^0x[0-9a-f]{64}$/i;

/** A number as RLP wants it: big-endian without leading zeros. Undefined for anything else. */
function scalar(value: unknown): string | undefined {
  const isNumber = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
  if (!isNumber && !(typeof value === "string" && QUANTITY.test(value))) return undefined;
  const digits = BigInt(value as string | number).toString(16);
  return digits === "0" ? "0x" : `0x${digits.length % 2 === 0 ? "" : "0"}${digits}`;
}

const bytes = (value: unknown): string | undefined =>
  typeof value === "string" && HEX.test(value) ? value : undefined;

type Field = readonly [name: string, read: typeof bytes];

/** The fields that every header begins with, in the order of their encoding. */
const FIRST: readonly Field[] = [
  ["parentHash", bytes],
  ["sha3Uncles", bytes],
  ["miner", bytes],
  ["stateRoot", bytes],
  ["transactionsRoot", bytes],
  ["receiptsRoot", bytes],
  ["logsBloom", bytes],
  ["difficulty", scalar],
  ["number", scalar],
  ["gasLimit", scalar],
  ["gasUsed", scalar],
  ["timestamp", scalar],
  ["extraData", bytes],
  ["mixHash", bytes],
  ["nonce", bytes],
];

/**
 * What later forks of Ethereum appended, in the order of go-ethereum's `core/types/block.go`: London, Shanghai, Cancun
 * (three fields), Prague, and Amsterdam (EIP-7928, EIP-7843), live on Sepolia since block 11,856,337.
 */
const ETHEREUM: readonly Field[] = [
  ["baseFeePerGas", scalar],
  ["withdrawalsRoot", bytes],
  ["blobGasUsed", scalar],
  ["excessBlobGas", scalar],
  ["parentBeaconBlockRoot", bytes],
  ["requestsHash", bytes],
  ["blockAccessListHash", bytes],
  ["slotNumber", scalar],
];

/**
 * What Avalanche's C-Chain and its subnets append, in the order of `customtypes/gen_header_serializable_rlp.go` of
 * avalanchego. The first field is in every header; the last four are those of a header that settles others (ACP-194).
 */
const AVALANCHE: readonly Field[] = [
  ["extDataHash", bytes],
  ["baseFeePerGas", scalar],
  ["extDataGasUsed", scalar],
  ["blockGasCost", scalar],
  ["blobGasUsed", scalar],
  ["excessBlobGas", scalar],
  ["parentBeaconBlockRoot", bytes],
  ["timestampMilliseconds", scalar],
  ["minDelayExcess", scalar],
  ["targetExponent", scalar],
  ["minPriceExponent", scalar],
  ["settledHeight", scalar],
  ["settledGasUnix", scalar],
  ["settledGasNumerator", scalar],
  ["settledExcess", scalar],
];

/** Names of the fields that make the hash of a header in Ethereum's form. */
export const HEADER_FIELDS: readonly string[] = [...FIRST, ...ETHEREUM].map(([name]) => name);
/** Names of the fields that a header of Avalanche has in addition. */
export const AVALANCHE_FIELDS: readonly string[] = AVALANCHE.map(([name]) => name);

/**
 * The hash that a header's fields make, as JSON-RPC names them. Undefined if a field is missing or unreadable: chains
 * exist whose headers have other ones.
 */
export function headerHash(header: BlockFields): Hash | undefined {
  const first = FIRST.map(([name, read]) => read(header[name]));
  const isAvalanche = header["extDataHash"] !== undefined && header["extDataHash"] !== null;
  const later = (isAvalanche ? AVALANCHE : ETHEREUM).map(([name, read]) => {
    const value = header[name];
    return value === undefined || value === null ? "" : read(value);
  });
  // A fork's field is missing in older headers. One that is missing before the last one is encoded as empty.
  const appended = later.slice(0, later.findLastIndex((value) => value !== "") + 1);
  const encoded = [...first, ...appended.map((value) => (value === "" ? "0x" : value))];
  if (encoded.includes(undefined)) return undefined;
  return keccak256(encodeRlp(encoded as string[])) as Hash;
}

/** True if the fields of an `eth_getBlockByNumber` answer make its hash. */
export function isHashed(wire: unknown): boolean {
  const header = (wire ?? {}) as BlockFields;
  return headerHash(header) === String(header["hash"]).toLowerCase();
}

/** Encodes a receipt for the trie. Undefined if it isn't readable. */
function encodedReceipt(receipt: BlockFields): string | undefined {
  const logs = receipt["logs"];
  const type = scalar(receipt["type"] ?? 0);
  // Before Byzantium a receipt had the state's root in the place of the status.
  const outcome = ROOT.test(String(receipt["root"])) ? bytes(receipt["root"]) : scalar(receipt["status"]);
  const gas = scalar(receipt["cumulativeGasUsed"]);
  const bloom = bytes(receipt["logsBloom"]);
  if (!Array.isArray(logs) || [type, outcome, gas, bloom].includes(undefined)) return undefined;
  const own: [string, string[], string][] = [];
  for (const log of logs as BlockFields[]) {
    const [address, data, topics] = [bytes(log?.["address"]), bytes(log?.["data"]), log?.["topics"]];
    if (address === undefined || data === undefined || !Array.isArray(topics)) return undefined;
    if (!topics.every((topic) => bytes(topic) !== undefined)) return undefined;
    own.push([address, topics as string[], data]);
  }
  const body: unknown[] = [outcome, gas, bloom, own];
  // A deposit of the OP Stack (type 0x7e) has a nonce. The trie has it since Canyon only, together with a version.
  const version = scalar(receipt["depositReceiptVersion"]);
  if (type === "0x7e" && version !== undefined) body.push(scalar(receipt["depositNonce"]) ?? "0x", version);
  const encoded = encodeRlp(body as Parameters<typeof encodeRlp>[0]);
  return type === "0x" ? encoded : `${type}${encoded.slice(2)}`;
}

/** Receipts encoded, or branches hashed, in one slice: some milliseconds. */
const AT_ONCE = 32;

/**
 * The root of the trie over receipts, in the order of an `eth_getBlockReceipts` answer. Works in slices, with pauses for
 * other work. Undefined if a receipt isn't readable.
 */
export async function receiptsRoot(receipts: readonly unknown[]): Promise<Hash | undefined> {
  const leaves: Leaf[] = [];
  for (const [index, receipt] of receipts.entries()) {
    if (index % AT_ONCE === AT_ONCE - 1) await yieldToEventLoop();
    const value = typeof receipt === "object" && receipt !== null ? encodedReceipt(receipt as BlockFields) : undefined;
    if (value === undefined) return undefined;
    leaves.push({ path: encodeRlp(scalar(index) as string).slice(2), value });
  }
  const hashing = { left: AT_ONCE };
  return keccak256(encodeRlp(await node(leaves, 0, hashing))) as Hash;
}

/** A value and the hex digits of its key. */
interface Leaf {
  readonly path: string;
  readonly value: string;
}

type Node = string | Node[];

/** The digits of a path with the prefix that tells a leaf from an extension, and an odd length from an even one. */
function compact(digits: string, isLeaf: boolean): string {
  const flag = isLeaf ? 2 : 0;
  return digits.length % 2 === 0 ? `0x${flag}0${digits}` : `0x${flag + 1}${digits}`;
}

/**
 * The node of the Merkle Patricia trie for these leaves, whose paths agree in the first `depth` digits.
 * @param slice nodes that may still be hashed before the next pause
 */
async function node(leaves: readonly Leaf[], depth: number, slice: { left: number }): Promise<Node> {
  const [first] = leaves;
  if (first === undefined) return "0x";
  if (leaves.length === 1) return [compact(first.path.slice(depth), true), first.value];
  let shared = depth;
  while (shared < first.path.length && leaves.every(({ path }) => path[shared] === first.path[shared])) shared++;
  if (shared > depth) {
    const child = await node(leaves, shared, slice);
    return [compact(first.path.slice(depth, shared), false), reference(child)];
  }
  const branches: Node[] = [];
  for (let digit = 0; digit < 16; digit++) {
    const own = leaves.filter(({ path }) => path[depth] === digit.toString(16));
    if (own.length > 0 && --slice.left === 0) {
      await yieldToEventLoop();
      slice.left = AT_ONCE;
    }
    branches.push(own.length === 0 ? "0x" : reference(await node(own, depth + 1, slice)));
  }
  const own = leaves.find(({ path }) => path.length === depth);
  return [...branches, own?.value ?? "0x"];
}

/** A node as its parent holds it: itself if it has less than 32 bytes, else its hash. */
function reference(child: Node): Node {
  if (child === "0x") return child;
  const encoded = encodeRlp(child);
  return encoded.length < 66 ? child : keccak256(encoded);
}
