/**
 * Ties the life of a child process to ours, even when we are killed with SIGKILL. A second, tiny child blocks on a
 * pipe that only we hold: when we go away, however that happens, the pipe closes and it ends the guarded process.
 * In: a process id and what to do about it. Out: a handle to dismiss the guard after an ordinary stop.
 */

export interface Guard {
  /** Ends the guard without touching the guarded process. Call it once that process has been stopped. */
  dismiss(): void;
}

interface GuardOptions {
  pid: number;
  /** POSIX signal name without the SIG prefix. */
  signal: "KILL" | "QUIT" | "TERM";
  /** A directory to delete once the guarded process is gone. */
  removeAfterwards?: string;
}

// The guard ignores the signals that a terminal sends to the whole process group: it has to outlive us. It waits only
// so long for the guarded process to vanish, since a dead one whose parent is gone may stay in the table unreaped.
const SCRIPT = `trap '' INT TERM HUP
read _
kill -"$2" "$1" 2>/dev/null
[ -n "$3" ] || exit 0
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" 2>/dev/null || break; sleep 0.2; done
rm -rf "$3"`;

/** Starts a guard that signals `pid` when this process ends. It never keeps this process alive. */
export function guardChild({ pid, signal, removeAfterwards = "" }: GuardOptions): Guard {
  const shell = Bun.spawn(["/bin/sh", "-c", SCRIPT, "guard", String(pid), signal, removeAfterwards], {
    stdin: "pipe",
    stdout: "ignore",
    stderr: "ignore",
  });
  shell.unref();
  return { dismiss: () => shell.kill("SIGKILL") };
}
