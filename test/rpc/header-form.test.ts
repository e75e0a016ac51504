/** A chain whose headers stop making their hash, by a fork that appends a field, as Amsterdam's will not be the last. */
import { describe, expect, test } from "bun:test";
import { encodeRlp, keccak256 } from "ethers";
import { AppError } from "../../src/core/errors.ts";
import type { Hash } from "../../src/core/hex.ts";
import { HEADER_FIELDS, headerHash } from "../../src/rpc/decode/header-hash.ts";
import type { BlockHeader } from "../../src/rpc/port.ts";
import { HeaderForm } from "../../src/rpc/reading/header-form.ts";
import { sepolia } from "../fixtures/headers.json";

const [, AMSTERDAM] = sepolia as unknown as [unknown, Readonly<Record<string, string>>];
const HEAD = 5_000_000;

/** A header of a later fork, with one field more, and the hash that it has then. */
function ofNextFork(number: number): Readonly<Record<string, string>> {
  const header = { ...AMSTERDAM, number: `0x${number.toString(16)}`, fieldOfTheNextFork: "0x1234" };
  const scalar = new Set(["difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed"]);
  for (const name of ["excessBlobGas", "slotNumber"]) scalar.add(name);
  const even = (hex: string) => (hex.length % 2 === 0 ? hex : `0x0${hex.slice(2)}`);
  const encoded = [...HEADER_FIELDS, "fieldOfTheNextFork"].map((name) => {
    const value = (header as Record<string, string>)[name] as string;
    return scalar.has(name) ? (BigInt(value) === 0n ? "0x" : even(`0x${BigInt(value).toString(16)}`)) : value;
  });
  return { ...header, hash: keccak256(encodeRlp(encoded)) };
}

const isHashed = (header: Readonly<Record<string, string>>) => headerHash(header) === (header["hash"] as Hash);
const newest = (number: number, hashed: boolean): BlockHeader =>
  ({ number, hash: "0x", parentHash: "0x", timestamp: 0, logsBloom: "0x", isHashed: hashed }) as unknown as BlockHeader;

/** The form of a chain whose headers make their hash below a block. */
function formOf(firstUnhashed: number) {
  const [asked, changed]: [number[], number[]] = [[], []];
  const form = new HeaderForm({
    isHashedAt: async (number) => {
      asked.push(number);
      return number < firstUnhashed;
    },
    onChanged: (block) => changed.push(block),
  });
  return { form, asked, changed };
}

test("a header with a field that no release knows yet does not make its hash here", () => {
  expect(isHashed(AMSTERDAM)).toBe(true);
  expect(isHashed(ofNextFork(HEAD))).toBe(false);
});

describe("a chain whose newest headers don't make their hash", () => {
  test("is found to have changed at the block of its fork, by at most forty headers, once", async () => {
    for (const fork of [HEAD - 1, HEAD - 700, HEAD - 60_000, 2_000_001, 60_000]) {
      const { form, asked, changed } = formOf(fork);
      for (let look = 0; look < 3; look++) {
        form.note(newest(HEAD + look, false));
        await form.explain();
      }
      expect([form.changedAt, changed]).toEqual([fork, [fork]]);
      expect(asked.length).toBeLessThanOrEqual(40);
    }
  });

  test("is known to have changed to all that ask while it is searched for, by one search", async () => {
    const { form, asked, changed } = formOf(HEAD - 700);
    form.note(newest(HEAD, false));
    const known = async () => {
      await form.explain();
      return form.changedAt;
    };
    const first = known();
    // The probes are answered, and the block is still searched for between two of them.
    while (asked.length < 9) await Promise.resolve();
    expect(await Promise.all([known(), first, known()])).toEqual([HEAD - 700, HEAD - 700, HEAD - 700]);
    expect(changed).toEqual([HEAD - 700]);
    expect(asked.length).toBeLessThanOrEqual(40);
  });

  test("is searched for again after no endpoint told of a block", async () => {
    let isDown = true;
    const changed: number[] = [];
    const form = new HeaderForm({
      isHashedAt: async (number) => {
        // Blocks that the first probes don't ask for.
        if (isDown && number % 2 === 1) throw new AppError("no endpoint answers", { code: "unavailable" });
        return number < HEAD - 700;
      },
      onChanged: (block) => changed.push(block),
    });
    form.note(newest(HEAD, false));
    await expect(form.explain()).rejects.toThrow("no endpoint answers");
    isDown = false;
    await form.explain();
    expect([form.changedAt, changed]).toEqual([HEAD - 700, [HEAD - 700]]);
  });

  test("has headers of another form, which is no alarm, if older ones don't make theirs either", async () => {
    const { form, asked, changed } = formOf(0);
    for (let look = 0; look < 3; look++) {
      form.note(newest(HEAD + look, false));
      await form.explain();
    }
    expect([form.changedAt, changed]).toEqual([undefined, []]);
    expect(asked.length).toBeLessThanOrEqual(8);
  });

  test("has changed while the process runs once three blocks in a row don't, and is well again with the first that does", async () => {
    const { form, asked, changed } = formOf(0);
    form.note(newest(HEAD, true));
    for (const [number, alarm] of [
      [1, undefined],
      [1, undefined],
      [2, undefined],
      [3, HEAD + 1],
    ] as const) {
      form.note(newest(HEAD + number, false));
      await form.explain();
      expect(form.changedAt).toBe(alarm);
    }
    expect([changed, asked]).toEqual([[HEAD + 1], []]);
    form.note(newest(HEAD + 4, true));
    expect(form.changedAt).toBeUndefined();
  });
});
