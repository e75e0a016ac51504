/** Tables and bars, and what `serve` shows: a banner, short log lines, and bars of running backfills below them. */
import type { Clock } from "../core/clock.ts";
import { countText, durationText, printable, wholeText } from "../core/format.ts";
import type { ListedCollection } from "../operators/models.ts";

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

/** Why a collection is not complete; null if nothing delays it. */
export const reasonOf = ({ lastError, inDoubt }: Pick<ListedCollection, "lastError" | "inDoubt">): string | null =>
  inDoubt === null ? lastError : `in doubt from block ${wholeText(inDoubt.block)} on, ${inDoubt.reason}`;

const REFRESH_MS = 500;

/** A terminal whose last rows are drawn again below each new line. */
export class Terminal {
  readonly #write: (text: string) => void;
  #rows: readonly string[] = [];

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  /** Writes whole lines above the rows, which `rows` replaces. */
  write(text: string, rows = this.#rows): void {
    const erase = this.#rows.length === 0 ? "" : `\x1b[${this.#rows.length}A\x1b[J`;
    this.#rows = rows;
    this.#write(`${erase}${text}${rows.map((row) => `${row}\n`).join("")}`);
  }

  #draw(rows: readonly string[]): void {
    if (rows.length > 0 || this.#rows.length > 0) this.write("", rows);
  }

  /** Shows a bar for each collection that is indexed, until the returned function is called. */
  follow(clock: Clock, indexing: () => Promise<readonly ListedCollection[]>): () => void {
    let cancel = (): void => undefined;
    let isOver = false;
    const refresh = async () => {
      const entries = await indexing().catch(() => []);
      if (isOver) return;
      this.#draw(entries.map(rowOf));
      cancel = clock.after(REFRESH_MS, () => void refresh());
    };
    void refresh();
    return () => {
      isOver = true;
      cancel();
      this.#draw([]);
    };
  }
}

function rowOf({ chain, address, name, percent, transfers, secondsLeft }: ListedCollection): string {
  const counts = transfers === null ? "" : ` · ${countText(transfers)} transfers`;
  const left = secondsLeft === null ? "" : ` · ${durationText(secondsLeft * 1_000)} left`;
  return `${barText(percent ?? 0)}  ${chain} ${address} ${printable((name ?? "").slice(0, 24))}${counts}${left}`;
}
