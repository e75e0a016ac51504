/** How much of a collection's metadata is there, for commands: asked of the service, in words, and waited for. */
import type { Client } from "../client/index.ts";
import type { Clock } from "../core/clock.ts";
import { wholeText } from "../core/format.ts";
import type { ListedCollection } from "../operators/models.ts";
import type { ServiceAccess } from "./access.ts";

export interface MetadataState {
  /** Tokens with metadata. */
  readonly resolved: number;
  /** Tokens that only failed so far. They are tried again later. */
  readonly failed: number;
  /** Tokens without any attempt; null while the tokens are not counted. */
  readonly left: number | null;
}

/** Undefined if the service can't tell: the contract has no collection, or its chain no endpoints. */
export async function metadataOf(
  service: ServiceAccess,
  { chain, address }: Pick<ListedCollection, "chain" | "address">,
): Promise<MetadataState | undefined> {
  const ask = (client: Client) => client.call("GET /api/collections/:chain/:address", { path: { chain, address } });
  const found = await service.ask(ask).catch(() => undefined);
  if (found === undefined) return undefined;
  const { resolved, failed, left } = found.metadata;
  return { resolved, failed, left };
}

/** `1,759 of 2,999`, with the failed ones. */
export function metadataText({ resolved, failed, left }: MetadataState): string {
  const of = left === null ? "" : ` of ${wholeText(resolved + failed + left)}`;
  return `${wholeText(resolved)}${of}${failed === 0 ? "" : `, ${wholeText(failed)} failed`}`;
}

/** All collections together. */
export const sumOf = (states: readonly MetadataState[]): MetadataState => ({
  resolved: states.reduce((sum, { resolved }) => sum + resolved, 0),
  failed: states.reduce((sum, { failed }) => sum + failed, 0),
  left: states.some(({ left }) => left === null) ? null : states.reduce((sum, { left }) => sum + (left ?? 0), 0),
});

/** A host that hangs takes 20 s for a try, and its circuit breaker may rest for a minute. */
const STANDSTILL_MS = 120_000;

/** Follows the metadata of collections until each token had an attempt, or until nothing has come for two minutes. */
export class MetadataWait {
  readonly #clock: Clock;
  #last = "";
  #movedMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#movedMs = clock.monotonic();
  }

  /** @param states as they are now. Returns whether to wait on, and whether they stand still */
  next(states: readonly MetadataState[]): "done" | "waiting" | "standing" {
    const sum = sumOf(states);
    if (sum.left === 0) return "done";
    const now = this.#clock.monotonic();
    const text = metadataText(sum);
    if (text !== this.#last) [this.#last, this.#movedMs] = [text, now];
    return now - this.#movedMs >= STANDSTILL_MS ? "standing" : "waiting";
  }
}
