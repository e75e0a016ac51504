/**
 * The format of a token list, https://tokenlists.org: text in, tokens out. A worker parses large lists, so this file
 * imports nothing that a worker lacks.
 */

import { parseOperatorJson } from "../core/bounded-files.ts";
import { messageOf } from "../core/errors.ts";
import type { ParsedList } from "../core/list-file.ts";

export interface ListedToken {
  readonly name: string;
  readonly symbol: string;
  /** A URL (http, https or ipfs), or "" if the list has none. */
  readonly logo: string;
}

export type ListedTokens = ReadonlyMap<string, ListedToken>;

/** The bounds of the token-lists schema: https://uniswap.org/tokenlist.schema.json. */
const MAX_TOKENS = 10_000;
const MAX_NAME = 60;
const MAX_SYMBOL = 20;
const MAX_LOGO = 2_048;

export const listedKey = (chainId: number, address: string): string => `${chainId}/${address.toLowerCase()}`;

/**
 * Parses a token list. Leaves out entries that the format forbids, because some published lists have a few of them.
 * Refuses text that is no list.
 */
export function parseTokenList(text: string): ParsedList<ListedTokens> {
  const list = new Map<string, ListedToken>();
  const refused = (problem: string) => ({ list, problems: [problem] });
  let value: unknown;
  try {
    value = parseOperatorJson(text.replace(/^\ufeff/, ""));
  } catch (error) {
    return refused(
      error instanceof SyntaxError ? "the list is no JSON" : `the list can't be used: ${messageOf(error)}`,
    );
  }
  const tokens = (value as { tokens?: unknown } | null)?.tokens;
  if (!Array.isArray(tokens)) return refused("the list has no `tokens`; the format is https://tokenlists.org");
  if (tokens.length > MAX_TOKENS) return refused(`the list has more than ${MAX_TOKENS} tokens`);
  for (const token of tokens as unknown[]) {
    if (!isToken(token)) continue;
    const place = listedKey(token.chainId, token.address);
    const { name, symbol, logoURI: logo } = token;
    if (!list.has(place)) list.set(place, { name, symbol, logo: isLogo(logo) ? logo : "" });
  }
  if (tokens.length > 0 && list.size === 0) return refused("no entry of `tokens` has the format of a token");
  return { list, problems: [] };
}

interface Token {
  readonly chainId: number;
  readonly address: string;
  readonly name: string;
  readonly symbol: string;
  readonly logoURI?: unknown;
}

function isToken(value: unknown): value is Token {
  const { chainId, address, name, symbol } = (value ?? {}) as Record<string, unknown>;
  return (
    Number.isSafeInteger(chainId) &&
    typeof address === "string" &&
    /^0x[0-9a-fA-F]{40}$/.test(address) &&
    isText(name, MAX_NAME) &&
    isText(symbol, MAX_SYMBOL)
  );
}

const isText = (value: unknown, maxLength: number): value is string =>
  typeof value === "string" && value.length <= maxLength && !/\p{Cc}/u.test(value) && value.isWellFormed();

const isLogo = (value: unknown): value is string =>
  isText(value, MAX_LOGO) && /^(?:https?|ipfs):\/\/[^\s"'<>\\]+$/.test(value);
