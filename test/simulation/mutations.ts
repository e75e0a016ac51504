/**
 * Named breaks of the real code, each of which the simulation must find: what proves that it would notice. A break is one
 * replacement of text that occurs exactly once, so that none can rot unseen.
 */
export interface Mutation {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "skip a revert",
    file: "src/indexing/followed-collections.ts",
    find: "filter(({ state }) => state.end > change.ancestor.number)",
    replace: "filter(() => false)",
  },
  {
    name: "drop a batch",
    file: "src/indexing/followed-collections.ts",
    find: "if (fresh.length === 0) continue;",
    replace: "if (fresh.length < 2) continue;",
  },
  {
    name: "swap two ranges",
    file: "src/indexing/jobs.ts",
    find: "for await (const events of ranges) {",
    replace: `const swapped = async function* () {
      let held: TransfersCommitted | undefined;
      for await (const list of ranges) {
        for (const range of list) {
          if (held !== undefined) yield* [[range], [held]];
          held = held === undefined ? range : undefined;
        }
      }
      if (held !== undefined) yield [held];
    };
    for await (const events of swapped()) {`,
  },
  {
    name: "forget a lease",
    file: "src/chain/lease.ts",
    find: "while (!(await log.acquireLease(name, holder, TTL_MS)))",
    replace: "while (false)",
  },
  {
    name: "let a follower that was paused write",
    file: "src/indexing/followed-streams.ts",
    find: "return { stream: this.chainStream, version: this.chainVersion };",
    replace: "return undefined as never;",
  },
  {
    name: "follow without saying so",
    file: "src/chain/follower.ts",
    find: 'if (!isSaid) await this.#append(state, [{ type: "FollowingBegan", holder }]);',
    replace: "",
  },
  {
    name: "stay with an endpoint that is stuck",
    file: "src/chain/head.ts",
    find: "if (!(await reader.benchLaggards(head))) return tips;",
    replace: "return tips;",
  },
  {
    name: "wait for no overdue block",
    file: "src/chain/head.ts",
    find: "if (now - this.#followed.since < patience) return false;",
    replace: "return false;",
  },
  {
    name: "show a head before its collections",
    file: "src/chain/view.ts",
    find: "await this.#settle();",
    replace: "",
  },
  {
    name: "show a collection before its chain",
    file: "src/collections/current.ts",
    find: "else if (chain.version >= collection.chainVersion) return collection;",
    replace: "else if (chain.version >= 0) return collection;",
  },
  {
    name: "look at no bloom",
    file: "src/rpc/logs.ts",
    find: "...doubtfulBlocks(lenient, filter, logs)",
    replace: "",
  },
  {
    name: "believe any receipts",
    file: "src/rpc/block-logs.ts",
    find: "if ((claimed & covered) !== claimed)",
    replace: "if (claimed < 0n)",
  },
  {
    name: "forget to look at parents",
    file: "src/chain/follower.ts",
    find: "if (first.number === tip.number + 1 && first.parentHash !== tip.hash) return undefined;",
    replace: "",
  },
  {
    name: "keep what was orphaned",
    file: "src/collections/collection.ts",
    find: "state.ledger.revert(event.ancestor.number);",
    replace: "",
  },
  {
    name: "read the last block again",
    file: "src/collections/headline.ts",
    find: "state.startBlock : state.end + 1",
    replace: "state.startBlock : state.end",
  },
  {
    name: "go on after half a poll",
    file: "src/chain/follower.ts",
    find: "!this.#writing &&",
    replace: "",
  },
  {
    name: "leave a dead follower's collections as they are",
    file: "src/indexing/followed-collections.ts",
    find: "await this.#reconcile(chain);",
    replace: "",
  },
  {
    name: "walk on over an orphaned block",
    file: "src/listings/pages.ts",
    find: '(hash !== "" && !chain.isCanonical({ number: block, hash }))',
    replace: "false",
  },
  {
    name: "tell twice that a collection is indexed",
    file: "src/push/subscription.ts",
    find: "indexed.has(this.stream)",
    replace: "false",
  },
  {
    name: "call the head final",
    file: "src/rpc/headers.ts",
    find: "Math.max(0, head.number - finalityDepth)",
    replace: "head.number",
  },
  {
    name: "ask for as much again of who takes too long",
    file: "src/rpc/endpoint/span.ts",
    find: "this.#span = Math.min(this.#span, half);",
    replace: "",
  },
  {
    name: "take a log twice",
    file: "src/rpc/decode/verify.ts",
    find: "repeated = true;",
    replace: "repeated = false;",
  },
];
