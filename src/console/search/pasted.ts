/** What a pasted text names: an address, with its chain and a token of it if it has them. Links of explorers and markets do. */
import { CHAIN_NAMES } from "../../client/index.ts";

export interface PastedAddress {
  readonly address: string;
  /** Undefined where the text names none. */
  readonly chain: string | undefined;
  /** Decimal id of the token. */
  readonly id: string | undefined;
}

/** What links call a chain, beside its own name. */
const CHAINS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Object.values(CHAIN_NAMES).map((name) => [name, name])),
  ...{ ethereum: "eth", mainnet: "eth", etherscan: "eth", matic: "polygon", polygonscan: "polygon", pol: "polygon" },
  ...{ bnb: "bsc", bscscan: "bsc", binance: "bsc", avax: "avalanche", snowtrace: "avalanche", snowscan: "avalanche" },
  ...{ arb: "arbitrum", arbiscan: "arbitrum", basescan: "base", optimistic: "optimism", ftmscan: "fantom" },
  ...{ xdai: "gnosis", gnosisscan: "gnosis", lineascan: "linea", scrollscan: "scroll", era: "zksync" },
  ...{ blastscan: "blast", mantlescan: "mantle", uniscan: "unichain", celoscan: "celo", cronoscan: "cronos" },
  ...{ worldscan: "worldchain", sonicscan: "sonic", berascan: "berachain" },
};

/** `0x…/5`, `0x…:5`, `0x…/instance/5`, `0x…?a=5`: markets and explorers put the id of a token behind its contract. */
const ADDRESS =
  /(0x[0-9a-f]{40})(?![0-9a-f])(?:[/:](?:[a-z]+[/:])?(\d{1,78})(?!\w)|[^ ]*[?&](?:a|id|token_?id)=(\d{1,78})(?!\w))?/i;

/** The address that a text names, such as `0x…`, `0x…/5`, `base:0x…` or a link; undefined if it names none. */
export function pastedAddress(text: string): PastedAddress | undefined {
  const found = ADDRESS.exec(text);
  if (found === null) return undefined;
  const [, address = "", near, far] = found;
  return { address: address.toLowerCase(), chain: chainIn(text.slice(0, found.index)), id: near ?? far };
}

/** The chain that the beginning of a link or a text names. */
function chainIn(text: string): string | undefined {
  const [, caip] = /eip155:(\d+)/.exec(text) ?? [];
  if (caip !== undefined) return CHAIN_NAMES[`0x${Number(caip).toString(16)}`];
  const words = text.toLowerCase().split(/[^a-z0-9]+/);
  // A testnet shares its words with the chain that it is a test of.
  return words.includes("testnet") ? undefined : words.map((word) => CHAINS[word]).find((name) => name !== undefined);
}

/** The words to search for: of a link without an address its last part, which markets make of a collection's name. */
export function searchedWords(text: string): string {
  const [, path] = /^https?:\/\/[^/]+\/([^?#]*)/i.exec(text) ?? [];
  return path === undefined ? text : (path.split("/").filter(Boolean).at(-1) ?? text);
}
