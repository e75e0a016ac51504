/** The four states of an answer on the page, and the words of a failure. */
import type { ComponentChildren } from "preact";
import type { QueryState } from "../state/query.ts";
import { sentenceOf } from "./format.ts";
import { StatusLine } from "./parts.tsx";

interface QueryViewOptions<T> {
  readonly of: QueryState<T>;
  /** The sentence while the answer is awaited. */
  readonly loading: string;
  /** What to show in place of the service's words: of a refusal, and of a thing that it doesn't have. */
  readonly refused?: (error: Error) => ComponentChildren;
  readonly children: (value: T) => ComponentChildren;
}

/** Shows an answer by its state. A failure to read it again, and the wait for another answer, stand above the one that is known. */
export function QueryView<T>({ of, loading, refused, children }: QueryViewOptions<T>) {
  switch (of.kind) {
    case "loading":
      return <StatusLine>{loading}</StatusLine>;
    case "absent":
      return <>{refused?.(of.error) ?? <Failure lead="Not found: " error={of.error} />}</>;
    case "failed":
      return <>{refused?.(of.error) ?? <Failure error={of.error} />}</>;
    case "ready":
      return (
        <>
          {of.isFormer ? <StatusLine>{loading}</StatusLine> : null}
          {of.error === undefined ? null : (refused?.(of.error) ?? <Failure error={of.error} />)}
          {children(of.value)}
        </>
      );
  }
}

export function Failure({ error, lead = "" }: { readonly error: Error; readonly lead?: string }) {
  return (
    <p class="failure" role="alert">
      {lead}
      {sentenceOf(error.message)}
    </p>
  );
}
