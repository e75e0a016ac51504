/** What metadata keeps in memory stays within its bytes, however long the URIs of pictures are. */
import { heapStats } from "bun:jsc";
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/service.ts";
import { addressOf, type RunningMetadata, startMetadata } from "./support/running.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(60_000);

const A = addressOf("a");
const TOKENS = 204;
const AT_ONCE = 12;
const PICTURE_BYTES = 300_000;

let running: RunningMetadata;
afterEach(() => running.stop());

function heapBytes(): number {
  Bun.gc(true);
  return heapStats().heapSize;
}

/** A recording needs no preview. */
const soundOf = (id: number) =>
  `data:audio/mpeg;base64,${Buffer.from(`ID3${String(id).padStart(PICTURE_BYTES, "x")}`).toString("base64")}`;

test("pictures that are drawn into their URIs are not kept with them", async () => {
  const uris = Array.from({ length: TOKENS }, (_, id) => `data:application/json,{"image":"${soundOf(id)}"}`);
  const before = heapBytes();
  running = await startMetadata({ stories: { [A]: uris }, cacheBytes: 2 * 1024 * 1024 });
  await running.settled(A, TOKENS);
  const page = async (from: number) => {
    const facts = await running.page(A, AT_ONCE, { mediaItems: true, from });
    return facts.map(({ media }) => JSON.parse(media));
  };
  for (let from = 0; from < TOKENS; from += AT_ONCE) await page(from);
  await eventually("every picture was looked at", async () =>
    running.pictures.get("success") === TOKENS ? true : undefined,
  );
  await eventually("the log knows the last of them", async () =>
    (await page(TOKENS - AT_ONCE)).every(({ status }) => status === "success") ? true : undefined,
  );
  for (let from = 0; from < TOKENS; from += AT_ONCE) {
    const shown = await page(from);
    expect(shown.map(({ original_media_url: uri }, index) => uri === soundOf(from + index))).not.toContain(false);
    expect(new Set(shown.map(({ status }) => status))).toEqual(new Set(["success"]));
  }
  // Three times as much as all of them, when they were kept; the bytes of the caches and some code now.
  expect((heapBytes() - before) / (TOKENS * PICTURE_BYTES)).toBeLessThan(1);
});
