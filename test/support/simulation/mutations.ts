/**
 * Mutations: deliberate defects in the real code that the simulation must detect. They prove that it would notice such
 * a defect. A mutation replaces text that occurs exactly once in its file, so a change of that code cannot disable it
 * unseen.
 */
export interface Mutation {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** True if the worlds of prices must find it. */
  readonly isOfPrices?: true;
  /** Worlds that find it, where fewer than one in 500 does. */
  readonly seeds?: readonly number[];
}

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "fold heads before the prices at them",
    file: "src/prices/stored/stored-prices.ts",
    find: "await this.#tokens.settle(this.#prefix);",
    replace: "",
    isOfPrices: true,
  },
  {
    name: "hold a price whose pools moved",
    file: "src/prices/stored/price-recorder.ts",
    find: "areEqual(last, storedStates(price)) &&",
    replace: "",
    isOfPrices: true,
  },
  {
    name: "skip the revert of collections",
    file: "src/nft/indexing/followed-collections.ts",
    find: "filter(({ state }) => state.end > change.ancestor.number)",
    replace: "filter(() => false)",
  },
  {
    name: "drop the transfers of single blocks",
    file: "src/nft/indexing/followed-collections.ts",
    find: "if (fresh.length === 0) continue;",
    replace: "if (fresh.length < 2) continue;",
  },
  {
    name: "append two ranges in the wrong order",
    file: "src/nft/indexing/jobs.ts",
    find: "for await (const { events, archive } of steps) {",
    replace: `const swapped = async function* () {
      let held: HistoryStep["events"][number] | undefined;
      for await (const { events, archive } of steps) {
        for (const range of events) {
          if (held !== undefined) yield* [{ events: [range], archive }, { events: [held], archive }];
          held = held === undefined ? range : undefined;
        }
      }
      if (held !== undefined) yield { events: [held], archive: undefined };
    };
    for await (const { events, archive } of swapped()) {`,
  },
  {
    name: "work without a lease",
    file: "src/chain/lease.ts",
    find: "while (!(await log.acquireLease(name, holder, TTL_MS)))",
    replace: "while (false)",
  },
  {
    name: "let a follower write after it lost its lease in a pause",
    file: "src/nft/indexing/collection-streams.ts",
    find: "return { stream: this.chainStream, version: this.chainVersion };",
    replace: "return undefined as never;",
  },
  {
    name: "follow without recording the takeover",
    file: "src/chain/follower.ts",
    find: 'if (!isRecorded) await this.#append(state, [{ type: "FollowingBegan", holder }]);',
    replace: "",
  },
  {
    name: "stay with a stuck endpoint",
    file: "src/chain/head.ts",
    find: "if (!(await reader.benchLaggards(head))) return tips;",
    replace: "return tips;",
  },
  {
    name: "ignore that a block is overdue",
    file: "src/chain/head.ts",
    find: "if (now - this.#followed.since < patience) return false;",
    replace: "return false;",
  },
  {
    name: "show a head before its collections are folded",
    file: "src/chain/view.ts",
    find: "await this.#settle(head);",
    replace: "",
  },
  {
    name: "tell a subscriber of a version that is ahead of the shown head",
    file: "src/nft/collections/hot-collections.ts",
    find: "return first === undefined ? collection.version : first - 1;",
    replace: "return collection.version;",
  },
  {
    name: "have a subscriber miss what was folded before it came",
    file: "src/push/collection-feed.ts",
    find: "if (this.#isHeard(stream, now, end)) {",
    replace: "if (end > 0) {",
  },
  {
    name: "fold a collection ahead of the clock of its chain",
    file: "src/nft/collections/event-place.ts",
    find: "const isShown = place === undefined || clock.shows(place);",
    replace: "const isShown = true;",
  },
  {
    name: "skip the check of blooms",
    file: "src/rpc/reading/logs.ts",
    find: "...doubtfulBlocks(lenient, filter, { logs, isByBlock })",
    replace: "",
  },
  {
    name: "skip the check of receipts",
    file: "src/rpc/reading/block-logs.ts",
    find: "if (!isCovered) throw lie",
    replace: "if (claimed < 0n) throw lie",
  },
  {
    name: "take receipts that contradict the header for none",
    file: "src/rpc/reading/block-logs.ts",
    find: 'this.#contradicted.has(hash))) return "contradictory";',
    replace: "this.#contradicted.has(hash))) return undefined;",
  },
  {
    name: "take an endpoint that is behind for one that can't give a contract's logs",
    file: "src/rpc/reading/headers.ts",
    find: "if (behind === undefined) throw again.reason;",
    replace: "throw again.reason;",
  },
  {
    name: "believe headers that no longer make their hash",
    file: "src/nft/indexing/part-proof.ts",
    find: "(hasHashed || (numbers[at] as number) >= changedAt)",
    replace: "hasHashed",
    seeds: [80699],
  },
  {
    name: "skip the check of parent hashes",
    file: "src/chain/new-blocks.ts",
    find: "if (first.number === tip.number + 1 && first.parentHash !== tip.hash) return undefined;",
    replace: "",
  },
  {
    name: "leave out headers without asking for the followed head again",
    file: "src/rpc/reading/logs.ts",
    find: "hasBlocks(endpoint, [stretch.head, stretch.below])",
    replace: "hasBlocks(endpoint, [stretch.head])",
  },
  {
    name: "keep orphaned transfers",
    file: "src/nft/collections/collection.ts",
    find: "state.ledger.revert(ancestor.number);",
    replace: "",
  },
  {
    name: "read the last block of a range twice",
    file: "src/nft/collections/headline.ts",
    find: "state.startBlock : state.end + 1",
    replace: "state.startBlock : state.end",
  },
  {
    name: "continue after a poll that was only half written",
    file: "src/chain/follower.ts",
    find: "!this.#writing &&",
    replace: "",
  },
  {
    name: "skip the reconciliation after a takeover",
    file: "src/nft/indexing/followed-collections.ts",
    find: "await this.#reconcile(chain);",
    replace: "",
  },
  {
    name: "continue a walk at an orphaned block",
    file: "src/nft/walks/snapshot.ts",
    find: 'return hash !== "" && !chain.isCanonical({ number: block, hash }, chainVersion);',
    replace: "return false;",
  },
  {
    name: "continue a walk at an orphaned block whose header is not kept",
    file: "src/chain/view.ts",
    find: "return isCanonical(this.#state, block) && !mayHaveLeft(this.#state, block, since);",
    replace: "return isCanonical(this.#state, block);",
  },
  {
    name: "stop following behind a distant final block",
    file: "src/chain/next-step.ts",
    find: "const bound = hasLogs ?",
    replace: "const bound = final.number + 64 < nodeHead.number ? final.number + 64 : hasLogs ?",
  },
  {
    name: "keep the end of a collection that joins in parts on a lost branch",
    file: "src/nft/indexing/followed-collections.ts",
    find: "(endsAboveFinal && end > ancestor)",
    replace: "(endsAboveFinal && end < 0)",
  },
  {
    name: "take a part of a join whose ends left the branch",
    file: "src/nft/indexing/joining.ts",
    find: "if (logs === undefined) throw new ForkedAnswersError(end.number);",
    replace: "if (logs === undefined) return { end, logs: [] };",
  },
  {
    name: "drop the header of the final block",
    file: "src/chain/kept-headers.ts",
    find: "|| at === falling.length - 1",
    replace: "",
  },
  {
    name: "continue a walk whose record was lost",
    file: "src/nft/walks/snapshot.ts",
    find: "chain.version >= chainVersion && found === chainChecksum",
    replace: "chain.version >= chainVersion",
  },
  {
    name: "announce twice that a collection is indexed",
    file: "src/push/subscription.ts",
    find: "if (indexed.has(this.stream)) return;",
    replace: "",
  },
  {
    name: "treat the head as final",
    file: "src/rpc/reading/headers.ts",
    find: "Math.max(0, head.number - finalityDepth)",
    replace: "head.number",
  },
  {
    name: "keep the range size after a timeout",
    file: "src/rpc/endpoint/span-controller.ts",
    find: "this.#span = Math.min(this.#span, half);",
    replace: "",
  },
  {
    name: "accept a repeated log",
    file: "src/rpc/decode/verify-logs.ts",
    find: "copies.add(b);",
    replace: "continue;",
  },
  {
    name: "believe logs that are in no bloom of an archive's block",
    file: "src/rpc/decode/portal.ts",
    find: "assertInBlooms(logs, touched, isSettling);",
    replace: "",
  },
  {
    name: "believe the hashes of an archive",
    file: "src/nft/indexing/part-proof.ts",
    find: "const wrong = blocks.find(({ hash }, at) => headers[at]?.hash !== hash);",
    replace: "const wrong = undefined as BlockRef | undefined;",
    seeds: [527],
  },
  {
    name: "believe an archive against the receipts",
    file: "src/rpc/archive/archives.ts",
    find: 'if (typeof proven === "object" && !isTold(proven.logs)) throw new ArchiveDisprovedError(label, number, true);',
    replace: "",
  },
  {
    name: "keep the ledger of before a new index",
    file: "src/nft/collections/collection.ts",
    find: "Object.assign(state, initialState(version), { isRemoved, identifiedAt: time });",
    replace: "Object.assign(state, initialState(version), { isRemoved, identifiedAt: time, ledger: state.ledger });",
  },
];
