/** Changes documents as forgers and bad lines do, and says which changed ones were taken for another proof. */
import type { Random } from "../../scripts/local-chain/random.ts";
import type { StateDocument } from "../../src/proof/verifier/document.ts";
import { ProofRefused, verifyProof } from "../../src/proof/verifier/verify.ts";

/** The text of a document as `JSON` writes it: two texts of one document differ in spaces and escapes only. */
const canonical = (text: string): string | undefined => {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return undefined;
  }
};

/**
 * Verifies a changed document.
 * @returns what is wrong; undefined if it was refused, or is the same document in other spelling
 * @throws any error of the verifier that is no refusal
 */
export async function faultOf(honest: string, changed: string): Promise<string | undefined> {
  try {
    await verifyProof(changed);
  } catch (error) {
    if (error instanceof ProofRefused) return undefined;
    throw error;
  }
  return canonical(changed) === honest ? undefined : "another document was accepted";
}

/** The text with one character replaced by the next one of its kind, or by any other. */
export function withChangedByte(text: string, at: number, by: number): string {
  const other = String.fromCharCode(((text.charCodeAt(at) + by) % 95) + 32);
  return text.slice(0, at) + other + text.slice(at + 1);
}

const HEX = "0123456789abcdef";

/** One random change of a document: of a byte, a digit, or its structure. */
export function tampered(text: string, others: readonly StateDocument[], random: Random): string {
  const document = JSON.parse(text) as { -readonly [K in keyof StateDocument]: StateDocument[K] };
  const other = random.pick(others);
  const nodes = [...document.nodes];
  const at = random.below(Math.max(1, nodes.length));
  const changes: (() => void)[] = [
    () => nodes.splice(at, 1),
    () => nodes.splice(at, 0, nodes[at] ?? "0x"),
    () => nodes.push(random.pick(other.nodes)),
    () => nodes.splice(at, 1, random.pick(other.nodes)),
    () => nodes.splice(at, 1, `${nodes[at]}00`),
    () => nodes.reverse(),
    () => Object.assign(document, { codes: { ...document.codes, ...other.codes } }),
    () => Object.assign(document, { codes: {} }),
    () => Object.assign(document, { header: { ...document.header, stateRoot: other.header["stateRoot"] } }),
    () => Object.assign(document, { header: { ...document.header, timestamp: "0x1" } }),
    () => Object.assign(document, { state: document.state.slice(1) }),
    () => Object.assign(document, { calls: [...document.calls, ...document.calls] }),
    () => Object.assign(document, { result: other.result, claim: other.claim }),
    () => Object.assign(document, { subject: other.subject }),
    () => Object.assign(document, { chainId: document.chainId + 1 }),
    () => Object.assign(document, { note: "more" }),
    () => Object.assign(document.state[0] ?? {}, { slots: other.state[0]?.slots }),
  ];
  const kind = random.below(changes.length + 8);
  if (kind < changes.length) {
    (changes[kind] as () => void)();
    return JSON.stringify({ ...document, nodes });
  }
  const place = random.below(text.length);
  const digit = HEX.indexOf(text[place] as string);
  if (digit < 0) return withChangedByte(text, place, 1 + random.below(94));
  return text.slice(0, place) + HEX[(digit + 1 + random.below(15)) % 16] + text.slice(place + 1);
}
