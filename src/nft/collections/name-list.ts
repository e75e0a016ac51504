/**
 * Parses the operator's names for contracts without one: text in, names by contract out. A line is
 * `address,name,symbol` (on every chain) or `chain,address,name,symbol`. The symbol is optional, a field with a comma
 * needs double quotes, and a line that begins with `#` is a comment. It reads no files.
 */
import type { Chains } from "../../chains/chains.ts";
import { parseAddress } from "../../core/hex.ts";
import { ContractMap, listedChain, type ParsedContracts, readLines } from "./list-lines.ts";

export interface ContractNames {
  readonly name: string;
  /** "" for none. */
  readonly symbol: string;
  /** The rule of spam that the name matches. None applies to the operator's own. */
  readonly rule?: string;
}

/** Characters of a name or symbol: the same bound as for those read from a contract. */
const MAX_LENGTH = 256;

export function parseNameList(text: string, chains: Chains): ParsedContracts<ContractNames> {
  const list = new ContractMap<ContractNames>();
  const problems = readLines(text, (line) => {
    if (line.trimStart().startsWith("#")) return undefined;
    const fields = fieldsOf(line);
    if (fields === undefined) return "a double quote is not closed, or text follows a closing one";
    const isEverywhere = parseAddress(fields[0] ?? "") !== undefined;
    const chain = isEverywhere || fields.length < 3 ? undefined : listedChain(fields[0] ?? "", chains);
    if (chain !== undefined && "problem" in chain) return chain.problem;
    const [addressText = "", name = "", symbol = "", ...more] = chain === undefined ? fields : fields.slice(1);
    const address = parseAddress(addressText);
    if (address === undefined || more.length > 0) {
      return "must be `address,name[,symbol]` or `chain,address,name[,symbol]`; a mixed-case address needs a valid checksum";
    }
    if (!isText(name) || name === "" || !isText(symbol)) {
      return `the name must have 1 to ${MAX_LENGTH} characters, the symbol no more, and neither may have control characters`;
    }
    list.set(chain?.name, address, { name, symbol });
    return undefined;
  });
  return { list, problems };
}

const isText = (text: string): boolean => text.length <= MAX_LENGTH && !/\p{Cc}/u.test(text) && text.isWellFormed();

/** The fields of a CSV line, trimmed; undefined if its quotes are malformed. */
function fieldsOf(line: string): string[] | undefined {
  const field = /\s*(?:"((?:[^"]|"")*)"|([^",]*))\s*(?:,|$)/y;
  const fields: string[] = [];
  while (field.lastIndex < line.length) {
    const [, quoted, plain = ""] = field.exec(line) ?? [];
    if (field.lastIndex === 0) return undefined;
    fields.push(quoted === undefined ? plain.trim() : quoted.replaceAll('""', '"'));
  }
  return fields;
}
