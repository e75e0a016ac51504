/**
 * Parses the operator's spam list and verified list: text in, a set out. A line is `address` (on every chain) or
 * `chain,address`; `#` starts a comment. It reads no files.
 */
import type { Chains } from "../../chains/chains.ts";
import { parseAddress } from "../../core/hex.ts";
import { ContractMap, listedChain, type ParsedContracts, readLines } from "./list-lines.ts";

export function parseFlagList(text: string, chains: Chains): ParsedContracts<true> {
  const list = new ContractMap<true>();
  const problems = readLines(text, (line) => {
    const content = line.replace(/#.*$/, "").trim();
    if (content === "") return undefined;
    const comma = content.indexOf(",");
    const chain = comma < 0 ? undefined : listedChain(content.slice(0, comma).trim(), chains);
    const address = parseAddress(content.slice(comma + 1).trim());
    if (chain !== undefined && "problem" in chain) return chain.problem;
    if (address === undefined) {
      return "must be `address` or `chain,address`; a mixed-case address needs a valid checksum";
    }
    list.set(chain?.name, address, true);
    return undefined;
  });
  return { list, problems };
}
