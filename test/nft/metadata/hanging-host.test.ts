/** A host that hangs on some paths serves its others, to each collection. Metadata runs as in the service. */
import { afterEach, expect, test } from "bun:test";
import { addressOf, startMetadata } from "../../support/metadata/running.ts";
import { eventually } from "../../support/service.ts";

const [DEAD, MIXED, GOOD] = [addressOf("a"), addressOf("b"), addressOf("c")];
const COUNT = 20;
/** Forty hanging requests fill both lanes of the host until they time out, after ten seconds. Twice that is soon. */
const SOON_MS = 20_000;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (let close = closers.pop(); close !== undefined; close = closers.pop()) await close();
});

/** A server that leaves each request below `/hang` without an answer. */
function hangingServer(): string {
  const open = new Set<() => void>();
  const server = Bun.serve({
    port: 0,
    idleTimeout: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url);
      if (pathname.startsWith("/hang")) await new Promise<void>((resolve) => open.add(resolve));
      return Response.json({ name: pathname });
    },
  });
  closers.push(async () => {
    for (const end of open) end();
    await server.stop(true);
  });
  return `http://127.0.0.1:${server.port}`;
}

const urls = (base: string, path: string) => Array.from({ length: COUNT }, (_, id) => `${base}/${path}/${id}`);

test("resolves the documents that answer, beside as many that hang, and those of other collections", async () => {
  const base = hangingServer();
  const mixed = urls(base, "hang").flatMap((url, id) => [url, `${base}/good/${id}`]);
  const stories = { [DEAD]: urls(base, "hang-too"), [MIXED]: mixed, [GOOD]: urls(base, "good") };
  const began = performance.now();
  const running = await startMetadata({ stories });
  closers.push(() => running.stop());
  const resolved = async (address: typeof GOOD, count: number): Promise<number> => {
    const facts = await running.page(address, count);
    return facts.filter(({ metadata }) => metadata.includes("/good/")).length;
  };
  await eventually(
    "all good documents are resolved",
    async () => {
      const [beside, apart] = [await resolved(MIXED, 2 * COUNT), await resolved(GOOD, COUNT)];
      return beside === COUNT && apart === COUNT ? true : undefined;
    },
    60_000,
  );
  expect(performance.now() - began).toBeLessThan(SOON_MS);
});
