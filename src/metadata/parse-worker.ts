/** The parse worker: large sources in, text that strictly parses or a reason out, off the request thread. */
import { type Source, tryParse } from "./parse.ts";

declare const self: Worker;

self.onmessage = (message: MessageEvent<Source>) => {
  self.postMessage(tryParse(message.data));
};
