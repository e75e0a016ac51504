/** The four states of an answer on the page, and the words of a failure. */
import type { ComponentChildren } from "preact";
import { ServiceError } from "../../client/index.ts";
import type { QueryState } from "../state/query.ts";

interface QueryViewOptions<T> {
  readonly of: QueryState<T>;
  /** The sentence while nothing is known. */
  readonly loading: string;
  /** What to say of a thing that the service doesn't have, in place of the service's own words. */
  readonly absent?: (error: ServiceError) => ComponentChildren;
  readonly failed?: (error: Error) => ComponentChildren;
  readonly children: (value: T) => ComponentChildren;
}

/** Shows an answer by its state. A failure to read it again stands above the answer that is known. */
export function QueryView<T>({
  of,
  loading,
  failed = (error) => <Failure error={error} />,
  ...rest
}: QueryViewOptions<T>) {
  const { absent = failed, children } = rest;
  switch (of.kind) {
    case "loading":
      return (
        <p role="status" class="quiet">
          {loading}
        </p>
      );
    case "absent":
      return <>{absent(of.error)}</>;
    case "failed":
      return <>{failed(of.error)}</>;
    case "ready":
      return (
        <>
          {of.error === undefined ? null : failed(of.error)}
          {children(of.value)}
        </>
      );
  }
}

export function Failure({ error }: { readonly error: Error }) {
  const code = error instanceof ServiceError ? ` (${error.code})` : "";
  return (
    <p class="failure" role="alert">
      {error.message}
      {code}
    </p>
  );
}
