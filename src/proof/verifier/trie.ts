/**
 * Reads values from the nodes of Merkle Patricia tries (Ethereum Yellow Paper, appendix D). A node is found by its hash,
 * from the root down, so a value that is read is the trie's own, whoever gave the nodes. Pure.
 */
import { keccak256 } from "ethers/crypto";
import { decodeRlp, encodeRlp, type RlpStructuredData } from "ethers/utils";
import { ProofRefused } from "./refusal.ts";

/** The root of a trie without entries: the hash of an empty string in RLP. */
export const EMPTY_ROOT = keccak256("0x80");

/** A node that a parent names and that is not there. */
export class NodeMissing extends ProofRefused {
  constructor(hash: string) {
    super(`the trie node ${hash} is missing`);
  }
}

/** Nodes by hash. Remembers which ones were used, in the order of their first use. */
export class Nodes {
  readonly #nodes = new Map<string, string>();
  readonly #decoded = new Map<string, RlpStructuredData>();

  /** @param nodes RLP in hex with 0x */
  constructor(nodes: Iterable<string>) {
    this.add(nodes);
  }

  add(nodes: Iterable<string>): void {
    for (const node of nodes) this.#nodes.set(keccak256(node), node);
  }

  get(hash: string): RlpStructuredData {
    const known = this.#decoded.get(hash);
    if (known !== undefined) return known;
    const node = this.#nodes.get(hash);
    if (node === undefined) throw new NodeMissing(hash);
    const decoded = decodedOf(node);
    this.#decoded.set(hash, decoded);
    return decoded;
  }

  /** The nodes that were used, in the order of their first use. */
  used(): string[] {
    return [...this.#decoded.keys()].map((hash) => this.#nodes.get(hash) as string);
  }
}

/**
 * The value of a key, in hex with 0x. Undefined if the trie proves that it has none.
 * @param key hex with 0x: of a state trie, the hash of an address or a slot; of receipts, the index in RLP
 * @throws NodeMissing; ProofRefused for a node that is none
 */
export function valueIn(nodes: Nodes, root: string, key: string): string | undefined {
  if (root === EMPTY_ROOT) return undefined;
  const path = key.slice(2);
  let node = nodes.get(root);
  let at = 0;
  for (;;) {
    if (!Array.isArray(node)) throw notANode();
    if (node.length === 17) {
      const isEnd = at === path.length;
      const next = isEnd ? node[16] : childOf(node, path[at++] as string);
      if (next === "0x") return undefined;
      if (isEnd) return textOf(next);
      node = resolved(nodes, next);
      continue;
    }
    if (node.length !== 2) throw notANode();
    const { digits, isLeaf } = shortPath(node[0]);
    const isOn = path.startsWith(digits, at);
    if (isLeaf) return isOn && at + digits.length === path.length ? textOf(node[1]) : undefined;
    if (!isOn) return undefined;
    at += digits.length;
    node = resolved(nodes, node[1]);
  }
}

const notANode = (): ProofRefused => new ProofRefused("a trie node has another form than nodes have");

const childOf = (branch: readonly RlpStructuredData[], digit: string): RlpStructuredData =>
  branch[Number.parseInt(digit, 16)] ?? "0x";

/** A child as its parent names it: by its hash, or whole if it has less than 32 bytes. */
function resolved(nodes: Nodes, child: RlpStructuredData | undefined): RlpStructuredData {
  if (Array.isArray(child)) return child;
  if (typeof child !== "string" || child.length !== 66) throw notANode();
  return nodes.get(child);
}

function textOf(value: RlpStructuredData | undefined): string {
  if (typeof value !== "string") throw notANode();
  return value;
}

/** The digits of a leaf's or an extension's path (Yellow Paper, appendix C: hex-prefix encoding). */
function shortPath(encoded: RlpStructuredData | undefined): { readonly digits: string; readonly isLeaf: boolean } {
  if (typeof encoded !== "string" || encoded.length < 4) throw notANode();
  const trueOrFalse = Number.parseInt(encoded[2] as string, 16);
  if (trueOrFalse > 3) throw notANode();
  return { digits: encoded.slice(trueOrFalse % 2 === 0 ? 4 : 3), isLeaf: trueOrFalse >= 2 };
}

/** A list as RLP in hex. @throws ProofRefused if it is none, or not of that many strings */
export function listIn(rlp: string, length: number): readonly string[] {
  const list = decodedOf(rlp);
  const isRight = Array.isArray(list) && list.length === length && list.every((one) => typeof one === "string");
  if (!isRight || encodeRlp(list) !== rlp) throw new ProofRefused("a value of the trie has another form than expected");
  return list as readonly string[];
}

/** Decodes RLP. @throws ProofRefused if it is none */
export function decodedOf(rlp: string): RlpStructuredData {
  try {
    return decodeRlp(rlp);
  } catch {
    throw new ProofRefused("a node or a value of the trie is no RLP");
  }
}
