/** Walks over the pages of an operation, by their cursors. */

type Paged = { readonly cursor?: string | undefined };

/** Yields a page and all that follow it. */
export async function* pages<Page extends { readonly cursor: string | null }, Query extends Paged>(
  load: (query: Query) => Promise<Page>,
  query: Query,
): AsyncGenerator<Page> {
  for (let page = await load(query); ; page = await load({ ...query, cursor: page.cursor })) {
    yield page;
    if (page.cursor === null) return;
  }
}

/** Yields the rows of a page, and of all that follow it. */
export async function* rowsOf<Row, Query extends Paged>(
  load: (query: Query) => Promise<{ readonly result: readonly Row[]; readonly cursor: string | null }>,
  query: Query,
): AsyncGenerator<Row> {
  for await (const { result } of pages(load, query)) yield* result;
}
