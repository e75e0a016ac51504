/**
 * The AsyncAPI document of the socket. Schemas are those of `push/message-models.ts`; a test validates the document, its
 * examples, and every message of a real subscription.
 */
import type { Static } from "@sinclair/typebox";
import { LIMITS } from "../config.ts";
import { CLIENT_MESSAGES, SERVER_MESSAGES } from "../push/message-models.ts";
import { INFO } from "./openapi.ts";
import { HEADER_EXAMPLES, NFT_ADDRESS, TOKEN_ADDRESS } from "./wire/examples.ts";
import { API_PREFIX } from "./wire/paths.ts";

const ENVELOPE = { chain: "eth", address: NFT_ADDRESS };
const RECORD = { version: 4, resume: "4.1munxio" };
const BLOCK = Number(HEADER_EXAMPLES.block);
const { hash } = HEADER_EXAMPLES;

const TOKEN = { chain: "eth", token: TOKEN_ADDRESS };
const SOCKET_LIMITS = {
  messagesPerSecond: LIMITS.maxSocketMessagesPerSecond,
  subscriptionsPerConnection: LIMITS.maxSubscriptionsPerSocket,
  messageBytes: LIMITS.maxSocketMessage,
  unreadBytes: LIMITS.maxSocketBuffer,
};

type Examples = {
  readonly [Name in keyof typeof SERVER_MESSAGES]: Static<(typeof SERVER_MESSAGES)[Name]>;
};

const SERVER_EXAMPLES: Examples = {
  StatusMessage: {
    ...{ type: "status", ...ENVELOPE, version: 1, status: "SYNCING", block: null, percent: 0 },
    limits: SOCKET_LIMITS,
  },
  ProgressMessage: { type: "progress", ...ENVELOPE, version: 3, percent: 42, blocksLeft: 5_100_000, transfers: 31_200 },
  IndexedMessage: { type: "indexed", ...ENVELOPE, ...RECORD, block: BLOCK, hash, total: 9_998 },
  TransfersMessage: { type: "transfers", ...ENVELOPE, ...RECORD, block: BLOCK, tokenIds: ["1234"] },
  MetadataMessage: { type: "metadata", ...ENVELOPE, ...RECORD, resolved: 9_000, failed: 98, left: 900 },
  ReorgedMessage: { type: "reorged", ...ENVELOPE, ...RECORD, block: BLOCK, hash },
  FailedMessage: {
    ...{ type: "failed", ...ENVELOPE, ...RECORD },
    code: "indexing_failed",
    reason: "no endpoint of eth answers",
    nextTry: HEADER_EXAMPLES.time,
  },
  TokenStatusMessage: { type: "status", ...TOKEN, block: BLOCK, limits: SOCKET_LIMITS },
  PriceMessage: {
    ...{ type: "price", ...TOKEN, block: BLOCK, hash, usdPrice: 6.54, confidence: "0.98" },
    nativePrice: {
      ...{ value: "2500000000000000", decimals: 18, name: "Ether", symbol: "ETH" },
      address: "0xc02aaa39b223fe8d0a0e5c4f27ead9083c756cc2",
    },
    resume: "21000000.1munxio",
  },
  UnsubscribedMessage: { type: "unsubscribed", ...ENVELOPE },
  ErrorMessage: {
    ...{ type: "error", code: "invalid_parameter" },
    message: "action: must be subscribe, unsubscribe or ping",
  },
  PongMessage: { type: "pong" },
};

const CLIENT_EXAMPLES: Readonly<Record<keyof typeof CLIENT_MESSAGES, object>> = {
  SubscribeMessage: { action: "subscribe", ...ENVELOPE, since: RECORD.resume },
  UnsubscribeMessage: { action: "unsubscribe", ...ENVELOPE },
  SubscribeToPriceMessage: { action: "subscribe", ...TOKEN, minChangePercent: 0.5 },
  UnsubscribeFromPriceMessage: { action: "unsubscribe", ...TOKEN },
  PingMessage: { action: "ping" },
};

/** `subscribeToPrice` for `SubscribeToPriceMessage`. */
const nameOf = (component: string): string =>
  component.charAt(0).toLowerCase() + component.slice(1).replace(/Message$/, "");

function messagesOf(
  schemas: Readonly<Record<string, { readonly description?: string }>>,
  examples: Readonly<Record<string, object>>,
): Record<string, object> {
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [
      name,
      {
        name: nameOf(name),
        summary: schema.description,
        contentType: "application/json",
        payload: { $ref: `#/components/schemas/${name}` },
        examples: [{ payload: examples[name] }],
      },
    ]),
  );
}

const refTo = (place: string) => ({ $ref: `#/${place}` });

/** One direction of the channel. */
const operation = (action: "receive" | "send", summary: string, schemas: object) => ({
  action,
  channel: refTo("channels/collections"),
  summary,
  messages: Object.keys(schemas).map((name) => refTo(`channels/collections/messages/${name}`)),
});

function serverOf(publicUrl: string): object {
  const { protocol, host, pathname } = new URL(publicUrl);
  const path = pathname.replace(/\/+$/, "");
  return {
    host,
    ...(path === "" ? {} : { pathname: path }),
    protocol: protocol === "https:" ? "wss" : "ws",
    description: "The key is sent in the header or, from a browser, in the subprotocols evm.v2 and apikey.<key>",
    security: [refTo("components/securitySchemes/ApiKeyAuth")],
  };
}

/** @param publicUrl base URL that clients see */
export function socketDocument(publicUrl: string): object {
  const schemas = { ...CLIENT_MESSAGES, ...SERVER_MESSAGES };
  return {
    asyncapi: "3.0.0",
    info: {
      ...INFO,
      title: `${INFO.title}: messages`,
      description:
        "The WebSocket channel. It tells when a collection has finished indexing, and what happens to it afterwards; and the price of a token whenever it changes. A message is sent once pages of the HTTP API show what it tells. Each connection and each subscribe takes a request of the key's rate, and so does what a subscription costs over time; beyond the rate, subscribe gets an error with code rate_limited that says when to try again, and the price of a token comes later. ping and unsubscribe take none. A key has a share of the connections.",
    },
    defaultContentType: "application/json",
    servers: { service: serverOf(publicUrl) },
    channels: {
      collections: {
        address: `${API_PREFIX}/ws`,
        title: "Collections",
        description: "One connection holds many subscriptions. A slow reader is closed with a reason.",
        servers: [refTo("servers/service")],
        messages: Object.fromEntries(Object.keys(schemas).map((name) => [name, refTo(`components/messages/${name}`)])),
        bindings: { ws: { method: "GET", bindingVersion: "0.1.0" } },
      },
    },
    operations: {
      request: operation("receive", "What a client sends", CLIENT_MESSAGES),
      tell: operation("send", "What the service sends", SERVER_MESSAGES),
    },
    components: {
      schemas,
      messages: {
        ...messagesOf(CLIENT_MESSAGES, CLIENT_EXAMPLES),
        ...messagesOf(SERVER_MESSAGES, SERVER_EXAMPLES),
      },
      securitySchemes: { ApiKeyAuth: { type: "httpApiKey", in: "header", name: "X-API-Key" } },
    },
  };
}
