/** Metadata's memory stays within its bound, however long the URIs of pictures are. */
import { heapStats } from "bun:jsc";
import { afterEach, expect, test } from "bun:test";
import { addressOf, type RunningMetadata, startMetadata } from "../../support/metadata/running.ts";
import { eventually } from "../../support/service.ts";

const A = addressOf("a");
const TOKENS = 204;
/** As many as a page has room for. */
const AT_ONCE = 2;
const PICTURE_BYTES = 300_000;

let running: RunningMetadata;
afterEach(() => running.stop());

function heapBytes(): number {
  Bun.gc(true);
  return heapStats().heapSize;
}

/** A recording, because it needs no preview. */
const soundOf = (id: number) =>
  `data:audio/mpeg;base64,${Buffer.from(`ID3${String(id).padStart(PICTURE_BYTES, "x")}`).toString("base64")}`;

test("does not keep pictures that are inline in their URIs in memory", async () => {
  const uris = Array.from({ length: TOKENS }, (_, id) => `data:application/json,{"image":"${soundOf(id)}"}`);
  const before = heapBytes();
  running = await startMetadata({ stories: { [A]: uris }, cacheBytes: 2 * 1024 * 1024 });
  await running.settled(A, TOKENS);
  const page = async (from: number) => {
    const facts = await running.page(A, AT_ONCE, { mediaItems: true, from });
    return facts.map(({ media }) => JSON.parse(media));
  };
  for (let from = 0; from < TOKENS; from += AT_ONCE) await page(from);
  await eventually("every picture was examined", async () =>
    running.pictures.get("success") === TOKENS ? true : undefined,
  );
  await eventually("the log contains the last outcomes", async () =>
    (await page(TOKENS - AT_ONCE)).every(({ status }) => status === "success") ? true : undefined,
  );
  for (let from = 0; from < TOKENS; from += AT_ONCE) {
    const shown = await page(from);
    expect(shown.map(({ original_media_url: uri }, index) => uri === soundOf(from + index))).not.toContain(false);
    expect(new Set(shown.map(({ status }) => status))).toEqual(new Set(["success"]));
  }
  // The ratio would be three if the pictures were kept. Caches and compiled code take the rest.
  expect((heapBytes() - before) / (TOKENS * PICTURE_BYTES)).toBeLessThan(1);
});
