/** Compiles standard JSON input to standard JSON output. Loads the compiler once, for any number of inputs. */
import solc from "solc";

declare const self: Worker;

self.onmessage = ({ data }: MessageEvent<string>) => {
  self.postMessage(solc.compile(data));
};
