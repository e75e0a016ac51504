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

/** The word that a typing error most likely stands for; undefined if none is near. */
export function nearestWord(word: string, words: readonly string[]): string | undefined {
  const [nearest] = words
    .map((one) => ({ one, distance: one.startsWith(word) ? 0.5 : editDistance(word, one) }))
    .sort((a, b) => a.distance - b.distance);
  return nearest !== undefined && nearest.distance <= Math.max(2, word.length / 3) ? nearest.one : undefined;
}

/** Number of letters to insert, delete or replace (Levenshtein). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b].entries()) {
      const replaced = (row[j] as number) + (letter === other ? 0 : 1);
      next.push(Math.min((next[j] as number) + 1, (row[j + 1] as number) + 1, replaced));
    }
    row = next;
  }
  return row.at(-1) as number;
}

/** Removes what could move a terminal's cursor: names come from contracts. */
export const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, "·");
