/** Commands that change one collection: `reindex`, `remove` and `refresh`. */
import { countedText } from "../core/format.ts";
import { CommandError, USAGE } from "./access.ts";
import { CHAIN, CHAIN_HELP, type Command, contractOf, shown } from "./command.ts";

/** Most tokens of a refresh, as over HTTP. */
const MAX_TOKENS = 500;

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
    await using service = await run.open({ contracts: [contract] });
    const { before } = await service.ask((client) => client[name](contract));
    const answer = { ...contract, before };
    run.print(run.values["json"] === true ? JSON.stringify(answer) : `${contract.chain} ${contract.address}  ${done}`);
    return 0;
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
    if (wrong !== undefined) throw new CommandError(`${shown(wrong)}: not a decimal token id`, USAGE);
    await using service = await run.open({ contracts: [contract] });
    await service.ask((client) => client.refresh(contract, ids.length === 0 ? undefined : ids));
    const what = ids.length === 0 ? "all tokens" : countedText(ids.length, "token");
    const text = `${contract.chain} ${contract.address}  metadata of ${what} is fetched again`;
    run.print(run.values["json"] === true ? JSON.stringify({ ...contract, tokenIds: ids }) : text);
    return 0;
  },
};
