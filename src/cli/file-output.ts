/** Writes a file that is made while it is read, to a path or to standard output. */
import { rename, rm } from "node:fs/promises";
import { bytesText } from "../core/format.ts";
import type { CommandRun } from "./command.ts";

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
