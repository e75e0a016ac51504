/**
 * Contracts that only their logs identify, behind a node that takes ten blocks per request: the search by an archive finds
 * what the node's own search finds, for few calls, and no archive makes an NFT contract none.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, read, transact } from "../../scripts/local-chain/contracts.ts";
import { type ArchiveOptions, archiveOfNode, startArchive } from "../support/archive.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import {
  type Answer,
  type Body,
  eventually,
  startTestService,
  temporaryLogUrl,
  walkListing,
} from "../support/service.ts";

const CAP = 10;
/** Quiet blocks after the deployments: more than the first look at a contract reaches. */
const QUIET = 8_000;
const OPERATOR_KEY = "operator-key-0123456789";
/** Calls by which the node's own search would read the quiet blocks. */
const OWN = QUIET / CAP;

let anvil: Anvil;
let [kitties, late, coin] = [] as unknown as [Deployed, Deployed, Deployed];
const started: { stop(): Promise<void> }[] = [];
const untilTheEnd = <T extends { stop(): Promise<void> }>(one: T): T => {
  started.push(one);
  return one;
};

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  const make = async (name: string, args: readonly unknown[] = []) => deploy(anvil, await contractArtifact(name), args);
  kitties = await make("Kitties");
  late = await make("LateNft");
  coin = await make("TestToken", ["Coin", "COIN", 18]);
  const [alice, bob] = anvil.accounts.slice(1, 3) as [string, string];
  await transact(anvil, late.contract, "mint", [alice, 10n ** 21n]);
  await anvil.mine(QUIET);
  await transact(anvil, kitties.contract, "breed", [alice, 5]);
  for (let each = 0; each < 4; each++) await transact(anvil, late.contract, "shuffle", [alice, 300]);
  await transact(anvil, late.contract, "mintNft", [bob, 7]);
  await anvil.mine(200);
}, 300_000);
afterAll(() => anvil?.stop());
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

const narrow = (...options: readonly ArchiveOptions[]) => narrowAt(anvil.url, options);

/** A service behind a narrow node, with these archives. */
async function narrowAt(url: string, options: readonly ArchiveOptions[]) {
  const archives = await Promise.all(options.map((one) => startArchive(archiveOfNode(url), one)));
  for (const archive of archives) untilTheEnd(archive);
  const proxy = untilTheEnd(
    await startRpcProxy(url, {
      onRequest: ({ method, params }) => {
        const { fromBlock, toBlock } = (params[0] ?? {}) as { fromBlock?: string; toBlock?: string };
        const isWide = method === "eth_getLogs" && Number(toBlock) - Number(fromBlock) >= CAP;
        return isWide ? { error: { code: -32600, message: `up to a ${CAP} block range` } } : undefined;
      },
    }),
  );
  const urls = archives.map(({ url }) => url).join();
  const env = { ARCHIVE_URL_ETH: urls === "" ? "off" : urls, ARCHIVE_PER_10S: "100000", OPERATOR_KEYS: OPERATOR_KEY };
  const service = untilTheEnd(await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), env }));
  /** Requests a contract, and waits for its verdict. */
  const verdictOf = async ({ address }: Pick<Deployed, "address">): Promise<Body> => {
    await service.get(`/api/v2/nft/${address}`, { "x-api-key": OPERATOR_KEY });
    return eventually(
      "the contract has a verdict",
      async () => {
        const { body } = await service.get(`/api/collections/eth/${address}`, { "x-api-key": OPERATOR_KEY });
        return ["following", "not_nft", "not_a_contract"].includes(body.status) ? body : undefined;
      },
      60_000,
    );
  };
  const ownersOf = async ({ address }: Deployed) =>
    (await walkListing(service, address, "limit=100")).map(({ token_id, owner_of }) => `${token_id} ${owner_of}`);
  return { service, archives, proxy, verdictOf, ownersOf };
}

/** Leaves out all logs of a contract. */
const hiding = ({ address }: Deployed): ArchiveOptions => ({
  omits: (log) => log.address.toLowerCase() === address.toLowerCase(),
});

