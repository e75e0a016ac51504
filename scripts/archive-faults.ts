/**
 * Which rung of the proof sees which lie of an archive, and what the service says in the end. On a real local chain with
 * collections of five kinds, an archive tells about one lie a history, drawn by seed. A wrong owner under words that say
 * proven is a fault of the service: the script then fails. `--seeds 20 [--verify headers] [--state none] [--noise]`.
 */
import { parseArgs } from "node:util";
import { keccak256, toBeHex, zeroPadValue } from "ethers";
import { createLogger } from "../src/core/logger.ts";
import { type ArchivedLog, type ArchiveOptions, archiveOfNode, LIES, startArchive } from "../test/support/archive.ts";
import { recordingLogger } from "../test/support/logged.ts";
import { startRpcProxy } from "../test/support/rpc-proxy.ts";
import {
  type Body,
  eventually,
  startTestService,
  synced,
  temporaryLogUrl,
  walkListing,
} from "../test/support/service.ts";
import { inOneBlock, startAnvil } from "./local-chain/anvil.ts";
import { contractArtifact } from "./local-chain/compile.ts";
import { type Deployed, deploy, queue } from "./local-chain/contracts.ts";
import { placeMainnet } from "./local-chain/mainnet.ts";
import { createRandom } from "./local-chain/random.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "20" },
    verify: { type: "string", default: "sample" },
    state: { type: "string", default: "old" },
    /** Fills the bloom of each block with the logs of another contract, as on a busy chain. */
    noise: { type: "boolean", default: false },
  },
});
const OPERATOR_KEY = "operator-key-0123456789";
const PATIENCE_MS = 60_000;
/** Tokens that are minted a block each, and blocks with two moves. */
const [TOKENS, MOVES, QUIET] = [120, 120, 80];
/** Topics of one block's noise: with three bits each they fill nine in ten of a bloom's 2,048. */
const NOISE_LOGS = 400;

/** Collections, by what their ids are and whether the contract counts its tokens. */
const KINDS = {
  "ids 0, 1, 2…, counted": { contract: "CountedNft", isRandom: false, isAmount: false },
  "random ids, counted": { contract: "CountedNft", isRandom: true, isAmount: false },
  "random ids, not counted": { contract: "PlainNft", isRandom: true, isAmount: false },
  "amounts, counted": { contract: "CountedAmounts", isRandom: false, isAmount: true },
  "amounts, not counted": { contract: "UncountedAmounts", isRandom: false, isAmount: true },
} as const;
type Kind = keyof typeof KINDS;

/** All lies of the test archive, and a mint in a block without a log. */
const ALL_LIES = [...LIES, "forge in a quiet block", "omit a token"] as const;
type Lie = (typeof ALL_LIES)[number];

