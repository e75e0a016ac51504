/** Replays frozen records through the current code and summarises the result of each stream. */
import { evolveChain, initialChainState } from "../../src/chain/view.ts";
import type { ChainEvent, NftEvent, StreamName } from "../../src/events/types.ts";
import { fromStored } from "../../src/log/records.ts";
import { evolve, initialState } from "../../src/nft/collections/collection.ts";
import { countEntries, readSlice } from "../../src/nft/ledger/listing.ts";
import { START } from "../../src/nft/ledger/rows.ts";

export interface FrozenRecord {
  readonly stream: string;
  readonly version: number;
  readonly type: string;
  readonly time: number;
  readonly crc: number;
  /** base64 */
  readonly data: string;
}

/** Returns the folded state of each stream. Long states are replaced by digests. */
export function replayFrozen(records: readonly FrozenRecord[]): Record<string, unknown> {
  const byStream = Map.groupBy(records, (record) => record.stream);
  const replay: Record<string, unknown> = {};
  for (const [stream, list] of byStream) {
    const recorded = list.map((record) =>
      fromStored(stream as StreamName, { ...record, data: new Uint8Array(Buffer.from(record.data, "base64")) }),
    );
    if (stream.startsWith("nft/")) {
      const state = initialState();
      for (const { event, version, time } of recorded) evolve(state, event as NftEvent, version, time);
      const { ledger, identified, status, end, completed } = state;
      const digest = (block: number, holders: boolean) => {
        const { entries } = readSlice(ledger, { block, holders, from: START, limit: 1_000_000 });
        const lines = entries.map((entry) => [
          entry.kind,
          String(entry.id),
          entry.owner < 0 ? "" : ledger.addresses.hex(entry.owner),
          String(entry.amount),
          entry.block,
          entry.blockMinted,
          entry.minter < 0 ? "" : ledger.addresses.hex(entry.minter),
        ]);
        return new Bun.CryptoHasher("sha256").update(JSON.stringify(lines)).digest("hex");
      };
      const first = identified?.startBlock ?? 0;
      const last = end?.number ?? 0;
      const blocks = [0, 0.25, 0.5, 0.75, 1].map((part) => Math.floor(first + (last - first) * part));
      replay[stream] = {
        version: state.version,
        status,
        end,
        completed,
        name: identified?.name,
        anomalies: ledger.anomalies,
        total: countEntries(ledger, last, false),
        listings: blocks.map((block) => [block, digest(block, false), digest(block, true)]),
      };
    } else if (stream.startsWith("chain/")) {
      const state = initialChainState();
      for (const { event, version } of recorded) evolveChain(state, event as ChainEvent, version);
      const { version, head, finalized, headers, orphaned } = state;
      replay[stream] = { version, head, finalized, headers: headers.size, orphaned: [...orphaned] };
    } else {
      replay[stream] = recorded.map(({ event }) => event);
    }
  }
  return JSON.parse(JSON.stringify(replay));
}
