/**
 * Writes `examples/migration.md`, the page for clients of hosted services: from the declared operations, the chains, the hosted paths
 * that are not served, and what the other services' operations correspond to. Usage: `bun scripts/migration.ts`.
 */
import { join } from "node:path";
import { operationsOf } from "../src/api/app.ts";
import { NOT_SERVED } from "../src/api/routes/not-served.ts";
import { API_PREFIX } from "../src/api/wire/paths.ts";
import { CHAINS } from "../src/chains/chains.ts";
import { type ClosedService, MIGRATED, type MigratedOperation } from "./migration/services.ts";

export const MIGRATION_PAGE = join(import.meta.dir, "examples/migration.md");

const operations = operationsOf(500);
const shown = (path: string): string => path.replace(/:(\w+)/g, "{$1}");

/** An operation's route with an example of its query. @throws if the operation or a parameter is gone */
function routeOf({ id, query }: Pick<MigratedOperation, "id" | "query">): string {
  if (id === undefined) return "–";
  const operation = operations.find((one) => one.id === id);
  if (operation === undefined) throw new Error(`there is no operation ${id}`);
  for (const name of new URLSearchParams(query).keys()) {
    if (!Object.hasOwn(operation.query, name)) throw new Error(`${id} has no parameter ${name}`);
  }
  return `\`${operation.method} ${shown(operation.path)}${query === undefined ? "" : `?${query}`}\``;
}

const HEADING = ["Operation", "Route here", "What differs", "Missing here"] as const;

/** A table whose columns are as wide as their widest cell, as formatters write it. */
function table(rows: readonly (readonly string[])[], heading: readonly string[] = HEADING): string {
  const all = [heading, ...rows];
  const widths = heading.map((_, at) => Math.max(...all.map((row) => [...(row[at] as string)].length)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, at) => cell + " ".repeat((widths[at] as number) - [...cell].length)).join(" | ")} |`;
  return [line(heading), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...rows.map(line)].join("\n");
}

const rowOf = (row: MigratedOperation) => [row.what, routeOf(row), row.differs, row.missing];

/** The operations in Moralis' own form, by the names of its SDK, and those that it has and this service has not. */
function ofMoralis(): (readonly string[])[] {
  const own = operations.filter(({ path, isUpgrade }) => path.startsWith(`${API_PREFIX}/`) && isUpgrade !== true);
  const served = own.map(({ id, method, path }) => [
    `\`${id}\``,
    `\`${method} ${shown(path)}\``,
    "Nothing for the SDK",
    "–",
  ]);
  const missing = NOT_SERVED.map(({ path, what }) => [
    `\`${shown(path)}\``,
    "–",
    "–",
    `Yes: ${what.replace(/,$/, "")}`,
  ]);
  return [...served, ...missing];
}

function section({ name, intro, rows, example }: ClosedService): string {
  const all = [...(name === "Moralis" ? ofMoralis() : []), ...rows.map(rowOf)];
  return `## ${name}\n\n${intro}\n\n${table(all)}\n\n\`\`\`sh\n${example}\n\`\`\``;
}

/** Services of which one operation or another ended. */
const OTHERS = [
  [
    "OpenSea",
    "API v1, on 5 December 2023 ([notice](https://docs.opensea.io/changelog/api-v2-fully-supported)). The routes of single orders, and of all offers and listings of one token, before SDK 10.4 ([release](https://github.com/ProjectOpenSea/opensea-sdk/releases/tag/v10.4.0))",
    "`GET /api/v2/nft/{address}` for the tokens of a contract",
    "Orders, offers, listings",
  ],
  [
    "OKLink",
    "The explorer APIs, on 20 May 2025 ([Moralis](https://docs.moralis.com/web3-data-api/evm/oklink-migration-guide))",
    "`GET /api/v2/nft/{address}`, `GET /api/collections/{chain}/{address}/holders`",
    "Accounts, transactions",
  ],
  [
    "QuickNode",
    "The Graph API and the NFT API for Polygon, announced on 21 December 2023 ([notice](https://www.quicknode.com/blog/sunsetting-quicknode-graph-api))",
    "`GET /api/v2/nft/{address}?chain=polygon`",
    "NFTs of contracts that nobody asked for",
  ],
];

