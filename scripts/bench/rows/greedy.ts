/** One key asks for unknown addresses as fast as its rate allows. What another key's collection waits meanwhile. */
import { Database } from "bun:sqlite";
import { startAnvil } from "../../local-chain/anvil.ts";
import { contractArtifact } from "../../local-chain/compile.ts";
import { deploy, transact } from "../../local-chain/contracts.ts";
import { median } from "../load.ts";
import { type Bench, grouped } from "../row.ts";
import { type BenchService, startBenchService, temporaryFolder } from "../service.ts";

const [GREEDY, SHOP, ADMIN] = ["greedy-key-0123456789", "shop-key-0123456789", "admin-key-0123456789"];
const COLLECTIONS = 5;
const TOKENS = 200n;
/** 6,000 a minute. */
const EVERY_MS = 10;
/** Time that the greedy key asks before the collections are requested, so that its queues are full. */
const AHEAD_MS = 20_000;
/** Bytes of an event beside its data: the row and the entry of the index. */
const ROW_BYTES = 60;
const DAY_MS = 86_400_000;
const MAX_DAY_BYTES = 100_000_000;
const NO_QUOTA = "1000000";

const as = (key: string) => ({ headers: { "x-api-key": key } });

/** Asks for addresses that were never used, until it is stopped. */
function askForJunk(base: string) {
  let [asked, refused] = [0, 0];
  const timer = setInterval(() => {
    const address = `0x${(0x1234_5678n * 2n ** 128n + BigInt(asked++)).toString(16).padStart(40, "0")}`;
    fetch(`${base}/api/v2/nft/${address}`, as(GREEDY)).then(
      async (response) => {
        if (response.status === 429) refused++;
        await response.arrayBuffer();
      },
      () => undefined,
    );
  }, EVERY_MS);
  const stop = () => {
    clearInterval(timer);
    return { asked, refused };
  };
  return { stop };
}

async function measure(service: BenchService, addresses: readonly string[]): Promise<number> {
  const times: number[] = [];
  for (const address of addresses) {
    const started = performance.now();
    for (let isSynced = false; !isSynced; ) {
      const answer = await fetch(`${service.base}/api/v2/nft/${address}`, as(SHOP));
      isSynced = ((await answer.json()) as { status?: string }).status === "SYNCED";
      if (!isSynced) await Bun.sleep(20);
    }
    times.push(performance.now() - started);
  }
  return median(times);
}

/** Bytes of all events of a log. The file grows in steps, and its journal is used again. */
function bytesOf(logUrl: string): number {
  const db = new Database(logUrl.slice("sqlite://".length), { readonly: true });
  const row = db
    .query<{ bytes: number }, [number]>("SELECT coalesce(sum(length(data) + ?), 0) AS bytes FROM events")
    .get(ROW_BYTES);
  db.close();
  return row?.bytes ?? 0;
}

/** Calls to the node so far. */
async function callsOf(service: BenchService): Promise<number> {
  const { chains } = (await (await fetch(`${service.base}/api/status`, as(ADMIN))).json()) as {
    chains: { endpoints: { calls: { day: Record<string, number> } }[] }[];
  };
  return Object.values(chains[0]?.endpoints[0]?.calls.day ?? {}).reduce((sum, count) => sum + count, 0);
}

export const greedy: Bench = {
  name: "greedy",
  measure: async () => {
    const anvil = await startAnvil();
    const parts: string[] = [];
    let isPassed = true;
    let worst = 0;
    try {
      const artifact = await contractArtifact("PlainNft");
      const contracts: string[] = [];
      for (let n = 0; n < 4 * COLLECTIONS; n++) {
        const { address, contract } = await deploy(anvil, artifact, [`Bench ${n}`, "B"]);
        await transact(anvil, contract, "mintMany", [anvil.accounts[1], 0n, TOKENS]);
        contracts.push(address);
      }
      await anvil.mine(70);
      for (const quota of ["300", NO_QUOTA]) {
        const folder = temporaryFolder();
        const env = { API_KEYS: `${GREEDY},${SHOP}`, OPERATOR_KEYS: ADMIN, COLLECTIONS_PER_HOUR: quota };
        const service = await startBenchService({ rpcUrl: anvil.url, logUrl: folder.logUrl, env });
        const take = () => contracts.splice(0, COLLECTIONS);
        const quiet = await measure(service, take());
        const [bytesBefore, callsBefore, started] = [bytesOf(folder.logUrl), await callsOf(service), performance.now()];
        const junk = askForJunk(service.base);
        await Bun.sleep(AHEAD_MS);
        const [junkBytes, junkCalls, junkMs] = [
          bytesOf(folder.logUrl) - bytesBefore,
          (await callsOf(service)) - callsBefore,
          performance.now() - started,
        ];
        const beside = await measure(service, take());
        const { asked, refused } = junk.stop();
        await service.stop();
        folder.remove();
        const dayBytes = (junkBytes * DAY_MS) / junkMs;
        worst = Math.max(worst, beside / quiet);
        isPassed &&= beside <= 2 * quiet && dayBytes < MAX_DAY_BYTES;
        const name = quota === NO_QUOTA ? "without a quota" : `with the quota of ${quota}`;
        const costs = `${grouped(junkBytes)} bytes of log and ${grouped(junkCalls)} calls in ${(junkMs / 1_000).toFixed(0)} s`;
        parts.push(
          `${name}: ${quiet.toFixed(0)} ms alone, ${beside.toFixed(0)} ms beside ${grouped(asked)} addresses (${grouped(refused)} refused); ${costs}, ${grouped(dayBytes / 1e6)} MB a day`,
        );
      }
    } finally {
      await anvil.stop();
    }
    return {
      name: "Another key's collection, while one key asks for 6 000 unused addresses a minute",
      floor: "the same service without that key",
      ours: `${worst.toFixed(2)} times as long`,
      ratio: 1 / worst,
      reach: "at most twice as long, below 100 MB of log a day",
      passed: isPassed,
      detail: parts.join("; "),
    };
  },
};
