/**
 * Documents beside OpenAPI's: the AsyncAPI document of the socket at `/asyncapi.json`, and `/llms.txt`, a page in the form of
 * llmstxt.org that a language model reads to write a client. Both name the public URL.
 */
import type { Static } from "@sinclair/typebox";
import { Elysia } from "elysia";
import { knownChains } from "../chains/chains.ts";
import { LIMITS } from "../config.ts";
import { ERROR_CODES } from "../core/errors.ts";
import type { WireTypes } from "../core/schema-parts.ts";
import type { KeyLimits } from "../operators/keys.ts";
import { CLIENT_MESSAGES, SERVER_MESSAGES } from "../push/message-models.ts";
import { LISTING_WORDS } from "../status-words.ts";
import { HIDDEN, INFO } from "./openapi.ts";
import type { ChainDeps } from "./wire/answered-block.ts";
import { json } from "./wire/answers.ts";
import { HEADER_EXAMPLES, NFT_ADDRESS, TOKEN_ADDRESS } from "./wire/examples.ts";
import type { Operation } from "./wire/operation.ts";
import { API_PREFIX, isApiPath, isOperatorPath } from "./wire/paths.ts";

// ── Language models ──

interface DocumentOptions extends ChainDeps {
  /** Base URL that clients see, without a trailing slash. */
  readonly url: () => string;
  readonly wireTypes: WireTypes;
  readonly operations: readonly Operation<never>[];
  /** The limits of keys that have none of their own. */
  readonly keyLimits: KeyLimits;
}

/** What this server takes: chains, page sizes, requests. */
function limitsText({ operations, keyLimits, ...deps }: DocumentOptions): string {
  const chains = knownChains().filter((chain) => deps.nftChain(chain) !== undefined);
  const { requestsPerMinute, collectionsPerHour, subscriptions } = keyLimits;
  const most = (id: string) => operations.find((one) => one.id === id)?.query["limit"]?.schema["maximum"];
  return `- Chains that are enabled here, for \`chain\`: ${chains.map(({ name }) => `\`${name}\``).join(", ")}
- Requests: ${requestsPerMinute} per minute and key, unless the operator gave the key another limit
- New collections: ${collectionsPerHour} per hour and key of scope read
- Subscriptions: ${subscriptions} per key of scope read
- Page size: at most ${most("getContractNFTs")} NFTs of a contract, ${most("listHolders")} entries of another list
- Cursors: opaque, bound to address, chain and block, without an end in time. After a reorganisation of their block they get 410 with the code \`cursor_reorged\`: start again without it`;
}

/** One line for each query parameter of an operation, with its values. */
function parameterLines({ query }: Operation<never>): string {
  const lines = Object.entries(query).map(([name, { description, schema }]) => {
    const { enum: words, default: absent } = schema as {
      readonly enum?: readonly unknown[];
      readonly default?: unknown;
    };
    const values = words === undefined ? "" : ` One of ${words.map((value) => `\`${value}\``).join(", ")}.`;
    const fallback = absent === undefined ? "" : ` Default: \`${absent}\`.`;
    return `- \`${name}\`: ${description}.${values}${fallback}`;
  });
  return lines.join("\n");
}

/** One line for each operation that the page does not explain by itself. */
function operationLines(operations: readonly Operation<never>[], base: string): string {
  const lines = operations.map(({ method, path, scope, summary, query }) => {
    const names = Object.keys(query).map((name) => `\`${name}\``);
    const parameters = names.length === 0 ? "" : `; parameters ${names.join(", ")}`;
    const shown = path.replace(/:(\w+)/g, "{$1}");
    return `- \`${method} ${base}${shown}\`: ${summary} (scope ${scope}${parameters})`;
  });
  return lines.join("\n");
}

/** Operations with a paragraph of their own. */
const EXPLAINED = ["getContractNFTs", "getTokenPrice", "subscribe"];

