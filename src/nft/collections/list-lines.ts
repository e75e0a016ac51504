/**
 * Shared parser of the operator's lists. In: lines of text, each about a contract on one chain or on all chains. Out:
 * problems by line number, and a map of entries by chain and contract. It reads no files.
 */
import type { Chains } from "../../chains/chains.ts";
import type { Address } from "../../core/hex.ts";
import type { ParsedList } from "../../core/list-file.ts";

/** Problems reported per file. Ten lines are enough to show that it is the wrong file. */
const MAX_PROBLEMS = 10;

/** Calls `read` with each non-empty line; `read` returns a problem or undefined. Returns one sentence per bad line. */
export function readLines(text: string, read: (line: string) => string | undefined): string[] {
  const problems: string[] = [];
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\n|\r/);
  for (const [index, line] of lines.entries()) {
    const problem = line.trim() === "" ? undefined : read(line);
    if (problem === undefined) continue;
    if (problems.length === MAX_PROBLEMS) return [...problems, "there are more problems"];
    problems.push(`line ${index + 1}: ${problem}`);
  }
  return problems;
}

/** The chain with this name or code, or a problem as text if there is none. */
export function listedChain(text: string, chains: Chains): { readonly name: string } | { readonly problem: string } {
  const chain = chains.parse(text);
  if (chain !== undefined) return chain;
  return { problem: `the chain must be one of ${chains.all.map(({ name }) => name).join(", ")}` };
}

/**
 * Entries by contract. An entry for one chain takes precedence over an entry for all chains. Chains go by name: the id of a
 * development chain follows from its first block, which is read after the lists.
 */
export class ContractMap<T> {
  readonly #everywhere = new Map<Address, T>();
  readonly #onChain = new Map<string, T>();

  get size(): number {
    return this.#everywhere.size + this.#onChain.size;
  }

  /** @param chain undefined for all chains */
  set(chain: string | undefined, address: Address, entry: T): void {
    if (chain === undefined) this.#everywhere.set(address, entry);
    else this.#onChain.set(`${chain}/${address}`, entry);
  }

  find(chain: string, address: Address): T | undefined {
    const own = this.#onChain.size > 0 ? this.#onChain.get(`${chain}/${address}`) : undefined;
    return own ?? this.#everywhere.get(address);
  }
}

export type ParsedContracts<T> = ParsedList<ContractMap<T>>;
