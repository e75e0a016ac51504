/**
 * A node that runs no call says nothing about an address, whether it answers each with nothing or with a revert: no answer is
 * made of that.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { type LocalChain, startLocalChain } from "../support/prices/anvil.ts";
import { type Intervention, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";
import { connect } from "../support/socket.ts";

const ETHER = 10n ** 18n;
const NOTHING: Intervention = { result: "0x" };
const REVERT: Intervention = { error: { code: 3, message: "execution reverted" } };

describe.each([
  ["is empty", NOTHING],
  ["is a revert", REVERT],
])("while the node's answer to each call %s", (_, answer) => {
  let chain: LocalChain;
  let proxy: RpcProxy;
  let service: TestService;
  let token: string;
  let isBroken = true;
  /** True for a node without state: it knows no code and no logs either. */
  let isStateless = false;

  beforeAll(async () => {
    chain = await startLocalChain();
    const { anvil } = chain;
    token = await chain.token();
    const usd = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: MAINNET.usdc, amountB: 300_000n * 10n ** 6n };
    await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...usd });
    const pair = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: token, amountB: 1_000n * ETHER };
    await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...pair });
    proxy = await startRpcProxy(anvil.url, {
      onRequest: ({ method }) => {
        if (isStateless && method === "eth_getLogs") return { result: [] };
        if (isStateless && method === "eth_getCode") return NOTHING;
        return isBroken && method === "eth_call" ? answer : undefined;
      },
    });
    service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  });
  afterAll(async () => {
    await service?.stop();
    await proxy?.stop();
    await chain?.anvil.stop();
  });

  test("a token is no account while calls don't run, and has a price once they do", async () => {
    const account = chain.anvil.accounts[3]!;
    const paths = [token, account].flatMap((one) => [
      `/api/v2/erc20/${one}/price`,
      `/api/v2/erc20/${one}/price?to_block=1`,
      `/api/v2/erc20/metadata?addresses=${one}`,
    ]);
    for (const path of paths) {
      const { status, body } = await service.get(path);
      expect([path, status, body.code]).toEqual([path, 503, "chain_unavailable"]);
    }
    isBroken = false;
    // Nothing that was learned from the silence outlives it.
    await eventually("the endpoint is asked again", async () => {
      const { status, body } = await service.get(`/api/v2/erc20/${token}/price`);
      if (status === 200) return body;
      expect([status, body.code]).toEqual([503, "chain_unavailable"]);
      return undefined;
    });
    expect((await service.get(`/api/v2/erc20/${account}/price`)).body.code).toBe("not_a_token");
  });

  test("a contract is not identified while calls don't run, and is once they do", async () => {
    const { address } = await deploy(chain.anvil, await contractArtifact("PlainNft"), ["Silent", "S"]);
    isBroken = true;
    const client = await connect(service);
    client.send({ action: "subscribe", chain: "eth", address });
    await client.next("failed");
    expect((await service.get(`/api/v2/nft/${address}`)).body.status).toBe("SYNCING");
    isBroken = false;
    expect((await synced(service, address, 0)).body.result).toEqual([]);
    expect((await service.get(`/api/v2/nft/${address}/metadata`)).body.name).toBe("Silent");
    client.socket.close();
  });

  test("a contract is not said to be none by a node without state", async () => {
    const { address } = await deploy(chain.anvil, await contractArtifact("PlainNft"), ["Unseen", "U"]);
    isBroken = isStateless = true;
    proxy.reset();
    const silent = () => service.get(`/api/v2/nft/${address}`);
    expect((await silent()).body.status).toBe("SYNCING");
    await eventually("its code was asked for again", async () => {
      expect(await silent()).toMatchObject({ status: 200, body: { status: "SYNCING" } });
      // The process records a contract that can't be looked at, so that another one may.
      const { body } = await service.get(`/api/collections/eth/${address}`);
      return body.status === "failing" ? true : undefined;
    });
    isBroken = isStateless = false;
    expect((await synced(service, address, 0)).body.result).toEqual([]);
    expect((await service.get(`/api/v2/nft/${address}/metadata`)).body.name).toBe("Unseen");
  });
});
