/**
 * Proofs over the API, by nodes of all sorts: with access lists and without, that cap slots, that lack old state or the
 * method, that settle other blocks, that lie.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, transact } from "../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../scripts/local-chain/random.ts";
import { verifyProof } from "../../src/proof/verifier/verify.ts";
import { FAR_TOKENS, type ProofCase, type ProofWorld, startProofWorld } from "../support/proofs.ts";
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { schemaFaults } from "../support/schemas.ts";
import {
  type Body,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";
import { faultOf, withChangedByte } from "../support/tamper.ts";

let world: ProofWorld;
let proxy: RpcProxy;
let service: TestService;
let head = 0;
/** What the node does otherwise. */
let onRequest: (call: RpcCall) => Intervention | undefined = () => undefined;
let onResult: (call: RpcCall, result: unknown) => unknown = (_, result) => result;

const OPERATOR = "operator-key-0123456789";
const refused = (message: string, code = -32_000): Intervention => ({ error: { code, message } });
const caseOf = (name: string): ProofCase => world.cases.find((one) => one.name === name) as ProofCase;

beforeAll(async () => {
  world = await startProofWorld();
  proxy = await startRpcProxy(world.anvil.url, {
    onRequest: (call) => onRequest(call),
    onResult: (call, result) => onResult(call, result),
  });
  service = await startTestService({
    ...{ rpcUrl: proxy.url, logUrl: temporaryLogUrl() },
    env: { OPERATOR_KEYS: OPERATOR },
  });
  head = Number(await world.anvil.send("eth_blockNumber"));
  const asked = [caseOf("ERC721"), caseOf("ERC721A"), caseOf("ERC1155"), caseOf("CryptoPunks"), caseOf("MoonCats")];
  const contracts = [...asked.map(({ subject }) => subject.contract), world.liar.address, world.unprovable.address];
  for (const contract of contracts) await synced(service, contract, head);
});

beforeEach(() => {
  onRequest = () => undefined;
  onResult = (_, result) => result;
});

afterAll(async () => {
  await service?.stop();
  await proxy?.stop();
  await world?.stop();
});

const proofOf = ({ subject: { contract, tokenId } }: Pick<ProofCase, "subject">, query = "") =>
  service.get(`/api/collections/eth/${contract}/tokens/${tokenId}/proof${query}`);

const metric = async (name: string): Promise<number> => {
  const text = await (await service.fetch("/metrics")).text();
  return Number(new RegExp(`^${name}\\{chain="eth"\\} (\\d+)$`, "m").exec(text)?.[1] ?? Number.NaN);
};

describe("a proof of a token", () => {
  test("verifies with the hash of the block in the headers, for each way in which contracts name owners", async () => {
    for (const name of ["ERC721", "ERC721A", "CryptoPunks", "MoonCats"]) {
      const { status, body, headers } = await proofOf(caseOf(name));
      expect({ name, status }).toEqual({ name, status: 200 });
      expect(await schemaFaults(service, "Proof", body)).toEqual([]);
      const { result, kind } = await verifyProof(JSON.stringify(body), { hash: headers.get("x-as-of-hash") ?? "" });
      expect({ kind, result }).toEqual({ kind: "owner", result: caseOf(name).result });
    }
  });

  test("shows an owner's amount of a token that may have many owners", async () => {
    const one = caseOf("ERC1155");
    const { body } = await proofOf(one, `?owner=${one.subject["owner"]}`);
    const { claim, result } = await verifyProof(body);
    expect(result).toEqual({ amount: "15" });
    expect(claim).toContain(`${one.subject["owner"]} holds 15 of token 1`);
  });

  test("asks for an owner where there are many, and for none where there is one", async () => {
    const [many, single] = [
      await proofOf(caseOf("ERC1155")),
      await proofOf(caseOf("ERC721"), `?owner=0x${"11".repeat(20)}`),
    ];
    expect([many.status, many.body.message]).toEqual([
      400,
      "owner: must be given: the token may have any number of owners",
    ]);
    expect([single.status, single.body.details]).toEqual([400, { parameter: "owner" }]);
  });

  test("shows that a burned token has no owner", async () => {
    const { subject } = caseOf("ERC721");
    const { body } = await proofOf({ subject: { ...subject, tokenId: "2" } });
    expect((await verifyProof(body)).result).toEqual({ owner: null });
  });

  test("is 404 for a token that no log names", async () => {
    const { subject } = caseOf("ERC721");
    expect((await proofOf({ subject: { ...subject, tokenId: "777" } })).status).toBe(404);
  });

  test("is of the block that is asked for", async () => {
    const { subject } = caseOf("ERC721");
    const { abi } = await contractArtifact("PlainNft");
    const plain: Pick<Deployed, "contract"> = { contract: contractAt(world.anvil, subject.contract, abi) };
    const [, one, other] = world.anvil.accounts;
    const before = Number(await world.anvil.send("eth_blockNumber"));
    await transact(world.anvil, plain.contract, "move", [one, other, 5]);
    await synced(service, subject.contract, before + 1);
    const of = { subject: { ...subject, tokenId: "5" } };
    const then = await verifyProof((await proofOf(of, `?as_of_block=${before}`)).body);
    const now = await verifyProof((await proofOf(of)).body);
    expect([then.block.number, then.result, now.result]).toEqual([before, { owner: one }, { owner: other }] as never);
  });

  test("that contradicts the logs is given, and counts as drift", async () => {
    const [checked, drifted] = [await metric("audit_holdings_checked_total"), await metric("audit_drift_total")];
    const { body } = await service.get(`/api/collections/eth/${world.liar.address}/tokens/1/proof`);
    expect((await verifyProof(body)).result).toEqual({ owner: world.anvil.accounts[2] as string });
    expect(await metric("audit_holdings_checked_total")).toBeGreaterThan(checked);
    expect(await metric("audit_drift_total")).toBeGreaterThan(drifted);
    await eventually("the difference is shown", async () => {
      const { inDoubt } = (await service.get(`/api/collections/eth/${world.liar.address}`)).body;
      return inDoubt === null ? undefined : inDoubt;
    });
  });
});

