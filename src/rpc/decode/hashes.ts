/**
 * Roots of receipts from their fields, which tie an archive's answer, or a node's, to a block's hash (Ethereum Yellow Paper,
 * sections 4.3 and 4.3.1; EIP-2718 for typed receipts). Pure.
 */
import { encodeRlp } from "ethers/utils";
import type { Hash } from "../../core/hex.ts";
import { keccakOf } from "../../core/keccak.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { type BlockFields, headerHash, hexData, scalar } from "./header-hash.ts";

const ROOT = /^0x[0-9a-f]{64}$/i;

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
  const outcome = ROOT.test(String(receipt["root"])) ? hexData(receipt["root"]) : scalar(receipt["status"]);
  const gas = scalar(receipt["cumulativeGasUsed"]);
  const bloom = hexData(receipt["logsBloom"]);
  if (!Array.isArray(logs) || [type, outcome, gas, bloom].includes(undefined)) return undefined;
  const own: [string, string[], string][] = [];
  for (const log of logs as BlockFields[]) {
    const [address, data, topics] = [hexData(log?.["address"]), hexData(log?.["data"]), log?.["topics"]];
    if (address === undefined || data === undefined || !Array.isArray(topics)) return undefined;
    if (!topics.every((topic) => hexData(topic) !== undefined)) return undefined;
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
 * @param onNode called with the RLP of each node that has a hash
 */
export async function receiptsRoot(
  receipts: readonly unknown[],
  onNode: (rlp: string) => void = () => undefined,
): Promise<Hash | undefined> {
  const leaves: Leaf[] = [];
  for (const [index, receipt] of receipts.entries()) {
    if (index % AT_ONCE === AT_ONCE - 1) await yieldToEventLoop();
    const value = typeof receipt === "object" && receipt !== null ? encodedReceipt(receipt as BlockFields) : undefined;
    if (value === undefined) return undefined;
    leaves.push({ path: encodeRlp(scalar(index) as string).slice(2), value });
  }
  const root = encodeRlp(await node(leaves, 0, { left: AT_ONCE, onNode }));
  onNode(root);
  return keccakOf(root);
}

/** A value and the hex digits of its key. */
interface Leaf {
  readonly path: string;
  readonly value: string;
}

type Node = string | Node[];

interface Hashing {
  left: number;
  readonly onNode: (rlp: string) => void;
}

/** The digits of a path with the prefix that tells a leaf from an extension, and an odd length from an even one. */
function compact(digits: string, isLeaf: boolean): string {
  const flag = isLeaf ? 2 : 0;
  return digits.length % 2 === 0 ? `0x${flag}0${digits}` : `0x${flag + 1}${digits}`;
}

/**
 * The node of the Merkle Patricia trie for these leaves, whose paths agree in the first `depth` digits.
 * @param slice nodes that may still be hashed before the next pause
 */
async function node(leaves: readonly Leaf[], depth: number, slice: Hashing): Promise<Node> {
  const [first] = leaves;
  if (first === undefined) return "0x";
  if (leaves.length === 1) return [compact(first.path.slice(depth), true), first.value];
  let shared = depth;
  while (shared < first.path.length && leaves.every(({ path }) => path[shared] === first.path[shared])) shared++;
  if (shared > depth) {
    const child = await node(leaves, shared, slice);
    return [compact(first.path.slice(depth, shared), false), reference(child, slice)];
  }
  const branches: Node[] = [];
  for (let digit = 0; digit < 16; digit++) {
    const own = leaves.filter(({ path }) => path[depth] === digit.toString(16));
    if (own.length > 0 && --slice.left === 0) {
      await yieldToEventLoop();
      slice.left = AT_ONCE;
    }
    branches.push(own.length === 0 ? "0x" : reference(await node(own, depth + 1, slice), slice));
  }
  const own = leaves.find(({ path }) => path.length === depth);
  return [...branches, own?.value ?? "0x"];
}

/** A node as its parent holds it: itself if it has less than 32 bytes, else its hash. */
function reference(child: Node, { onNode }: Hashing): Node {
  if (child === "0x") return child;
  const encoded = encodeRlp(child);
  if (encoded.length < 66) return child;
  onNode(encoded);
  return keccakOf(encoded);
}
