/** Block 8. Its bloom contains one transfer of a contract. */
import type { Address, Hash } from "../../src/core/hex.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { logsBloomOf } from "./bloom.ts";

export const ADDRESS = `0x${"a".repeat(40)}` as Address;
export const hashOf = (number: number) => `0x${number.toString(16).padStart(64, "0")}` as Hash;
export const topics = [TRANSFER, hashOf(0), hashOf(1), hashOf(2)] as Hash[];
export const logsBloom = logsBloomOf([{ address: ADDRESS, topics }]);
