/**
 * An honest key beside a greedy one: how long warm pages, warm prices and first prices of new tokens take, alone and while
 * another key does its worst in one of a dozen ways. Both are measured by turns, so that other load on the machine affects
 * both. Prints a table and writes it to `results/greedy.md`.
 *
 *   bun scripts/bench/greedy.ts [--seconds 8] [--only name,name]
 */
import { join } from "node:path";
import { startChild } from "./children.ts";
import type { Asked } from "./costs/questions.ts";
import { GREEDY, type MeasuredService, OPERATOR, READER, startMeasuredService, until } from "./costs/service.ts";
import { type Supply, startWorld, supplyOf, type World } from "./costs/world.ts";
import { percentile } from "./load.ts";
import { machine } from "./machine.ts";
import type { GreedyOptions } from "./parts/greedy-client.ts";
import { temporaryFolder } from "./service.ts";

const args = process.argv.slice(2);
const option = (name: string) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);
const SECONDS = Number(option("--seconds") ?? 8);
const only = option("--only")?.split(",");
/** The service's default. */
const RATE = "6000";
/** The honest key: a page and a price every so many ms, and a first price. */
const [WARM_EVERY_MS, FIRST_EVERY_MS] = [25, 250];
const BATCH = 100;
const ADDRESSES = 3_000;
const ALL = "percent_change,provenance,pair,depth";

interface Attack {
  readonly name: string;
  readonly connections: number;
  questions(world: World, supply: Supply): readonly Asked[];
}

const price = (address: string, query: string): Asked => ({
  path: `/api/v2/erc20/${address}/price?include=${ALL}${query}`,
});
const batch = (tokens: readonly string[], fields: (at: number) => object = () => ({})): Asked => ({
  path: `/api/v2/erc20/prices?include=${ALL},errors`,
  body: { tokens: tokens.map((token_address, at) => ({ token_address, ...fields(at) })) },
});
const of = (address: string, rest: string): Asked => ({ path: `/api/collections/eth/${address}${rest}` });
const range = <T>(count: number, make: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => make(n));

const ATTACKS: readonly Attack[] = [
  {
    name: "to_block below a pool",
    connections: 40,
    questions: ({ old, oldFrom }) => range(500, (n) => price(old, `&to_block=${oldFrom - 1 - n}`)),
  },
  {
    name: "exchange of a hostile factory",
    connections: 20,
    questions: ({ endlessAnswers, largeAnswers }, supply) =>
      supply.random(500).map((token, n) => price(token, `&exchange=${n % 2 === 0 ? endlessAnswers : largeAnswers}`)),
  },
  {
    name: "hostile tokens, read ahead at each block",
    connections: 20,
    questions: ({ longName, gasBurner }) => [...longName, ...gasBurner].map((token) => price(token, "")),
  },
  {
    name: "batches of new tokens",
    connections: 10,
    questions: ({ poolless }, supply) => [
      batch(supply.fresh(BATCH)),
      batch(poolless.slice(0, BATCH)),
      batch(poolless.slice(BATCH, 2 * BATCH)),
    ],
  },
  {
    name: "batches of random addresses",
    connections: 10,
    questions: (_world, supply) => range(50, () => batch(supply.random(BATCH))),
  },
  {
    name: "batches of past blocks with everything",
    connections: 10,
    questions: ({ old, oldFrom }) =>
      range(10, (n) =>
        batch(
          range(BATCH, () => old),
          (at) => ({ to_block: oldFrom + 1 + n * BATCH + at }),
        ),
      ),
  },
  {
    name: "searches for tokens",
    connections: 20,
    questions: () => range(500, (n) => ({ path: `/api/tokens?limit=500&text=${n.toString(36)}` })),
  },
  {
    name: "2,000 sockets, opened again when refused",
    connections: 2_000,
    questions: ({ large }) => [{ path: "/api/v2/ws", message: { action: "subscribe", chain: "eth", address: large } }],
  },
  {
    name: "2,000 clients that ask again when refused",
    connections: 2_000,
    questions: ({ large }) => [{ path: `/api/v2/nft/${large}?limit=100` }],
  },
  {
    name: "400 for 3000 addresses",
    connections: 20,
    questions: ({ anvil }, supply) =>
      supply.random(ADDRESSES).map((token) => price(token, `&exchange=${anvil.accounts[0]}`)),
  },
  {
    name: "holders at new blocks",
    connections: 10,
    questions: (world) => range(500, (n) => of(world.large, `/holders?limit=500&as_of_block=${world.head() - 2 - n}`)),
  },
  {
    name: "tokens of an owner at new blocks",
    connections: 10,
    questions: (world) =>
      range(500, (n) => of(world.large, `/tokens?limit=500&owner=${world.whale}&as_of_block=${world.head() - 2 - n}`)),
  },
  {
    name: "exports",
    connections: 10,
    questions: ({ large }) =>
      ["parquet", "csv", "jsonl"].flatMap((format) =>
        [true, false].map((holders) => of(large, `/export?format=${format}&holders=${holders}`)),
      ),
  },
  {
    name: "series of an account",
    connections: 10,
    questions: ({ anvil }) =>
      range(500, (n) => ({ path: `/api/prices/eth/${anvil.accounts[n % 8]}/series?points=${200 - (n % 100)}&from=1` })),
  },
];

