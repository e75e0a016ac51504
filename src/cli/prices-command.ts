/** `prices`: the stored prices of a token as a file. */
import { bytesText } from "../core/format.ts";
import { FileThread } from "../nft/exports/file-thread.ts";
import { type Column, type ExportFormat, type ExportRow, ROWS_PER_PIECE } from "../nft/exports/formats.ts";
import { formatDouble } from "../prices/market/rational.ts";
import type { NamedContract, ServiceAccess } from "./access.ts";
import { CHAIN, CHAIN_HELP, type Command, type CommandRun, contractOf } from "./command.ts";
import { wantedFile, writeFile, writeStandardOutput } from "./file-output.ts";

/** Most points of one answer, so that each block of a window has its own. */
const WINDOW = 200;

const COLUMNS: readonly Column[] = [
  { name: "block", type: "count" },
  { name: "time", type: "text" },
  { name: "usd_price", type: "share" },
  { name: "pool", type: "text" },
];

export const pricesCommand: Command = {
  name: "prices",
  usage: "prices <address> [--from T] [--to T] [--format csv] [--chain eth] [--output file]",
  summary: "Writes the stored prices of a token: one for each block at which it was read",
  maxWords: 1,
  scope: "read",
  options: {
    ...{ ...CHAIN, from: { type: "string" }, to: { type: "string" }, format: { type: "string" } },
    ...{ output: { type: "string" } },
  },
  help: {
    "--from <block or time>": "First block, or an ISO time; 24 hours before the end by default",
    "--to <block or time>": "Last block, or an ISO time; the newest one by default",
    "--format <name>": "csv (by default), jsonl or parquet",
    "--output <file>": "A file; standard output by default",
    ...CHAIN_HELP,
  },
  run: async (run) => {
    const contract = contractOf(run, "prices");
    const { format, output } = wantedFile(run);
    await using service = await run.open({ contracts: [contract], isOfLogAlone: true });
    const pieces = piecesOf(run, service, contract, format);
    if (output === undefined) {
      await writeStandardOutput(pieces);
      return 0;
    }
    const bytes = await writeFile(run, output, pieces);
    const answer = { ...contract, file: output, bytes };
    run.print(run.values["json"] === true ? JSON.stringify(answer) : `${output}  ${bytesText(bytes)}`);
    return 0;
  },
};

async function* piecesOf(
  { values }: CommandRun,
  service: ServiceAccess,
  contract: NamedContract,
  format: ExportFormat,
): AsyncGenerator<Uint8Array> {
  const facts = Object.entries({ ...contract }).map(([name, value]) => [name, String(value)] as const);
  const file = new FileThread().open({ format, columns: COLUMNS, facts });
  const read = (from: string | number | undefined, to: string | number | undefined, points: number) =>
    service.ask((client) =>
      client.priceSeries(contract, {
        ...{ points, stored: true },
        ...(from === undefined ? {} : { from }),
        ...(to === undefined ? {} : { to }),
      }),
    );
  const text = (name: string) => values[name] as string | undefined;
  try {
    let rows: ExportRow[] = [];
    const whole = await read(text("from"), text("to"), 1);
    const [first, last] = [whole.fromBlock ?? 0, whole.toBlock ?? 0];
    for (let from = first; from <= last; ) {
      const { gaps = [] } = await read(from, last, 1);
      const gap = gaps.find(({ fromBlock }) => fromBlock <= from);
      if (gap !== undefined) {
        from = gap.toBlock + 1;
        continue;
      }
      // Up to the next gap, each block in a window of its own.
      const end = (gaps[0]?.fromBlock ?? last + 1) - 1;
      for (; from <= end; from += WINDOW) {
        const { result } = await read(from, Math.min(end, from + WINDOW - 1), WINDOW);
        rows.push(...result.map((point) => rowOf(point, format)));
        if (rows.length < ROWS_PER_PIECE) continue;
        yield await file.piece({ rows });
        rows = [];
      }
      from = end + 1;
    }
    if (rows.length > 0) yield await file.piece({ rows });
    const rest = await file.end();
    if (rest.length > 0) yield rest;
  } finally {
    file.close();
  }
}

/** A text file has the digits of a price without an exponent. */
function rowOf(
  { block, time, usdPrice, pool }: { block: number; time: string; usdPrice: number | null; pool: string | null },
  format: ExportFormat,
): ExportRow {
  const isText = format === "csv" && usdPrice !== null;
  return [block, time, isText ? formatDouble(usdPrice) : usdPrice, pool];
}
