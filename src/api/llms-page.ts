/**
 * The page at `/llms.txt`, in the form of llmstxt.org, that a language model reads to write a client. In: the operations, the
 * chains and limits of this server. Out: text with its public URL.
 */
import { knownChains } from "../chains/chains.ts";
import { ERROR_CODES } from "../core/errors.ts";
import type { WireTypes } from "../core/schema-parts.ts";
import type { KeyLimits } from "../operators/keys.ts";
import { LISTING_WORDS } from "../status-words.ts";
import type { ChainDeps } from "./wire/answered-block.ts";
import { NFT_ADDRESS, TOKEN_ADDRESS } from "./wire/examples.ts";
import type { Operation } from "./wire/operation.ts";
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

export function languageModelPage(options: DocumentOptions): string {
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
