/** Names of chains by their codes. */
import { CHAINS } from "../chains/chains.ts";

export const CHAIN_NAMES: Readonly<Record<string, string>> = Object.fromEntries(
  CHAINS.map(({ code, name }) => [code, name]),
);
