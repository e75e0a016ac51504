/** `reindex`, `remove` and `refresh`: changes of one collection. */
import { countedText } from "../core/format.ts";
import { type Address, parseAddress } from "../core/hex.ts";
import { CommandError, type Contract, USAGE } from "./access.ts";
import { type Command, type CommandRun, knownChain, MAX_SHOWN } from "./command.ts";
import { printable } from "./text.ts";

const CHAIN = { chain: { type: "string" } } as const;
const CHAIN_HELP = { "--chain <name>": "eth by default" };

/** Most tokens of a refresh, as over HTTP. */
const MAX_TOKENS = 500;

/** The collection that the words name. @throws CommandError */
export function contractOf({ words, values }: CommandRun, command: string): Contract & { readonly address: Address } {
  const chain = knownChain(String(values["chain"] ?? "eth"));
  const address = parseAddress(words[0] ?? "");
  if (address === undefined) throw new CommandError(`${command} needs the address of a contract`, USAGE);
  return { chain: chain.name, address };
}

const change = (name: "reindex" | "remove", summary: string, done: string): Command => ({
  name,
  usage: `${name} <address> [--chain eth]`,
  summary,
  maxWords: 1,
  scope: "operate",
  options: CHAIN,
  help: CHAIN_HELP,
  run: async (run) => {
    const contract = contractOf(run, name);
    const operator = await run.open();
    try {
      const before = await operator.beginAnew(contract, name);
      const answer = { ...contract, before };
      run.print(
        run.values["json"] === true ? JSON.stringify(answer) : `${contract.chain} ${contract.address}  ${done}`,
      );
      return 0;
    } finally {
      await operator.close();
    }
  },
});

export const reindexCommand = change(
  "reindex",
  "Indexes a collection anew. Repairs a damaged stream; metadata and prices stay",
  "is indexed anew",
);

export const removeCommand = change(
  "remove",
  "Stops following a collection and frees its memory, until a client requests it again",
  "is removed",
);

export const refreshCommand: Command = {
  name: "refresh",
  usage: "refresh <address> [<token id>…] [--chain eth]",
  summary: "Fetches the metadata of all tokens, or of some, again",
  maxWords: 1 + MAX_TOKENS,
  scope: "operate",
  options: CHAIN,
  help: CHAIN_HELP,
  run: async (run) => {
    const contract = contractOf(run, "refresh");
    const ids = run.words.slice(1);
    const wrong = ids.find((id) => !/^\d{1,78}$/.test(id));
    if (wrong !== undefined)
      throw new CommandError(`${printable(wrong.slice(0, MAX_SHOWN))}: not a decimal token id`, USAGE);
    const operator = await run.open();
    try {
      await operator.refresh(contract, ids.length === 0 ? undefined : ids);
      const what = ids.length === 0 ? "all tokens" : countedText(ids.length, "token");
      const text = `${contract.chain} ${contract.address}  metadata of ${what} is fetched again`;
      run.print(run.values["json"] === true ? JSON.stringify({ ...contract, tokenIds: ids }) : text);
      return 0;
    } finally {
      await operator.close();
    }
  },
};
