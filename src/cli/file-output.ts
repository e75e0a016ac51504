/** Writes a file that is made while it is read, to a path or to standard output. */
import { rename, rm } from "node:fs/promises";
import { bytesText } from "../core/format.ts";
import { EXPORT_FORMATS, type ExportFormat } from "../nft/exports/formats.ts";
import { CommandError, USAGE } from "./access.ts";
import type { CommandRun } from "./command.ts";

/** The file that a command is to write: its format, and where to. */
export interface WantedFile {
  readonly format: ExportFormat;
  /** Undefined for standard output. */
  readonly output: string | undefined;
}

/** Reads `--format`, `--output` and `--json`. @throws CommandError where they don't go together */
export function wantedFile({ values }: Pick<CommandRun, "values">): WantedFile {
  const format = EXPORT_FORMATS.find((one) => one === (values["format"] ?? "csv"));
  if (format === undefined) throw new CommandError(`--format: must be one of ${EXPORT_FORMATS.join(", ")}`, USAGE);
  const output = values["output"];
  if (typeof output === "string") return { format, output };
  if (values["json"] === true) throw new CommandError("--json needs --output: standard output is the file", USAGE);
  if (format === "parquet" && process.stdout.isTTY === true)
    throw new CommandError("parquet is binary and would garble the terminal: give --output", USAGE);
  return { format, output: undefined };
}

/** Writes under another name first, so that a file of that name is complete. Returns its bytes. */
export async function writeFile(
  run: Pick<CommandRun, "beforeExit" | "redraw">,
  path: string,
  pieces: AsyncIterable<Uint8Array>,
): Promise<number> {
  const part = `${path}.part`;
  run.beforeExit(() => rm(part, { force: true }));
  let bytes = 0;
  try {
    const writer = Bun.file(part).writer();
    for await (const piece of pieces) {
      writer.write(piece);
      await writer.flush();
      bytes += piece.length;
      run.redraw([`${path}  ${bytesText(bytes)}`]);
    }
    await writer.end();
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
  run.redraw([]);
  return bytes;
}

/** Takes the next piece when the last one was taken. */
export async function writeStandardOutput(pieces: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const piece of pieces) {
    await new Promise<void>((resolve, reject) => {
      process.stdout.write(piece, (error) => (error ? reject(error) : resolve()));
    });
  }
}
