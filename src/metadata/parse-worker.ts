/**
 * The parse worker: large sources in, text that strictly parses or a reason out; inline content in, its bytes out; and large
 * bodies, their words out.
 */
import { type InlineSource, type Source, tryContent, tryParse } from "./parse.ts";
import { wordsOfBody } from "./words.ts";

/** What the worker can be asked. */
export type ParseTask = Source | { readonly inline: InlineSource } | { readonly body: Uint8Array };

declare const self: Worker;

self.onmessage = ({ data: task }: MessageEvent<ParseTask>) => {
  if ("body" in task) self.postMessage(wordsOfBody(task.body));
  else self.postMessage("inline" in task ? tryContent(task.inline) : tryParse(task));
};
