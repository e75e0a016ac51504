/**
 * What is said of a history from an archive is true, whatever the archive left out or made up, and whatever the node can
 * still prove. Real contracts that count their tokens, or don't, behind nodes without old state and with pruned history.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { keccak256, toBeHex, zeroPadValue } from "ethers";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue, transact } from "../../scripts/local-chain/contracts.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type ArchivedBlock, type ArchiveOptions, archiveOfNode, startArchive } from "../support/archive.ts";
import { runCli } from "../support/cli.ts";
import { type Intervention, startRpcProxy } from "../support/rpc-proxy.ts";
import { type Body, eventually, startTestService, temporaryLogUrl, walkListing } from "../support/service.ts";

const CAP = 10;
const DEAD = "0x000000000000000000000000000000000000dead";
const OPERATOR_KEY = "operator-key-0123456789";
const TOKENS = 40;
/** Blocks above the last mint: more than are compared with their receipts whatever differs. */
const QUIET = 560;

let anvil: Anvil;
const contracts: Record<string, Deployed> = {};
const truths: Record<string, string> = {};
let head: number;
const started: { stop(): Promise<void> }[] = [];

function untilTheEnd<T extends { stop(): Promise<void> }>(one: T): T {
  started.push(one);
  return one;
}

/** An id that no one can guess. */
const randomId = (at: number): bigint => BigInt(keccak256(toBeHex(at + 1)));
const word = (value: bigint | number | string): string => zeroPadValue(toBeHex(BigInt(value)), 32);
const holdings = (records: readonly Body[]): string =>
  records
    .map(({ token_id, owner_of, amount }) => `${token_id} ${owner_of} ${amount}`)
    .sort()
    .join("\n");

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  await placeMainnet(anvil);
  for (const [name, contract] of [
    ["plain", "PlainNft"],
    ["random", "PlainNft"],
    ["counted", "CountedNft"],
    ["retired", "CountedNft"],
    ["amounts", "UncountedAmounts"],
    ["countedAmounts", "CountedAmounts"],
  ] as const) {
    const isAmount = name === "amounts" || name === "countedAmounts";
    contracts[name] = await deploy(anvil, await contractArtifact(contract), isAmount ? [] : [name, "N"]);
  }
  for (let at = 0; at < TOKENS; at++) {
    const owner = anvil.accounts[1 + (at % 6)] as string;
    await transact(anvil, contractOf("plain").contract, "mint", [owner, BigInt(at)]);
    await transact(anvil, contractOf("random").contract, "mint", [owner, randomId(at)]);
    await transact(anvil, contractOf("counted").contract, "mint", [owner, randomId(at)]);
    for (const name of ["amounts", "countedAmounts"]) {
      await transact(anvil, contractOf(name).contract, "mint", [owner, BigInt(at % 8), 5n + BigInt(at)]);
    }
  }
  // In one block a token goes to the dead address, and another one is burned.
  const { contract: retired } = contractOf("retired");
  for (const id of [1n, 2n, 3n]) await transact(anvil, retired, "mint", [anvil.accounts[1], id]);
  await inOneBlock(anvil, async () => {
    await queue(anvil, retired, "move", [anvil.accounts[1], DEAD, 1n]);
    await queue(anvil, retired, "burn", [2n]);
  });
  await anvil.mine(QUIET);
  head = Number(await anvil.send("eth_blockNumber", []));
  const service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  for (const name of Object.keys(contracts)) {
    await service.get(`/api/v2/nft/${contractOf(name).address}`);
    await eventually(`the truth of ${name} is known`, async () =>
      (await service.get(`/api/v2/nft/${contractOf(name).address}`)).body.status === "SYNCED" ? true : undefined,
    );
    truths[name] = holdings(await walkListing(service, contractOf(name).address, "limit=100"));
  }
  await service.stop();
}, 300_000);
afterAll(() => anvil.stop());
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

const contractOf = (name: string): Deployed => contracts[name] as Deployed;

interface NodeOptions {
  /** State of older blocks is refused. */
  readonly stateFrom?: number;
  /** Refuses or leaves out what is older than a block. */
  readonly prunes?: (method: string, block: number) => Intervention | undefined;
}

