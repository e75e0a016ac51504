/**
 * The page at `/llms.txt`, in the form of llmstxt.org, that a language model reads to write a client. In: the operations, the
 * chains and limits of this server. Out: text with its public URL.
 */

import type { Chains } from "../chains/chains.ts";
import { ERROR_CODES } from "../core/errors.ts";
import { NFT_ADDRESS, TOKEN_ADDRESS } from "../core/examples.ts";
import type { WireTypes } from "../core/schema-parts.ts";
import type { KeyLimits } from "../operators/keys.ts";
import { SERVER_MESSAGES } from "../push/message-models.ts";
import { LISTING_WORDS } from "../status-words.ts";
import { ONE_COLLECTION } from "./routes/collection-path.ts";
import type { ChainDeps } from "./wire/answered-block.ts";
import type { Operation } from "./wire/operation.ts";
import { schemaOf } from "./wire/parameters.ts";
import { isApiPath, isOperatorPath } from "./wire/paths.ts";

export interface DocumentOptions extends ChainDeps {
  /** Base URL that clients see, without a trailing slash. */
  readonly url: () => string;
  readonly wireTypes: WireTypes;
  readonly operations: readonly Operation<never>[];
  /** The limits of keys that have none of their own. */
  readonly keyLimits: KeyLimits;
}

/** The limits of this server in words: chains, page sizes, requests. */
function limitsText({ operations, keyLimits, ...deps }: DocumentOptions): string {
  const chains = deps.chains.all.filter((chain) => deps.nftChain(chain) !== undefined);
  const { requestsPerMinute, collectionsPerHour, subscriptions } = keyLimits;
  const most = (id: string) => {
    const limit = operations.find((one) => one.id === id)?.query["limit"];
    return limit && schemaOf(limit, deps.chains)["maximum"];
  };
  return `- Chains that are enabled here, for \`chain\`: ${chains.map(({ name }) => `\`${name}\``).join(", ")}
- Requests: ${requestsPerMinute} per minute and key, unless the operator gave the key another limit
- New collections: ${collectionsPerHour} per hour and key of scope read
- Subscriptions: ${subscriptions} per key of scope read
- Page size: at most ${most("getContractNFTs")} NFTs of a contract, ${most("listHolders")} entries of another list
- Cursors: opaque, bound to address, chain and block, without an end in time. After a reorganisation of their block they get 410 with the code \`cursor_reorged\`: start again without it`;
}

