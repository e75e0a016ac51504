/**
 * The operator's lists: spam, verified collections, and names for contracts without one. Parses them, reads their
 * files, and reads them again when they change. A file that can't be used stops the start.
 */
import { knownChains, parseChain } from "../../chains/chains.ts";
import type { Clock } from "../../core/clock.ts";
import { ListFile, type ListPlace, type ParsedList } from "../../core/files.ts";
import { type Address, parseAddress, toAddress } from "../../core/hex.ts";
import type { Logger } from "../../core/logger.ts";

// Shared parser of the operator's lists. In: lines of text, each about a contract on one chain or on all chains. Out:
// problems by line number, and a map of entries by chain and contract. It reads no files.

/** Problems reported per file. Ten lines are enough to show that it is the wrong file. */
const MAX_PROBLEMS = 10;

/** Calls `read` with each non-empty line; `read` returns a problem or undefined. Returns one sentence per bad line. */
function readLines(text: string, read: (line: string) => string | undefined): string[] {
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
function listedChain(text: string): { readonly chainId: number } | { readonly problem: string } {
  const chain = parseChain(text);
  if (chain !== undefined) return chain;
  return {
    problem: `the chain must be one of ${knownChains()
      .map(({ name }) => name)
      .join(", ")}`,
  };
}

/** Entries by contract. An entry for one chain takes precedence over an entry for all chains. */
class ContractMap<T> {
  readonly #everywhere = new Map<Address, T>();
  readonly #onChain = new Map<string, T>();

  get size(): number {
    return this.#everywhere.size + this.#onChain.size;
  }

  /** @param chainId undefined for all chains */
  set(chainId: number | undefined, address: Address, entry: T): void {
    if (chainId === undefined) this.#everywhere.set(address, entry);
    else this.#onChain.set(`${chainId}/${address}`, entry);
  }

  find(chainId: number, address: Address): T | undefined {
    const own = this.#onChain.size > 0 ? this.#onChain.get(`${chainId}/${address}`) : undefined;
    return own ?? this.#everywhere.get(address);
  }
}

// Parses the operator's spam list and verified list: text in, a set out. A line is `address` (on every chain) or
// `chain,address`; `#` starts a comment. It reads no files.

type Parsed<T> = ParsedList<ContractMap<T>>;

export function parseFlagList(text: string): Parsed<true> {
  const list = new ContractMap<true>();
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
    list.set(chain?.chainId, address, true);
    return undefined;
  });
  return { list, problems };
}

// Parses the operator's names for contracts without one: text in, names by contract out. A line is
// `address,name,symbol` (on every chain) or `chain,address,name,symbol`. The symbol is optional, a field with a comma
// needs double quotes, and a line that begins with `#` is a comment. It reads no files.

export interface ContractNames {
  readonly name: string;
  /** "" for none. */
  readonly symbol: string;
  /** The rule of spam that the name matches. None applies to the operator's own. */
  readonly rule?: string;
}

/** Characters of a name or symbol: the same bound as for those read from a contract. */
const MAX_LENGTH = 256;