describe("a proof of a transfer", () => {
  const transferOf = (one: ProofCase) => proofOf(one, "?proves=transfer");

  test("shows that the last transfer happened, without the state of the block, and says that it shows no more", async () => {
    onRequest = ({ method }) => (method === "eth_getProof" ? refused("missing trie node") : undefined);
    const [, one] = world.anvil.accounts;
    for (const [name, event, amount] of [
      ["ERC721", "Transfer(address,address,uint256)", "1"],
      ["ERC1155", "TransferSingle(address,address,address,uint256,uint256)", "15"],
    ] as const) {
      const { status, body } = await transferOf(caseOf(name));
      expect(status).toBe(200);
      expect(await schemaFaults(service, "Proof", body)).toEqual([]);
      const { result, claim, kind } = await verifyProof(JSON.stringify(body));
      expect({ kind, result }).toEqual({
        kind: "transfer",
        result: { from: `0x${"0".repeat(40)}`, to: one as string, amount, event },
      });
      expect(claim).toEndWith("This says that it happened, not that nothing happened since.");
    }
  });

  test("is refused when it was changed anywhere", async () => {
    const { body } = await transferOf(caseOf("ERC721"));
    const honest = JSON.stringify(body);
    const random = createRandom(7);
    for (let change = 0; change < 400; change++) {
      const changed = withChangedByte(honest, random.below(honest.length), 1 + random.below(94));
      expect(await faultOf(honest, changed)).toBeUndefined();
    }
    const { subject } = body;
    await expect(verifyProof({ ...body, subject: { ...subject, tokenId: "5000" } })).rejects.toThrow(
      "tells no transfer",
    );
    await expect(verifyProof({ ...body, subject: { ...subject, log: 5_000 } })).rejects.toThrow("is not of");
  });

  test("is not made of receipts that don't make the header's root, or that no endpoint gives", async () => {
    onResult = ({ method }, result) => (method === "eth_getBlockReceipts" ? (result as unknown[]).slice(1) : result);
    expect((await transferOf(caseOf("ERC721"))).body.message).toContain("do not make the root in the header");
    onRequest = ({ method }) => (method === "eth_getBlockReceipts" ? refused("method not found", -32_601) : undefined);
    const { status, body } = await transferOf(caseOf("ERC721"));
    expect([status, body.code]).toEqual([409, "state_unavailable"]);
    expect(body.message).toContain("no endpoint gives the receipts");
  });

  test("is not made of events that only one contract has", async () => {
    const { status, body } = await transferOf(caseOf("CryptoPunks"));
    expect([status, body.message]).toEqual([409, expect.stringContaining("in a form that a verifier knows")]);
  });
});

