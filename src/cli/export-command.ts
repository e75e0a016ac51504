/** `export`: a collection at one block as a file. */
import { stat } from "node:fs/promises";
import { messageOf } from "../core/errors.ts";
import { bytesText } from "../core/format.ts";
import { type FileFacts, fileName } from "../nft/exports/export-pieces.ts";
import { CommandError, FAILED, type NamedContract, type ServiceAccess, USAGE } from "./access.ts";
import { CHAIN, CHAIN_HELP, type Command, type CommandRun, contractOf } from "./command.ts";
import { type WantedFile, wantedFile, writeFile, writeStandardOutput } from "./file-output.ts";
import { type MetadataState, metadataText } from "./metadata-state.ts";
import { writeProofs } from "./proven-export.ts";

export const exportCommand: Command = {
  name: "export",
  usage: "export <address> [--format csv] [--holders] [--as-of N] [--chain eth] [--output file] [--proofs]",
  summary: "Writes all tokens of a collection, or all its owners, as they were at one block",
  maxWords: 1,
  scope: "read",
  options: {
    ...{ ...CHAIN, format: { type: "string" }, "as-of": { type: "string" } },
    ...{ holders: { type: "boolean" }, output: { type: "string" }, proofs: { type: "boolean" } },
  },
  help: {
    "--format <name>": "csv (by default), jsonl or parquet",
    "--holders": "A row per owner, with share and rank, in place of a row per token",
    "--as-of <block>":
      "The state after that block; by default the newest final one, or the newest one if no final one has the collection",
    "--output <file>": "A file, or a folder for a file with a name of its own; standard output by default",
    "--proofs":
      "Writes the proofs of all owners beside the file. Needs --url with a key of scope operate, --output, and nodes that have the state of the block. `proof verify` compares the two",
    ...CHAIN_HELP,
  },
  run: async (run) => {
    const contract = contractOf(run, "export");
    const wish = wishOf(run);
    const { output } = wish;
    if (run.values["proofs"] === true) assertProvable(run, wish);
    await using service = await run.open({ contracts: [contract], isOfLogAlone: true });
    const opened = await openExport(service, contract, wish);
    try {
      if (output === undefined) await writeStandardOutput(opened.pieces);
      else await toFile(run, service, { ...opened, contract, path: await pathOf(output, opened.facts, wish) });
      // Beside the file: none of its rows tells a token that was never fetched from one that has nothing.
      const { metadata } = opened;
      if (metadata !== undefined && metadata.left !== 0)
        run.say(`metadata ${metadataText(metadata)} when the export began`);
      return 0;
    } catch (error) {
      if (error instanceof CommandError) throw error;
      // A service in this process has said the reason before.
      const reason = error === undefined ? "" : `: ${messageOf(error)}`;
      throw new CommandError(`the export broke off, its file is incomplete${reason}`, FAILED);
    }
  },
};

interface ExportWish extends WantedFile {
  readonly holders: boolean;
  /** By default the newest final block, or the newest shown one if no final one has the collection. */
  readonly asOfBlock: number | undefined;
}

/** A file that is made while it is read. */
interface OpenExport {
  readonly facts: FileFacts;
  /** When the file was begun: it has at least this much. Undefined for a file of owners. */
  readonly metadata: MetadataState | undefined;
  readonly pieces: AsyncIterable<Uint8Array>;
}

function wishOf(run: CommandRun): ExportWish {
  const { values } = run;
  const file = wantedFile(run);
  const asOf = values["as-of"];
  if (asOf !== undefined && !/^\d{1,15}$/.test(String(asOf))) throw new CommandError("--as-of: must be a block", USAGE);
  return { ...file, holders: values["holders"] === true, asOfBlock: asOf === undefined ? undefined : Number(asOf) };
}

/** Reads `resolved=1759, failed=40, left=1200`. Undefined without it: of a former release, or of a file of owners. */
function metadataIn(header: string | null): MetadataState | undefined {
  const [, resolved, failed, left] = /^resolved=(\d+), failed=(\d+)(?:, left=(\d+))?$/.exec(header ?? "") ?? [];
  if (resolved === undefined) return undefined;
  return { resolved: Number(resolved), failed: Number(failed), left: left === undefined ? null : Number(left) };
}

/** @throws CommandError if the collection can't be exported at that block */
async function openExport(
  service: ServiceAccess,
  contract: NamedContract,
  { format, holders, asOfBlock }: ExportWish,
): Promise<OpenExport> {
  const { headers, body } = await service.ask((client) =>
    client.exported(contract, { format, holders, as_of_block: asOfBlock }),
  );
  const facts = {
    ...{ ...contract, block: headers.get("x-as-of-block") ?? "", block_hash: headers.get("x-as-of-hash") ?? "" },
    ...{ block_time: headers.get("x-as-of-time") ?? "", finality: headers.get("x-finality") ?? "" },
  };
  return { facts, metadata: metadataIn(headers.get("x-metadata")), pieces: body ?? new ReadableStream<Uint8Array>() };
}

/** The path of the file: of that name, or of a name of its own in that folder. */
async function pathOf(output: string, facts: FileFacts, wish: ExportWish): Promise<string> {
  const isFolder = output.endsWith("/") || (await isDirectory(output));
  return isFolder ? `${output.replace(/\/+$/, "")}/${fileName(facts, wish)}` : output;
}

const isDirectory = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );

/** @throws CommandError if there is nowhere to write proofs, or nothing that could be compared with them */
function assertProvable({ values }: CommandRun, { format, holders }: ExportWish): void {
  if (typeof values["output"] !== "string")
    throw new CommandError("--proofs needs --output: they are a second file", USAGE);
  if (typeof values["url"] !== "string")
    throw new CommandError("--proofs needs --url: a service with endpoints", USAGE);
  if (holders || format === "parquet") {
    throw new CommandError("--proofs goes with a row per token, as csv or jsonl", USAGE);
  }
}

interface FileWish extends OpenExport {
  readonly contract: NamedContract;
  readonly path: string;
}

async function toFile(
  run: CommandRun,
  service: ServiceAccess,
  { pieces, facts, contract, path, metadata }: FileWish,
): Promise<void> {
  const bytes = await writeFile(run, path, pieces);
  const isProven = run.values["proofs"] === true;
  const at = { ...contract, block: Number(facts.block), beside: path };
  const proofs = isProven ? await writeProofs(run, service, at) : undefined;
  const answer = {
    ...{ ...facts, file: path, bytes },
    ...(metadata === undefined ? {} : { metadata }),
    ...(proofs === undefined ? {} : { proofs }),
  };
  const block = `block ${facts.block} ${facts.block_hash ?? ""}`.trimEnd();
  run.print(run.values["json"] === true ? JSON.stringify(answer) : `${path}  ${bytesText(bytes)}, at ${block}`);
  if (proofs !== undefined && run.values["json"] !== true) {
    run.print(`${proofs.file}  ${bytesText(proofs.bytes)}; check both: proof verify ${proofs.file} --export ${path}`);
  }
}
