/** The routes that explore a collection, against a real chain: holders, tokens by owner and trait, a token, traits. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import packageFacts from "../../../package.json" with { type: "json" };
import { type Anvil, reorg, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, read, transact } from "../../../scripts/local-chain/contracts.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { schemaFaults } from "../../support/schemas.ts";
import {
  type Answer,
  type Body,
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../../support/service.ts";

const COUNT = 12;
const ZERO = `0x${"0".repeat(40)}`;

let anvil: Anvil;
let nft: Deployed;
let amounts: Deployed;
let service: TestService;
/** Block before the last transfers. */
let past: number;

const account = (index: number): string => anvil.accounts[index] as string;
const headOf = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));
const ask = (contract: Deployed, path: string): Promise<Answer> =>
  service.get(`/api/collections/eth/${contract.address}/${path}`);

/** Reads all pages of a route. */
async function walk(contract: Deployed, path: string): Promise<Body[]> {
  const all: Body[] = [];
  for (let cursor = ""; ; ) {
    const { status, body } = await ask(
      contract,
      `${path}${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`,
    );
    expect(status).toBe(200);
    all.push(...(body.result ?? body.history));
    if (body.cursor === null) return all;
    cursor = body.cursor;
  }
}

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Explored", "E"]);
  const base =
    'data:application/json,{"attributes":[{"trait_type":"A:B","value":"c:d"},{"trait_type":"Number","value":"';
  await transact(anvil, nft.contract, "setBaseURI", [base, '"}]}']);
  // Account 1 gets half of the tokens, accounts 2 and 3 a quarter each.
  for (let id = 1; id <= COUNT; id++) {
    await transact(anvil, nft.contract, "mint", [account([1, 2, 1, 3][id % 4] as number), BigInt(id)]);
  }
  amounts = await deploy(anvil, await contractArtifact("MultiToken"), ["Amounts", "A", ""]);
  await transact(anvil, amounts.contract, "mint", [account(1), 1n, 70n]);
  await transact(anvil, amounts.contract, "mint", [account(2), 1n, 30n]);
  await transact(anvil, amounts.contract, "mint", [account(2), 2n, 50n]);
  past = await headOf();
  await transact(anvil, nft.contract, "move", [account(1), account(4), 2n]);
  await transact(anvil, nft.contract, "move", [account(4), account(5), 2n]);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  for (const { address } of [nft, amounts]) await synced(service, address, await headOf());
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

describe("holders", () => {
  test("are what the contract says, ranked, with shares that sum up", async () => {
    const holders = await walk(nft, "holders?limit=2");
    expect(holders.map(({ rank, tokens }) => [rank, tokens])).toEqual([
      [1, 5],
      [2, 3],
      [2, 3],
      [4, 1],
    ]);
    for (const { owner, units } of holders) {
      expect(await read<bigint>(nft.contract, "balanceOf", [owner])).toBe(BigInt(units));
    }
    expect(holders.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 9);
  });

  test("of amounts count units, and tokens beside them", async () => {
    const { body } = await ask(amounts, "holders");
    expect(body.result.map((one: Body) => [one.owner, one.tokens, one.units, one.share])).toEqual(
      [
        [account(2), 2, "80", 80 / 150],
        [account(1), 1, "70", 70 / 150],
      ].map(([owner, tokens, units, share]) => [owner, tokens, units, Math.floor((share as number) * 1e12) / 1e12]),
    );
    expect(await schemaFaults(service, "HolderList", body)).toEqual([]);
  });

  test("are those of a past block, all pages of a walk at the same one", async () => {
    const { body, headers } = await ask(nft, `holders?as_of_block=${past}&limit=1`);
    expect([body.total, body.result[0].tokens]).toEqual([3, 6]);
    expect(headers.get("x-as-of-block")).toBe(String(past));
    const next = await ask(nft, `holders?limit=5&cursor=${encodeURIComponent(body.cursor)}`);
    expect(next.headers.get("x-as-of-block")).toBe(String(past));
    expect(next.body.result.length).toBe(2);
  });
});