describe("kept proofs", () => {
  const OPERATE = { "x-api-key": OPERATOR, "content-type": "application/json" };
  const keep = async (contract: string, body: object = {}, query = "") => {
    const path = `/api/collections/eth/${contract}/proofs${query}`;
    const response = await service.fetch(path, { method: "POST", headers: OPERATE, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as Body };
  };
  const listed = async (contract: string, query = "") => {
    const response = await service.fetch(`/api/collections/eth/${contract}/proofs${query}`);
    return response.status === 200 ? (await response.text()).trim().split("\n") : response.status;
  };

  test("prove a whole collection at one block, and stay when the nodes have dropped its state", async () => {
    const { contract } = caseOf("ERC721A").subject;
    expect(await listed(contract)).toBe(404);
    const { status, body } = await keep(contract);
    expect([status, body.message]).toEqual([200, undefined]);
    expect(await schemaFaults(service, "KeptProofs", body)).toEqual([]);
    const lines = (await listed(contract)) as string[];
    expect(body).toMatchObject({ holdings: FAR_TOKENS + 20, documents: lines.length, differences: [] });
    // Where a run takes too long, as on a loaded machine, the service halves its part.
    expect(lines.length).toBeGreaterThanOrEqual(4);
    const owners: Record<string, unknown> = {};
    for (const line of lines) Object.assign(owners, (await verifyProof(line, { hash: body.blockHash })).result);
    const [, one, other] = world.anvil.accounts;
    expect(Object.keys(owners).length).toBe(FAR_TOKENS + 20);
    expect([owners["0"], owners[FAR_TOKENS - 1], owners[FAR_TOKENS]]).toEqual([one, one, other]);

    onRequest = ({ method }) => (method === "eth_getProof" ? refused("missing trie node") : undefined);
    const token = `/api/collections/eth/${contract}/tokens/7/proof?as_of_block=${body.block}`;
    const kept = await service.get(token);
    expect([kept.status, (await verifyProof(kept.body)).result["7"]]).toEqual([200, one]);
    expect((await service.get(token.replace(`=${body.block}`, `=${body.block - 1}`))).status).toBe(409);
  });

  test("are read one by one while the client takes them", async () => {
    const { contract } = caseOf("ERC721A").subject;
    expect((await keep(contract, { tokenIds: ["7"] })).status).toBe(200);
    const response = await service.fetch(`/api/collections/eth/${contract}/proofs`);
    // An answer that is whole in memory before it is sent tells its length.
    expect([response.status, response.headers.get("content-length")]).toEqual([200, null]);
    expect((await response.text()).endsWith("\n")).toBe(true);
  });

  test("prove what each owner holds of tokens with many", async () => {
    const { contract } = caseOf("ERC1155").subject;
    const { body } = await keep(contract, { tokenIds: ["1"] });
    expect(body).toMatchObject({ holdings: 1, documents: 1, differences: [] });
    const [line] = (await listed(contract)) as string[];
    const owner = caseOf("ERC1155").subject["owner"] as string;
    expect((await verifyProof(line)).result).toEqual({ [`1/${owner}`]: "15" });
    onRequest = ({ method }) => (method === "eth_getProof" ? refused("missing trie node") : undefined);
    const path = `/api/collections/eth/${contract}/tokens/1/proof?as_of_block=${body.block}&owner=`;
    expect((await service.get(`${path}${owner}`)).body.kind).toBe("amounts");
    expect((await service.get(`${path}0x${"11".repeat(20)}`)).status).toBe(409);
  });

  test("name the holdings that the contract contradicts", async () => {
    const { body } = await keep(world.liar.address);
    expect(body.differences).toEqual([
      `token 1: the logs say ${world.anvil.accounts[1]}, and the contract ${world.anvil.accounts[2]}`,
    ]);
  });

  test("need a key that may operate, tokens that exist, and a state that is there; else nothing is kept", async () => {
    const { contract } = caseOf("CryptoPunks").subject;
    const path = `/api/collections/eth/${contract}/proofs`;
    expect((await service.fetch(path, { method: "POST" })).status).toBe(403);
    expect((await keep(contract, { tokenIds: ["9999"] })).status).toBe(404);
    expect((await keep(contract, { tokenIds: ["x"] })).body.details).toEqual({ parameter: "tokenIds.0" });
    onRequest = ({ method }) => (method === "eth_getProof" ? refused("missing trie node") : undefined);
    expect((await keep(contract)).body.code).toBe("state_unavailable");
    expect(await listed(contract)).toBe(404);
  });
});

describe("a node", () => {
  test("without access lists is asked for the slots that a run finds", async () => {
    onRequest = ({ method }) => (method === "eth_createAccessList" ? refused("method not found", -32_601) : undefined);
    const { subject } = caseOf("ERC721A");
    const far = { subject: { ...subject, tokenId: String(FAR_TOKENS - 1) } };
    for (const one of [caseOf("ERC721"), far]) {
      const { status, body } = await proofOf(one);
      expect(status).toBe(200);
      expect((await verifyProof(body)).result).toEqual(caseOf("ERC721").result);
    }
  });

  test("that caps slots is asked for fewer at once", async () => {
    const tooMany = ({ method, params }: RpcCall) => method === "eth_getProof" && (params[1] as unknown[]).length > 32;
    onRequest = (call) => (tooMany(call) ? refused("too many storage keys requested") : undefined);
    const { subject } = caseOf("ERC721A");
    const { status, body } = await proofOf({ subject: { ...subject, tokenId: String(FAR_TOKENS - 1) } });
    expect([status, (await verifyProof(body)).result]).toEqual([200, caseOf("ERC721A, far").result]);
  });

  test("without eth_getProof is named as the reason", async () => {
    onRequest = ({ method }) =>
      method === "eth_getProof" ? refused("the method eth_getProof does not exist", -32_601) : undefined;
    const { status, body } = await proofOf(caseOf("ERC721"));
    expect([status, body.code]).toEqual([409, "state_unavailable"]);
    expect(body.message).toContain("no endpoint of this chain answers eth_getProof");
  });

  test("without the state of an old block says which blocks it has", async () => {
    const oldest = head - 3;
    onRequest = ({ method, params }) => {
      const tag = { eth_getProof: params[2], eth_getCode: params[1], eth_call: params[1] }[method as "eth_call"];
      return Number(tag ?? head) < oldest ? refused("missing trie node") : undefined;
    };
    const { status, body } = await proofOf(caseOf("ERC721"), `?as_of_block=${head - 10}`);
    expect([status, body.code]).toEqual([409, "state_unavailable"]);
    expect(body.details).toEqual({ block: head - 10, from: oldest, to: expect.any(Number) });
  });

  test.each([
    ["lags for long", refused("header not found"), 20],
    ["lost the state for a moment", refused("missing trie node"), 1],
    ["is busy", { error: { code: 429, message: "too many requests" } }, 20],
  ])("that %s is not said to lack what a proof needs", async (_name, decision, count) => {
    for (const block of [head, head - 10]) {
      let failures = count;
      onRequest = ({ method }) => (method === "eth_getProof" && failures-- > 0 ? decision : undefined);
      const { status, body } = await proofOf(caseOf("ERC721"), `?as_of_block=${block}`);
      expect([status, body.code]).toEqual([503, "chain_unavailable"]);
    }
  });

  test("that is busy while the blocks with state are searched is not said to have none", async () => {
    onRequest = ({ method, params }) => {
      if (method !== "eth_getProof") return undefined;
      return Number(params[2]) === head - 10
        ? refused("missing trie node")
        : { error: { code: 429, message: "too many requests" } };
    };
    const { status, body } = await proofOf(caseOf("ERC721"), `?as_of_block=${head - 10}`);
    expect([status, body.code]).toEqual([503, "chain_unavailable"]);
  });

  test("whose headers have another block's state root is refused with that reason", async () => {
    onResult = ({ method }, result) =>
      method === "eth_getBlockByNumber" ? { ...(result as object), settledHeight: "0x1" } : result;
    const { status, body } = await proofOf(caseOf("ERC721"));
    expect([status, body.code]).toEqual([409, "state_unavailable"]);
    expect(body.message).toContain("is that of block 1, which it settles");
  });

  test("that gives other nodes, code or results makes no proof", async () => {
    const { subject } = caseOf("CryptoPunks");
    const lies: ((call: RpcCall, result: unknown) => unknown)[] = [
      ({ method }, result) => (method === "eth_getCode" ? `${result}00` : result),
      ({ method }, result) => (method === "eth_call" ? `0x${"1".padStart(64, "0")}` : result),
      ({ method }, result) =>
        method === "eth_getProof"
          ? { ...(result as object), accountProof: (result as { accountProof: string[] }).accountProof.slice(1) }
          : result,
      ({ method }, result) =>
        method === "eth_getProof" ? { ...(result as object), storageProof: [{ proof: ["0xc0"] }] } : result,
    ];
    for (const lie of lies) {
      onResult = lie;
      const { status, body } = await proofOf({ subject });
      expect([status, body.code]).toEqual([409, "state_unavailable"]);
    }
  });

  test("that lists short nodes beside their parents makes the same proof", async () => {
    const honest = (await proofOf(caseOf("ERC721"), `?as_of_block=${head}`)).body;
    onResult = ({ method }, result) => {
      if (method !== "eth_getProof") return result;
      const { accountProof, ...rest } = result as { accountProof: string[] };
      return { ...rest, accountProof: [...accountProof, "0xc0", "0xc22080"] };
    };
    expect((await proofOf(caseOf("ERC721"), `?as_of_block=${head}`)).body).toEqual(honest);
  });
});
