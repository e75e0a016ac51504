/** Tables, bars and suggestions for the command line. */

/** Lays rows out in columns. Columns of numbers are aligned to the right. */
export function tableText(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => (row[at] ?? "").length)));
  const isNumber = head.map((_, at) => rows.every((row) => /^(?:[-–]|[\d.,]+(?: ?[kMGB%]+)?)?$/.test(row[at] ?? "")));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) => (isNumber[at] ? cell.padStart(widths[at] as number) : cell.padEnd(widths[at] as number)))
      .join("  ")
      .trimEnd();
  return [line(head), ...rows.map(line)].join("\n");
}

const BAR_CELLS = 20;

/** `██████░░░░  30 %`. */
export function barText(percent: number): string {
  const full = Math.round((percent / 100) * BAR_CELLS);
  return `${"█".repeat(full)}${"░".repeat(BAR_CELLS - full)} ${String(percent).padStart(3)} %`;
}

/** Removes what could move a terminal's cursor: names come from contracts. */
export const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, "·");
