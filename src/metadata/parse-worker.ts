/** The parse worker: large bodies in, text that strictly parses or a reason out, off the request thread. */
import { type RawContent, tryParse } from "./parse.ts";

declare const self: Worker;

self.onmessage = (message: MessageEvent<RawContent>) => {
  self.postMessage(tryParse(message.data));
};
