/**
 * Entry point of the worker that parses one large token list. In: the text, then a request for each further part. Out:
 * the list in parts, then its problems. The thread that serves requests copies one part per turn of its event loop.
 */
import { lowerThreadPriority } from "../core/thread-priority.ts";
import { type ListedToken, parseTokenList } from "./token-list.ts";

/** Some tokens of the list, or its end. */
export type TokenListPart =
  | { readonly tokens: readonly (readonly [place: string, token: ListedToken])[] }
  | { readonly problems: readonly string[] };

/** Tokens per part. Copying them takes half a millisecond. */
const TOKENS_PER_PART = 500;

declare const self: Worker;

lowerThreadPriority();

function* partsOf(text: string): Generator<TokenListPart> {
  const { list, problems } = parseTokenList(text);
  const tokens = [...list];
  for (let from = 0; from < tokens.length; from += TOKENS_PER_PART) {
    yield { tokens: tokens.slice(from, from + TOKENS_PER_PART) };
  }
  yield { problems };
}

let parts: Generator<TokenListPart> | undefined;

self.onmessage = ({ data: text }: MessageEvent<string | undefined>) => {
  if (text !== undefined) parts = partsOf(text);
  self.postMessage(parts?.next().value);
};
