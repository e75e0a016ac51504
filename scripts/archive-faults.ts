/**
 * Which rung of the proof sees which lie of an archive. On a real local chain with 441 blocks of one collection, an
 * archive tells about one lie a history, drawn by seed; the table says which rung saw it first, in how many of the
 * histories with a lie, and whether the present owners were right in the end. `--seeds 100 [--verify receipts]`.
 */
import { parseArgs } from "node:util";
import { createLogger } from "../src/core/logger.ts";
import { archiveOfNode, LIES, startArchive } from "../test/support/archive.ts";
import { seedArchivedCollection } from "../test/support/archived-collection.ts";
import { recordingLogger } from "../test/support/logged.ts";
import {
  type Body,
  eventually,
  startTestService,
  synced,
  temporaryLogUrl,
  walkListing,
} from "../test/support/service.ts";
import { startAnvil } from "./local-chain/anvil.ts";

const { values } = parseArgs({
  options: { seeds: { type: "string", default: "100" }, verify: { type: "string", default: "sample" } },
});
const OPERATOR_KEY = "operator-key-0123456789";
/** Lies per block with a log, and per answer for another branch: about one a history. */
const rateOf = (lie: (typeof LIES)[number]): number => (lie === "another branch" ? 1 / 4 : 1 / 300);

/** The first line that says a lie was seen, by rung. */
const RUNGS: readonly (readonly [rung: string, line: RegExp])[] = [
  ["bloom", /not in its block's bloom/],
  ["hash", /the chain has another block there/],
  ["receipts", /its receipts have other logs/],
  ["owners", /as the contract's owners show/],
];

const anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
const logger = createLogger("silent");
const { nft } = await seedArchivedCollection(anvil);
const ownersOf = (records: readonly Body[]) =>
  records.map(({ token_id, owner_of }) => `${token_id} ${owner_of}`).join();
const honest = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), logger });
await eventually("the truth is known", async () => {
  const { body } = await honest.get(`/api/v2/nft/${nft.address}`);
  return body.status === "SYNCED" ? true : undefined;
});
const truth = ownersOf(await walkListing(honest, nft.address, "limit=500"));
await honest.stop();

/** Indexes once by an archive that lies. Undefined if the seed drew no lie. */
async function outcomeOf(lie: (typeof LIES)[number], seed: number) {
  const archive = await startArchive(archiveOfNode(anvil.url), {
    faults: [lie],
    rate: rateOf(lie),
    seed,
    mostBlocks: 120,
  });
  const { logger: recording, lines } = recordingLogger("info");
  const service = await startTestService({
    ...{ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), logger: recording },
    env: {
      ...{ ARCHIVE_URL_ETH: archive.url, ARCHIVE_PER_10S: "100000", OPERATOR_KEYS: OPERATOR_KEY },
      VERIFY: String(values.verify),
    },
  });
  try {
    await service.get(`/api/v2/nft/${nft.address}`);
    await eventually("the collection is indexed and proven", async () => {
      const { body, status } = await service.get(`/api/collections/eth/${nft.address}`);
      const isProven = body.proof === null || body.proof?.block !== null;
      return status === 200 && body.status === "following" && isProven ? true : undefined;
    });
    if ((archive.committed.get(lie) ?? 0) === 0) return undefined;
    await synced(service, nft.address);
    const said = lines.map((line) => JSON.stringify(line));
    const [rung] = RUNGS.find(([, pattern]) => said.some((line) => pattern.test(line))) ?? ["not seen"];
    const isRight = ownersOf(await walkListing(service, nft.address, "limit=500")) === truth;
    return { rung, isRight };
  } finally {
    await service.stop();
    await archive.stop();
  }
}

console.log(`VERIFY=${values.verify}, ${values.seeds} seeds a lie\n`);
console.log("| Lie | Histories with it | Bloom | Hash | Receipts | Owners | Not seen | Owners right |");
console.log("|---|---|---|---|---|---|---|---|");
for (const lie of LIES) {
  const outcomes: { readonly rung: string; readonly isRight: boolean }[] = [];
  for (let seed = 1; seed <= Number(values.seeds); seed++) {
    const outcome = await outcomeOf(lie, seed);
    if (outcome !== undefined) outcomes.push(outcome);
  }
  const share = (count: number) => `${Math.round((100 * count) / Math.max(1, outcomes.length))} %`;
  const seenBy = [...RUNGS.map(([rung]) => rung), "not seen"].map((rung) =>
    share(outcomes.filter((outcome) => outcome.rung === rung).length),
  );
  const right = share(outcomes.filter(({ isRight }) => isRight).length);
  console.log(`| ${[lie, outcomes.length, ...seenBy, right].join(" | ")} |`);
}
await anvil.stop();
process.exit(0);