/** The first line that says a lie was seen, by rung. */
const RUNGS: readonly (readonly [rung: string, line: RegExp])[] = [
  ["Bloom", /not in its block's bloom/],
  ["Hash", /the chain has another block there/],
  ["Receipts", /its receipts have other logs/],
  ["Answer", /archive's answer is wrong|an archive is not asked for a while/],
  ["Contract", /as the contract's owners show|owners stay in doubt/],
];

const anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
await placeMainnet(anvil);
const word = (value: bigint | number | string): string => zeroPadValue(toBeHex(BigInt(value)), 32);
const idOf = (kind: Kind, at: number): bigint =>
  KINDS[kind].isRandom ? BigInt(keccak256(toBeHex(at + 1))) : BigInt(at);
const deployed = new Map<Kind, Deployed>();
for (const [kind, { contract, isAmount }] of Object.entries(KINDS) as [Kind, (typeof KINDS)[Kind]][]) {
  deployed.set(kind, await deploy(anvil, await contractArtifact(contract), isAmount ? [] : [kind.slice(0, 6), "N"]));
}
const contractOf = (kind: Kind): Deployed => deployed.get(kind) as Deployed;
const emitter = await deploy(anvil, await contractArtifact("NoiseEmitter"), []);
let noise = 0;
/** Makes a block with these transactions. */
const block = (work: () => Promise<unknown>) =>
  inOneBlock(anvil, async () => {
    await work();
    if (values.noise) await queue(anvil, emitter.contract, "emitNoise", [BigInt(++noise), BigInt(NOISE_LOGS)]);
  });

const random = createRandom(7);
for (const kind of Object.keys(KINDS) as Kind[]) {
  const { isAmount } = KINDS[kind];
  const { contract } = contractOf(kind);
  const owners: string[] = [];
  const account = () => anvil.accounts[random.below(8)] as string;
  for (let at = 0; at < TOKENS; at++) {
    owners.push(account());
    const amount = isAmount ? [10n] : [];
    await block(() => queue(anvil, contract, "mint", [owners[at] as string, idOf(kind, at), ...amount]));
  }
  // Each second block takes back one move of the block before: a pair of transfers that cancel out.
  let back: { readonly at: number; readonly to: string } | undefined;
  const move = async (at: number, to: string) => {
    if (owners[at] === to) return;
    const amount = isAmount ? [10n] : [];
    await queue(anvil, contract, "move", [owners[at] as string, to, idOf(kind, at), ...amount]);
    owners[at] = to;
  };
  for (let each = 0; each < MOVES; each++) {
    await block(async () => {
      const { at, to } = back ?? { at: random.below(TOKENS), to: account() };
      const before = owners[at] as string;
      await move(at, to);
      back = back === undefined ? { at, to: before } : undefined;
      await move(random.below(TOKENS), account());
    });
  }
}
await anvil.mine(QUIET);
const head = Number(await anvil.send("eth_blockNumber", []));

const STATE_METHODS = ["eth_call", "eth_getCode", "eth_getBalance"];
const node = await startRpcProxy(anvil.url, {
  onRequest: ({ method, params }) => {
    const isOld = values.state === "none" && STATE_METHODS.includes(method) && Number(params[1]) < head - 20;
    return isOld ? { error: { code: -32_000, message: "missing trie node 5e (path )" } } : undefined;
  },
});
const ownersOf = (records: readonly Body[]) =>
  records
    .map(({ token_id, owner_of, amount }) => `${token_id} ${owner_of} ${amount}`)
    .sort()
    .join();
const honest = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), logger: createLogger("silent") });
const truths = new Map<Kind, string>();
for (const kind of deployed.keys()) {
  await honest.get(`/api/v2/nft/${contractOf(kind).address}`);
  await synced(honest, contractOf(kind).address);
  truths.set(kind, ownersOf(await walkListing(honest, contractOf(kind).address, "limit=500&holders=true")));
}
await honest.stop();

/** Lies that change what is told as a whole. */
function tellerOf(kind: Kind, lie: Lie, seed: number): ArchiveOptions["tell"] {
  if (lie === "omit a token") {
    const id = word(idOf(kind, seed % TOKENS));
    const isOf = ({ topics, data }: { readonly topics: readonly string[]; readonly data: string }) =>
      KINDS[kind].isAmount ? data.startsWith(id) : topics[3] === id;
    return async (blocks) => blocks.map((one) => ({ ...one, logs: one.logs.filter((log) => !isOf(log)) }));
  }
  if (lie !== "forge in a quiet block") return undefined;
  const number = head - QUIET + 1 + (seed % (QUIET / 2));
  return async (blocks, query) => {
    if (query.fromBlock > number || query.toBlock < number) return blocks;
    const [real] = (await anvil.send("eth_getLogs", [
      { fromBlock: "0x0", toBlock: "latest", address: contractOf(kind).address },
    ])) as [ArchivedLog];
    const [quiet] = await archiveOfNode(anvil.url).blocks({ ...query, fromBlock: number, toBlock: number, logs: [] });
    const { isAmount } = KINDS[kind];
    const [receiver, id] = [word(anvil.accounts[9] as string), word(idOf(kind, 5_000))];
    const topics = isAmount
      ? [real.topics[0] as string, word(anvil.accounts[1] as string), word(0), receiver]
      : [real.topics[0] as string, word(0), receiver, id];
    const data = isAmount ? id + word(3).slice(2) : "0x";
    const forged = {
      ...(quiet as (typeof blocks)[number]),
      logs: [{ ...real, transactionIndex: 0, topics, data, logIndex: 0 }],
    };
    const others = blocks.filter(({ header }) => header.number !== number);
    return [...others, forged].sort((a, b) => a.header.number - b.header.number);
  };
}

interface Outcome {
  readonly rung: string;
  readonly isRight: boolean;
  readonly isProven: boolean;
  readonly isInDoubt: boolean;
  readonly calls: ReadonlyMap<string, number>;
}

