/**
 * Clients over WebSocket that roam: each one follows a collection at one replica for a few seconds, is cut, and goes on
 * at the next replica from the last message that it got. `delivery.ts` judges what they receive.
 */
import WebSocket from "ws";
import { TEST_KEY } from "../../test/support/service.ts";
import { createRandom, type Random } from "../local-chain/random.ts";
import type { ChaosCollection } from "./chain.ts";
import type { Cluster } from "./cluster.ts";
import { Delivery, type PushMessage } from "./delivery.ts";

const [MIN_STAY_MS, MAX_STAY_MS] = [1_000, 5_000];
const RETRY_MS = 100;
/** Missing transfers that a violation names. */
const NAMED = 6;
/** Time for the last block's transfers to reach all clients. */
const TAIL_MS = 20_000;
/** Lines of a client's history that are shown beside a problem. */
const SHOWN = 16;

export interface Roamers {
  /**
   * Waits until each client has the transfers of block `last`, which moved all collections, and ends the clients. Then
   * compares what they received with the chain.
   */
  finish(last: number): Promise<void>;
}

/** Starts one client for each collection. */
export function startRoamers(cluster: Cluster, seed: number): Roamers {
  let isOver = false;
  const random = createRandom(seed ^ 0x0a3e);
  const clients = cluster.chain.collections.map((collection) => {
    const delivery = new Delivery();
    const history: string[] = [];
    const roaming = roam(cluster, { collection, delivery, history, random, isOver: () => isOver });
    return { collection, delivery, history, roaming };
  });
  return {
    finish: async (last) => {
      const deadline = performance.now() + TAIL_MS;
      const isBehind = () => clients.some(({ delivery }) => delivery.block < last);
      while (isBehind() && performance.now() < deadline) await Bun.sleep(RETRY_MS);
      isOver = true;
      await Promise.all(clients.map(({ roaming }) => roaming));
      for (const client of clients) await judge(cluster, client, last);
    },
  };
}

interface Roaming {
  readonly collection: ChaosCollection;
  readonly delivery: Delivery;
  /** A line for each connection and message. It explains a problem. */
  readonly history: string[];
  readonly random: Random;
  readonly isOver: () => boolean;
}

async function roam(cluster: Cluster, { collection, delivery, history, random, isOver }: Roaming): Promise<void> {
  while (!isOver()) {
    const replica = cluster.nextReplica();
    const url = replica.socketUrl;
    if (url === undefined) {
      await Bun.sleep(RETRY_MS);
      continue;
    }
    const leave = Promise.withResolvers<void>();
    const socket = new WebSocket(url, { headers: { "x-api-key": TEST_KEY } });
    const { since } = delivery;
    let isCut = false;
    delivery.connected();
    const note = (line: string) => history.push(`${cluster.findings.second.toFixed(1)} s ${replica.name}: ${line}`);
    note(`subscribes since ${since}`);
    socket.on("open", () => {
      socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address: collection.address, since }));
    });
    socket.on("message", (data: unknown) => {
      if (isCut) return;
      const message = JSON.parse(String(data)) as PushMessage;
      note(JSON.stringify({ ...message, chain: undefined, address: undefined }));
      cluster.findings.count("messages");
      const problem = delivery.take(message);
      if (problem !== undefined) {
        const where = `${replica.name}, since ${since}`;
        cluster.findings.violation(`socket of ${collection.address} at ${where}: ${problem}`);
        show(cluster, history.slice(-SHOWN));
      }
      // The subscription failed, or the chain's log is not there. Another replica may do better.
      if (message.type === "error") leave.resolve();
    });
    socket.on("error", () => leave.resolve());
    socket.on("close", () => leave.resolve());
    const stay = MIN_STAY_MS + random.below(MAX_STAY_MS - MIN_STAY_MS);
    const until = performance.now() + stay;
    const watch = setInterval(() => (isOver() || performance.now() > until) && leave.resolve(), RETRY_MS);
    await leave.promise;
    clearInterval(watch);
    isCut = true;
    socket.terminate();
    await Bun.sleep(RETRY_MS);
  }
}

async function judge(
  cluster: Cluster,
  { collection, delivery, history }: Pick<Roaming, "collection" | "delivery" | "history">,
  last: number,
): Promise<void> {
  const { chain, findings } = cluster;
  findings.count("gaps", delivery.gaps);
  findings.count("doubled", delivery.doubled);
  const who = `socket of ${collection.address}`;
  if (delivery.block < last) {
    const problem = `its last transfers are of block ${delivery.block}, and not of block ${last}`;
    findings.violation(`${who}: ${problem} after ${TAIL_MS / 1_000} s`);
  }
  const { covered } = delivery;
  if (covered === undefined) return;
  const missing = delivery.missing(await chain.transfers(collection, covered.after + 1, covered.upTo));
  findings.count("lost", missing.length);
  if (missing.length === 0) return;
  const named = missing.slice(0, NAMED).map(({ block, tokenId }) => `${tokenId} at block ${block}`);
  const range = `blocks ${covered.after + 1} to ${covered.upTo}`;
  findings.violation(`${who}: ${missing.length} transfers of ${range} are missing: ${named.join(", ")}`);
  const at = history.findIndex((line) => Number(/"transfers".*"block":(\d+)/.exec(line)?.[1]) >= missing[0]!.block);
  show(cluster, history.slice(Math.max(0, at - SHOWN), at + SHOWN));
}

function show({ findings }: Cluster, lines: readonly string[]): void {
  for (const line of lines) findings.say(`    ${line.slice(0, 200)}`);
}
