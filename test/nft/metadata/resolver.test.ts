/** Inline content: its decoding, and that a batch of large items doesn't delay other work. */
import { afterEach, expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import { Semaphore } from "../../../src/core/semaphore.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { MetadataFailure } from "../../../src/nft/metadata/resolve/failure.ts";
import { Fetcher } from "../../../src/nft/metadata/resolve/fetcher.ts";
import { Hosts } from "../../../src/nft/metadata/resolve/host-limits.ts";
import { Parser } from "../../../src/nft/metadata/resolve/parser.ts";
import { type Resolution, Resolver } from "../../../src/nft/metadata/resolve/resolver.ts";
import { systemWire } from "../../../src/nft/metadata/resolve/wire.ts";

const { signal } = new AbortController();
const token = { kind: TransferKind.erc721, id: 1n, collection: "a" };

const parser = new Parser({ clock: systemClock });
afterEach(() => parser.close());

const resolver = new Resolver({
  fetcher: new Fetcher({
    wire: systemWire,
    clock: systemClock,
    allowPrivate: false,
    gateways: { ipfs: [], arweave: [] },
  }),
  hosts: new Hosts(systemClock, 1),
  parser,
  slots: new Semaphore(64),
  gateways: { ipfs: [], arweave: [] },
});

async function outcomeOf(uri: string): Promise<Resolution | string> {
  try {
    return await resolver.metadata(uri, token, signal, async (resolution) => resolution);
  } catch (error) {
    return error instanceof MetadataFailure ? error.reason : String(error);
  }
}

test("decodes a batch of small and large inline content only after other waiting work had its turn", async () => {
  const json = JSON.stringify({ name: "x".repeat(500_000) });
  const svg = `<svg xmlns="http://www.w3.org/2000/svg"><desc>${"x".repeat(500_000)}</desc></svg>`;
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  /** Three megabytes that are slow to scan character by character. */
  const spaces = `data:application/json;base64,${" a".repeat(1_500_000)}`;
  const expected: [string, Resolution | string][] = [
    [` \0${json}\0`, { text: json, isRepaired: false }],
    [`data:application/json,${json}`, { text: json, isRepaired: false }],
    [`data:application/json;base64,${base64(json).replace(/.{76}/g, "$&\r\n")}=\n=`, { text: json, isRepaired: false }],
    [
      `data:application/json;base64,${encodeURIComponent(base64('{"name":"?>"}'))}`,
      { text: '{"name":"?>"}', isRepaired: false },
    ],
    [`\n${svg}`, { image: `data:image/svg+xml;base64,${base64(svg)}` }],
    [`data:image/svg+xml;base64,${base64(svg)}`, { image: `data:image/svg+xml;base64,${base64(svg)}` }],
    [`data:application/json;base64,${base64(json)}.`, "bad_encoding"],
    [`data:application/json,${"x".repeat(40_000_000)}`, "too_large"],
    ...Array.from({ length: 40 }, (): [string, string] => [spaces, "too_large"]),
  ];
  const started = performance.now();
  const outcomes = expected.map(([uri]) => outcomeOf(uri));
  // Up to here the batch was only requested. No item has been decoded on this thread.
  expect(performance.now() - started).toBeLessThan(250);
  expect(await Promise.all(outcomes)).toEqual(expected.map(([, outcome]) => outcome));
});
