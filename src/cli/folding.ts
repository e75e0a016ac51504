/** What `verify` does with a kind of stream. */
import type { Recorded } from "../events/types.ts";

/** Folds a stream like the service does, and throws at a violated invariant. */
export interface Folding {
  fold(recorded: Recorded): unknown;
  /** A summary of the whole stream. */
  end(): string | Promise<string>;
}
