/** The messages of the WebSocket channel, both ways. Client text is checked here; whatever it is, nothing throws past this. */
import { type Chain, DEFAULT_CHAIN, parseChain } from "../chains/chains.ts";
import { type Address, parseAddress } from "../core/hex.ts";

export type ClientMessage =
  | {
      readonly action: "subscribe";
      readonly chain: Chain;
      readonly address: Address;
      readonly since: number | undefined;
    }
  | { readonly action: "unsubscribe"; readonly chain: Chain; readonly address: Address }
  | { readonly action: "ping" };

/**
 * What is wrong. Where the client's message named an address, so does the answer, with its chain: by its name where there
 * is one, else as the client wrote it. With several subscriptions in flight it tells which one it is about.
 */
interface BadMessage extends Partial<Envelope> {
  readonly code: string;
  readonly message: string;
}

/** The stream's facts that every message about it carries. */
export interface Envelope {
  readonly chain: string;
  readonly address: string;
  readonly version: number;
}

export type ServerMessage =
  | (Envelope & {
      readonly type: "status";
      readonly status: "SYNCING" | "SYNCED";
      readonly block: number | null;
      readonly percent: number;
      /** Some of what `since` asked for is too old to be replayed. */
      readonly gap?: true;
    })
  | (Envelope & {
      readonly type: "progress";
      readonly percent: number;
      readonly blocksLeft: number;
      readonly transfers: number;
      /** Nothing has moved for a minute or longer: what is being tried, and what the last request failed for. */
      readonly reason?: string;
    })
  | (Envelope & { readonly type: "indexed"; readonly block: number; readonly hash: string; readonly total: number })
  | (Envelope & {
      readonly type: "transfers";
      /** The newest block with any of the transfers; the follower may read several blocks at a time. */
      readonly block: number;
      /** Decimal. */
      readonly tokenIds: readonly string[];
      readonly truncated?: true;
    })
  | (Envelope & {
      readonly type: "metadata";
      /** Tokens with metadata, tokens that only failed so far, tokens nobody has asked for yet. */
      readonly resolved: number;
      readonly failed: number;
      readonly left: number;
    })
  | (Envelope & { readonly type: "reorged"; readonly block: number; readonly hash: string })
  | (Envelope & {
      readonly type: "failed";
      readonly code: string;
      readonly reason: string;
      /** ISO 8601, or null when there will be none. */
      readonly nextTry: string | null;
    })
  | { readonly type: "unsubscribed"; readonly chain: string; readonly address: string }
  | ErrorMessage
  | { readonly type: "pong" };

/** Carries `version` only where the collection it is about is known. */
export type ErrorMessage = BadMessage & { readonly type: "error" };

const texts = new WeakMap<ServerMessage, string>();

/** A message as it is sent; made once, however many it goes to. */
export function encodeMessage(message: ServerMessage): string {
  let text = texts.get(message);
  if (text === undefined) {
    text = JSON.stringify(message);
    texts.set(message, text);
  }
  return text;
}

const bad = (message: string, about: Partial<Envelope> = {}): BadMessage => ({
  ...about,
  code: "invalid_parameter",
  message,
});

/** A client's text as a message, or what is wrong with it. */
export function parseClientMessage(text: string): ClientMessage | BadMessage {
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch {
    return bad("the message is not JSON");
  }
  if (typeof fields !== "object" || fields === null || Array.isArray(fields))
    return bad("the message is not an object");
  const { action, chain: chainText, address: addressText, since } = fields as Record<string, unknown>;
  if (action === "ping") return { action };
  const chain =
    chainText === undefined ? DEFAULT_CHAIN : typeof chainText === "string" ? parseChain(chainText) : undefined;
  const address = typeof addressText === "string" ? parseAddress(addressText) : undefined;
  const about = typeof addressText === "string" ? named(chain?.name ?? chainText, address ?? addressText) : {};
  if (action !== "subscribe" && action !== "unsubscribe") {
    return bad("action: must be subscribe, unsubscribe or ping", about);
  }
  if (chain === undefined) return bad("chain: must be the name or the code of a chain of this service", about);
  if (address === undefined) {
    return bad("address: must be 0x and 40 hex digits, in one case or with a right EIP-55 checksum", about);
  }
  if (action === "unsubscribe") return { action, chain, address };
  if (since !== undefined && !(typeof since === "number" && Number.isSafeInteger(since) && since >= 0)) {
    return bad("since: must be a version, a whole number of at least 0", about);
  }
  return { action, chain, address, since };
}

const named = (chain: unknown, address: string): Partial<Envelope> =>
  typeof chain === "string" ? { chain, address } : { address };