/** The text of the page. */
export function migrationPage(): string {
  const [twelve, others] = [CHAINS.slice(0, 12), CHAINS.slice(12)].map((list) =>
    list.map(({ name }) => `\`${name}\``).join(", "),
  );
  return `# Coming from a hosted service

Several hosted services with NFT data have closed, or have dropped operations. This page says, for each of them, which route
of this service takes an operation's place, what differs, and what is missing here. Dates are as announced in the linked
sources. \`bun scripts/migration.ts\` writes this page from the declared operations and the chains.

- [What is missing here](#what-is-missing-here)
- [What differs everywhere](#what-differs-everywhere)
- [Chains](#chains)
${MIGRATED.map(({ name }) => `- [${name}](#${name.toLowerCase()})`).join("\n")}
- [Others](#others)

\`\`\`sh
BASE=http://127.0.0.1:3000
APES=0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d
UNI=0x1f9840a85d5af5bf1d1762f925bdaddc4201f984
WALLET=0xd8da6bf26964af9d7eed9e03e53415d37aa96045
curl -H "X-API-Key: $SERVICE_KEY" "$BASE/api/v2/nft/$APES?chain=eth&limit=500"
curl -H "X-API-Key: $SERVICE_KEY" "$BASE/api/v2/erc20/$UNI/price?chain=eth"
\`\`\`

## What is missing here

Read this first. This service knows the contracts that a client has asked for, and what their chain says about them.

- **A wallet's tokens are those of indexed contracts.** The header \`x-covered\` says of how many, and \`token_addresses\` has further ones
  indexed.
- **No markets.** It has neither sales, listings, bids nor floor prices, and it places no orders.
- **No fungible balances, holders or transfers.** ERC-20 tokens have prices, pairs and metadata, and nothing else.
- **No scores.** \`possible_spam\` and \`verified_collection\` are flags of a contract. There is no rarity.
- **No collections beside contracts**, and no royalties of a contract.
- **No search by name** over all contracts, and no webhooks: a client holds a socket open.
- **Neither Solana nor Bitcoin.** [CONTRIBUTING.md](../../CONTRIBUTING.md) says how to add an EVM chain.

## What differs everywhere

- **A new contract is indexed first.** The first answer has the status \`SYNCING\`, and \`GET /api/v2/ws\` tells when the
  collection is ready. A key of scope \`operate\` can request up to 500 at once by \`POST /api/collections\`, and ask
  \`GET /api/collections/{chain}/{address}/estimate\` for the cost.
- **A walk is of one block.** A cursor fixes the block of its first page. Every listing takes \`as_of_block\`, also for a block
  years ago.
- **The key is yours.** It goes into the header \`X-API-Key\` or \`Authorization: Bearer\`, and \`bun run cli keys add\` makes one.
- **Numbers of a listing are strings** (\`"total":"9991"\`), unless the operator sets \`WIRE_TYPES=native\`.
- **Metadata comes with the listing**: raw, and with \`normalizeMetadata=true\` in one shape. \`media_items=true\` adds previews.

## Chains

By name, by id (\`1\`, \`0x1\`, \`eip155:1\`), and by the names that people type (\`ethereum\`, \`matic\`, \`arb\`). Those of the hosted service's
list: ${twelve}. Beside them: ${others}. An operator may add others.

${MIGRATED.map(section).join("\n\n")}

## Others

${table(OTHERS, ["Service", "What ended", "Route here", "Missing here"])}

The service describes all its routes at \`/swagger\`.
`;
}

if (import.meta.main) await Bun.write(MIGRATION_PAGE, migrationPage());