const KINDS = ["page", "price", "first"] as const;
type Kind = (typeof KINDS)[number];
type Times = Record<Kind, number[]>;

/** What the honest key asks, at a steady rate whatever the answers are. */
async function askHonestly(service: MeasuredService, world: World, supply: Supply): Promise<Times> {
  const times: Times = { page: [], price: [], first: [] };
  const asking: Promise<void>[] = [];
  const ask = (kind: Kind, path: string) => {
    const began = performance.now();
    const answering = service.ask(path, { key: READER }).then(async (response) => {
      await response.arrayBuffer();
      if (response.ok) times[kind].push(performance.now() - began);
      else process.stderr.write(`the honest key got ${response.status} for ${path}\n`);
    });
    asking.push(answering.catch((error: unknown) => void process.stderr.write(`${path}: ${error}\n`)));
  };
  const end = performance.now() + SECONDS * 1_000;
  let firstAt = performance.now();
  while (performance.now() < end) {
    ask("page", `/api/v2/nft/${world.large}?limit=100`);
    ask("price", `/api/v2/erc20/${world.old}/price`);
    if (performance.now() >= firstAt) {
      firstAt += FIRST_EVERY_MS;
      ask("first", `/api/v2/erc20/${supply.fresh(1)[0]}/price`);
    }
    await Bun.sleep(WARM_EVERY_MS);
  }
  await Promise.all(asking);
  return times;
}

const shown = (times: readonly number[]): string =>
  `${percentile(times, 50).toFixed(1)} / ${percentile(times, 99).toFixed(1)}`;
const ratioOf = (beside: readonly number[], alone: readonly number[]): number =>
  percentile(beside, 99) / percentile(alone, 99);

const HEAD = `| Greedy key | Page, alone | beside | p99 ratio | Price, alone | beside | p99 ratio | First price, alone | beside | p99 ratio |
|---|---|---|---|---|---|---|---|---|---|`;

const measured = ATTACKS.filter(({ name }) => only?.includes(name) ?? true);
/** Each attack is measured alone and beside, after one turn to warm up. */
const firstPrices = (2 * measured.length + 1) * Math.ceil((SECONDS * 1_000) / FIRST_EVERY_MS + 1);
const world = await startWorld({ tokens: 100_000, traits: 1_000, blocks: 2_000, fresh: firstPrices + 2 * BATCH });
const supply = supplyOf(world);
const service = await startMeasuredService(world.anvil.url, { RATE_LIMIT_PER_MINUTE: RATE });
const optionsFile = join(temporaryFolder().path, "greedy.json");
const rows: string[] = [];
try {
  await until("the collection is indexed", async () => {
    const answer = await service.ask(`/api/v2/nft/${world.large}`, { key: OPERATOR });
    return ((await answer.json()) as { status: string }).status === "SYNCED";
  });
  await askHonestly(service, world, supply);
  process.stdout.write(`${machine()}\n\n${HEAD}\n`);
  for (const attack of measured) {
    const alone = await askHonestly(service, world, supply);
    const options: GreedyOptions = {
      ...{ base: service.base, key: GREEDY, connections: attack.connections },
      questions: attack.questions(world, supply),
    };
    await Bun.write(optionsFile, JSON.stringify(options));
    const client = await startChild({ script: "parts/greedy-client.ts", args: [optionsFile] });
    const beside = await askHonestly(service, world, supply).finally(() => client.stop());
    const cells = KINDS.flatMap((kind) => {
      const ratio = ratioOf(beside[kind], alone[kind]);
      return [shown(alone[kind]), shown(beside[kind]), ratio > 2 ? `**${ratio.toFixed(1)}**` : ratio.toFixed(1)];
    });
    rows.push(`| ${[attack.name, ...cells].join(" | ")} |`);
    process.stdout.write(`${rows.at(-1)}\n`);
  }
} finally {
  await service.stop();
  await world.stop();
}
const text = `# An honest key beside a greedy one

\`bun scripts/bench/greedy.ts --seconds ${SECONDS}\`: ms, p50 / p99, of an honest key that asks for a warm page and a warm price every
${WARM_EVERY_MS} ms, and for the first price of a new token every ${FIRST_EVERY_MS} ms (so that its p99 is the longest of a few). Each line
measures it alone, and then beside a key of the same rate, ${RATE} requests a minute, that asks one kind of question over 10 to
2,000 connections. Bold: more than twice as long. Node, service and clients share the machine.

${machine()}

${HEAD}
${rows.join("\n")}
`;
if (only === undefined) await Bun.write(join(import.meta.dir, "results/greedy.md"), text);
process.exit(0);
