/**
 * One of the operator's lists of contracts: text in, a set out. A line is `address` (on every chain) or
 * `chain,address`; `#` starts a comment. Nothing here reads files.
 */
import { type Address, parseAddress } from "../core/hex.ts";
import { ContractMap, listedChain, readLines } from "./list-lines.ts";

export interface FlagList {
  readonly size: number;
  has(chainId: number, address: Address): boolean;
}

export const EMPTY_LIST: FlagList = { size: 0, has: () => false };

/** The list in `text`; `problems` has a sentence for each bad line, and the list is then not to be used. */
export function parseFlagList(text: string): { list: FlagList; problems: string[] } {
  const entries = new ContractMap<true>();
  const problems = readLines(text, (line) => {
    const content = line.replace(/#.*$/, "").trim();
    if (content === "") return undefined;
    const comma = content.indexOf(",");
    const chain = comma < 0 ? undefined : listedChain(content.slice(0, comma).trim());
    const address = parseAddress(content.slice(comma + 1).trim());
    if (chain !== undefined && "problem" in chain) return chain.problem;
    if (address === undefined) {
      return "must be an address, or a chain, a comma and an address; mixed case needs a right checksum";
    }
    entries.set(chain?.chainId, address, true);
    return undefined;
  });
  return {
    list: { size: entries.size, has: (chainId, address) => entries.find(chainId, address) === true },
    problems,
  };
}
