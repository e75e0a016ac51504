/** The tokens that were looked at last, kept on this device. Services below other paths of one origin have other tokens. */
import type { KnownToken } from "../../client/index.ts";
import { isAddress } from "../parts/format.ts";
import { BASE } from "../state/base.ts";

export type ViewedToken = Pick<KnownToken, "chain" | "address" | "symbol" | "name">;

const NAME = `evm-data-tokens:${new URL(BASE).pathname}`;
const MOST_SEEN = 12;

/** Notes that a token was looked at. */
export function noteToken({ chain, address, symbol, name }: ViewedToken): void {
  const others = seenTokens().filter((one) => one.chain !== chain || one.address !== address);
  localStorage.setItem(NAME, JSON.stringify([{ chain, address, symbol, name }, ...others].slice(0, MOST_SEEN)));
}

/** The tokens that were looked at, newest first. Another release may have written something else there. */
export function seenTokens(): readonly ViewedToken[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(NAME) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isToken) : [];
  } catch {
    return [];
  }
}

function isToken(one: unknown): one is ViewedToken {
  const { chain, address, symbol, name = null } = (one ?? {}) as Partial<Record<keyof ViewedToken, unknown>>;
  const isText = [chain, address, symbol, name ?? ""].every((part) => typeof part === "string");
  return isText && isAddress(address as string);
}
