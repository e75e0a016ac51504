/** A client of the WebSocket channel that keeps all messages. */
import WebSocket from "ws";
import { eventually, TEST_KEY, type TestService } from "./service.ts";

export interface Message {
  readonly type: string;
  readonly [key: string]: unknown;
}

export interface SocketClient {
  readonly messages: Message[];
  readonly socket: WebSocket;
  readonly closed: Promise<{ code: number; reason: string }>;
  send(message: unknown): void;
  /** Resolves with the n-th message of a type when it has arrived. */
  next(type: string, n?: number): Promise<Message>;
}

export async function connect(target: Pick<TestService, "socketUrl">, key = TEST_KEY): Promise<SocketClient> {
  const messages: Message[] = [];
  const socket = new WebSocket(target.socketUrl, { headers: { "X-Api-Key": key } });
  const closed = new Promise<{ code: number; reason: string }>((resolve) =>
    socket.on("close", (code, reason) => resolve({ code, reason: String(reason) })),
  );
  socket.on("message", (data) => messages.push(JSON.parse(String(data))));
  await new Promise((resolve, reject) => {
    socket.on("open", resolve);
    socket.on("error", reject);
  });
  const next = (type: string, n = 0) =>
    eventually(`message ${n} of type ${type} in ${JSON.stringify(messages)}`, async () =>
      messages.filter((message) => message.type === type).at(n),
    );
  return { messages, socket, closed, next, send: (message) => socket.send(JSON.stringify(message)) };
}

/** A text frame as clients send it. */
export const maskedFrame = (text: string): Buffer => frameOf(0x1, Buffer.from(text));

/** The answer to a ping. */
export const pongFrame = (payload: Buffer): Buffer => frameOf(0xa, payload);

function frameOf(opcode: number, payload: Buffer): Buffer {
  const mask = Buffer.from([1, 2, 3, 4]);
  const { length } = payload;
  const size = length < 126 ? [0x80 | length] : [0x80 | 126, length >> 8, length & 255];
  const head = Buffer.from([0x80 | opcode, ...size]);
  return Buffer.concat([head, mask, payload.map((byte, i) => byte ^ (mask[i % 4] as number))]);
}
