/**
 * What the dearest single question costs that a read key can ask of each route: calls of the node and bytes of its answers,
 * CPU of the serving thread, and the longest piece of it between two turns. Asks each question three times, of a
 * service whose node has all states and of one whose node has none of old blocks and takes 50 blocks per request for logs.
 * Prints a table and writes it to `results/question-costs.md`. Exits with 1 if a question exceeds 100 calls for each of its items, or
 * if an operation of scope `read` has no question here.
 *
 *   bun scripts/bench/question-costs.ts [--quick] [--only id,id]
 */
import { join } from "node:path";
import { operationsOf } from "../../src/api/app.ts";
import { type CountedNode, countedNode } from "./costs/node.ts";
import { type Asked, type CostlyQuestion, QUESTIONS } from "./costs/questions.ts";
import { type MeasuredService, OPERATOR, READER, startMeasuredService, until } from "./costs/service.ts";
import { HEAVY_TOKENS, startWorld, supplyOf, type World } from "./costs/world.ts";
import { machine } from "./machine.ts";
import { grouped } from "./row.ts";

const MAX_CALLS = 100;
const [MAX_MS, MAX_BLOCK_MS] = [50, 10];
/** A question is over once its node has had no call for so long: later ones were started by it and not awaited. */
const QUIET_MS = 300;
const GIVE_UP_MS = 60_000;
const PRUNED = { states: 128, span: 50 };
const MAX_PAGE_SIZE = 500;
/** The turn of a question that is watched. */
const WATCHED = 2;

const args = process.argv.slice(2);
const only = args.includes("--only") ? args[args.indexOf("--only") + 1]?.split(",") : undefined;
const SIZES = args.includes("--quick")
  ? { tokens: 10_000, traits: 2_000, blocks: 3_400, fresh: 1_000 }
  : { tokens: 100_000, traits: 20_000, blocks: 4_000, fresh: 1_000 };

const ids = operationsOf(MAX_PAGE_SIZE).flatMap(({ scope, id }) => (scope === "read" ? [id] : []));
const without = ids.filter((id) => QUESTIONS[id] === undefined);
if (without.length > 0) {
  process.stderr.write(`add questions to costs/questions.ts for ${without.join(", ")}\n`);
  process.exit(1);
}

interface Cost {
  readonly status: number | string;
  /** Calls that the key paid for. */
  readonly paid: number;
  /** Calls that the node had meanwhile, following included. */
  readonly calls: ReadonlyMap<string, number>;
  readonly bytes: number;
  readonly cpuMs: number;
  readonly blockMs: number;
  readonly answerMs: number;
}

interface Measured {
  readonly id: string;
  readonly node: string;
  readonly question: CostlyQuestion;
  /** The process answers the first one with code that is not compiled, and the last one while its event loop is watched. */
  readonly turns: readonly [first: Cost, second: Cost, watched: Cost];
}

/** Calls that the reader's key has paid for so far. */
async function paidBy(service: MeasuredService): Promise<number> {
  const { result } = (await (await service.ask("/api/keys", { key: OPERATOR })).json()) as {
    result: { name: string; cost: { calls: { day: number } } }[];
  };
  return result.find(({ name }) => name === "API_KEYS#1")?.cost.calls.day ?? Number.NaN;
}

/** Sends a question and takes the whole answer. Resolves with its status. */
async function send(service: MeasuredService, { path, method, body, message }: Asked): Promise<number | string> {
  if (message !== undefined) return sendOverSocket(service, path, message);
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  try {
    const response = await service.ask(path, {
      ...(body === undefined ? {} : post),
      ...(method === undefined ? {} : { method }),
      signal: AbortSignal.timeout(GIVE_UP_MS),
    });
    const text = await response.arrayBuffer();
    if (response.ok) return response.status;
    const { code, message, details } = JSON.parse(new TextDecoder().decode(text)) as {
      code: string;
      message: string;
      details?: unknown;
    };
    const why = `${message} ${JSON.stringify(details) ?? ""}`.slice(0, 400);
    process.stderr.write(`${response.status} for ${path.slice(0, 120)}: ${why}\n`);
    return `${response.status} ${code}`;
  } catch (error) {
    return error instanceof Error ? error.name : "failed";
  }
}

function sendOverSocket({ base }: MeasuredService, path: string, message: unknown): Promise<string> {
  const headers = { "x-api-key": READER };
  const socket = new WebSocket(`${base.replace("http", "ws")}${path}`, { headers } as unknown as string[]);
  const { promise, resolve } = Promise.withResolvers<string>();
  socket.onopen = () => socket.send(JSON.stringify(message));
  socket.onmessage = ({ data }) => resolve((JSON.parse(String(data)) as { type: string }).type);
  socket.onclose = () => resolve("closed");
  return promise.finally(() => socket.close());
}

/** CPU of the serving thread per ms without a question. */
async function idleShare(service: MeasuredService): Promise<number> {
  const [before, began] = [service.cpuMs(), performance.now()];
  await Bun.sleep(1_000);
  return (service.cpuMs() - before) / (performance.now() - began);
}

/** @param isWatched true to watch the event loop, which takes all CPU that is free */
async function costOf(service: MeasuredService, node: CountedNode, asked: Asked, isWatched: boolean): Promise<Cost> {
  await node.quiet(QUIET_MS);
  const idle = isWatched ? 0 : await idleShare(service);
  const paid = await paidBy(service);
  node.reset();
  if (isWatched) service.watch();
  const [cpu, began] = [service.cpuMs(), performance.now()];
  const status = await send(service, asked);
  const answerMs = performance.now() - began;
  await node.quiet(QUIET_MS);
  const cpuMs = isWatched ? Number.NaN : service.cpuMs() - cpu - idle * (performance.now() - began);
  const blockMs = isWatched ? await service.look() : Number.NaN;
  const [calls, bytes] = [new Map(node.calls), node.bytes];
  return { status, paid: (await paidBy(service)) - paid, calls, bytes, cpuMs, blockMs, answerMs };
}

