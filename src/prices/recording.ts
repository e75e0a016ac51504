/**
 * Writes to the log what the node said at its head: each token's words, its pools, their states. Known facts are
 * dropped by the journal, so that asking again writes only what changed.
 */
import { type PriceEvent, priceStream } from "../events/types.ts";
import type { PricesContext, Subject } from "./context.ts";
import { discoveredEvent, identifiedEvent, observedEvent } from "./facts.ts";
import { type HeadRead, observed } from "./history.ts";

/** Resolves once everything read for a subject is durable. */
export async function recordReads(
  context: PricesContext,
  subject: Subject,
  { header, reads }: HeadRead,
): Promise<void> {
  const { books, journal, chain } = context;
  const byPool = new Map(reads.map((read) => [read.pool.address, read]));
  const touched = new Set([books.reference, subject.book]);
  await Promise.all(
    [...touched].map((book) => {
      const facts = book.facts.get(book.address);
      const events: PriceEvent[] = facts === undefined ? [] : [identifiedEvent(facts, header.number)];
      // The whole list goes in, read or not: a process that finds it in the log must not take a part for the whole.
      for (const [address, hot] of book.pools) {
        events.push(discoveredEvent(byPool.get(address)?.pool ?? hot.pool, header.number));
      }
      for (const address of book.pools.keys()) {
        const read = byPool.get(address);
        const state = read === undefined ? undefined : observed(read, header);
        if (state !== undefined) events.push(observedEvent(address, state));
      }
      return journal.append(book.stream, events);
    }),
  );
  // Each reference token's words in its own stream: a process that starts later finds them there.
  const references = touched.has(books.reference) ? [...books.reference.facts] : [];
  await Promise.all(
    references.map(async ([token, facts]) => {
      if (token === books.reference.address || context.said.has(token)) return;
      const stream = priceStream(chain.chainId, token);
      await journal.append(stream, [identifiedEvent(facts, header.number)]);
      if (books.held(stream) === undefined) journal.close(stream);
      context.said.add(token);
    }),
  );
}
