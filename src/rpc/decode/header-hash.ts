/**
 * The hash of a header from its fields (Ethereum Yellow Paper, section 4.3), and the forms of headers. Browsers load this
 * file to check proofs: it has no imports of the runtime. Pure.
 */
import { keccak256 } from "ethers/crypto";
import { encodeRlp } from "ethers/utils";
import type { Hash } from "../../core/hex.ts";

/** Fields of a block or of a receipt, as JSON-RPC names them. */
export type BlockFields = Readonly<Record<string, unknown>>;

const HEX = /^0x(?:[0-9a-f]{2})*$/i;
const QUANTITY = /^0x[0-9a-f]{1,64}$/i;

/** A number as RLP wants it: big-endian without leading zeros. Undefined for anything else. */
export function scalar(value: unknown): string | undefined {
  const isNumber = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
  if (!isNumber && !(typeof value === "string" && QUANTITY.test(value))) return undefined;
  const digits = BigInt(value as string | number).toString(16);
  return digits === "0" ? "0x" : `0x${digits.length % 2 === 0 ? "" : "0"}${digits}`;
}

/** Bytes in hex with 0x. Undefined for anything else. */
export const hexData = (value: unknown): string | undefined =>
  typeof value === "string" && HEX.test(value) ? value : undefined;

type Field = readonly [name: string, read: typeof hexData];

/** The fields that every header begins with, in the order of their encoding. */
const FIRST: readonly Field[] = [
  ["parentHash", hexData],
  ["sha3Uncles", hexData],
  ["miner", hexData],
  ["stateRoot", hexData],
  ["transactionsRoot", hexData],
  ["receiptsRoot", hexData],
  ["logsBloom", hexData],
  ["difficulty", scalar],
  ["number", scalar],
  ["gasLimit", scalar],
  ["gasUsed", scalar],
  ["timestamp", scalar],
  ["extraData", hexData],
  ["mixHash", hexData],
  ["nonce", hexData],
];

/**
 * What later forks of Ethereum appended, in the order of go-ethereum's `core/types/block.go`: London, Shanghai, Cancun
 * (three fields), Prague, and Amsterdam (EIP-7928, EIP-7843), live on Sepolia since block 11,856,337.
 */
const ETHEREUM: readonly Field[] = [
  ["baseFeePerGas", scalar],
  ["withdrawalsRoot", hexData],
  ["blobGasUsed", scalar],
  ["excessBlobGas", scalar],
  ["parentBeaconBlockRoot", hexData],
  ["requestsHash", hexData],
  ["blockAccessListHash", hexData],
  ["slotNumber", scalar],
];

/**
 * What Avalanche's C-Chain and its subnets append, in the order of `customtypes/gen_header_serializable_rlp.go` of
 * avalanchego. The first field is in every header; the last four are those of a header that settles others (ACP-194).
 */
const AVALANCHE: readonly Field[] = [
  ["extDataHash", hexData],
  ["baseFeePerGas", scalar],
  ["extDataGasUsed", scalar],
  ["blockGasCost", scalar],
  ["blobGasUsed", scalar],
  ["excessBlobGas", scalar],
  ["parentBeaconBlockRoot", hexData],
  ["timestampMilliseconds", scalar],
  ["minDelayExcess", scalar],
  ["targetExponent", scalar],
  ["minPriceExponent", scalar],
  ["settledHeight", scalar],
  ["settledGasUnix", scalar],
  ["settledGasNumerator", scalar],
  ["settledExcess", scalar],
];

/** Names of the fields that make the hash of a header in Ethereum's form. */
export const HEADER_FIELDS: readonly string[] = [...FIRST, ...ETHEREUM].map(([name]) => name);
/** Names of the fields that a header of Avalanche has in addition. */
export const AVALANCHE_FIELDS: readonly string[] = AVALANCHE.map(([name]) => name);

/**
 * The hash that a header's fields make, as JSON-RPC names them. Undefined if a field is missing or unreadable: chains
 * exist whose headers have other ones.
 */
export function headerHash(header: BlockFields): Hash | undefined {
  const first = FIRST.map(([name, read]) => read(header[name]));
  const isAvalanche = header["extDataHash"] !== undefined && header["extDataHash"] !== null;
  const later = (isAvalanche ? AVALANCHE : ETHEREUM).map(([name, read]) => {
    const value = header[name];
    return value === undefined || value === null ? "" : read(value);
  });
  // A fork's field is missing in older headers. One that is missing before the last one is encoded as empty.
  const appended = later.slice(0, later.findLastIndex((value) => value !== "") + 1);
  const encoded = [...first, ...appended.map((value) => (value === "" ? "0x" : value))];
  if (encoded.includes(undefined)) return undefined;
  return keccak256(encodeRlp(encoded as string[])) as Hash;
}