describe("holders of one token", () => {
  test("are those that the contract says, in pages at one block", async () => {
    const holders = await walk(amounts, "tokens/1/holders?limit=1");
    expect(holders.map(({ owner, amount }) => [owner, amount]).sort()).toEqual(
      [
        [account(1), "70"],
        [account(2), "30"],
      ].sort(),
    );
    for (const { owner, amount } of holders) {
      expect(await read<bigint>(amounts.contract, "balanceOf", [owner, 1n])).toBe(BigInt(amount));
    }
    const { body } = await ask(amounts, "tokens/1/holders");
    expect(await schemaFaults(service, "TokenHolderList", body)).toEqual([]);
  });

  test("of a token without amounts are its one owner, also at a past block", async () => {
    const ownersAt = async (query: string) =>
      (await ask(nft, `tokens/2/holders${query}`)).body.result.map(({ owner, amount }: Body) => [owner, amount]);
    expect(await ownersAt("")).toEqual([[account(5), "1"]]);
    expect(await ownersAt(`?as_of_block=${past}`)).toEqual([[account(1), "1"]]);
    expect((await ask(nft, "tokens/999/holders")).body).toMatchObject({ result: [], cursor: null });
  });
});

test("the version tells two processes apart", async () => {
  const { status, body } = await service.get("/api/version");
  expect([status, body.version, body.schema]).toEqual([200, packageFacts.version, 3]);
  expect(await schemaFaults(service, "Version", body)).toEqual([]);
});

describe("tokens", () => {
  test("of an owner are those that the contract gives it, in order, in pages", async () => {
    const found = await walk(nft, `tokens?owner=${account(1)}&limit=2`);
    const ids = found.map(({ token_id }) => BigInt(token_id));
    expect(ids).toEqual([4n, 6n, 8n, 10n, 12n]);
    for (const id of ids) expect((await read<string>(nft.contract, "ownerOf", [id])).toLowerCase()).toBe(account(1));
    const before = await walk(nft, `tokens?owner=${account(1)}&as_of_block=${past}`);
    expect(before.map(({ token_id }) => token_id)).toEqual(["2", "4", "6", "8", "10", "12"]);
    expect(await walk(nft, `tokens?owner=${account(9)}`)).toEqual([]);
  });

  test("of amounts have the owner's own amount", async () => {
    const { body } = await ask(amounts, `tokens?owner=${account(2)}`);
    expect(body.result.map((one: Body) => [one.token_id, one.amount, one.owner_of])).toEqual([
      ["1", "30", account(2)],
      ["2", "50", account(2)],
    ]);
    expect(await schemaFaults(service, "TokenList", body)).toEqual([]);
  });

  test("are found by traits, together with an owner, and a type may contain colons", async () => {
    await eventually("the metadata is known", async () => {
      const { body } = await ask(nft, "traits");
      return body.indexed === COUNT ? true : undefined;
    });
    const ids = async (query: string) => (await walk(nft, `tokens?${query}`)).map(({ token_id }) => token_id);
    expect(await ids("trait=Number:7")).toEqual(["7"]);
    expect((await ids("trait=A:B:c:d&limit=5")).length).toBe(COUNT);
    expect(await ids("trait=A:B:c:d&trait=Number:8")).toEqual(["8"]);
    expect(await ids(`trait=A:B:c:d&owner=${account(5)}`)).toEqual(["2"]);
    expect(await ids("trait=Number:99")).toEqual([]);
  });
});

test("traits are counted, and `indexed` says of how many tokens", async () => {
  const answer = await eventually("the metadata is known", async () => {
    const found = await ask(nft, "traits");
    return found.body.indexed === COUNT ? found : undefined;
  });
  expect(answer.body.of).toBe(COUNT);
  expect(answer.body.result.map(({ type, distinct }: Body) => [type, distinct])).toEqual([
    ["A:B", 1],
    ["Number", COUNT],
  ]);
  expect(answer.body.result[0].values).toEqual([{ value: "c:d", count: COUNT }]);
  expect(await schemaFaults(service, "TraitList", answer.body)).toEqual([]);
});

