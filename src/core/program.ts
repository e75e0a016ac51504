/**
 * The words by which this program was started, for texts that tell which command to use. A command of the command line
 * follows them.
 */
import { basename, relative } from "node:path";
import { IS_COMPILED } from "./embedded-files.ts";

interface StartedProgram {
  /** The program's own file, and the one that it runs: `process.execPath` and `Bun.main`. */
  readonly execPath: string;
  readonly main: string;
  readonly folder: string;
  readonly isCompiled: boolean;
  /** The package manager's script that runs, such as `start`; undefined without one. */
  readonly script: string | undefined;
  /** Version of Bun if npm has brought it for this run; undefined otherwise. */
  readonly byNpx: string | undefined;
}

/** Words for a shell in the folder from which the program was started. */
export function programOf({ execPath, main, folder, isCompiled, script, byNpx }: StartedProgram): string {
  // Its folder tells clients something about the machine.
  if (isCompiled) return basename(execPath);
  const bun = byNpx === undefined ? "bun" : `npx --yes bun@${byNpx}`;
  return script === undefined ? `${bun} ${relative(folder, main) || main}` : `${bun} run cli`;
}

/** The words for this process. */
export const PROGRAM: string = programOf({
  ...{ execPath: process.execPath, main: Bun.main, folder: process.cwd(), isCompiled: IS_COMPILED },
  script: process.env["npm_lifecycle_event"],
  // npm keeps what it brings for one run in a folder of this name.
  byNpx: process.execPath.includes("/_npx/") ? Bun.version : undefined,
});
