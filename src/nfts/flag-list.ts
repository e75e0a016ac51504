/**
 * Parses the operator's spam list and verified list: text in, a set out. A line is `address` (on every chain) or
 * `chain,address`; `#` starts a comment. It reads no files.
 */
import { type Address, parseAddress } from "../core/hex.ts";
import { ContractMap, listedChain, readLines } from "./list-lines.ts";

export interface FlagList {
  readonly size: number;
  has(chainId: number, address: Address): boolean;
}

export const EMPTY_LIST: FlagList = { size: 0, has: () => false };

/** Parses a list. `problems` has a sentence for each bad line; if there are any, the list must not be used. */
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
      return "must be `address` or `chain,address`; a mixed-case address needs a valid checksum";
    }
    entries.set(chain?.chainId, address, true);
    return undefined;
  });
  return {
    list: { size: entries.size, has: (chainId, address) => entries.find(chainId, address) === true },
    problems,
  };
}