/** Has the collections indexed, with their metadata, and the dollar known. */
async function prepare(service: MeasuredService, { large, traits, heavy, spread, old }: World): Promise<void> {
  const json = async (path: string) =>
    (await service.ask(path, { key: OPERATOR })).json() as Promise<Record<string, unknown>>;
  for (const address of [large, ...traits, heavy, spread]) {
    await until(`${address} is indexed`, async () => (await json(`/api/v2/nft/${address}`))["status"] === "SYNCED");
  }
  const tokensOf = new Map([...traits.map((one) => [one, SIZES.traits] as const), [heavy, HEAVY_TOKENS]]);
  for (const [address, tokens] of tokensOf) {
    await until(`the metadata of ${address}`, async () => {
      const { resolved, failed } = (await json(`/api/collections/eth/${address}`))["metadata"] as Record<
        string,
        number
      >;
      return (resolved ?? 0) + (failed ?? 0) >= tokens;
    });
  }
  await service.ask(`/api/v2/erc20/${old}/price`, { key: OPERATOR });
}

async function measureAll(world: World, name: string, options: Parameters<typeof countedNode>[2]): Promise<Measured[]> {
  const node = await countedNode(world.anvil.url, world.head, options);
  const service = await startMeasuredService(node.url, { COLLECTIONS_PER_HOUR: "1000000" });
  const supply = supplyOf(world);
  const before = async (path: string) =>
    (await (await service.ask(path, { key: OPERATOR })).json()) as { cursor?: string };
  const measured: Measured[] = [];
  try {
    await prepare(service, world);
    for (const id of ids.filter((one) => only?.includes(one) ?? true)) {
      for (const question of QUESTIONS[id] as readonly CostlyQuestion[]) {
        const turn = async (n: number) =>
          costOf(service, node, await question.ask({ world, supply, n, before }), n === WATCHED);
        const one: Measured = { id, node: name, question, turns: [await turn(0), await turn(1), await turn(WATCHED)] };
        measured.push(one);
        process.stdout.write(`${lineOf(one)}\n`);
      }
    }
  } finally {
    await service.stop();
    await node.stop();
  }
  return measured;
}

const most = ({ turns }: Measured, figure: (cost: Cost) => number): number =>
  Math.max(...turns.map(figure).filter((value) => !Number.isNaN(value)));
const boundOf = ({ question: { items = 1, startsMore } }: Measured): number =>
  startsMore === true ? Number.POSITIVE_INFINITY : MAX_CALLS * items;
const mark = (value: number, bound: number, text: string): string => (value > bound ? `**${text}**` : text);

function lineOf(one: Measured): string {
  const { id, node, question, turns } = one;
  const [dearest] = turns.toSorted((a, b) => b.paid - a.paid) as [Cost];
  const methods = [...dearest.calls].map(([method, count]) => `${method.replace("eth_", "")} ${count}`).join(", ");
  const [paid, block] = [most(one, (c) => c.paid), most(one, (c) => c.blockMs)];
  const items = question.items ?? 1;
  const cpu = ({ cpuMs }: Cost) => mark(cpuMs, MAX_MS * items, cpuMs.toFixed(0));
  return `| ${[
    id,
    question.name,
    node,
    [...new Set(turns.map(({ status }) => status))].join(", "),
    mark(paid, boundOf(one), grouped(paid)),
    methods || "–",
    grouped(most(one, (c) => c.bytes)),
    cpu(turns[0]),
    cpu(turns[1]),
    mark(block, MAX_BLOCK_MS, block.toFixed(1)),
    grouped(most(one, (c) => c.answerMs)),
    question.bound,
  ].join(" | ")} |`;
}

const HEAD = `| Route | Question | Node | Answer | Calls paid | Calls that the node had | Bytes | CPU ms, first | CPU ms, again | Longest piece ms | Answer ms | Bound of calls |
|---|---|---|---|---|---|---|---|---|---|---|---|`;

const world = await startWorld(SIZES);
process.stdout.write(`${machine()}\n\n${HEAD}\n`);
const measured = [...(await measureAll(world, "whole", {})), ...(await measureAll(world, "pruned", PRUNED))];
await world.stop();

const over = measured.filter((one) => most(one, ({ paid }) => paid) > boundOf(one));
const text = `# What a question costs

\`bun scripts/bench/question-costs.ts\`: the dearest questions of each route that a key of scope \`read\` may use, each asked
three times, each time about something that was not asked before; the dearest one counts. "Whole" has all states; "pruned" has those of the
newest ${PRUNED.states} blocks and takes ${PRUNED.span} blocks per request for logs. Calls paid are those of the key; the node's own count
has what following the chain asked meanwhile. CPU is that of the serving thread without its idle share, until the node was
quiet again: of the first question of its kind in the process, whose code the engine has not compiled yet, and of a second one. The
longest piece is the CPU between two turns of its event loop in a third one. Bold: over ${MAX_CALLS} calls or ${MAX_MS} ms for each item, or over
${MAX_BLOCK_MS} ms in one piece. A token of a batch and a point of a
series is an item.

${grouped(SIZES.tokens)} NFTs; ${machine()}

${HEAD}
${measured.map(lineOf).join("\n")}
`;
if (only === undefined) await Bun.write(join(import.meta.dir, "results/question-costs.md"), text);
for (const one of over) process.stderr.write(`over its bound: ${one.id}, ${one.question.name}\n`);
process.exit(over.length > 0 ? 1 : 0);
