/** An export with its proofs: writes the proofs beside the file, and compares the two. */
import type { VerifiedProof } from "../proof/verifier/verify.ts";
import { CommandError, FAILED, type NamedContract, type ServiceAccess } from "./access.ts";
import type { CommandRun } from "./command.ts";
import { writeFile } from "./file-output.ts";

/**
 * Has the service prove all holdings at the block of an export, and writes the proofs, a document a line.
 * @returns the name of the file, and its bytes
 * @throws CommandError if the state of the block can't be proven
 */
export async function writeProofs(
  run: Pick<CommandRun, "beforeExit" | "redraw">,
  service: ServiceAccess,
  { chain, address, block, beside }: NamedContract & { readonly block: number; readonly beside: string },
): Promise<{ readonly file: string; readonly bytes: number }> {
  const of = { path: { chain, address }, query: { as_of_block: block } };
  await service.ask((client) => client.call("POST /api/collections/:chain/:address/proofs", { ...of, body: {} }));
  const { body } = await service.ask((client) => client.keptProofs({ chain, address }, { as_of_block: block }));
  const file = `${beside}.proofs.jsonl`;
  return { file, bytes: await writeFile(run, file, body ?? new ReadableStream<Uint8Array>()) };
}

/** What several proofs show together, of one contract at one block. */
export interface ProvenHoldings {
  /** By token with one owner; null where the contract names none. */
  readonly owners: ReadonlyMap<string, string | null>;
  /** By token with many owners: what is held in all. */
  readonly amounts: ReadonlyMap<string, bigint>;
}

/** @throws CommandError for proofs of another sort, block or contract than the first one's */
export function provenHoldings(proofs: readonly (VerifiedProof & { readonly contract: string })[]): ProvenHoldings {
  const owners = new Map<string, string | null>();
  const amounts = new Map<string, bigint>();
  const [first] = proofs;
  for (const { kind, block, contract, result } of proofs) {
    const isSame = block.hash === first?.block.hash && contract === first.contract;
    if (!isSame) throw new CommandError("the proofs are of several blocks or contracts", FAILED);
    if (kind !== "owners" && kind !== "amounts") {
      throw new CommandError(`a proof of the kind ${kind} is none of a whole collection`, FAILED);
    }
    for (const [name, value] of Object.entries(result)) {
      if (kind === "owners") owners.set(name, value as string | null);
      else {
        const token = name.slice(0, name.indexOf("/"));
        amounts.set(token, (amounts.get(token) ?? 0n) + BigInt(value as string));
      }
    }
  }
  return { owners, amounts };
}

/** A row of an export of tokens, as far as it is compared. */
interface ExportedToken {
  readonly id: string;
  readonly owner: string;
  readonly amount: string;
}

/**
 * Compares an export with what is proven.
 * @param text of a CSV or JSON lines file of tokens
 * @returns the differences, in words
 */
export function differencesFrom(text: string, { owners, amounts }: ProvenHoldings): string[] {
  const rows = text.startsWith("{") ? jsonRows(text) : csvRows(text);
  const differences: string[] = [];
  const seen = new Set<string>();
  for (const { id, owner, amount } of rows) {
    seen.add(id);
    const held = amounts.get(id);
    if (held === undefined && owners.get(id) !== owner) {
      differences.push(`token ${id}: the file says ${owner}, the proof ${owners.get(id) ?? "nothing"}`);
    }
    if (held !== undefined && held.toString() !== amount) {
      differences.push(`token ${id}: the file says ${amount}, the proofs ${held}`);
    }
  }
  for (const [id, owner] of owners)
    if (owner !== null && !seen.has(id)) differences.push(`token ${id} is not in the file`);
  for (const id of amounts.keys()) if (!seen.has(id)) differences.push(`token ${id} is not in the file`);
  return differences;
}

const jsonRows = (text: string): ExportedToken[] =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const { token_id: id, owner_of: owner, amount } = JSON.parse(line) as Readonly<Record<string, string | null>>;
      return { id: id ?? "", owner: owner ?? "", amount: amount ?? "" };
    });

/** Cells by RFC 4180: a quoted one may hold line breaks, and doubled quotes. */
const CELL = /("(?:[^"]|"")*"|[^,\r\n]*)(,|\r?\n|$)/y;

/** @throws CommandError for a file that has no such columns */
function csvRows(text: string): ExportedToken[] {
  const [head = [], ...rows] = csvRecords(text);
  const [id, owner, amount] = ["token_id", "owner_of", "amount"].map((name) => head.indexOf(name)) as [
    number,
    number,
    number,
  ];
  if (id < 0 || owner < 0 || amount < 0)
    throw new CommandError("--export: no export of tokens as CSV or JSON lines", FAILED);
  return rows.map((row) => ({ id: row[id] ?? "", owner: row[owner] ?? "", amount: row[amount] ?? "" }));
}

function* csvRecords(text: string): Generator<string[]> {
  CELL.lastIndex = 0;
  let record: string[] = [];
  while (CELL.lastIndex < text.length) {
    const [, cell = "", end] = CELL.exec(text) ?? [];
    if (end === undefined) throw new CommandError("--export: the file is no CSV", FAILED);
    record.push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
    if (end === ",") continue;
    yield record;
    record = [];
  }
}
