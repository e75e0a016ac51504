/** The log of each released format replays to the same state as on the day it was frozen. */
import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type FrozenRecord, replayFrozen } from "../support/frozen.ts";

const FOLDER = join(import.meta.dir, "../fixtures");
const files = readdirSync(FOLDER).filter((file) => /^log-\d+\.json$/.test(file));

describe("frozen logs", () => {
  test("include one of the current format", () => {
    expect(files).toContain("log-1.json");
  });
  for (const file of files) {
    test(`replays ${file} to the same state as when it was frozen`, async () => {
      const { records, replay } = (await Bun.file(join(FOLDER, file)).json()) as {
        records: FrozenRecord[];
        replay: Record<string, unknown>;
      };
      expect(records.length).toBeGreaterThan(20);
      expect(replayFrozen(records)).toEqual(replay);
    });
  }
});
