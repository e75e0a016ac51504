/** The parse worker: large sources in, text that strictly parses or a reason out; and large bodies, their words out. */
import { type Source, tryParse } from "./parse.ts";
import { wordsOfBody } from "./words.ts";

/** What the worker can be asked. */
export type ParseTask = Source | { readonly body: Uint8Array };

declare const self: Worker;

self.onmessage = ({ data: task }: MessageEvent<ParseTask>) => {
  self.postMessage("body" in task ? wordsOfBody(task.body) : tryParse(task));
};
