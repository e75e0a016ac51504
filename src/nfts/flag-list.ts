/**
 * One of the operator's lists of contracts: text in, a set out. A line is `address` (on every chain) or
 * `chain,address`; `#` starts a comment. Nothing here reads files.
 */
import { CHAINS, parseChain } from "../chains/chains.ts";
import { type Address, parseAddress } from "../core/hex.ts";

export interface FlagList {
  readonly size: number;
  has(chainId: number, address: Address): boolean;
}

/** Problems told of one file; an operator who mistook the file needs no thousand. */
const MAX_PROBLEMS = 10;

export const EMPTY_LIST: FlagList = { size: 0, has: () => false };

/** The list in `text`; `problems` has a sentence for each bad line, and the list is then not to be used. */
export function parseFlagList(text: string): { list: FlagList; problems: string[] } {
  const everywhere = new Set<Address>();
  const onChain = new Set<string>();
  const problems: string[] = [];
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\n|\r/);
  for (const [index, line] of lines.entries()) {
    const content = line.replace(/#.*$/, "").trim();
    if (content === "") continue;
    const entry = parseEntry(content);
    if ("problem" in entry) {
      if (problems.length === MAX_PROBLEMS) {
        problems.push("and more");
        break;
      }
      problems.push(`line ${index + 1}: ${entry.problem}`);
    } else if (entry.chainId === undefined) everywhere.add(entry.address);
    else onChain.add(`${entry.chainId}/${entry.address}`);
  }
  const list: FlagList = {
    size: everywhere.size + onChain.size,
    has: (chainId, address) => everywhere.has(address) || (onChain.size > 0 && onChain.has(`${chainId}/${address}`)),
  };
  return { list, problems };
}

type Entry = { readonly chainId: number | undefined; readonly address: Address } | { readonly problem: string };

function parseEntry(content: string): Entry {
  const comma = content.indexOf(",");
  const chainText = comma < 0 ? undefined : content.slice(0, comma).trim();
  const chain = chainText === undefined ? undefined : parseChain(chainText);
  const address = parseAddress(content.slice(comma + 1).trim());
  if (chainText !== undefined && chain === undefined) {
    return { problem: `the chain must be one of ${CHAINS.map(({ name }) => name).join(", ")}` };
  }
  if (address === undefined) {
    return { problem: "must be an address, or a chain, a comma and an address; mixed case needs a right checksum" };
  }
  return { chainId: chain?.chainId, address };
}
