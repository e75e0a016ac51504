/** Headers of real blocks, and the vector of avalanchego, against the hashes that their fields make. */
import { expect, test } from "bun:test";
import { HEADER_FIELDS, headerHash } from "../../src/rpc/decode/header-hash.ts";
import { sepolia } from "../fixtures/headers.json";

const byte = (value: number, length: number) => `0x${value.toString(16).padStart(2, "0")}${"00".repeat(length - 1)}`;

/** The header of `TestHeaderRLP` in avalanchego's `customtypes`, and its hash there. */
const AVALANCHE = {
  ...{ parentHash: byte(1, 32), sha3Uncles: byte(2, 32), miner: byte(3, 20), stateRoot: byte(4, 32) },
  ...{ transactionsRoot: byte(5, 32), receiptsRoot: byte(6, 32), logsBloom: byte(7, 256), difficulty: "0x8" },
  ...{ number: "0x9", gasLimit: "0xa", gasUsed: "0xb", timestamp: "0xc", extraData: "0x0d", mixHash: byte(14, 32) },
  ...{ nonce: byte(15, 8), extDataHash: byte(21, 32), baseFeePerGas: "0x10", extDataGasUsed: "0x16" },
  ...{ blockGasCost: "0x17", blobGasUsed: "0x12", excessBlobGas: "0x13", parentBeaconBlockRoot: byte(20, 32) },
  ...{ timestampMilliseconds: "0x18", minDelayExcess: "0x19" },
};
const AVALANCHE_HASH = "0xbe13d7b6f1242dd87477eee76a46f9fa58311bf459e0d49cac6862b187b3fe9c";

test("the last header of Prague and the first one of Amsterdam make their hashes", () => {
  expect(sepolia.map((header) => headerHash(header))).toEqual(sepolia.map(({ hash }) => hash as never));
  expect(HEADER_FIELDS).toHaveLength(23);
});

test("a header with a field that this release doesn't know makes another hash", () => {
  const [, amsterdam] = sepolia;
  const { slotNumber: _, ...cut } = amsterdam as Record<string, unknown>;
  expect(headerHash(cut)).not.toBe(amsterdam?.hash as never);
});

test("a header of Avalanche makes its hash, and a field that it lacks in between is encoded as empty", () => {
  expect(headerHash(AVALANCHE)).toBe(AVALANCHE_HASH as never);
  const settling = { ...AVALANCHE, settledHeight: "0x7" };
  expect(headerHash({ ...settling, targetExponent: null })).toBe(headerHash(settling));
  expect(headerHash(settling)).not.toBe(AVALANCHE_HASH as never);
});

test("a header without a field of the first ones, or with one that is no hex, makes no hash", () => {
  const [, amsterdam] = sepolia as unknown as Record<string, unknown>[];
  for (const spoiled of [
    { ...amsterdam, miner: undefined },
    { ...amsterdam, requestsHash: "0xabc" },
  ]) {
    expect(headerHash(spoiled)).toBeUndefined();
  }
});
