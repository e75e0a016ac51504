/** A parse worker that never comes back from a body that begins with `stuck`, dies of one that begins with `dies`. */
import { type RawContent, tryParse } from "../../../src/metadata/parse.ts";

declare const self: Worker;

self.onmessage = (message: MessageEvent<RawContent>) => {
  const start = new TextDecoder().decode(message.data.bytes.subarray(0, 5));
  if (start === "dies:") throw new Error("the worker dies");
  while (start === "stuck");
  self.postMessage(tryParse(message.data));
};
