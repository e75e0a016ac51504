/**
 * Reads files that an operator names. Such a path may lead to anything: a pipe or a terminal, whose reader waits for
 * ever, a device without an end, or a file of gigabytes. Refuses all of them before it reads a byte. Bounds the levels
 * of JSON, too.
 */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from "node:fs";
import { AppError, messageOf } from "./errors.ts";

/** @throws Error in words that follow the name of the setting */
function assertBounded(found: Stats, maxBytes: number): void {
  const allowed = `it must be a regular file of at most ${maxBytes} bytes`;
  if (!found.isFile()) throw new Error(`${allowed}, and is ${kindOf(found)}`);
  if (found.size > maxBytes) throw new Error(`${allowed}, and has ${found.size}`);
}

function kindOf(found: Stats): string {
  if (found.isDirectory()) return "a folder";
  if (found.isFIFO()) return "a pipe";
  if (found.isSocket()) return "a socket";
  return "a device";
}

/** @throws AppError if the path leads to something that is no regular file. A missing file is a matter of its opener. */
export function assertRegularFile(path: string): void {
  let found: Stats | undefined;
  try {
    found = statSync(path, { throwIfNoEntry: false });
  } catch {
    // A part of the path is no folder, or may not be read. The program that opens the file says so.
  }
  if (found === undefined || found.isFile()) return;
  throw new AppError(`${path}: it must be a regular file, and is ${kindOf(found)}`, { code: "log_unavailable" });
}

/** The reason why a file can't be read by `readOperatorFile`, without reading it; undefined if there is none. */
export function faultOfFile(path: string, maxBytes: number): string | undefined {
  try {
    closeSync(openBounded(path, maxBytes));
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** Looks before it opens, because to open a device can have effects, and afterwards, because the path may have changed. */
function openBounded(path: string, maxBytes: number): number {
  assertBounded(statSync(path), maxBytes);
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    assertBounded(fstatSync(file), maxBytes);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

const READ_BYTES = 1024 * 1024;

/** The text of a file that an operator names, with no more than `maxBytes` bytes. @throws Error that says what is allowed */
export function readOperatorFile(path: string, maxBytes: number): string {
  const file = openBounded(path, maxBytes);
  try {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (;;) {
      // The size tells nothing of files of the system, which may be endless.
      const chunk = new Uint8Array(Math.min(READ_BYTES, maxBytes + 1 - length));
      const count = readSync(file, chunk);
      if (count === 0) break;
      length += count;
      if (length > maxBytes) throw new Error(`it must be a regular file of at most ${maxBytes} bytes, and has more`);
      chunks.push(chunk.subarray(0, count));
    }
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } finally {
    closeSync(file);
  }
}

/** Levels of lists and objects in an operator's JSON. The formats have at most five. */
const MAX_LEVELS = 32;

/** Parses an operator's JSON. Code that walks a deeper value would overflow the stack. @throws Error */
export function parseOperatorJson(text: string): unknown {
  let level = 0;
  // A string counts as one piece, with the brackets in it.
  for (const [piece] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/gs)) {
    if (piece === "[" || piece === "{") level++;
    else if (piece === "]" || piece === "}") level--;
    if (level > MAX_LEVELS) throw new Error(`it has lists and objects in each other, more than ${MAX_LEVELS} deep`);
  }
  return JSON.parse(text);
}
