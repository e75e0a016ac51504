/**
 * Finds the image library `sharp`. It is native and under the LGPL, so the program in one file doesn't contain it: that
 * program uses the library if it is installed in `node_modules` beside the program.
 */
import { createRequire } from "node:module";
import type Sharp from "sharp";
import { IS_COMPILED } from "../../../core/embedded-files.ts";

// The bundler must not see the library's name in an import, because it would then embed it.
const requireHere = createRequire(IS_COMPILED ? process.execPath : import.meta.url);

/** @throws if the library is not installed, or can't be loaded on this machine */
export const loadImageLibrary = (): typeof Sharp => requireHere("sharp");

/** True if the library is installed. Doesn't load it, because only the preview process may. */
export function hasImageLibrary(): boolean {
  try {
    requireHere.resolve("sharp");
    return true;
  } catch {
    return false;
  }
}
