/**
 * The operator's names for contracts that have none: text in, names by contract out. A line is `address,name,symbol` (on
 * every chain) or `chain,address,name,symbol`; the symbol may be left out, what holds a comma stands in double quotes, and
 * a line that begins with `#` is a comment. Nothing here reads files.
 */
import { type Address, parseAddress } from "../core/hex.ts";
import { ContractMap, listedChain, readLines } from "./list-lines.ts";

export interface ContractNames {
  readonly name: string;
  /** "" for none. */
  readonly symbol: string;
}

export interface NameList {
  readonly size: number;
  find(chainId: number, address: Address): ContractNames | undefined;
}

/** As long as what is read of a contract. */
const MAX_LENGTH = 256;

/** The list in `text`; `problems` has a sentence for each bad line, and the list is then not to be used. */
export function parseNameList(text: string): { list: NameList; problems: string[] } {
  const list = new ContractMap<ContractNames>();
  const problems = readLines(text, (line) => {
    if (line.trimStart().startsWith("#")) return undefined;
    const fields = fieldsOf(line);
    if (fields === undefined) return "a quote is opened and not closed, or text follows one";
    const isEverywhere = parseAddress(fields[0] ?? "") !== undefined;
    const chain = isEverywhere || fields.length < 3 ? undefined : listedChain(fields[0] ?? "");
    if (chain !== undefined && "problem" in chain) return chain.problem;
    const [addressText = "", name = "", symbol = "", ...more] = chain === undefined ? fields : fields.slice(1);
    const address = parseAddress(addressText);
    if (address === undefined || more.length > 0) {
      return "must be an address, a name and perhaps a symbol, with a chain before them or not; mixed case needs a right checksum";
    }
    if (!isText(name) || name === "" || !isText(symbol)) {
      return `the name must have 1 to ${MAX_LENGTH} characters, the symbol at most as many, and none that controls`;
    }
    list.set(chain?.chainId, address, { name, symbol });
    return undefined;
  });
  return { list, problems };
}

const isText = (text: string): boolean => text.length <= MAX_LENGTH && !/\p{Cc}/u.test(text) && text.isWellFormed();

/** The fields of a line as spreadsheets write them, without the spaces around; undefined where quotes do not fit. */
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
