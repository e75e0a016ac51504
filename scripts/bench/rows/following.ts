/**
 * Calls that following one quiet collection costs, on chains with a block every quarter of a second, two seconds and
 * twelve seconds. Three services watch the same chains: one at the default pace, one that looks at each block, one with
 * `VERIFY=headers`.
 */
import { type Anvil, startAnvil } from "../../local-chain/anvil.ts";
import { contractArtifact } from "../../local-chain/compile.ts";
import { deploy, placeCode, transact } from "../../local-chain/contracts.ts";
import { MAINNET } from "../../local-chain/mainnet.ts";
import { type Bench, grouped } from "../row.ts";
import { type BenchService, startBenchService, temporaryFolder } from "../service.ts";

const CHAINS = [
  { name: "arbitrum", suffix: "ARBITRUM", chainId: 42_161, blockSeconds: 0.25, most: 2_500 },
  { name: "polygon", suffix: "POLYGON", chainId: 137, blockSeconds: 2, most: 2_000 },
  { name: "eth", suffix: "ETH", chainId: 1, blockSeconds: 12, most: 900 },
] as const;
const MAX_PER_BLOCK = 1.3;
const HOUR_MS = 3_600_000;
const SETTLE_MS = 30_000;

type Followed = (typeof CHAINS)[number] & { readonly anvil: Anvil; readonly address: string };

async function startChain(chain: (typeof CHAINS)[number]): Promise<Followed> {
  const anvil = await startAnvil({ chainId: chain.chainId });
  await placeCode(anvil, MAINNET.multicall3, (await contractArtifact("Multicall")).deployedBytecode);
  const { address, contract } = await deploy(anvil, await contractArtifact("PlainNft"), ["Quiet", "Q"]);
  for (let id = 1n; id <= 30n; id++) await transact(anvil, contract, "mint", [anvil.accounts[1], id]);
  // The default of `finalized` is 64 blocks below the head.
  await anvil.mine(70);
  // Anvil counts whole seconds; without an interval it takes the time of day.
  if (chain.blockSeconds >= 1) await anvil.send("anvil_setBlockTimestampInterval", [chain.blockSeconds]);
  return { ...chain, anvil, address };
}

/** Billed calls of a service so far, by chain. */
async function callsOf(service: BenchService): Promise<Map<string, number>> {
  const calls = new Map<string, number>();
  for (const line of (await (await service.get("/metrics")).text()).split("\n")) {
    const [, chain, count] = /^rpc_calls_total\{.*endpoint="([^"#]+)#.*\} (\d+)$/.exec(line) ?? [];
    if (chain !== undefined) calls.set(chain, (calls.get(chain) ?? 0) + Number(count));
  }
  return calls;
}

async function followAll(service: BenchService, chains: readonly Followed[]): Promise<void> {
  for (const { name, address } of chains) {
    const path = `/api/v2/nft/${address}?chain=${name}`;
    while (!/"status":"SYNCED"/i.test(await (await service.get(path)).text())) await Bun.sleep(100);
  }
}

export const following: Bench = {
  name: "following",
  measure: async ({ followMs }) => {
    const chains = await Promise.all(CHAINS.map(startChain));
    const urls = Object.fromEntries(chains.map(({ suffix, anvil }) => [`RPC_URL_${suffix}`, anvil.url]));
    const each = Object.fromEntries(chains.map(({ suffix }) => [`FOLLOW_EVERY_${suffix}`, "0"]));
    const folders = [{ ...urls }, { ...urls, ...each }, { ...urls, VERIFY: "headers" }].map((env) => {
      return { env, folder: temporaryFolder() };
    });
    const services: BenchService[] = [];
    const timers = chains.map(({ anvil, blockSeconds }) => {
      const mine = () => anvil.send("evm_mine").catch(() => undefined);
      return setInterval(mine, blockSeconds * 1_000);
    });
    try {
      for (const { env, folder } of folders) {
        services.push(await startBenchService({ rpcUrl: urls["RPC_URL_ETH"] ?? "", logUrl: folder.logUrl, env }));
      }
      await Promise.all(services.map((service) => followAll(service, chains)));
      // The first looks read more headers, and metadata is fetched.
      await Bun.sleep(SETTLE_MS);
      const before = await Promise.all(services.map(callsOf));
      const started = performance.now();
      await Bun.sleep(followMs);
      const after = await Promise.all(services.map(callsOf));
      const hours = (performance.now() - started) / HOUR_MS;
      const perHour = (of: number, name: string) =>
        ((after[of]?.get(name) ?? 0) - (before[of]?.get(name) ?? 0)) / hours;
      const shown = (of: number) => chains.map(({ name }) => grouped(Math.round(perHour(of, name)))).join(", ");
      const perBlock = chains.map(({ name, blockSeconds }) => perHour(2, name) / (HOUR_MS / 1_000 / blockSeconds));
      return {
        name: "Calls an hour of following a quiet collection: blocks of 0.25, 2 and 12 s",
        floor: `${shown(1)} (each block)`,
        ours: shown(0),
        ratio: undefined,
        reach: `<= ${CHAINS.map(({ most }) => grouped(most)).join(", ")}`,
        passed:
          chains.every(({ name, most }) => perHour(0, name) <= most) &&
          perBlock.slice(0, 2).every((calls) => calls <= MAX_PER_BLOCK),
        detail:
          `${Math.round(followMs / 60_000)} min, self-audit included; with VERIFY=headers ` +
          `${perBlock.map((calls) => calls.toFixed(2)).join(", ")} calls a block (<= ${MAX_PER_BLOCK} at 0.25 and 2 s)`,
      };
    } finally {
      for (const timer of timers) clearInterval(timer);
      for (const service of services) await service.stop();
      for (const { anvil } of chains) await anvil.stop();
      for (const { folder } of folders) folder.remove();
    }
  },
};
