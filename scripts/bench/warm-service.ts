/**
 * A service as it is after its first hour: what reads, keeps and serves histories has run before. The engine compiles
 * what runs often, and a fresh process is measured to be half as fast as it stays.
 */
import type { CollectionOptions } from "./chain/options.ts";
import { type BenchService, startBenchService, untilIndexed } from "./service.ts";

export const WARM_UP_ADDRESS = `0x${"aa".repeat(20)}`;
/** All of its NFTs fit one page, so that its metadata is soon done with. */
const LIMIT = 500;
const LOOK_MS = 50;

/** A collection of its own to warm up with: a long history of few NFTs. */
export const warmUpCollection = (transfers: number): CollectionOptions => ({
  address: WARM_UP_ADDRESS,
  standard: "erc721",
  transfers,
  perToken: Math.ceil(transfers / LIMIT),
  layout: { perBlock: 250 },
});

/**
 * Resolves once a page is whole and has stayed the same for some looks: nothing is asked of its tokens any more.
 * @param least records of the page
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

/** Starts a service and has it index the collection to warm up with, which the node must have. */
export async function startWarmService(options: Parameters<typeof startBenchService>[0]): Promise<BenchService> {
  const service = await startBenchService(options);
  await untilIndexed(service, WARM_UP_ADDRESS);
  await untilSettled(service, `/api/v2/nft/${WARM_UP_ADDRESS}?limit=${LIMIT}`, 1, 6);
  return service;
}