function languageModelPage(options: DocumentOptions): string {
  const { url, operations, wireTypes } = options;
  const base = url();
  const explained = (id: string) => parameterLines(operations.find((one) => one.id === id) as Operation<never>);
  const others = operations.filter(
    ({ path, id }) => isOperatorPath(path) || (isApiPath(path) && !EXPLAINED.includes(id)),
  );
  const counts = wireTypes === "seed" ? "Counts and flags are strings" : "Counts are numbers and flags are booleans";
  return `# EVM data service

> Two questions about EVM chains over HTTP: which NFTs are in a contract, with owners and metadata, and what is an ERC-20 token worth, in native coin and US dollars, now or at a block. Listings are true at one block, also at past ones.

Every request under \`${base}/api\` needs the header \`X-API-Key\`. Answers are JSON. An error is \`{message, code, details?}\`; its message names the parameter and the way out. After 429 and 503 wait for the seconds of \`Retry-After\`. Codes: ${ERROR_CODES.join(", ")}.

**List the NFTs of a contract**: \`GET ${base}/api/v2/nft/{address}\`, for example \`curl -H 'X-API-Key: <key>' '${base}/api/v2/nft/${NFT_ADDRESS}?chain=eth&limit=100'\`

${explained("getContractNFTs")}

The body is \`{status, total, page, page_size, cursor, result}\`. ${counts}. For the next page send \`cursor\` with the same address and chain, until it is null: all pages are true at the block of the header \`x-as-of-block\`. \`status\` of a contract that is new to the service is \`SYNCING\` (${LISTING_WORDS.SYNCING.meaning}), then \`SYNCED\`; the answer comes at once. Burned tokens are not listed. \`metadata\` is JSON in a string.

**Price a token**: \`GET ${base}/api/v2/erc20/{address}/price\`, for example \`curl -H 'X-API-Key: <key>' '${base}/api/v2/erc20/${TOKEN_ADDRESS}/price?include=percent_change'\`

${explained("getTokenPrice")}

\`nativePrice.value\` is the price of one whole token in the smallest unit of the native coin. \`usdPriceFormatted\` has all digits. A token without a price is a 404 whose \`details.pools\` gives each pool's reason. For up to 100 tokens at one block: \`POST ${base}/api/v2/erc20/prices\` with \`{"tokens": [{"token_address": "${TOKEN_ADDRESS}"}]}\`.

**Wait for a collection**: open the WebSocket \`${base.replace(/^http/, "ws")}/api/v2/ws\` with the same header, and send \`{"action":"subscribe","chain":"eth","address":"${NFT_ADDRESS}"}\`. The message \`indexed\` says that it is complete; \`transfers\` and \`reorged\` say what changes. After an interruption send the last message's \`resume\` as \`since\`. With \`token\` in place of \`address\` the message \`price\` comes at first and at each change of the token's price.

**Explore a collection**: below \`${base}/api/collections/{chain}/{address}\`, each true at one block (\`as_of_block\`) and paged by \`cursor\`. \`/holders\` ranks the owners by what they hold. \`/tokens\` gives the tokens of an \`owner\`, or with a \`trait\` (\`Type:Value\`). \`/tokens/{id}\` gives one token with its history. \`/transfers\` and \`/tokens/{id}/transfers\` give the transfers, newest first.

## Limits

${limitsText(options)}

## Other operations

Answers are JSON unless said otherwise; schemas and examples are in the OpenAPI document.

${operationLines(others, base)}

## Documents

- [OpenAPI](${base}/swagger/json): all routes with schemas and examples, for client generators
- [AsyncAPI](${base}/asyncapi.json): the messages of the WebSocket
- [API page](${base}/swagger): the same routes for people, to try them out
`;
}

// ── The socket ──

// Schemas are those of `push/message-models.ts`; a test validates the document, its examples, and every message of a real
// subscription.

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
function socketDocument(publicUrl: string): object {
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

// ── Routes ──

export const documents = (options: DocumentOptions) =>
  new Elysia(HIDDEN)
    // The documents change only with the program and its settings, so a client may cache and revalidate them.
    .get("/asyncapi.json", () => json(JSON.stringify(socketDocument(options.url())), { "cache-control": "no-cache" }))
    .get(
      "/llms.txt",
      () =>
        new Response(languageModelPage(options), {
          headers: { "content-type": "text/plain; charset=utf-8", "cache-control": "no-cache" },
        }),
    );