/** One line for each query parameter of an operation, with its values. */
function parameterLines({ query }: Operation<never>, chains: Chains): string {
  const lines = Object.entries(query).map(([name, { description, schema }]) => {
    const { enum: words, default: absent } = schemaOf({ schema }, chains) as {
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
    return `- \`${method} ${base}${shownPath(path)}\`: ${summary} (scope ${scope}${parameters})`;
  });
  return lines.join("\n");
}

/** Operations with a paragraph of their own. */
const [LISTING, PRICE, SOCKET] = ["getContractNFTs", "getTokenPrice", "subscribe"] as const;
const EXPLAINED: readonly string[] = [LISTING, PRICE, SOCKET];

/** A path as the documents write it, with a value for the address. */
const shownPath = (path: string): string => path.replace(/:(\w+)/g, "{$1}");
const examplePath = (path: string, address: string): string => path.replace(":address", address);

/** The fields of an operation's answer, in the order of its schema. */
function fieldsOf({ answer }: Operation<never>): string {
  const properties = "schema" in answer ? (answer.schema["properties"] as object) : {};
  return `{${Object.keys(properties).join(", ")}}`;
}

/** The routes that read one collection at a block of the client's choice, below its own. */
function collectionRoutes(operations: readonly Operation<never>[]): string {
  const below = operations.filter(
    ({ method, path, query }) => method === "GET" && path.startsWith(`${ONE_COLLECTION}/`) && "as_of_block" in query,
  );
  return [...new Set(below.map(({ path }) => `\`${shownPath(path.slice(ONE_COLLECTION.length))}\``))].join(", ");
}

/** The messages of the socket, a line for each type. Two messages may have one type. */
function messageLines(): string {
  const texts = Object.values(SERVER_MESSAGES).map(
    ({ properties, description }) => [properties.type.const, description ?? ""] as const,
  );
  const byType = Map.groupBy(texts, ([type]) => type);
  return [...byType].map(([type, all]) => `- \`${type}\`: ${all.map(([, text]) => text).join(". Or: ")}`).join("\n");
}

export function languageModelPage(options: DocumentOptions): string {
  const { url, operations, wireTypes } = options;
  const base = url();
  const found = (id: string) => operations.find((one) => one.id === id) as Operation<never>;
  const explained = (id: string) => parameterLines(found(id), options.chains);
  const [listing, price, batch] = [found(LISTING), found(PRICE), found("getMultipleTokenPrices")];
  const others = operations.filter(
    ({ path, id }) => isOperatorPath(path) || (isApiPath(path) && !EXPLAINED.includes(id)),
  );
  const counts = wireTypes === "seed" ? "Counts and flags are strings" : "Counts are numbers and flags are booleans";
  return `# EVM data service

> Two questions about EVM chains over HTTP: which NFTs are in a contract, with owners and metadata, and what is an ERC-20 token worth, in native coin and US dollars, now or at a block. Listings are true at one block, also at past ones.

Every request under \`${base}/api\` needs the header \`X-API-Key\`. Answers are JSON. An error is \`{message, code, details?}\`; its message names the parameter and the way out. After 429 and 503 wait for the seconds of \`Retry-After\`. Codes: ${ERROR_CODES.join(", ")}.

**List the NFTs of a contract**: \`${listing.method} ${base}${shownPath(listing.path)}\`, for example \`curl -H 'X-API-Key: <key>' '${base}${examplePath(listing.path, NFT_ADDRESS)}?chain=eth&limit=100'\`

${explained(LISTING)}

The body is \`${fieldsOf(listing)}\`. ${counts}. For the next page send \`cursor\` with the same address and chain, until it is null: all pages are true at the block of the header \`x-as-of-block\`. \`status\` of a contract that is new to the service is \`SYNCING\` (${LISTING_WORDS.SYNCING.meaning}), then \`SYNCED\`; the answer comes at once. Burned tokens are not listed. \`metadata\` is JSON in a string.

**Price a token**: \`${price.method} ${base}${shownPath(price.path)}\`, for example \`curl -H 'X-API-Key: <key>' '${base}${examplePath(price.path, TOKEN_ADDRESS)}?include=percent_change'\`

${explained(PRICE)}

\`nativePrice.value\` is the price of one whole token in the smallest unit of the native coin. \`usdPriceFormatted\` has all digits. A token without a price is a 404 whose \`details.pools\` gives each pool's reason. ${batch.summary}, at one block: \`${batch.method} ${base}${shownPath(batch.path)}\` with \`{"tokens": [{"token_address": "${TOKEN_ADDRESS}"}]}\`.

**Wait for a collection**: open the WebSocket \`${base.replace(/^http/, "ws")}${found(SOCKET).path}\` with the same header, and send \`{"action":"subscribe","chain":"eth","address":"${NFT_ADDRESS}"}\`. After an interruption send the last message's \`resume\` as \`since\`. With \`token\` in place of \`address\` the messages are about a token's price. The messages, by \`type\`:

${messageLines()}

**Explore a collection**: below \`${base}${shownPath(ONE_COLLECTION)}\`, each true at one block (\`as_of_block\`): ${collectionRoutes(operations)}. What each gives is said below.

**Use it as tools**: \`${base}/mcp\` speaks the Model Context Protocol (streamable HTTP) with the same key. Each operation of scope read that answers JSON is a tool, named by its operationId.

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
