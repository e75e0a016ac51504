/**
 * Price lists of RPC providers: how many units a provider counts for a call of each method. The operator may replace
 * the list that is built in.
 */
import { parseOperatorJson } from "../core/bounded-files.ts";
import { AppError } from "../core/errors.ts";

export interface PriceList {
  readonly name: string;
  /** Units per call by method. */
  readonly units: Readonly<Record<string, number>>;
  /** Units per call of any other method. */
  readonly otherwise: number;
}

/** Compute units of a large provider (alchemy.com/docs/reference/compute-unit-costs, as of 2026-11). */
export const COMPUTE_UNITS: PriceList = {
  name: "compute units",
  units: {
    eth_chainId: 0,
    net_version: 0,
    eth_blockNumber: 10,
    eth_subscribe: 10,
    eth_unsubscribe: 10,
    eth_getBlockByNumber: 20,
    eth_getBlockByHash: 20,
    eth_getBlockReceipts: 20,
    eth_getTransactionReceipt: 20,
    eth_getTransactionCount: 20,
    eth_getCode: 20,
    eth_getBalance: 20,
    eth_getStorageAt: 20,
    web3_clientVersion: 20,
    eth_call: 26,
    eth_getLogs: 60,
  },
  otherwise: 20,
};

/** Units that a provider counts for one call. */
export function unitsOf({ units, otherwise }: PriceList, method: string): number {
  return (Object.hasOwn(units, method) ? units[method] : undefined) ?? otherwise;
}

const isUnits = (value: unknown): value is number => typeof value === "number" && value >= 0 && value <= 1e9;

/**
 * Parses an operator's list: `{"name": "…", "units": {"eth_getLogs": 60}, "otherwise": 20}`.
 * @throws AppError `configuration` that says what is wrong
 */
export function parsePriceList(json: string): PriceList {
  let parsed: unknown;
  try {
    parsed = parseOperatorJson(json.replace(/^\ufeff/, ""));
  } catch (error) {
    // A text that is no JSON is told the format below.
    if (!(error instanceof SyntaxError)) throw error;
  }
  const { name, units, otherwise } = (parsed ?? {}) as Partial<Record<keyof PriceList, unknown>>;
  const isList =
    typeof name === "string" &&
    name.length <= 64 &&
    isUnits(otherwise) &&
    typeof units === "object" &&
    units !== null &&
    Object.values(units).every(isUnits);
  if (!isList) {
    throw new AppError('must be JSON like {"name": "my provider", "units": {"eth_getLogs": 60}, "otherwise": 20}', {
      code: "configuration",
    });
  }
  return { name, units: units as PriceList["units"], otherwise };
}
