/** Reads how much memory another process uses, from /proc. Only Linux has that; elsewhere the size is unknown. */
import { readFileSync } from "node:fs";

/** Resident memory of a process in bytes; undefined if the system doesn't report it, or the process has ended. */
export function residentBytes(pid: number): number | undefined {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
  } catch {
    return undefined;
  }
}
