/**
 * Parses the text of clients, and writes that of the service's messages. Invalid text becomes a `BadMessage`; nothing
 * throws.
 */
import { type Chain, DEFAULT_CHAIN, parseChain } from "../chains/chains.ts";
import { type Address, parseAddress } from "../core/hex.ts";
import type { ErrorMessage, ServerMessage } from "./message-models.ts";

export interface SubscribeMessage {
  readonly action: "subscribe";
  readonly chain: Chain;
  readonly address: Address;
  readonly since: Since | undefined;
}

/** A record of a stream. The checksum is undefined if the sender or the receiver of a message does not know it. */
export interface Mark {
  readonly version: number;
  readonly checksum: number | undefined;
}

/** The last record that a client has, as the `resume` of a message or as a bare version. */
export type Since = Mark;

/** Returns the text of `resume`; undefined if the record's checksum is not known. */
export function resumeText({ version, checksum }: Mark): string | undefined {
  return checksum === undefined || version === 0 ? undefined : `${version}.${checksum.toString(36)}`;
}

function parseSince(since: unknown): Since | undefined {
  if (typeof since === "number" && Number.isSafeInteger(since) && since >= 0)
    return { version: since, checksum: undefined };
  const [, version, checksum] = (typeof since === "string" && /^(\d{1,10})\.([\da-z]{1,7})$/.exec(since)) || [];
  if (version === undefined || checksum === undefined) return undefined;
  return { version: Number(version), checksum: Number.parseInt(checksum, 36) };
}

export type ClientMessage =
  | SubscribeMessage
  | { readonly action: "unsubscribe"; readonly chain: Chain; readonly address: Address }
  | { readonly action: "ping" };

/**
 * An error. If the client's message had an address, the error repeats it with its chain: by name if the chain is known,
 * else as the client wrote it. With several requests in flight, the client can match the error to one of them.
 */
type BadMessage = Omit<ErrorMessage, "type">;

const texts = new WeakMap<ServerMessage, string>();

/** Returns a message's text. Serialised once, for any number of subscribers. */
export function encodeMessage(message: ServerMessage): string {
  let text = texts.get(message);
  if (text === undefined) {
    text = JSON.stringify(message);
    texts.set(message, text);
  }
  return text;
}

const bad = (message: string, about: Partial<BadMessage> = {}): BadMessage => {
  return { ...about, code: "invalid_parameter", message };
};

/** Parses a client's text into a message, or into an error. */
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
    return bad("address: must be 0x and 40 hex digits, in one case or with a valid EIP-55 checksum", about);
  }
  if (action === "unsubscribe") return { action, chain, address };
  if (since === undefined) return { action, chain, address, since };
  const parsed = parseSince(since);
  if (parsed === undefined) {
    return bad("since: must be the resume of a message, or a version, a whole number of at least 0", about);
  }
  return { action, chain, address, since: parsed };
}

const named = (chain: unknown, address: string): Partial<BadMessage> =>
  typeof chain === "string" ? { chain, address } : { address };
