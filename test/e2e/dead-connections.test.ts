/**
 * A middlebox between the service and its only node forgets the kept connections: no data passes, and neither side gets
 * an error. The head moves on within a few seconds.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { LIMITS } from "../../src/config.ts";
import { startTestService, synced, temporaryLogUrl } from "../support/service.ts";
import { startSilentRelay } from "../support/silent-relay.ts";

let anvil: Anvil;
let nft: Deployed;
beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Far", "FAR"]);
});
afterAll(() => anvil.stop());

const mint = async (id: bigint): Promise<number> => {
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], id]);
  return Number(await anvil.send("eth_blockNumber"));
};

/** Some work on a busy machine. */
const WORK_MS = 4_000;
/**
 * Longest wait for the head: the timeout of a small request. A node may answer in order over a socket, so a small request
 * there waits as long as a large one that the service sent before it.
 */
const WAITS = [
  ["http", 8_000],
  ["ws", LIMITS.rpcTimeoutMs],
] as const;

for (const [at, [scheme, waitMs]] of WAITS.entries()) {
  test(`follows the head on a new connection, over ${scheme}`, async () => {
    const relay = await startSilentRelay(Number(new URL(anvil.url).port));
    const rpcUrl = `${scheme}://127.0.0.1:${relay.port}`;
    const service = await startTestService({ rpcUrl, logUrl: temporaryLogUrl() });
    await synced(service, nft.address, await mint(BigInt(at * 10 + 1)));
    relay.silence();
    const started = performance.now();
    await synced(service, nft.address, await mint(BigInt(at * 10 + 2)));
    expect(performance.now() - started).toBeLessThan(waitMs + WORK_MS);
    // The connections that replaced them are no worse.
    await synced(service, nft.address, await mint(BigInt(at * 10 + 3)));
    await service.stop();
    await relay.stop();
  });
}
