/** Names of the built-in chains by their codes, as text in the script: the data of chains has no place in a browser. */
import { chainNames } from "../chains/chains.ts" with { type: "macro" };

export const CHAIN_NAMES: Readonly<Record<string, string>> = chainNames();
