/** What the operator's lists have in common: lines of text, each for a contract on every chain or on one. */
import { CHAINS, parseChain } from "../chains/chains.ts";
import type { Address } from "../core/hex.ts";

/** Problems told of one file: ten lines show that it is the wrong file. */
const MAX_PROBLEMS = 10;

/** Reads the lines one by one; `read` returns what is wrong with one. Returns a sentence for each bad line. */
export function readLines(text: string, read: (line: string) => string | undefined): string[] {
  const problems: string[] = [];
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\n|\r/);
  for (const [index, line] of lines.entries()) {
    const problem = line.trim() === "" ? undefined : read(line);
    if (problem === undefined) continue;
    if (problems.length === MAX_PROBLEMS) return [...problems, "and more"];
    problems.push(`line ${index + 1}: ${problem}`);
  }
  return problems;
}

/** The chain of a name or code; a problem in words where there is none. */
export function listedChain(text: string): { readonly chainId: number } | { readonly problem: string } {
  const chain = parseChain(text);
  if (chain !== undefined) return chain;
  return { problem: `the chain must be one of ${CHAINS.map(({ name }) => name).join(", ")}` };
}

/** Entries for contracts: those of one chain go before those of all. */
export class ContractMap<T> {
  readonly #everywhere = new Map<Address, T>();
  readonly #onChain = new Map<string, T>();

  get size(): number {
    return this.#everywhere.size + this.#onChain.size;
  }

  /** @param chainId undefined for every chain */
  set(chainId: number | undefined, address: Address, entry: T): void {
    if (chainId === undefined) this.#everywhere.set(address, entry);
    else this.#onChain.set(`${chainId}/${address}`, entry);
  }

  find(chainId: number, address: Address): T | undefined {
    const own = this.#onChain.size > 0 ? this.#onChain.get(`${chainId}/${address}`) : undefined;
    return own ?? this.#everywhere.get(address);
  }
}
