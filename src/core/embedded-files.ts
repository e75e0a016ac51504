/**
 * Files inside the program that `scripts/compile.ts` makes: assets of pages, and the hash of the sources, which the
 * sources read from their own folders otherwise. There are none while the service runs from its sources.
 */
import { dirname, join } from "node:path";

/** True in the program that `scripts/compile.ts` makes. The runtime shows its files in a folder of this name. */
export const IS_COMPILED = Bun.main.startsWith("/$bunfs/");

/** The argument with which that program starts itself as the preview process: it has no other file to start. */
export const PREVIEW_COMMAND = "preview-process";

/** The path of a file inside the program. It can be read like any other file. */
export const embeddedPath = (name: string): string => join(dirname(Bun.main), name);