describe("a contract that only its logs identify", () => {
  for (const name of ["kitties", "late"] as const) {
    const contractOf = () => ({ kitties, late })[name];

    test(`is found by an archive for few calls: ${name}`, async () => {
      const own = await narrow();
      expect((await own.verdictOf(contractOf())).status).toBe("following");
      const truth = await own.ownersOf(contractOf());
      expect(own.proxy.count("eth_getLogs")).toBeGreaterThan(OWN);
      const { verdictOf, ownersOf, proxy } = await narrow({});
      expect((await verdictOf(contractOf())).status).toBe("following");
      expect(await ownersOf(contractOf())).toEqual(truth);
      expect(proxy.count()).toBeLessThan(200);
    }, 60_000);

    test(`is found by the node although the only archive hides it: ${name}`, async () => {
      const { verdictOf, proxy } = await narrow(hiding(contractOf()));
      expect((await verdictOf(contractOf())).status).toBe("following");
      expect(proxy.count("eth_getLogs")).toBeGreaterThan(OWN);
    }, 60_000);

    test(`is found by the second archive where the first one hides it: ${name}`, async () => {
      const { verdictOf, proxy } = await narrow(hiding(contractOf()), {});
      expect((await verdictOf(contractOf())).status).toBe("following");
      expect(proxy.count()).toBeLessThan(OWN);
    }, 60_000);
  }

  test("is found although the archive forges an earlier log of it", async () => {
    const { verdictOf, archives } = await narrow({ faults: ["forge"], rate: 1 });
    expect((await verdictOf(late)).status).toBe("following");
    expect(archives[0]?.committed.get("forge") ?? 0).toBeGreaterThan(0);
  }, 300_000);

  test("is none by the word of two archives, for few calls of the node", async () => {
    const { verdictOf, proxy } = await narrow({}, {});
    expect((await verdictOf(coin)).status).toBe("not_nft");
    expect(proxy.count()).toBeLessThan(OWN / 2);
  }, 300_000);
});

/** A chain whose contracts can destroy themselves, and one that lives after more blocks than 64 requests of ten reach. */
async function chainWithPhoenix() {
  const chain = untilTheEnd(
    await startAnvil({
      ...{ slotsInAnEpoch: 1, hardfork: "shanghai" },
      genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400,
    }),
  );
  const [, alice] = chain.accounts as [string, string];
  await chain.mine(1_000);
  const factory = await deploy(chain, await contractArtifact("Phoenix"));
  const address = (await read<string>(factory.contract, "place")).toLowerCase();
  const nft = contractAt(chain, address, (await contractArtifact("Destructible")).abi);
  await transact(chain, factory.contract, "rise");
  await transact(chain, nft, "mint", [alice, 1]);
  const block = Number(await chain.send("eth_blockNumber"));
  await transact(chain, nft, "destroy");
  const riseAgain = async () => {
    await transact(chain, factory.contract, "rise");
    await transact(chain, nft, "mint", [alice, 2]);
  };
  return { chain, address, block, riseAgain };
}

const idsIn = ({ body }: Answer) => body.result.map((row: Body) => row["token_id"]);

test("earlier lives of a contract are found by an archive where the node's own search ends before them", async () => {
  const { chain, address, block, riseAgain } = await chainWithPhoenix();
  await chain.mine(200);
  await riseAgain();
  await chain.mine(20);
  const { service, verdictOf } = await narrowAt(chain.url, [{}]);
  expect((await verdictOf({ address })).status).toBe("following");
  expect(idsIn(await service.get(`/api/v2/nft/${address}?as_of_block=${block}`))).toEqual(["1"]);
  expect(idsIn(await service.get(`/api/v2/nft/${address}`))).toEqual(["2"]);
}, 300_000);

test("a destroyed contract that a key of scope read asks for is found by an archive for few calls", async () => {
  const { chain, address } = await chainWithPhoenix();
  await chain.mine(2_000);
  const { service, proxy } = await narrowAt(chain.url, [{}]);
  const listed = await eventually("the contract is indexed", async () => {
    const answer = await service.get(`/api/v2/nft/${address}`);
    return answer.body.status === "SYNCED" ? answer : undefined;
  });
  expect(idsIn(listed)).toEqual(["1"]);
  // The node's own search takes 300 requests for logs.
  expect(proxy.count()).toBeLessThan(150);
}, 300_000);