describe("traits of one block", () => {
  test("are not those of another block that was asked about before", async () => {
    const own = await deploy(anvil, await contractArtifact("PlainNft"), ["Blocks", "B"]);
    const base = 'data:application/json,{"attributes":[{"trait_type":"Number","value":"';
    await transact(anvil, own.contract, "setBaseURI", [base, '"}]}']);
    for (const id of [1n, 2n, 3n]) await transact(anvil, own.contract, "mint", [account(1), id]);
    const early = await headOf();
    for (const id of [4n, 5n]) await transact(anvil, own.contract, "mint", [account(1), id]);
    await transact(anvil, own.contract, "burn", [1n]);
    await synced(service, own.address, await headOf());
    const numbers = async () => {
      const { body } = await ask(own, "traits");
      return [body.of, body.indexed, body.result[0]?.values.map(({ value }: Body) => value)];
    };
    const found = async (query: string) => (await walk(own, `tokens?${query}`)).map(({ token_id }) => token_id);
    await eventually("the metadata is known", async () =>
      (await ask(own, "traits")).body.indexed === 4 ? true : undefined,
    );
    const head = [4, 4, ["2", "3", "4", "5"]];
    expect(await numbers()).toEqual(head);
    expect(await found(`trait=Number:4&as_of_block=${early}`)).toEqual([]);
    expect(await found(`trait=Number:3&as_of_block=${early}`)).toEqual(["3"]);
    expect(await numbers()).toEqual(head);
    expect(await found("trait=Number:4")).toEqual(["4"]);
    expect(await found("trait=Number:1")).toEqual([]);
    // A mint counts at once, although the index is young.
    await transact(anvil, own.contract, "mint", [account(1), 6n]);
    await synced(service, own.address, await headOf());
    expect((await ask(own, "traits")).body.of).toBe(5);
  });
});

test("a range of 2^40 ids is walked a page at a time, and its holders are refused with the way out", async () => {
  const emitter = await deploy(anvil, await contractArtifact("Emitter"));
  const zero = `0x${"00".repeat(20)}`;
  await transact(anvil, emitter.contract, "emitConsecutive", [0n, 2n ** 40n - 1n, zero, account(1)]);
  await synced(service, emitter.address, await headOf());
  const holders = await ask(emitter, "holders");
  expect([holders.status, holders.body.code]).toEqual([400, "invalid_parameter"]);
  expect(holders.body.message).toContain("10000000");
  expect((await ask(emitter, `export?holders=true&as_of_block=${await headOf()}`)).status).toBe(400);
  // Its minter has all of its ids, and one page tells that another account has none.
  const page = async (query: string) => (await ask(emitter, `tokens?${query}`)).body;
  expect(await page(`owner=${account(2)}`)).toEqual({ result: [], cursor: null });
  const first = await page(`owner=${account(1)}&limit=2`);
  const second = await page(`owner=${account(1)}&limit=2&cursor=${encodeURIComponent(first.cursor)}`);
  expect([first, second].map(({ result }) => result.map((one: Body) => one.token_id))).toEqual([
    ["0", "1"],
    ["2", "3"],
  ]);
  expect((await ask(emitter, "traits")).status).toBe(400);
});

describe("a token", () => {
  test("has its record, its history, newest first, and the attempts to fetch its metadata", async () => {
    const { body } = await eventually("the metadata is known", async () => {
      const found = await ask(nft, "tokens/2");
      return found.body.metadata?.length > 0 ? found : undefined;
    });
    expect([body.record.owner_of, body.record.token_id]).toEqual([account(5), "2"]);
    expect(body.history.map(({ from, to, amount }: Body) => [from, to, amount])).toEqual([
      [account(4), account(5), "1"],
      [account(1), account(4), "1"],
      [`0x${"0".repeat(40)}`, account(1), "1"],
    ]);
    expect(body.metadata[0]).toMatchObject({ outcome: "resolved", reason: null });
    expect(await schemaFaults(service, "TokenDetails", body)).toEqual([]);
    const history = await walk(nft, "tokens/2?limit=1");
    expect(history).toEqual(body.history);
  });

  test("at a past block has the owner and the history of that block", async () => {
    const { body, headers } = await ask(nft, `tokens/2?as_of_block=${past}`);
    expect(headers.get("x-as-of-block")).toBe(String(past));
    expect([body.record.owner_of, body.history.length]).toEqual([account(1), 1]);
  });

  test("has its metadata as it was known at a time", async () => {
    const { body } = await eventually("the metadata is known", async () => {
      const found = await ask(nft, "tokens/3");
      return found.body.metadata?.length > 0 ? found : undefined;
    });
    const [{ time }] = body.metadata;
    const at = async (ms: number) =>
      (await ask(nft, `tokens/3?metadata_as_of=${new Date(ms).toISOString()}`)).body.record;
    expect((await at(Date.parse(time))).metadata).toBe(body.record.metadata);
    expect((await at(Date.parse(time) - 1)).metadata).toBeNull();
  });

  test("of amounts has every transfer with its amount", async () => {
    const { body } = await ask(amounts, "tokens/1");
    expect(body.history.map(({ to, amount }: Body) => [to, amount])).toEqual([
      [account(2), "30"],
      [account(1), "70"],
    ]);
    expect(body.record).toMatchObject({ owner_of: "", amount: "100" });
  });
});

