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

interface TableOptions<Row> {
  readonly label: string;
  readonly columns: readonly TableColumn<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
}

/**
 * A table that can be scrolled, by keyboard too, if it is wider than the screen. On a narrow screen each row is a card, in
 * which the style gives a cell the title of its column.
 */
export const Table = <Row,>({ label, columns, rows, keyOf }: TableOptions<Row>) => (
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
