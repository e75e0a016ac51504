/**
 * Nodes that count the logs of each transaction from 0, in receipts, in `eth_getLogs` or in both, on a real chain: that is no
 * lie, and the holdings are right.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, inOneBlock, quantity, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue } from "../../scripts/local-chain/contracts.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { type Body, eventually, startTestService, synced, temporaryLogUrl } from "../support/service.ts";

const OPERATOR = "operator-key-of-the-test";

interface WireLog {
  readonly transactionHash: string;
  logIndex: string;
}

let anvil: Anvil;
let nft: Deployed;
let multi: Deployed;
/** Blocks of mints so far. */
let minted = 0;

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Numbers", "NUM"]);
  multi = await deploy(anvil, await contractArtifact("MultiToken"), ["M", "M", ""]);
  while (minted < 6) await mintBlock(minted++);
  await anvil.mine(4);
});

afterAll(() => anvil?.stop());

/** A block with six transactions, which move tokens in circles and mint amounts in equal logs. */
const mintBlock = (block: number) =>
  inOneBlock(anvil, async () => {
    const [a, b, c] = anvil.accounts as [string, string, string];
    await queue(anvil, nft.contract, "mintMany", [a, block * 10, 3]);
    await queue(anvil, nft.contract, "move", [a, b, block * 10]);
    await queue(anvil, nft.contract, "move", [b, c, block * 10]);
    await queue(anvil, nft.contract, "move", [c, a, block * 10]);
    for (let i = 0; i < 2; i++) await queue(anvil, multi.contract, "mint", [b, 7, 5]);
  });

/** Counts the logs of each transaction from 0. All of them are there, as in an answer about a whole block. */
function renumbered(logs: readonly WireLog[]): WireLog[] {
  const counts = new Map<string, number>();
  return logs.map((log) => {
    const index = counts.get(log.transactionHash) ?? 0;
    counts.set(log.transactionHash, index + 1);
    return { ...log, logIndex: quantity(index) };
  });
}

const startNode = (inReceipts: boolean, inLogs: boolean) =>
  startRpcProxy(anvil.url, {
    onResult: ({ method }, result) => {
      if (method === "eth_getLogs" && inLogs) return renumbered(result as WireLog[]);
      if (method !== "eth_getBlockReceipts" || !inReceipts) return result;
      return (result as { logs: WireLog[] }[]).map((receipt) => ({ ...receipt, logs: renumbered(receipt.logs) }));
    },
  });

test.each([
  ["receipts", true, false, "receipts"],
  ["receipts", true, false, "sample"],
  ["eth_getLogs", false, true, "receipts"],
  ["both", true, true, "receipts"],
])(
  "logs numbered per transaction in %s are no lie (receipts %p, logs %p, VERIFY=%s)",
  async (_, inReceipts, inLogs, VERIFY) => {
    const node = await startNode(inReceipts, inLogs);
    const service = await startTestService({
      ...{ rpcUrl: node.url, logUrl: temporaryLogUrl(), env: { VERIFY, OPERATOR_KEYS: OPERATOR } },
    });
    try {
      await synced(service, nft.address);
      // The same for followed blocks.
      for (let more = 0; more < 3; more++) await mintBlock(minted++);
      const head = Number(await anvil.send("eth_blockNumber"));
      const owners = async () => {
        const { body } = await synced(service, nft.address, head);
        return body.result.map((row: Body) => [row.token_id, row.owner_of, row.block_number]);
      };
      const listed = await owners();
      for (const [id, owner] of listed) {
        const held = (await nft.contract.getFunction("ownerOf")(id)) as string;
        expect([id, owner]).toEqual([id, held.toLowerCase()]);
      }
      const amounts = await eventually("amounts", async () => {
        const { body } = await synced(service, multi.address, head);
        return body.result.length === 1 ? body.result : undefined;
      });
      const supply = (await multi.contract.getFunction("balanceOf")(anvil.accounts[1], 7)) as bigint;
      expect(amounts.map((row: Body) => row.amount)).toEqual([supply.toString()]);
      const status = (await service.get("/api/status", { "x-api-key": OPERATOR })).body;
      expect(status.chains[0].endpoints.map((endpoint: Body) => endpoint.state)).toEqual(["available"]);
      const metrics = await (await service.fetch("/metrics")).text();
      expect(/^rpc_lies_total\{[^}]*\} (\d+)$/m.exec(metrics)?.[1] ?? "0").toBe("0");
    } finally {
      await service.stop();
      await node.stop();
    }
  },
  60_000,
);
