/** The choice of a chain, on every screen that asks for one. */
import { useState } from "preact/hooks";
import { CHAIN_NAMES } from "../../client/index.ts";
import { readyValue, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { useStatus } from "../state/status.ts";
import { Choice } from "./fields.tsx";

/** Most tokens that the service lists at once. */
const MOST_TOKENS = 500;

/**
 * The names of the enabled chains; none until they are known. A key of scope read may not ask for the status: it learns the
 * chains from the tokens that the service knows.
 */
export function useChains(): readonly string[] {
  const { client, scope } = useSession();
  const status = readyValue(useStatus());
  const tokens = useQuery(["tokens", ""], (signal) => client.findTokens("", { limit: MOST_TOKENS, signal }), {
    isOn: scope === "read",
  });
  if (status !== undefined) return status.chains.map(({ name }) => name);
  const known = readyValue(tokens);
  return known?.length === 0 ? Object.values(CHAIN_NAMES) : [...new Set(known?.map(({ chain }) => chain))];
}

/** The chosen chain: at first the given one, else the first of those that are enabled. */
export function useChainChoice(chains: readonly string[], first?: string): [string, (name: string) => void] {
  const [chosen, choose] = useState(first);
  return [chosen ?? chains[0] ?? "eth", choose];
}

interface MenuOptions {
  readonly id: string;
  readonly chains: readonly string[];
  readonly chain: string;
  readonly onChain: (name: string) => void;
}

/** A menu of chains with its label. A chain of a link that is not enabled stands in it, too: the service says so. */
export function ChainMenu({ id, chains, chain, onChain }: MenuOptions) {
  const names = chains.includes(chain) ? chains : [chain, ...chains];
  const options = names.map((name) => ({ value: name, name }));
  return <Choice {...{ id, options }} label="Chain" value={chain} onChoose={onChain} />;
}
