/**
 * Hashes of headers and roots of receipts, from their fields. Both tie an archive's answer, or a node's, to a block's
 * hash (Ethereum Yellow Paper, sections 4.3 and 4.3.1; EIP-2718 for typed receipts). Pure.
 */
import { encodeRlp, keccak256 } from "ethers";
import type { Hash } from "../../core/hex.ts";

type Fields = Readonly<Record<string, unknown>>;

const HEX = /^0x(?:[0-9a-f]{2})*$/i;
const QUANTITY = /^0x[0-9a-f]{1,64}$/i;

/** A number as RLP wants it: big-endian without leading zeros. Undefined for anything else. */
function scalar(value: unknown): string | undefined {
  const isNumber = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
  if (!isNumber && !(typeof value === "string" && QUANTITY.test(value))) return undefined;
  const digits = BigInt(value as string | number).toString(16);
  return digits === "0" ? "0x" : `0x${digits.length % 2 === 0 ? "" : "0"}${digits}`;
}

const bytes = (value: unknown): string | undefined =>
  typeof value === "string" && HEX.test(value) ? value : undefined;

/** The fields that every header has, in the order of their encoding, and those that later forks appended. */
const HEADER: readonly (readonly [name: string, read: typeof bytes])[] = [
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
const LATER: typeof HEADER = [
  ["baseFeePerGas", scalar],
  ["withdrawalsRoot", bytes],
  ["blobGasUsed", scalar],
  ["excessBlobGas", scalar],
  ["parentBeaconBlockRoot", bytes],
  ["requestsHash", bytes],
];

/** Names of the fields that make a header's hash. */
export const HEADER_FIELDS: readonly string[] = [...HEADER, ...LATER].map(([name]) => name);

/** The hash that a header's fields make. Undefined if a field is missing: chains exist whose headers have other ones. */
export function headerHash(header: Fields): Hash | undefined {
  const encoded: string[] = [];
  for (const [name, read] of HEADER) {
    const value = read(header[name]);
    if (value === undefined) return undefined;
    encoded.push(value);
  }
  for (const [name, read] of LATER) {
    const value = read(header[name]);
    // A field of a later fork is missing in all older headers.
    if (value === undefined) break;
    encoded.push(value);
  }
  return keccak256(encodeRlp(encoded)) as Hash;
}

/** Encodes a receipt for the trie. Undefined if it isn't readable. */
function encodedReceipt(receipt: Fields): string | undefined {
  const logs = receipt["logs"];
  const type = scalar(receipt["type"] ?? 0);
  // Before Byzantium a receipt had the state's root in the place of the status.
  const outcome = receipt["status"] === undefined ? bytes(receipt["root"]) : scalar(receipt["status"]);
  const gas = scalar(receipt["cumulativeGasUsed"]);
  const bloom = bytes(receipt["logsBloom"]);
  if (!Array.isArray(logs) || [type, outcome, gas, bloom].includes(undefined)) return undefined;
  const own: [string, string[], string][] = [];
  for (const log of logs as Fields[]) {
    const [address, data, topics] = [bytes(log?.["address"]), bytes(log?.["data"]), log?.["topics"]];
    if (address === undefined || data === undefined || !Array.isArray(topics)) return undefined;
    if (!topics.every((topic) => bytes(topic) !== undefined)) return undefined;
    own.push([address, topics as string[], data]);
  }
  const body: unknown[] = [outcome, gas, bloom, own];
  // The deposits of the OP Stack (type 0x7e) have a nonce, and since Canyon a version.
  if (type === "0x7e") {
    for (const name of ["depositNonce", "depositReceiptVersion"]) {
      const value = scalar(receipt[name]);
      if (value !== undefined) body.push(value);
    }
  }
  const encoded = encodeRlp(body as Parameters<typeof encodeRlp>[0]);
  return type === "0x" ? encoded : `${type}${encoded.slice(2)}`;
}

/**
 * The root of the trie over a block's receipts, in the order of an `eth_getBlockReceipts` answer. Undefined if a receipt
 * isn't readable.
 */
export function receiptsRoot(receipts: readonly unknown[]): Hash | undefined {
  const leaves: Leaf[] = [];
  for (const [index, receipt] of receipts.entries()) {
    const value = typeof receipt === "object" && receipt !== null ? encodedReceipt(receipt as Fields) : undefined;
    if (value === undefined) return undefined;
    leaves.push({ path: encodeRlp(scalar(index) as string).slice(2), value });
  }
  const root = node(leaves, 0);
  return keccak256(encodeRlp(root)) as Hash;
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

/** The node of the Merkle Patricia trie for these leaves, whose paths agree in the first `depth` digits. */
function node(leaves: readonly Leaf[], depth: number): Node {
  const [first] = leaves;
  if (first === undefined) return "0x";
  if (leaves.length === 1) return [compact(first.path.slice(depth), true), first.value];
  let shared = depth;
  while (shared < first.path.length && leaves.every(({ path }) => path[shared] === first.path[shared])) shared++;
  if (shared > depth) return [compact(first.path.slice(depth, shared), false), reference(node(leaves, shared))];
  const branches: Node[] = Array.from({ length: 16 }, (_, digit) =>
    reference(
      node(
        leaves.filter(({ path }) => path[depth] === digit.toString(16)),
        depth + 1,
      ),
    ),
  );
  const own = leaves.find(({ path }) => path.length === depth);
  return [...branches, own?.value ?? "0x"];
}

/** A node as its parent holds it: itself if it has less than 32 bytes, else its hash. */
function reference(child: Node): Node {
  if (child === "0x") return child;
  const encoded = encodeRlp(child);
  return encoded.length < 66 ? child : keccak256(encoded);
}