const STATE_METHODS = ["eth_call", "eth_getCode", "eth_getBalance", "eth_getTransactionCount"];

/** A node that takes ten blocks per request for logs. */
async function narrowNode({ stateFrom = 0, prunes }: NodeOptions): Promise<string> {
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      const place = STATE_METHODS.includes(method) ? params[1] : params[0];
      const isLogs = method === "eth_getLogs";
      const filter = (isLogs ? params[0] : {}) as { fromBlock?: string; toBlock?: string; blockHash?: string };
      const block = Number(isLogs ? (filter.fromBlock ?? Number.NaN) : place);
      if (STATE_METHODS.includes(method) && block < stateFrom) {
        return { error: { code: -32_000, message: "missing trie node 5e (path ) state 0x5e is not available" } };
      }
      const refusal = STATE_METHODS.includes(method) ? undefined : prunes?.(method, block);
      if (refusal !== undefined) return refusal;
      const blocks = Number(filter.toBlock) - Number(filter.fromBlock) + 1;
      return blocks > CAP ? { error: { code: -32_600, message: `up to a ${CAP} block range` } } : undefined;
    },
  });
  return untilTheEnd(proxy).url;
}

interface Outcome {
  readonly row: Body;
  /** Statuses of pages, from the first one on, without repetitions, with the row's block of the proof. */
  readonly listed: string;
  readonly statuses: readonly string[];
  /** Calls of the key that asked for the collection, by method. */
  readonly billed: Readonly<Record<string, number>>;
}

/**
 * Indexes a collection by archives until its proof has ended, or it is in doubt.
 * @param tell what the archive tells; a list for several archives
 * @param newest the newest blocks of archives that are behind the chain, by number of the archive
 */
async function indexed(
  name: string,
  tell: ArchiveOptions["tell"] | readonly ArchiveOptions["tell"][],
  node: NodeOptions = {},
  env: Record<string, string> = {},
  newest: Readonly<Record<number, number>> = {},
): Promise<Outcome> {
  const urls: string[] = [];
  for (const one of Array.isArray(tell)
    ? (tell as readonly ArchiveOptions["tell"][])
    : [tell as ArchiveOptions["tell"]]) {
    const options = one === undefined ? {} : { tell: one };
    const chain = archiveOfNode(anvil.url);
    const end = newest[urls.length];
    const behind = end === undefined ? chain : { ...chain, head: () => Promise.resolve(end) };
    urls.push(untilTheEnd(await startArchive(behind, options)).url);
  }
  const service = untilTheEnd(
    await startTestService({
      rpcUrl: await narrowNode(node),
      logUrl: temporaryLogUrl(),
      env: { ARCHIVE_URL_ETH: urls.join(), OPERATOR_KEYS: OPERATOR_KEY, ARCHIVE_PER_10S: "100000", ...env },
    }),
  );
  const { address } = contractOf(name);
  const statuses = new Set<string>();
  const row = await eventually(
    "the proof has ended",
    async () => {
      const page = await service.get(`/api/v2/nft/${address}`);
      const { body, status } = await service.get(`/api/collections/eth/${address}`);
      // A page that is complete says so no earlier than the row.
      if (page.status === 200) statuses.add(`${page.body.status} ${body.proof?.block === null ? "unproven" : "ended"}`);
      const isEnded = body.proof === null || body.proof?.block != null || body.inDoubt !== null;
      const isRead = body.status === "following" || body.inDoubt !== null;
      return status === 200 && isRead && isEnded ? body : undefined;
    },
    60_000,
  );
  if (row.inDoubt === null) {
    await eventually("the pages are complete", async () =>
      (await service.get(`/api/v2/nft/${address}`)).body.status === "SYNCED" ? true : undefined,
    );
  }
  const listed = holdings(await walkListing(service, address, "limit=100"));
  const { keys } = (await service.get("/api/status", { "x-api-key": OPERATOR_KEY })).body;
  const { calls } = keys.find(({ name }: Body) => name === "API_KEYS#1");
  return { row, listed, statuses: [...statuses], billed: calls.hour };
}

