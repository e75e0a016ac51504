/**
 * Parses the text of clients. In: the text of a message on the socket. Out: the message, or a `BadMessage` that says what is
 * wrong with it; nothing throws. Pure.
 */
import type { Chain, Chains } from "../chains/chains.ts";
import { type Address, parseAddress } from "../core/hex.ts";
import { formatDouble, parseDecimal, type Rational } from "../prices/market/rational.ts";
import { type Mark, parseSince } from "./mark.ts";
import type { MessageOf } from "./message-models.ts";

export interface SubscribeMessage {
  readonly action: "subscribe";
  readonly chain: Chain;
  readonly address: Address;
  /** The last record that the client has, as the `resume` of a message or as a bare version. */
  readonly since: Mark | undefined;
}

export interface PriceSubscribeMessage {
  readonly action: "subscribe";
  readonly chain: Chain;
  readonly token: Address;
  /** Per cent. */
  readonly minChange: Rational | undefined;
}

export type ClientMessage =
  | SubscribeMessage
  | PriceSubscribeMessage
  | { readonly action: "unsubscribe"; readonly chain: Chain; readonly address: Address }
  | { readonly action: "unsubscribe"; readonly chain: Chain; readonly token: Address }
  | { readonly action: "ping" };

/**
 * An error. If the client's message had an address or a token, the error repeats it with its chain: by name if the chain is known,
 * else as the client wrote it. With several requests in flight, the client can match the error to one of them.
 */
type BadMessage = Omit<MessageOf<"error">, "type">;

const bad = (message: string, about: Partial<BadMessage> = {}): BadMessage => {
  return { ...about, code: "invalid_parameter", message };
};

/** Parses a client's text into a message, or into an error. */
export function parseClientMessage(text: string, chains: Chains): ClientMessage | BadMessage {
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch {
    return bad("the message is not JSON");
  }
  if (typeof fields !== "object" || fields === null || Array.isArray(fields))
    return bad("the message is not an object");
  const { action, chain: chainText, address, token, since, minChangePercent } = fields as Record<string, unknown>;
  if (action === "ping") return { action };
  const chain =
    chainText === undefined ? chains.default : typeof chainText === "string" ? chains.parse(chainText) : undefined;
  const field = token === undefined ? "address" : "token";
  const given = token ?? address;
  const of = typeof given === "string" ? parseAddress(given) : undefined;
  const about = typeof given === "string" ? named(chain?.name ?? chainText, field, of ?? given) : {};
  if (action !== "subscribe" && action !== "unsubscribe") {
    return bad("action: must be subscribe, unsubscribe or ping", about);
  }
  if (chain === undefined) return bad("chain: must be the name or the code of a chain of this service", about);
  if (token !== undefined && address !== undefined) return bad("token: must not be given together with address", about);
  if (of === undefined) {
    return bad(`${field}: must be 0x and 40 hex digits, in one case or with a valid EIP-55 checksum`, about);
  }
  if (action === "unsubscribe")
    return token === undefined ? { action, chain, address: of } : { action, chain, token: of };
  const parsed = parseSince(since);
  if (since !== undefined && parsed === undefined) {
    return bad("since: must be the resume of a message, or a version, a whole number of at least 0", about);
  }
  if (token === undefined) return { action, chain, address: of, since: parsed };
  const minChange = parsePercent(minChangePercent);
  if (minChangePercent !== undefined && minChange === undefined) {
    return bad("minChangePercent: must be a number from 0 to 100", about);
  }
  return { action, chain, token: of, minChange };
}

function parsePercent(given: unknown): Rational | undefined {
  const isPercent = typeof given === "number" && given >= 0 && given <= 100;
  return isPercent ? parseDecimal(formatDouble(given)) : undefined;
}

const named = (chain: unknown, field: "address" | "token", of: string): Partial<BadMessage> =>
  typeof chain === "string" ? { chain, [field]: of } : { [field]: of };
