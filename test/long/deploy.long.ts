/**
 * The Dockerfile's steps in an empty root folder, by `scripts/deploy/try.sh`: the service that they make runs as a user
 * without rights, indexes, makes previews, serves its pages, and stops in order.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { seedCollections } from "../../scripts/local-chain/collections.ts";
import { NFT_ADDRESS } from "../../src/core/examples.ts";
import { eventually } from "../support/service.ts";

const SCRIPT = join(import.meta.dir, "../../scripts/deploy/try.sh");
/** Exit code of the script on a machine that permits neither chroot nor mounts. */
const CANNOT = 3;

let anvil: Anvil;
beforeAll(async () => {
  anvil = await startAnvil();
  await seedCollections(anvil, { drawnAt: NFT_ADDRESS });
}, 300_000);
afterAll(() => anvil?.stop());

test("makes an image of less than 60 MB of packages, which serves as an unprivileged user", async () => {
  // While the service serves, the script waits for the end of its input.
  const child = Bun.spawn([SCRIPT, "sh", "-c", 'echo "serving $SERVICE_URL with $SERVICE_KEY"; cat'], {
    env: { ...process.env, BUN: process.execPath, RPC_URL_ETH: anvil.url, LOG_LEVEL: "warn" },
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  const { promise: serving, resolve, reject } = Promise.withResolvers<{ url: string; key: string }>();
  let out = "";
  const reading = (async () => {
    const decoder = new TextDecoder();
    for await (const bytes of child.stdout) {
      out += decoder.decode(bytes, { stream: true });
      const [, url, key] = /^serving (\S+) with (\S+)$/m.exec(out) ?? [];
      if (url !== undefined && key !== undefined) resolve({ url, key });
    }
    reject(new Error(`the script ended before the service served:\n${out}`));
  })();
  const errors = new Response(child.stderr).text();
  try {
    const { url, key } = await serving;
    const get = (path: string) => fetch(`${url}${path}`, { headers: { "x-api-key": key } });
    const records = `/api/v2/nft/${NFT_ADDRESS}?limit=1&media_items=true`;
    const preview = await eventually(
      "a picture of the collection has a preview",
      async () => {
        const { result } = (await (await get(records)).json()) as {
          result: { media: { media_collection: { low: { url: string } } | null } }[];
        };
        return result[0]?.media.media_collection?.low.url;
      },
      60_000,
    );
    const path = new URL(preview).pathname;
    for (const place of [path, "/console/app.js", "/swagger/swagger-ui-bundle.js", "/health/ready", "/api/status"]) {
      const response = await get(place);
      expect([place, response.status, (await response.arrayBuffer()).byteLength > 0]).toEqual([place, 200, true]);
    }
  } catch (error) {
    child.stdin.end();
    // Without root there is no chroot, and nothing of this can be tried. The script says so.
    if ((await child.exited) !== CANNOT || process.getuid?.() === 0) throw new Error(await errors, { cause: error });
    expect(await errors).toContain("try.sh: ");
    return;
  }
  child.stdin.end();
  await reading;
  expect([await child.exited, out]).toEqual([0, expect.stringContaining("stopped in order; the log is in /data")]);
  expect(out).toContain("writable: /data and /tmp");
  expect(Number(/packages: (\d+) MB/.exec(out)?.[1])).toBeLessThan(60);
});
