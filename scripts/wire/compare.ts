/** Compares what a checkout answers with the recording that is kept, over one engine of the log. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "../../test/support/postgres.ts";
import { type Exchange, recordWire } from "./record.ts";
import { startRecordedChain } from "./recorded-chain.ts";

export const ENGINES = ["sqlite", "postgres"] as const;
export type Engine = (typeof ENGINES)[number];

/** One exchange a line, in the order of recording. */
export const KEPT = join(import.meta.dir, "../../test/fixtures/wire.jsonl");

export async function keptExchanges(): Promise<Exchange[]> {
  const lines = (await Bun.file(KEPT).text()).trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Exchange);
}

/** Records a checkout over one engine, on a chain of its own. */
export async function recordCheckout(engine: Engine, source: string): Promise<Exchange[]> {
  const folder = mkdtempSync(join(tmpdir(), "wire-"));
  const recorded = await startRecordedChain();
  const postgres = engine === "postgres" ? await startPostgres() : undefined;
  try {
    const logUrl = (await postgres?.createDatabase()) ?? `sqlite://${join(folder, "events.db")}`;
    return await recordWire({ recorded, logUrl, source });
  } finally {
    await postgres?.stop();
    await recorded.anvil.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A text for each exchange that differs: its request, and each leaf before and after. */
export function differences(kept: readonly Exchange[], now: readonly Exchange[]): string[] {
  return Array.from({ length: Math.max(kept.length, now.length) }, (_, i) => {
    const leaves = difference(kept[i], now[i], "");
    return leaves === "" ? "" : `${kept[i]?.request ?? now[i]?.request}\n${leaves}`;
  }).filter((text) => text !== "");
}

function difference(before: unknown, after: unknown, path: string): string {
  if (JSON.stringify(before) === JSON.stringify(after)) return "";
  if (!isNested(before) || !isNested(after)) {
    return `  ${path}\n    - ${JSON.stringify(before)}\n    + ${JSON.stringify(after)}\n`;
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const leaves = names.map((name) => difference(before[name], after[name], `${path}.${name}`)).join("");
  return leaves === "" ? `  ${path}: the order of fields\n` : leaves;
}

function isNested(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