const without =
  (isOmitted: (topics: readonly string[], data: string) => boolean): NonNullable<ArchiveOptions["tell"]> =>
  async (blocks) =>
    blocks.map((block) => ({ ...block, logs: block.logs.filter(({ topics, data }) => !isOmitted(topics, data)) }));

/** Adds a mint to a block that has no log of the contract. */
function withForgedMint(name: string, id: bigint): NonNullable<ArchiveOptions["tell"]> {
  const number = head - QUIET + 7;
  return async (blocks, query) => {
    const [real] = blocks.flatMap(({ logs }) => logs);
    if (query.fromBlock > number || query.toBlock < number || real === undefined) return blocks;
    const { address } = contractOf(name);
    const range = { ...query, fromBlock: number, toBlock: number, logs: [] };
    const [quiet] = (await archiveOfNode(anvil.url).blocks(range)) as [ArchivedBlock];
    const topics = [real.topics[0] as string, word(0), word(anvil.accounts[9] as string), word(id)];
    const forged = { ...quiet, logs: [{ ...real, address: address.toLowerCase(), topics, data: "0x", logIndex: 0 }] };
    return [...blocks.filter(({ header }) => header.number !== number), forged].sort(
      (a, b) => a.header.number - b.header.number,
    );
  };
}

const isOf = (id: bigint) => (topics: readonly string[]) => topics[3] === word(id);
const isOfAmount = (id: bigint) => (_topics: readonly string[], data: string) => data.startsWith(word(id));
const STATE_LOST = {
  get stateFrom() {
    return head - 20;
  },
};

describe("an honest archive", () => {
  test("has its owners proven where the contract counts its tokens, and is complete only then", async () => {
    for (const name of ["counted", "countedAmounts"]) {
      const { row, listed, statuses, billed } = await indexed(name, undefined, STATE_LOST);
      // The row counts the calls of the history. The bill holds those of the proof, too.
      expect(Object.values(billed).reduce((sum, calls) => sum + calls, 0)).toBeGreaterThan(row.calls);
      expect(row.history).toStartWith("archive, owners proven, ");
      expect(row.proof).toMatchObject({ isComplete: true, contradicted: 0, provableFrom: null });
      expect(listed).toBe(truths[name] as string);
      expect(statuses).not.toContain("SYNCED unproven");
    }
  });

  test("is not said to be complete where the contract counts nothing", async () => {
    for (const name of ["plain", "random", "amounts"]) {
      const { row, listed } = await indexed(name, undefined, STATE_LOST);
      expect(row.history).toStartWith("archive, told owners confirmed, that none is missing is not, ");
      expect(row.proof).toMatchObject({ isComplete: false, contradicted: 0 });
      expect(listed).toBe(truths[name] as string);
    }
  });

  test("is complete where the node proved each block", async () => {
    const { row, listed } = await indexed("random", undefined, STATE_LOST, { VERIFY: "receipts" });
    expect(row.history).toBe(`archive, owners proven, all ${TOKENS} blocks with a log proven by receipts`);
    expect(listed).toBe(truths["random"] as string);
  });
});

describe("a log that the chain doesn't have, in a block that no bloom names for the contract", () => {
  for (const name of ["random", "counted"]) {
    for (const hasState of [true, false]) {
      test(`is taken back: ${name}, with old state: ${hasState}`, async () => {
        const { row, listed } = await indexed(name, withForgedMint(name, 4_711n), hasState ? {} : STATE_LOST);
        expect(listed).toBe(truths[name] as string);
        expect(row.inDoubt).toBeNull();
        expect(row.proof?.contradicted ?? 0).toBe(0);
      });
    }
  }

  test("is seen by VERIFY=headers, although the archive tells no header fields", async () => {
    const forged = withForgedMint("random", 4_711n);
    const bare: NonNullable<ArchiveOptions["tell"]> = async (blocks, query) =>
      (await forged(blocks, query)).map(({ logs, header: { number, hash, timestamp } }) => ({
        logs,
        header: { number, hash, timestamp },
      })) as ArchivedBlock[];
    const { row, listed } = await indexed("random", bare, STATE_LOST, { VERIFY: "headers" });
    expect(listed).toBe(truths["random"] as string);
    expect(row.inDoubt).toBeNull();
  });
});