describe("transfers", () => {
  test("are newest first, without the transactions unless they are asked for", async () => {
    const { body, headers } = await ask(nft, "transfers?limit=2&times=true");
    const row = { tokenId: "2", amount: "1", logIndex: 0 };
    expect(body.result).toEqual([
      { ...row, block: past + 2, from: account(4), to: account(5), time: expect.any(String) },
      { ...row, block: past + 1, from: account(1), to: account(4), time: expect.any(String) },
    ]);
    expect(Number(headers.get("x-as-of-block"))).toBeGreaterThanOrEqual(past + 2);
    expect(await schemaFaults(service, "TransferList", body)).toEqual([]);
    expect(await walk(nft, "tokens/2/transfers?limit=1")).toEqual(await walk(nft, "transfers?tokenId=2"));
    expect((await walk(nft, "transfers?limit=5")).length).toBe(COUNT + 2);
  });

  test("have the times that are known, and all of them with `times=true`", async () => {
    const fresh = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
    try {
      await synced(fresh, nft.address, await headOf());
      const times = async (query: string): Promise<(string | null)[]> => {
        const { body } = await fresh.get(`/api/collections/eth/${nft.address}/transfers?from=${ZERO}${query}`);
        return body.result.map((one: Body) => one.time);
      };
      expect(await times("")).toContain(null);
      const all = await times("&times=true");
      expect(all).not.toContain(null);
      // The node's answers are kept.
      expect(await times("")).toEqual(all);
    } finally {
      await fresh.stop();
    }
  });

  test("have null for a transaction that the node does not tell in time", async () => {
    const proxy = await startRpcProxy(anvil.url, {
      onResult: ({ method, params }, result) => {
        const [filter] = params as [{ fromBlock?: string; toBlock?: string }];
        const isOne = method === "eth_getLogs" && filter.fromBlock === filter.toBlock;
        return isOne && Number(filter.toBlock) === past + 1 ? [] : result;
      },
    });
    const fresh = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
    try {
      await synced(fresh, nft.address, await headOf());
      const { body } = await fresh.get(`/api/collections/eth/${nft.address}/transfers?limit=2&transactions=true`);
      const hash = expect.stringMatching(/^0x[0-9a-f]{64}$/);
      expect(body.result.map((one: Body) => one.transaction)).toEqual([hash, null]);
      expect(await schemaFaults(fresh, "TransferList", body)).toEqual([]);
    } finally {
      await fresh.stop();
      await proxy.stop();
    }
  });

  test("of a range of 2^40 ids are one row, narrowed to a token by its id", async () => {
    const emitter = await deploy(anvil, await contractArtifact("Emitter"));
    await transact(anvil, emitter.contract, "emitConsecutive", [7n, 2n ** 40n + 6n, ZERO, account(1)]);
    await synced(service, emitter.address, await headOf());
    const row = { block: await headOf(), from: ZERO, to: account(1), logIndex: 0, time: expect.any(String) };
    const rows = async (query: string) => (await ask(emitter, `transfers?${query}`)).body.result;
    expect(await rows("")).toEqual([{ ...row, tokenId: "7", amount: String(2n ** 40n) }]);
    expect(await rows("tokenId=4000000000")).toEqual([{ ...row, tokenId: "4000000000", amount: "1" }]);
    expect(await rows("tokenId=6")).toEqual([]);
  });
});

