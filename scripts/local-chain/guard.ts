/**
 * Ends a child process when this process ends, even by SIGKILL. A second, tiny child blocks on a pipe that only this
 * process holds. The pipe closes when this process ends, and the second child then ends the guarded one.
 * In: a process id and a signal. Out: a handle that dismisses the guard after an ordinary stop.
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

// The guard ignores the signals that a terminal sends to the whole process group: it must outlive this process. It waits
// at most two seconds for the guarded process to end: the system may list a dead process whose parent is gone.
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