describe("an omission", () => {
  test("of a mint with a random id is found by the balance of its owner, where there is old state", async () => {
    const { row, listed } = await indexed("random", without(isOf(randomId(11))));
    expect(listed).toBe(truths["random"] as string);
    expect(row.inDoubt).toBeNull();
  });

  test("of a mint with a random id leaves the collection in doubt without old state", async () => {
    for (const name of ["random", "counted"]) {
      const { row } = await indexed(name, without(isOf(randomId(11))), STATE_LOST);
      expect(row.inDoubt?.reason).toContain(
        "the contract names other owners than its logs, and no endpoint has the state",
      );
      expect(row.history).not.toContain("owners proven,");
    }
  });

  test("ends `index --wait` with the doubt, as nothing may ever settle it", async () => {
    const archive = untilTheEnd(await startArchive(archiveOfNode(anvil.url), { tell: without(isOf(randomId(11))) }));
    const { code, out } = await runCli(["index", contractOf("random").address, "--wait"], {
      ...{ EVENT_LOG_URL: temporaryLogUrl(), RPC_URL_ETH: await narrowNode(STATE_LOST), RPC_URLS_ONLY: "true" },
      ...{ ARCHIVE_URL_ETH: archive.url, ARCHIVE_PER_10S: "100000", FOLLOW_EVERY_ETH: "0" },
    });
    expect(code).toBe(1);
    expect(out).toContain(": in doubt from block ");
    expect(out).toContain("the contract names other owners than its logs");
  });

  test("of an id of ERC-1155 is never called proven", async () => {
    const some = await indexed("amounts", without(isOfAmount(3n)), STATE_LOST);
    expect(some.row.history).toContain("that none is missing is not");
    const counted = await indexed("countedAmounts", without(isOfAmount(3n)));
    expect(counted.listed).toBe(truths["countedAmounts"] as string);
  });

  test("of one mint of an ERC-1155 id is found by the supply of the id", async () => {
    const isOne = (topics: readonly string[], data: string) =>
      isOfAmount(3n)(topics, data) && data.endsWith(word(16n).slice(2));
    const { row, listed } = await indexed("countedAmounts", without(isOne));
    expect(listed).toBe(truths["countedAmounts"] as string);
    expect(row.inDoubt).toBeNull();
  });

  test("in a block is found by VERIFY=headers", async () => {
    const { listed } = await indexed("random", without(isOf(randomId(11))), STATE_LOST, { VERIFY: "headers" });
    expect(listed).toBe(truths["random"] as string);
  });
});

describe("a second archive", () => {
  test("that tells the same is named, where the contract counts nothing", async () => {
    const { row, listed } = await indexed("random", [undefined, undefined], STATE_LOST);
    expect(row.history).toStartWith("archive, told owners confirmed, and a second archive tells the same, ");
    expect(row.proof.witness).toBe("archive eth#2");
    expect(listed).toBe(truths["random"] as string);
  });

  test("that has not told all of it yet is not named", async () => {
    const { row, listed } = await indexed("random", [undefined, undefined], STATE_LOST, {}, { 1: head - QUIET + 50 });
    expect(row.proof.witness).toBeNull();
    expect(row.history).toStartWith("archive, told owners confirmed, that none is missing is not, ");
    expect(listed).toBe(truths["random"] as string);
  });

  for (const name of ["random", "amounts"]) {
    const isOmitted = name === "random" ? isOf(randomId(11)) : isOfAmount(3n);
    test(`shows what the first one left out, without old state: ${name}`, async () => {
      const { row, listed } = await indexed(name, [without(isOmitted), undefined], STATE_LOST);
      expect(listed).toBe(truths[name] as string);
      expect(row.inDoubt).toBeNull();
    });

    test(`that leaves something out proves nothing: ${name}`, async () => {
      const { row, listed } = await indexed(name, [undefined, without(isOmitted)], STATE_LOST);
      expect(listed).toBe(truths[name] as string);
      expect(row.proof.witness).toBeNull();
      expect(row.history).toContain("that none is missing is not");
    });
  }
});

