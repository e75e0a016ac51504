/** Tables: described by their columns. */
import type { ComponentChildren } from "preact";

export interface TableColumn<Row> {
  /** "" for a column of buttons. */
  readonly title: string;
  /** True for the column that names the row. */
  readonly isName?: boolean;
  readonly isNumber?: boolean;
  readonly cell: (row: Row) => ComponentChildren;
}

export interface TableOptions<Row> {
  readonly label: string;
  readonly columns: readonly TableColumn<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
  /** What to say in place of a table without rows; null for nothing. */
  readonly none: string | null;
}

/**
 * A table that can be scrolled, by keyboard too, if it is wider than the screen. On a narrow screen each row is a card, in
 * which the style gives a cell the title of its column.
 */
export function Table<Row>({ label, columns, rows, keyOf, none }: TableOptions<Row>) {
  if (rows.length === 0) return none === null ? null : <p>{none}</p>;
  return (
    <section class="scroll" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th key={title} scope="col" class={isNumber === true ? "number" : undefined}>
                {title === "" ? <span class="hidden">Changes</span> : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ title, isName, isNumber, cell }) =>
                isName === true ? (
                  <th key={title} scope="row">
                    {cell(row)}
                  </th>
                ) : (
                  <td key={title} class={isNumber === true ? "number" : undefined} data-title={title}>
                    {cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
