/**
 * Prints what the service takes from one process to a hundred replicas and a billion NFTs: log, blobs, memory, connections, queries
 * and node calls. The tables of deploy/scale.md. `bun scripts/scale.ts`. Each constant names where it was measured, or says that it
 * is assumed: put your own numbers there.
 */

const KB = 1_000;
const GB = 1e9;

/** Measured: bench/results/README.md, rows "Log on disk" and "Memory of an ERC-721 collection". */
const [LOG_BYTES_PER_TRANSFER, MEMORY_PER_NFT, MEMORY_PER_TRANSFER] = [39, 24.4, 16] as const;
/** Assumed: a mint and four moves. */
const TRANSFERS_PER_NFT = 5;
/** Assumed: a token's JSON with the document that names its URI. On-chain drawings have ten times as much. */
const DOCUMENT_BYTES = 2 * KB;
/** Measured: src/nft/metadata/README.md, previews of a million pictures take 60 GB. They are made for pictures that clients ask for. */
const PREVIEW_BYTES = 60 * KB;
/** Assumed: part of the pictures that a client ever asks for. */
const VIEWED = 0.05;
/** Assumed: part of all collections that is read at one time, so that it should be in memory. */
const HOT = 0.2;
/** The default of PG_POOL, one of which listens. */
const CONNECTIONS = 4;
/** Measured: src/log/postgres.md, queries a second of a replica while nothing moves, with empty blocks, and while four collections move. */
const QUERIES = { idle: 3.4, blocks: 6.9, moving: 20 } as const;
/** The process without any collection, and what pages, bodies and garbage take under load: deploy/README.md. */
const PROCESS_BYTES = 0.7 * GB;

interface Scale {
  readonly name: string;
  readonly nfts: number;
  readonly replicas: number;
}

const SCALES: readonly Scale[] = [
  { name: "One process", nfts: 1e6, replicas: 1 },
  { name: "Three replicas", nfts: 30e6, replicas: 3 },
  { name: "Twenty replicas", nfts: 200e6, replicas: 20 },
  { name: "A hundred replicas", nfts: 1e9, replicas: 100 },
];

const number = (value: number): string => Math.round(value).toLocaleString("en");
const gigabytes = (bytes: number): string => {
  const value = bytes / GB;
  return value >= 10 ? `${number(value)} GB` : `${value.toPrecision(2)} GB`;
};
const millions = (value: number): string => `${number(value / 1e6)} million`;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

const memoryOf = (nfts: number): number => nfts * (MEMORY_PER_NFT + TRANSFERS_PER_NFT * MEMORY_PER_TRANSFER);

function storage(): string {
  const rows = SCALES.map(({ name, nfts }) => {
    const transfers = nfts * TRANSFERS_PER_NFT;
    const [documents, previews] = [nfts * DOCUMENT_BYTES, nfts * VIEWED * PREVIEW_BYTES];
    return [
      ...[name, millions(nfts), millions(transfers), gigabytes(transfers * LOG_BYTES_PER_TRANSFER)],
      ...[gigabytes(documents), gigabytes(previews), millions(2 * nfts + 4 * nfts * VIEWED)],
    ];
  });
  return table(["", "NFTs", "Transfers", "Log", "Documents", "Previews", "Objects in the store"], rows);
}

function memory(): string {
  const rows = SCALES.map(({ name, nfts, replicas }) => {
    const hot = memoryOf(nfts * HOT);
    const [each, share] = [PROCESS_BYTES + 1.5 * hot, PROCESS_BYTES + (1.5 * hot) / replicas];
    return [name, gigabytes(memoryOf(nfts)), gigabytes(hot), gigabytes(each), gigabytes(share)];
  });
  const head = ["", "All collections", "A fifth of them", "Each replica, round robin", "Each replica, by contract"];
  return table(head, rows);
}

function connections(): string {
  const rows = SCALES.map(({ name, replicas }) => [
    ...[name, number(replicas * CONNECTIONS)],
    ...[QUERIES.idle, QUERIES.blocks, QUERIES.moving].map((each) => number(each * replicas)),
  ]);
  return table(["", "Connections", "Queries/s, at rest", "with blocks", "while four collections move"], rows);
}

const SECONDS_A_DAY = 86_400;
/** Calls for one block: config.ts, `followEverySeconds`. */
const [LEAST_CALLS, MOST_CALLS] = [2, 5] as const;

function nodeCalls(): string {
  const chains = [
    ["Ethereum, a block in 12 s", 12],
    ["A chain with a block in 2 s", 2],
    ["A quiet chain: nobody waits for its blocks", 12],
  ] as const;
  const rows = chains.map(([name, every]) => {
    const blocks = SECONDS_A_DAY / every;
    return [name, number(blocks), `${number(blocks * LEAST_CALLS)} to ${number(blocks * MOST_CALLS)}`, "0"];
  });
  return table(["", "Looks a day", "Calls a day, the follower", "Calls a day, each other replica"], rows);
}

process.stdout.write(`${[storage(), memory(), connections(), nodeCalls()].join("\n\n")}\n`);