describe("what counts and receipts alone don't show", () => {
  test("a token that went to the dead address is told from one that was burned", async () => {
    const swapped: NonNullable<ArchiveOptions["tell"]> = async (blocks) =>
      blocks.map((block) => {
        const [one, other] = block.logs;
        if (one === undefined || other === undefined) return block;
        const withReceiver = (log: typeof one, from: typeof one) => ({
          ...log,
          topics: [log.topics[0], log.topics[1], from.topics[2], log.topics[3]] as string[],
        });
        return { ...block, logs: [withReceiver(one, other), withReceiver(other, one)] };
      });
    const { row, listed } = await indexed("retired", swapped);
    expect(listed).toBe(truths["retired"] as string);
    expect(row.inDoubt).toBeNull();
  });

  test("a contradiction that the node can't settle any more leaves the owners in doubt", async () => {
    const node: NodeOptions = {
      ...{ stateFrom: head - 20 },
      prunes: (method, block) =>
        block < head - 300 && HISTORY.includes(method) ? { error: { code: 4444, message: "pruned" } } : undefined,
    };
    const { row } = await indexed("retired", without(isOf(3n)), node);
    expect(row.inDoubt?.reason).toStartWith("the contract names other owners than its logs, and ");
    expect(row.history).not.toContain("owners proven,");
  });
});

const PRUNED = { error: { code: 4444, message: "pruned history unavailable" } };
const cut = () => head - QUIET - 60;
const HISTORY = ["eth_getLogs", "eth_getBlockByNumber", "eth_getBlockReceipts"];
/** What clients answer for blocks that they have pruned. */
const DIALECTS: Record<string, (method: string) => Intervention | undefined> = {
  "go-ethereum": (method) => (HISTORY.includes(method) ? PRUNED : undefined),
  reth: (method) =>
    method === "eth_getBlockReceipts" ? { result: null } : method === "eth_getLogs" ? PRUNED : undefined,
  Nethermind: (method) =>
    method === "eth_getBlockReceipts"
      ? {
          error: {
            code: -32_602,
            message: "Receipts for block 5 (0x5e) are neither stored nor reproducible from state history.",
          },
        }
      : method === "eth_getLogs"
        ? { error: { code: 4444, message: "Pruned history unavailable" } }
        : undefined,
  Erigon: (method) =>
    HISTORY.includes(method)
      ? { error: { code: -32_000, message: "old data not available due to pruning" } }
      : undefined,
  "a client that answers with nothing": (method) =>
    method === "eth_getLogs" ? PRUNED : HISTORY.includes(method) ? { result: null } : undefined,
};

describe("behind a node that has pruned its history", () => {
  for (const [client, answer] of Object.entries(DIALECTS)) {
    const node: NodeOptions = {
      ...STATE_LOST,
      prunes: (method, block) => (block < cut() ? answer(method) : undefined),
    };

    test(`an archive fills it, and what can't be proven is said: ${client}`, async () => {
      const { row, listed } = await indexed("counted", undefined, { ...node, stateFrom: head - 20 });
      expect(listed).toBe(truths["counted"] as string);
      expect(row.history).toContain("owners proven");
      expect(row.history).toContain(`not provable below block ${cut().toLocaleString("en-US").replaceAll(",", " ")}`);
      expect(row.proof).toMatchObject({ provableFrom: cut(), isComplete: true });
    });

    test(`a history that begins below is refused with the block and the way out: ${client}`, async () => {
      const service = untilTheEnd(
        await startTestService({
          rpcUrl: await narrowNode({ ...node, stateFrom: head - 20 }),
          logUrl: temporaryLogUrl(),
          env: { OPERATOR_KEYS: OPERATOR_KEY, ARCHIVE_URL_ETH: "off" },
        }),
      );
      const { address } = contractOf("counted");
      await service.get(`/api/v2/nft/${address}`);
      const row = await eventually("the history is refused", async () => {
        const { body } = await service.get(`/api/collections/eth/${address}`);
        return body.lastError ?? undefined;
      });
      expect(row).toContain(`the node has no logs before block ${cut()}, and the history begins earlier`);
      expect(row).toContain("RPC_URL_ETH");
    });
  }
});
