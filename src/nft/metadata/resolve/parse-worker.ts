/**
 * Entry point of the parse worker, for inputs too large for the request thread. In: a source to parse, inline content
 * to decode, or a stored body. Out: a `ParseReply`, a `ContentReply` or `BodyText`.
 */
import { textOfBody } from "./normalize.ts";
import { type InlineSource, type ParseSource, tryContent, tryParse } from "./parse.ts";

/** A request to the worker. */
export type ParseTask = ParseSource | { readonly inline: InlineSource } | { readonly body: Uint8Array };

declare const self: Worker;

self.onmessage = ({ data: task }: MessageEvent<ParseTask>) => {
  if ("body" in task) self.postMessage(textOfBody(task.body));
  else self.postMessage("inline" in task ? tryContent(task.inline) : tryParse(task));
};
