/** Answers of a few kilobytes or megabytes that decompress to zeros without end. Made without compressing so much. */
import { createHash } from "node:crypto";
import { createServer, type Socket } from "node:net";
import { constants, deflateRawSync, gzipSync } from "node:zlib";

const BLOCK = 128 * 1024;
const STRETCH = 16 << 20;

/** Zeros in zstd: a block of 4 bytes repeats one byte 128 KB long. @param frames the body's frames, each a file of its own */
export function zstdBomb(bytes: number, frames = 1): Uint8Array<ArrayBuffer> {
  const count = bytes / frames / BLOCK;
  // The magic number, no checksum, a window of 2 MB.
  const header = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
  const frame = Buffer.alloc(header.length + count * 4);
  frame.set(header);
  for (let at = 0; at < count; at++) {
    const isLast = at === count - 1 ? 1 : 0;
    frame.writeUIntLE(isLast | (1 << 1) | (BLOCK << 3), header.length + at * 4, 3);
  }
  return Buffer.concat(Array.from({ length: frames }, () => frame));
}

/** Zeros in deflate, without its last block. */
export function deflateBomb(bytes: number): Uint8Array<ArrayBuffer> {
  const stretch = deflateRawSync(Buffer.alloc(STRETCH), { finishFlush: constants.Z_SYNC_FLUSH, level: 9 });
  return Buffer.concat(Array.from({ length: bytes / STRETCH }, () => stretch));
}

/** Zeros in gzip. With more than one frame, these are whole files, one behind the other. */
export function gzipBomb(bytes: number, frames = 1): Uint8Array<ArrayBuffer> {
  if (frames > 1) {
    const file = gzipSync(Buffer.alloc(bytes / frames), { level: 9 });
    return Buffer.concat(Array.from({ length: frames }, () => file));
  }
  const header = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
  return Buffer.concat([header, deflateBomb(bytes)]);
}

export interface BombServer {
  readonly url: string;
  /** What the client offered to compress. */
  readonly offered: () => string | undefined;
  stop(): void;
}

/**
 * A WebSocket server that sends one message of zeros to each client: compressed if the client allows it or `isForced`,
 * in plain otherwise.
 */
export async function startSocketBomb(bytes: number, isForced: boolean): Promise<BombServer> {
  let offered: string | undefined;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("data", (data) => {
      const request = String(data);
      offered = /^sec-websocket-extensions: (.*)\r$/im.exec(request)?.[1];
      const key = /^sec-websocket-key: (.*)\r$/im.exec(request)?.[1] ?? "";
      const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
      const isDeflated = offered?.includes("permessage-deflate") === true || isForced;
      const extension = isDeflated ? "Sec-WebSocket-Extensions: permessage-deflate\r\n" : "";
      socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
          `Sec-WebSocket-Accept: ${accept}\r\n${extension}\r\n`,
      );
      // Of a compressed message the last four bytes are left out.
      const payload = isDeflated ? deflateBomb(bytes).subarray(0, -4) : Buffer.alloc(STRETCH);
      const head = Buffer.alloc(10);
      head.set([0x80 | (isDeflated ? 0x40 : 0) | 1, 127]);
      head.writeBigUInt64BE(BigInt(isDeflated ? payload.length : bytes), 2);
      socket.write(head);
      if (isDeflated) socket.write(payload);
      else for (let at = 0; at < bytes && !socket.destroyed; at += STRETCH) socket.write(payload);
    });
  });
  const listening = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const { port } = server.address() as { readonly port: number };
  return {
    url: `ws://127.0.0.1:${port}`,
    offered: () => offered,
    stop: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