describe("a collection", () => {
  test("tells its progress, its flags, and why metadata is missing", async () => {
    const bare = await deploy(anvil, await contractArtifact("PlainNft"), [
      "Claim free airdrop at bare.example",
      "BARE",
    ]);
    for (const id of [1n, 2n, 3n]) await transact(anvil, bare.contract, "mint", [account(1), id]);
    await synced(service, bare.address, await headOf());
    const { status, body } = await eventually("all tokens failed", async () => {
      const found = await service.get(`/api/collections/eth/${bare.address}`);
      return found.body.metadata?.failed === 3 && found.body.flags.rule !== null ? found : undefined;
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({ chain: "eth", address: bare.address.toLowerCase(), symbol: "BARE", nfts: 3 });
    expect(body.flags).toMatchObject({ possibleSpam: true, verifiedCollection: false });
    expect(body.metadata).toMatchObject({ resolved: 0, failed: 3, left: 0, reasons: { no_uri: 3 } });
    expect(body.metadata.failedTokens.toSorted()).toEqual(["1", "2", "3"]);
    expect(await schemaFaults(service, "CollectionDetails", body)).toEqual([]);
  });

  test("with metadata and without flags says so", async () => {
    const { body } = await eventually("the metadata is known", async () => {
      const found = await service.get(`/api/collections/eth/${nft.address}`);
      return found.body.metadata?.resolved === COUNT ? found : undefined;
    });
    expect(body.flags).toEqual({ possibleSpam: false, verifiedCollection: false, rule: null });
    expect(body.metadata).toMatchObject({ resolved: COUNT, failed: 0, left: 0, reasons: {}, failedTokens: [] });
  });

  test("that was never requested is 404", async () => {
    const { status, body } = await service.get(`/api/collections/eth/0x${"13".repeat(20)}`);
    expect([status, body.code]).toEqual([404, "not_found"]);
  });
});

describe("a request is refused", () => {
  const cases: [string, number, string][] = [
    ["tokens?owner=0x12", 400, "owner"],
    ["tokens?trait=Golden", 400, "trait"],
    ["tokens/abc", 400, "id"],
    [`tokens/${1n << 256n}`, 400, "id"],
    ["tokens/2?metadata_as_of=yesterday", 400, "metadata_as_of"],
    ["holders?limit=0", 400, "limit"],
    ["holders?cursor=abc", 400, "cursor"],
    ["holders?as_of_block=99999999", 400, "as_of_block"],
    ["transfers?tokenId=0x1", 400, "tokenId"],
    ["transfers?from=0x12", 400, "from"],
    ["transfers?times=yes", 400, "times"],
    ["tokens/2/transfers?to=me", 400, "to"],
  ];
  for (const [path, status, parameter] of cases) {
    test(`400 that names ${parameter}: ${path.slice(0, 40)}`, async () => {
      const answer = await ask(nft, path);
      expect([answer.status, answer.body.details?.parameter]).toEqual([status, parameter]);
    });
  }

  test("404 for a token that no log names, and for a collection that was never requested", async () => {
    expect((await ask(nft, "tokens/999")).status).toBe(404);
    expect((await service.get(`/api/collections/eth/0x${"12".repeat(20)}/holders`)).status).toBe(404);
  });

  test("if its cursor is of another route, or of another filter", async () => {
    const { body } = await ask(nft, `tokens?owner=${account(1)}&limit=1`);
    const cursor = encodeURIComponent(body.cursor);
    for (const path of [
      `tokens?cursor=${cursor}`,
      `tokens?owner=${account(2)}&cursor=${cursor}`,
      `holders?cursor=${cursor}`,
    ]) {
      expect((await ask(nft, path)).status).toBe(400);
    }
    expect((await ask(nft, `tokens?owner=${account(1)}&cursor=${cursor}`)).status).toBe(200);
  });

  test("410 once its cursor's block is lost", async () => {
    await anvil.mine();
    await synced(service, nft.address, await headOf());
    const [holders, tokens, token, transfers] = await Promise.all([
      ask(nft, "holders?limit=1"),
      ask(nft, `tokens?owner=${account(1)}&limit=1`),
      ask(nft, "tokens/2?limit=1"),
      ask(nft, `transfers?to=${account(1)}&limit=1`),
    ]);
    await reorg(anvil, 1);
    await anvil.mine();
    await synced(service, nft.address, await headOf());
    const again = [
      `holders?cursor=${encodeURIComponent(holders.body.cursor)}`,
      `tokens?owner=${account(1)}&cursor=${encodeURIComponent(tokens.body.cursor)}`,
      `tokens/2?cursor=${encodeURIComponent(token.body.cursor)}`,
      `transfers?to=${account(1)}&cursor=${encodeURIComponent(transfers.body.cursor)}`,
    ];
    for (const path of again) {
      const { status, body } = await ask(nft, path);
      expect([status, body.code]).toEqual([410, "cursor_reorged"]);
    }
  });

  test("401 without a key", async () => {
    const answer = await fetch(`${service.url}/api/collections/eth/${nft.address}/holders`);
    expect(answer.status).toBe(401);
    expect(TEST_KEY.length).toBeGreaterThan(0);
  });
});
