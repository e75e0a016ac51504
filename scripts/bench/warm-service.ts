/**
 * A service as after its first hour: its code for reading, storing and serving histories has run. The engine compiles
 * code that runs often, and a fresh process is half as fast.
 */
import type { CollectionOptions } from "./chain/options.ts";
import { type BenchService, startBenchService, untilIndexed } from "./service.ts";

export const WARM_UP_ADDRESS = `0x${"aa".repeat(20)}`;
/** All of its NFTs fit one page, so that its metadata is settled soon. */
const LIMIT = 500;
const LOOK_MS = 50;

/** A collection for the warm-up: a long history of few NFTs. */
export const warmUpCollection = (transfers: number): CollectionOptions => ({
  address: WARM_UP_ADDRESS,
  standard: "erc721",
  transfers,
  perToken: Math.ceil(transfers / LIMIT),
  layout: { perBlock: 250 },
});

/**
 * Resolves once a page is complete and has not changed for some reads, so that no request for its tokens is pending.
 * @param least number of records on the page
 */
export async function untilSettled(service: BenchService, path: string, least: number, looks: number): Promise<void> {
  let before = "";
  for (let same = 0; same < looks; ) {
    const text = await (await service.get(path)).text();
    const { status, result } = JSON.parse(text) as { status: string; result: unknown[] };
    same = status === "SYNCED" && result.length >= least && text === before ? same + 1 : 0;
    before = text;
    await Bun.sleep(LOOK_MS);
  }
}

/** Starts a service and lets it index the warm-up collection, which the node must have. */
export async function startWarmService(options: Parameters<typeof startBenchService>[0]): Promise<BenchService> {
  const service = await startBenchService(options);
  await untilIndexed(service, WARM_UP_ADDRESS);
  await untilSettled(service, `/api/v2/nft/${WARM_UP_ADDRESS}?limit=${LIMIT}`, 1, 6);
  return service;
}
