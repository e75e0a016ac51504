/**
 * Two services over one PostgreSQL share two chains. When one ends, the other one leads both, and it gives one back to
 * nobody while it is alone.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { eventually, startTestService, type TestService } from "../support/service.ts";

const CHAINS = [
  { name: "eth", chainId: 1 },
  { name: "polygon", chainId: 137 },
] as const;

const anvils: Anvil[] = [];
const nfts: Deployed[] = [];
const services: TestService[] = [];

beforeAll(async () => {
  for (const { chainId } of CHAINS) {
    const anvil = await startAnvil({ chainId });
    anvils.push(anvil);
    nfts.push(await deploy(anvil, await contractArtifact("PlainNft"), ["Shared", "SHR"]));
  }
  const logUrl = await (await sharedPostgres()).createDatabase();
  const [eth, polygon] = anvils as [Anvil, Anvil];
  const env = { RPC_URL_POLYGON: polygon.url };
  services.push(...(await Promise.all([0, 1].map(() => startTestService({ rpcUrl: eth.url, logUrl, env })))));
}, 300_000);
afterAll(async () => {
  for (const service of services) await service.stop();
  for (const anvil of anvils) await anvil.stop();
});

let minted = 0;

/** Waits until every service lists a new token of both chains. */
async function allFollow(): Promise<void> {
  minted++;
  for (const [index, { name }] of CHAINS.entries()) {
    const [anvil, { address, contract }] = [anvils[index] as Anvil, nfts[index] as Deployed];
    await transact(anvil, contract, "mint", [anvil.accounts[1], BigInt(minted)]);
    for (const service of services) {
      await eventually(`${minted} tokens on ${name} are listed`, async () => {
        const { body } = await service.get(`/api/v2/nft/${address}?chain=${name}`);
        return body.status === "SYNCED" && body.result.length === minted ? true : undefined;
      });
    }
  }
}

/** The chains of which a service does this kind of work. */
async function ledBy(service: TestService, kind: string): Promise<string[]> {
  const text = await (await service.fetch("/metrics")).text();
  const rows = text.matchAll(new RegExp(`^leases_held\\{chain="(\\w+)",kind="${kind}"\\} 1$`, "gm"));
  return [...rows].map(([, chain]) => chain as string);
}

test.each(["follow", "metadata"])("each leads one chain: %s", async (kind) => {
  await allFollow();
  const led = await eventually("each chain has a leader", async () => {
    const all = await Promise.all(services.map((service) => ledBy(service, kind)));
    return all.flat().length === CHAINS.length ? all : undefined;
  });
  expect(led.map(({ length }) => length)).toEqual([1, 1]);
});

test("one leads both when the other one has ended", async () => {
  await services.shift()?.stop();
  await allFollow();
  const [rest] = services as [TestService];
  expect((await ledBy(rest, "follow")).sort()).toEqual(["eth", "polygon"]);
});
