/** Answers that decompress to gigabytes: each client of the network refuses or cuts them, in little memory. */
import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { brotliCompressSync, constants, deflateSync, gzipSync } from "node:zlib";
import { LIMITS } from "../../src/config.ts";
import { gzipBomb, startSocketBomb, zstdBomb } from "../support/bombs.ts";

/** What the process of the service may grow by. */
const MOST_MB = 256;
const HUGE = 2 ** 31;

const started: { stop(): unknown }[] = [];
afterEach(async () => {
  for (const one of started.splice(0)) await one.stop();
});

const FAST = { [constants.BROTLI_PARAM_QUALITY]: 1 };

function serve(bytes: Uint8Array, encoding: string): string {
  const headers = { "content-encoding": encoding, "content-type": "application/json" };
  const body = new Uint8Array(bytes);
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(body, { headers }) });
  started.push({ stop: () => server.stop(true) });
  return `http://127.0.0.1:${server.port}`;
}

/** Asks once in a process of its own. */
async function asked(client: string, url: string, maxBytes: number): Promise<{ grownMb: number; outcome: string }> {
  const program = join(import.meta.dir, "../support/bombed.ts");
  const child = Bun.spawn([process.execPath, program, client, url, String(maxBytes)], { stderr: "inherit" });
  started.push({ stop: () => child.kill() });
  return JSON.parse(await new Response(child.stdout).text());
}

const BOMBS: Readonly<Record<string, () => readonly [Uint8Array, string]>> = {
  "zstd in one frame": () => [zstdBomb(HUGE), "zstd"],
  "zstd in a thousand frames": () => [zstdBomb(HUGE, 1_024), "zstd"],
  "zstd within zstd": () => [Bun.zstdCompressSync(zstdBomb(HUGE)), "zstd"],
  "gzip in one file": () => [gzipBomb(HUGE), "gzip"],
  "gzip in many files": () => [gzipBomb(HUGE, 128), "gzip"],
  "gzip within gzip": () => [gzipSync(gzipBomb(HUGE)), "gzip"],
  brotli: () => [brotliCompressSync(Buffer.alloc(512 << 20), { params: FAST }), "br"],
  deflate: () => [deflateSync(Buffer.alloc(512 << 20)), "deflate"],
};

const CLIENTS = { archive: 0, endpoint: LIMITS.maxRpcAnswer, metadata: 1 << 20 } as const;

for (const [client, maxBytes] of Object.entries(CLIENTS)) {
  describe(`the client of an ${client === "metadata" ? "NFT's metadata" : client}`, () => {
    for (const [name, make] of Object.entries(BOMBS)) {
      test(`grows by less than ${MOST_MB} MB at ${name}`, async () => {
        const { grownMb, outcome } = await asked(client, serve(...make()), maxBytes);
        expect(outcome).not.toMatch(/^a part/);
        expect(grownMb).toBeGreaterThan(0);
        expect(grownMb).toBeLessThan(MOST_MB);
      }, 30_000);
    }
  });
}

test("an endpoint's answer beyond the limit is refused as a range that is too large", async () => {
  const { outcome } = await asked("endpoint", serve(zstdBomb(HUGE), "zstd"), LIMITS.maxRpcAnswer);
  expect(outcome).toContain("the answer is too large");
}, 300_000);

describe("an endpoint over a WebSocket", () => {
  for (const [form, isForced] of [
    ["that would compress", false],
    ["that compresses although nobody asked", true],
  ] as const) {
    test(`${form} grows the process by less than ${MOST_MB} MB`, async () => {
      const bomb = await startSocketBomb(HUGE, isForced);
      started.push(bomb);
      const { grownMb, outcome } = await asked("endpoint", bomb.url, LIMITS.maxRpcAnswer);
      expect(bomb.offered()).toBeUndefined();
      expect(outcome).toContain("the endpoint's socket failed");
      expect(grownMb).toBeLessThan(MOST_MB);
    }, 30_000);
  }
});
