/** A parse worker that loops forever on a body that begins with `stuck`, and dies on one that begins with `dies`. */
import { textOfBody } from "../../../src/nft/metadata/resolve/normalize.ts";
import { type RawContent, tryParse } from "../../../src/nft/metadata/resolve/parse.ts";

declare const self: Worker;

self.onmessage = ({ data: task }: MessageEvent<RawContent | { readonly body: Uint8Array }>) => {
  const start = new TextDecoder().decode(("body" in task ? task.body : task.bytes).subarray(0, 5));
  if (start === "dies:") throw new Error("the worker dies");
  while (start === "stuck");
  self.postMessage("body" in task ? textOfBody(task.body) : tryParse(task));
};
