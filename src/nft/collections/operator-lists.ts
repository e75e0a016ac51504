/**
 * The files of the operator's lists: spam, verified collections, and names for contracts without one. Reads them, and
 * reads them again when they change. A file that can't be used stops the start.
 */
import type { Chains } from "../../chains/chains.ts";
import type { Clock } from "../../core/clock.ts";
import type { Address } from "../../core/hex.ts";
import { ListFile, type ListPlace } from "../../core/list-file.ts";
import type { Logger } from "../../core/logger.ts";
import { parseFlagList } from "./flag-list.ts";
import { knownName } from "./known-names.ts";
import { ContractMap } from "./list-lines.ts";
import { type ContractNames, parseNameList } from "./name-list.ts";

interface ListFilesOptions {
  readonly chains: Chains;
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
    const { chains, spam, verified, names, maxBytes } = options;
    const parseFlags = (text: string) => parseFlagList(text, chains);
    this.#spam = new ListFile({ ...spam, parse: parseFlags, empty: new ContractMap(), maxBytes });
    this.#verified = new ListFile({ ...verified, parse: parseFlags, empty: new ContractMap(), maxBytes });
    this.#names = new ListFile({
      ...names,
      parse: (text: string) => parseNameList(text, chains),
      empty: new ContractMap(),
      maxBytes,
    });
  }

  isSpam(chainId: number, address: Address): boolean {
    return this.#spam.list.find(this.#options.chains.nameOf(chainId), address) === true;
  }

  isVerified(chainId: number, address: Address): boolean {
    return this.#verified.list.find(this.#options.chains.nameOf(chainId), address) === true;
  }

  /** Returns the names for a contract without its own. The same object until the list changes. */
  namesOf(chainId: number, address: Address): ContractNames | undefined {
    return this.#names.list.find(this.#options.chains.nameOf(chainId), address) ?? knownName(chainId, address);
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
