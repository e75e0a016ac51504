/**
 * Accounts that delegate to a contract (EIP-7702) on a real chain: one that emits NFT logs is a collection, and stays
 * one with its tokens when the delegation ends.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { concat, HDNodeWallet, Interface, JsonRpcProvider, Mnemonic } from "ethers";
import { type Anvil, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, transact } from "../../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { nftStream } from "../../../src/events/types.ts";
import { openLog } from "../../../src/log/open.ts";
import {
  type Answer,
  type Body,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
} from "../../support/service.ts";

const OPERATOR = "operator-key-of-the-test";
/** The mnemonic of anvil's unlocked accounts (book.getfoundry.sh/reference/anvil). */
const ANVIL_MNEMONIC = "test test test test test test test test test test test junk";
const logUrl = temporaryLogUrl();
let anvil: Anvil;
let service: TestService;
let nft: Deployed;
let alice: string;
let bob: string;

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1, hardfork: "prague" });
  [alice, bob] = anvil.accounts.slice(1, 3) as [string, string];
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Behind", "BHD"]);
  service = await startTestService({ rpcUrl: anvil.url, logUrl, auditMs: 10, env: { OPERATOR_KEYS: OPERATOR } });
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const at = async (address: string) => contractAt(anvil, address, (await contractArtifact("PlainNft")).abi);
const owners = ({ body }: Answer): string[][] => body.result.map((row: Body) => [row.token_id, row.owner_of]);

/** An account that has sent a transaction and delegates to the contract. */
async function delegating(digits: string): Promise<string> {
  const account = `0x${digits.repeat(20)}`;
  await anvil.send("anvil_setCode", [account, concat(["0xef0100", nft.address])]);
  await anvil.send("anvil_setNonce", [account, "0x1"]);
  return account;
}

const audited = async (): Promise<number> => {
  const text = await (await service.fetch("/metrics")).text();
  return Number(/^audit_holdings_checked_total\{chain="eth"\} (\d+)$/m.exec(text)?.[1] ?? 0);
};

test("an account with a real delegation that emits NFT logs is a collection", async () => {
  const provider = new JsonRpcProvider(anvil.url, undefined, { cacheTimeout: -1, staticNetwork: true });
  const wallet = HDNodeWallet.fromMnemonic(Mnemonic.fromPhrase(ANVIL_MNEMONIC), "m/44'/60'/0'/0/5").connect(provider);
  try {
    // The account sends its own delegation, and mints in the same transaction.
    const nonce = await wallet.getNonce();
    const authorization = await wallet.authorize({ address: nft.address, nonce: nonce + 1 });
    const data = new Interface((await contractArtifact("PlainNft")).abi).encodeFunctionData("mint", [alice, 1]);
    const sent = await wallet.sendTransaction({
      ...{ type: 4, to: wallet.address, data, nonce, authorizationList: [authorization], gasLimit: 1_000_000 },
      ...{ maxFeePerGas: 10n ** 10n, maxPriorityFeePerGas: 1n },
    });
    expect((await sent.wait())?.logs.map(({ address }) => address)).toEqual([wallet.address]);
    expect(await provider.getCode(wallet.address)).toStartWith("0xef0100");
    expect(owners(await synced(service, wallet.address))).toEqual([["1", alice.toLowerCase()]]);
  } finally {
    provider.destroy();
  }
});

test("a collection keeps its tokens when the delegation ends, and follows the account again when it returns", async () => {
  const account = await delegating("71");
  const contract = await at(account);
  for (const id of [1, 2]) await transact(anvil, contract, "mint", [alice, id]);
  await synced(service, account);
  await transact(anvil, contract, "move", [alice, bob, 2]);
  const moved = [
    ["1", alice.toLowerCase()],
    ["2", bob.toLowerCase()],
  ];
  await eventually("the transfer is followed", async () =>
    Bun.deepEquals(owners(await synced(service, account)), moved) ? true : undefined,
  );
  const before = await audited();
  await anvil.send("anvil_setCode", [account, "0x"]);
  await anvil.mine(20);
  // Without an answer the audit compares nothing, but it has looked at the code many times.
  await eventually("audits have passed", async () => {
    await transact(anvil, nft.contract, "mint", [alice, Number(await anvil.send("eth_blockNumber"))]);
    await synced(service, nft.address);
    return (await audited()) > before + 20 ? true : undefined;
  });
  expect(owners(await synced(service, account))).toEqual(moved);
  await anvil.send("anvil_setCode", [account, concat(["0xef0100", nft.address])]);
  await transact(anvil, contract, "mint", [bob, 3]);
  await eventually("the account is followed", async () =>
    owners(await synced(service, account)).length === 3 ? true : undefined,
  );
  const log = await openLog(logUrl, systemClock, silentLogger);
  const events = await log.read(nftStream(1, account as Address));
  await log.close();
  expect(events.map(({ event }) => event.type as string)).not.toContain("ContractDestroyed");
});

test("an account whose delegation has ended before the first request is listed by its logs", async () => {
  const account = await delegating("72");
  await transact(anvil, await at(account), "mint", [alice, 9]);
  await anvil.send("anvil_setCode", [account, "0x"]);
  await anvil.mine(3);
  expect(owners(await synced(service, account))).toEqual([["9", alice.toLowerCase()]]);
});

test.each([
  ["a reader", {}],
  ["an operator", { "x-api-key": OPERATOR }],
])("an account that delegates to an NFT contract and emits nothing is no contract for %s", async (who, headers) => {
  const account = await delegating(who === "a reader" ? "73" : "74");
  await eventually("the account is no contract", async () => {
    const { status, body } = await service.get(`/api/v2/nft/${account}`, headers);
    return status === 404 && body.code === "not_a_contract" ? true : undefined;
  });
});
