/** How much memory another process has at this moment, where the system tells (Linux). */
import { readFileSync } from "node:fs";

/** Bytes of its memory that are in use; undefined where nobody says, or when it has ended. */
export function residentBytes(pid: number): number | undefined {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
  } catch {
    return undefined;
  }
}
