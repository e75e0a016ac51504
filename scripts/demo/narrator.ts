/**
 * What the demo prints: chapters, one sentence per event, requests as curl lines, and answers cut to the fields that
 * matter. Colours and the progress line appear in a terminal only. With `verbose`, requests and answers are complete.
 */

/** Text in an answer after which a verbose one is cut off. */
const MAX_VERBOSE = 700;

export interface NarratorOptions {
  readonly verbose: boolean;
  /** True if the output is a terminal that shows colours. */
  readonly isColored: boolean;
  readonly write: (text: string) => void;
}

/** The parts of an answer to print, in order, and the one to mark. */
export interface Excerpt {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly marked?: string;
}

export class Narrator {
  readonly verbose: boolean;
  readonly #options: NarratorOptions;
  #chapters = 0;

  constructor(options: NarratorOptions) {
    this.#options = options;
    this.verbose = options.verbose;
  }

  line(text = ""): void {
    this.#options.write(`${text}\n`);
  }

  chapter(title: string): void {
    this.line(`\n${this.#styled("1;36", `${++this.#chapters}  ${title}`)}`);
  }

  /** Says what happens now. */
  say(sentence: string): void {
    this.line(`   ${sentence}`);
  }

  /** Prints a checked fact. @throws Error if it does not hold */
  check(holds: boolean, fact: string): void {
    if (!holds) throw new Error(`not as expected: ${fact}`);
    this.line(`   ${this.#styled("32", "✓")} ${fact}`);
  }

  /** Replaces the line of the cursor, in a terminal. An empty text ends the progress. */
  progress(text: string): void {
    if (this.#options.isColored) this.#options.write(`\r\u001b[K${text === "" ? "" : `   ${text} …`}`);
  }

  request(line: string): void {
    this.line(`   ${this.#styled("90", "$")} ${line}`);
  }

  /** A message of the socket, in either direction. */
  message(arrow: "→" | "←", text: string): void {
    this.line(`   ${this.#styled("90", arrow)} ${text}`);
  }

  answer(body: string, summary: string, { fields, marked }: Excerpt): void {
    if (this.verbose) {
      const cut = body.length > MAX_VERBOSE ? `${body.slice(0, MAX_VERBOSE)} … (${body.length} bytes)` : body;
      this.line(`${cut}\n   → ${summary}`);
      return;
    }
    const parts = Object.entries(fields).map(([name, value]) => {
      const text = `"${name}": ${JSON.stringify(value)}`;
      return name === marked ? this.#styled("1;33", text) : text;
    });
    this.line(`   ${this.#styled("90", summary)}  { ${[...parts, "…"].join(", ")} }`);
  }

  /** Prints rows under a head, each column as wide as its longest cell. Colours don't count as width. */
  table(head: readonly string[], rows: readonly (readonly string[])[]): void {
    const widths = head.map((title, column) =>
      Math.max(...[head, ...rows].map((row) => Bun.stringWidth(row[column] ?? title))),
    );
    const padded = (row: readonly string[]) =>
      row
        .map((cell, column) => cell + " ".repeat(Math.max(0, (widths[column] ?? 0) - Bun.stringWidth(cell))))
        .join("   ");
    this.line(`   ${this.#styled("90", padded(head).trimEnd())}`);
    for (const row of rows) this.line(`   ${padded(row).trimEnd()}`);
  }

  /** A patch of a colour such as `#c2410c`; its name where no colours are shown. */
  swatch(colour: string): string {
    const channels = colour.match(/[0-9a-f]{2}/gi)?.map((part) => Number.parseInt(part, 16));
    if (!this.#options.isColored || channels?.length !== 3) return colour;
    return `\u001b[48;2;${channels.join(";")}m    \u001b[0m`;
  }

  bold(text: string): string {
    return this.#styled("1", text);
  }

  #styled(code: string, text: string): string {
    return this.#options.isColored ? `\u001b[${code}m${text}\u001b[0m` : text;
  }
}

/** An address as its first and last digits. */
export const short = (address: string): string => `${address.slice(0, 6)}…${address.slice(-4)}`;
