/**
 * The decode worker: raw `eth_getLogs` answers in, columns out, off the request thread; buffers are transferred, not
 * copied.
 */
import { yieldToRequests } from "../core/own-thread.ts";
import { type DecodeRequest, decodeAnswer } from "./decode-answer.ts";

declare const self: Worker;

yieldToRequests();

self.onmessage = (message: MessageEvent<DecodeRequest>) => {
  const reply = decodeAnswer(message.data);
  if ("range" in reply) self.postMessage(reply, [reply.range.transfers.buffer as ArrayBuffer]);
  else self.postMessage(reply);
};