export function parseNameList(text: string): Parsed<ContractNames> {
  const list = new ContractMap<ContractNames>();
  const problems = readLines(text, (line) => {
    if (line.trimStart().startsWith("#")) return undefined;
    const fields = fieldsOf(line);
    if (fields === undefined) return "a double quote is not closed, or text follows a closing one";
    const isEverywhere = parseAddress(fields[0] ?? "") !== undefined;
    const chain = isEverywhere || fields.length < 3 ? undefined : listedChain(fields[0] ?? "");
    if (chain !== undefined && "problem" in chain) return chain.problem;
    const [addressText = "", name = "", symbol = "", ...more] = chain === undefined ? fields : fields.slice(1);
    const address = parseAddress(addressText);
    if (address === undefined || more.length > 0) {
      return "must be `address,name[,symbol]` or `chain,address,name[,symbol]`; a mixed-case address needs a valid checksum";
    }
    if (!isText(name) || name === "" || !isText(symbol)) {
      return `the name must have 1 to ${MAX_LENGTH} characters, the symbol no more, and neither may have control characters`;
    }
    list.set(chain?.chainId, address, { name, symbol });
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

// Well-known names of contracts that answer neither `name()` nor `symbol()`. A contract's own answer takes precedence,
// and so does the operator's list.

interface KnownName extends ContractNames {
  /** Chain ids. */
  readonly chains: readonly number[];
  readonly address: Address;
  /** Public page with the address and the name. */
  readonly source: string;
}

export const KNOWN_NAMES: readonly KnownName[] = [
  {
    // If the contract answers, its own name is CRYPTOPUNKS.
    name: "CryptoPunks",
    symbol: "Ͼ",
    chains: [1],
    address: toAddress("0xb47e3cd837ddf8e4c57f05d70ab865de6e193bbb"),
    source: "https://github.com/larvalabs/cryptopunks",
  },
  {
    name: "Ethereum Name Service",
    symbol: "ENS",
    // The base registrar of .eth has one address on mainnet and Sepolia.
    chains: [1, 11155111],
    address: toAddress("0x57f1887a8bf19b14fc0df6fd9b2acc9af147ea85"),
    source: "https://docs.ens.domains/learn/deployments",
  },
];

const NAMES = new Map(KNOWN_NAMES.flatMap((known) => known.chains.map((id) => [`${id}/${known.address}`, known])));

/** The built-in name of a contract, if there is one. */
export const knownName = (chainId: number, address: Address): ContractNames | undefined =>
  NAMES.get(`${chainId}/${address}`);

interface ListFilesOptions {
  readonly spam: ListPlace;
  readonly verified: ListPlace;
  readonly names: ListPlace;
  readonly maxBytes: number;
  readonly pollMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class ListFiles implements FlagLists {
  readonly #options: ListFilesOptions;
  readonly #spam: ListFile<ContractMap<true>>;
  readonly #verified: ListFile<ContractMap<true>>;
  readonly #names: ListFile<ContractMap<ContractNames>>;

  constructor(options: ListFilesOptions) {
    this.#options = options;
    const { spam, verified, names, maxBytes } = options;
    this.#spam = new ListFile({ ...spam, parse: parseFlagList, empty: new ContractMap(), maxBytes });
    this.#verified = new ListFile({ ...verified, parse: parseFlagList, empty: new ContractMap(), maxBytes });
    this.#names = new ListFile({ ...names, parse: parseNameList, empty: new ContractMap(), maxBytes });
  }

  isSpam(chainId: number, address: Address): boolean {
    return this.#spam.list.find(chainId, address) === true;
  }

  isVerified(chainId: number, address: Address): boolean {
    return this.#verified.list.find(chainId, address) === true;
  }

  /** Returns the names for a contract without its own. The same object until the list changes. */
  namesOf(chainId: number, address: Address): ContractNames | undefined {
    return this.#names.list.find(chainId, address) ?? knownName(chainId, address);
  }

  /** Reads all lists for the first time. Returns their problems, one sentence each. */
  async load(): Promise<string[]> {
    const problems: string[] = [];
    for (const file of this.#files) problems.push(...((await file.refresh())?.problems ?? []));
    return problems;
  }

  get #files(): readonly ListFile<ContractMap<true> | ContractMap<ContractNames>>[] {
    return [this.#spam, this.#verified, this.#names].filter((file) => file.path !== undefined);
  }

  /** Polls the files for changes until the signal aborts. @param onChange called after a list was replaced */
  async watch(onChange: () => void, signal: AbortSignal): Promise<void> {
    const { clock, logger, pollMs } = this.#options;
    while (this.#files.length > 0) {
      await clock.sleep(pollMs, signal);
      for (const file of this.#files) {
        const change = await file.refresh();
        if (change === undefined) continue;
        if (change.problems.length > 0) {
          logger.warn({ problems: change.problems }, "a list file is unusable: the previous list stays in force");
        } else {
          logger.info({ setting: file.key, entries: file.list.size }, "a list file changed and was read again");
          onChange();
        }
      }
    }
  }
}

/** The contents of the operator's two files. */
export interface FlagLists {
  isSpam(chainId: number, address: Address): boolean;
  isVerified(chainId: number, address: Address): boolean;
}
