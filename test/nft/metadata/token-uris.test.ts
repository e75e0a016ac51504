/**
 * Token URI calls: batches, tokens that make a whole batch fail, contracts without URIs. Also announcements in logs.
 */
import { describe, expect, test } from "bun:test";
import { AbiCoder, id as keccak } from "ethers";
import type { Address, Hash } from "../../../src/core/hex.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import type { MetadataOutdated } from "../../../src/events/types.ts";
import { Announcements } from "../../../src/nft/metadata/announcements.ts";
import { TokenUriReader } from "../../../src/nft/metadata/token-uris.ts";
import type { Call, CallResult, ChainLog, ChainReader } from "../../../src/rpc/port.ts";

const address = `0x${"ab".repeat(20)}` as Address;
const coder = AbiCoder.defaultAbiCoder();
const text = (value: string): CallResult => ({ ok: true, data: coder.encode(["string"], [value]) });
const REVERTED: CallResult = { ok: false, data: "0x" };
const tokens = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ kind: TransferKind.erc721, id: BigInt(i) }) as const);

/** A chain that answers calls by `answer`. A batch with a token that burns all gas fails as a whole. */
function createReader(answer: (id: number) => CallResult | "burns" | "throws") {
  const batches: number[] = [];
  const calls = async (list: readonly Call[]): Promise<CallResult[]> => {
    batches.push(list.length);
    const answers = list.map(({ data }) => answer(Number(BigInt(`0x${data.slice(10)}`))));
    if (answers.includes("burns")) return list.map(() => REVERTED);
    if (answers.includes("throws")) throw new Error("the node answers with an error of its own");
    return answers as CallResult[];
  };
  return { uriReader: new TokenUriReader({ calls } as unknown as ChainReader), batches };
}

describe("calls for token URIs", () => {
  test("use one batch if no call fails, and treat an empty answer or an empty text as no URI", async () => {
    const odd: Record<number, CallResult> = {
      1: { ok: true, data: "0x" },
      2: text(""),
      3: { ok: true, data: "0x1234" },
    };
    const { uriReader, batches } = createReader((id) => odd[id] ?? text(`u${id}`));
    const none = { reason: "no_uri" } as const;
    expect(await uriReader.read(address, tokens(5), "latest")).toEqual([
      { uri: "u0" },
      none,
      none,
      none,
      { uri: "u4" },
    ]);
    expect(batches).toEqual([5]);
  });

  test("replace what is no UTF-8 in a URI", async () => {
    const odd: CallResult = { ok: true, data: coder.encode(["bytes"], ["0x41ff42"]) };
    const { uriReader } = createReader(() => odd);
    expect(await uriReader.read(address, tokens(2), "latest")).toEqual([{ uri: "A\ufffdB" }, { uri: "A\ufffdB" }]);
  });

  test("are repeated one by one if one token burns all gas", async () => {
    const { uriReader, batches } = createReader((id) => (id === 2 ? "burns" : text(`u${id}`)));
    expect((await uriReader.read(address, tokens(4), "latest")).map(({ uri }) => uri)).toEqual([
      ...["u0", "u1", undefined, "u3"],
    ]);
    expect(batches).toEqual([4, 1, 1, 1, 1]);
  });

  test("are no longer repeated one by one for a contract that has never returned a URI", async () => {
    const { uriReader, batches } = createReader(() => REVERTED);
    for (let i = 0; i < 3; i++) {
      const answers = await uriReader.read(address, tokens(40), "latest");
      expect(answers.every(({ reason }) => reason === "no_uri")).toBe(true);
    }
    expect(batches.filter((size) => size === 40)).toHaveLength(3);
    expect(batches.filter((size) => size === 1).length).toBeLessThan(30);
  });

  test("use `uri` for ERC-1155", async () => {
    const asked: string[] = [];
    const reader = {
      calls: async (list: readonly Call[]) => {
        asked.push(...list.map(({ data }) => data.slice(0, 10)));
        return list.map(() => text("u"));
      },
    } as unknown as ChainReader;
    await new TokenUriReader(reader).read(address, [{ kind: TransferKind.erc1155, id: 1n }, ...tokens(1)], 7);
    expect(asked).toEqual([keccak("uri(uint256)").slice(0, 10), keccak("tokenURI(uint256)").slice(0, 10)]);
  });

  test("give no answer if the node's call fails", async () => {
    const { uriReader } = createReader(() => "throws");
    await expect(uriReader.read(address, tokens(2), "latest")).rejects.toThrow("an error of its own");
  });
});

describe("announcements", () => {
  const word = (value: bigint | number) => BigInt(value).toString(16).padStart(64, "0");
  const log = (signature: string, blockNumber: number, data: string, topics: readonly string[] = []): ChainLog =>
    ({
      address,
      blockNumber,
      data: `0x${data}`,
      topics: [keccak(signature), ...topics] as Hash[],
    }) as unknown as ChainLog;
  const to = { number: 9, hash: "0x" as Hash, parentHash: "0x" as Hash, timestamp: 0 };

  test("become one range each without walking it, and a revert marks the ranges of orphaned blocks", async () => {
    const written: MetadataOutdated[] = [];
    const announcements = new Announcements({
      addresses: () => [address],
      append: async (_address, events) => {
        written.push(...events);
      },
    });
    const max = (1n << 256n) - 1n;
    await announcements.apply({
      fromBlock: 1,
      to,
      headers: [],
      logs: [
        log("MetadataUpdate(uint256)", 5, word(7)),
        log("BatchMetadataUpdate(uint256,uint256)", 6, word(0) + word(max)),
        log("BatchMetadataUpdate(uint256,uint256)", 6, word(9) + word(8)),
        log("URI(string,uint256)", 7, "", [`0x${word(3)}`]),
        log("MetadataUpdate(uint256)", 7, ""),
      ],
    } as never);
    const ranges = written.map(({ fromId, toId, cause, block }) => [fromId, toId, cause, block]);
    expect(ranges).toEqual([
      ["7", "7", "announced", 5],
      ["0", String(max), "announced", 6],
      ["3", "3", "announced", 7],
    ]);
    written.length = 0;
    await announcements.apply({ type: "reverted", ancestor: { number: 6, hash: "0x" as Hash }, orphaned: [] });
    expect(written.map(({ fromId, cause, block }) => [fromId, cause, block])).toEqual([["3", "reverted", 6]]);
    written.length = 0;
    await announcements.apply({ type: "reverted", ancestor: { number: 6, hash: "0x" as Hash }, orphaned: [] });
    expect(written).toEqual([]);
  });

  test("of a thousand single tokens in one block become one range, and of a thousand documents one event", async () => {
    const written: MetadataOutdated[] = [];
    const announcements = new Announcements({
      addresses: () => [address],
      append: async (_address, events) => {
        written.push(...events);
      },
    });
    const logs = Array.from({ length: 1_000 }, (_, i) => [
      log("MetadataUpdate(uint256)", 5, word(i + 3)),
      log("ContractURIUpdated()", 5, ""),
    ]).flat();
    await announcements.apply({ fromBlock: 1, to, headers: [], logs } as never);
    expect(written.map(({ fromId, toId, contract = false }) => [fromId, toId, contract])).toEqual([
      ["3", "1002", false],
      ["0", "0", true],
    ]);
  });
});