/** Indexes once by an archive that lies. Undefined if the seed drew no lie. */
async function outcomeOf(kind: Kind, lie: Lie | undefined, seed: number): Promise<Outcome | undefined> {
  const own = LIES.find((one) => one === lie);
  const tell = lie === undefined ? undefined : tellerOf(kind, lie, seed);
  const archive = await startArchive(archiveOfNode(anvil.url), {
    faults: own === undefined ? [] : [own],
    rate: own === "another branch" ? 1 / 4 : 1 / 150,
    seed,
    mostBlocks: 120,
    ...(tell === undefined ? {} : { tell }),
  });
  node.reset();
  const { logger: recording, lines } = recordingLogger("info");
  const service = await startTestService({
    ...{ rpcUrl: node.url, logUrl: temporaryLogUrl(), logger: recording },
    env: {
      ...{ ARCHIVE_URL_ETH: archive.url, ARCHIVE_PER_10S: "100000", OPERATOR_KEYS: OPERATOR_KEY },
      VERIFY: String(values.verify),
    },
  });
  const { address } = contractOf(kind);
  try {
    await service.get(`/api/v2/nft/${address}`);
    const ended = async () => {
      const { body, status } = await service.get(`/api/collections/eth/${address}`);
      const isEnded = body.proof === null || body.proof?.block != null || body.inDoubt !== null;
      const isRead = body.status === "following" || body.inDoubt !== null;
      return status === 200 && isRead && isEnded ? body : undefined;
    };
    const row = await eventually("the proof has ended", ended, PATIENCE_MS);
    if (own !== undefined && (archive.committed.get(own) ?? 0) === 0) return undefined;
    if (row.inDoubt === null) await synced(service, address);
    const said = lines.map((line) => JSON.stringify(line));
    const [rung] = RUNGS.find(([, pattern]) => said.some((line) => pattern.test(line))) ?? ["not seen"];
    const listed = ownersOf(await walkListing(service, address, "limit=500&holders=true"));
    const calls = new Map(
      [...Map.groupBy(node.calls, ({ method }) => method)].map(([name, all]) => [name, all.length]),
    );
    return {
      ...{ rung, calls, isRight: listed === truths.get(kind), isInDoubt: row.inDoubt !== null },
      isProven: row.inDoubt === null && /owners proven/.test(String(row.history)),
    };
  } finally {
    await service.stop();
    await archive.stop();
  }
}

console.log(
  `VERIFY=${values.verify}, state: ${values.state}, ${values.noise ? "full" : "sparse"} blooms, ${values.seeds} seeds a lie\n`,
);
const RUNG_NAMES = RUNGS.map(([rung]) => rung);
console.log(
  `| Collection | Lie | Histories with it | ${RUNG_NAMES.join(" | ")} | Not seen | Owners right | In doubt | Wrong and proven |`,
);
console.log(`|${"---|".repeat(7 + RUNG_NAMES.length)}`);
let faults = 0;
for (const kind of deployed.keys()) {
  for (const lie of ALL_LIES) {
    const outcomes: Outcome[] = [];
    for (let seed = 1; seed <= Number(values.seeds); seed++) {
      const outcome = await outcomeOf(kind, lie, seed);
      if (outcome !== undefined) outcomes.push(outcome);
    }
    const count = (is: (outcome: Outcome) => boolean) => outcomes.filter(is).length;
    const wrong = count(({ isRight, isProven }) => !isRight && isProven);
    faults += wrong;
    const seen = [...RUNG_NAMES, "not seen"].map((rung) => count((outcome) => outcome.rung === rung));
    const ends = [count(({ isRight }) => isRight), count(({ isInDoubt }) => isInDoubt), wrong];
    console.log(`| ${[kind, lie, outcomes.length, ...seen, ...ends].join(" | ")} |`);
  }
}
console.log("\nCalls of the node for an honest archive:\n");
for (const kind of deployed.keys()) {
  const calls = (await outcomeOf(kind, undefined, 0))?.calls ?? new Map<string, number>();
  console.log(`${kind}: ${[...calls].map(([method, count]) => `${method} ${count}`).join(", ")}`);
}
await node.stop();
await anvil.stop();
process.exit(faults > 0 ? 1 : 0);
