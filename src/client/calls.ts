/** The types of calls of operations, and of their answers. */
import type { Operations } from "./types.ts";

export interface Cancelled {
  readonly signal?: AbortSignal | undefined;
}

/** The query of an operation by its name, with a signal that cancels the call. */
export type QueryOf<Name extends keyof Operations> = Operations[Name]["query"] & Cancelled;

/** The block that an answer is valid for. */
export interface AsOf {
  readonly block: number;
  readonly hash: string | null;
  readonly time: string | null;
  /** `stale` while the server is cut off from its log. */
  readonly finality: "finalized" | "latest" | "stale";
}

/** An answer with the block that it is valid for; null if it depends on none. */
export type Answer<T> = T & { readonly asOf: AsOf | null };

/** A call of an operation, without its name. A caller may leave it out if the operation needs neither a path part nor a body. */
export type CallOf<Name extends keyof Operations> = Cancelled & {
  readonly query?: Operations[Name]["query"];
} & (Record<never, never> extends Operations[Name]["path"]
    ? { readonly path?: Operations[Name]["path"] }
    : { readonly path: Operations[Name]["path"] }) &
  (Operations[Name]["body"] extends undefined ? unknown : { readonly body: Operations[Name]["body"] });
