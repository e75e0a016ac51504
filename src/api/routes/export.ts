/**
 * A collection at one block as a file, which is made while the client reads it. A slow client slows the export, a gone
 * client ends it. If its block is lost, the connection is broken: the file must not look complete.
 */

import type { Clock } from "../../core/clock.ts";
import { Refusal } from "../../core/errors.ts";
import { EXAMPLE_TIME } from "../../core/examples.ts";
import type { Logger } from "../../core/logger.ts";
import type { Explorer } from "../../nft/explore/readings.ts";
import { type FileFacts, fileName, piecesOf } from "../../nft/exports/export-pieces.ts";
import { FileThread } from "../../nft/exports/file-thread.ts";
import { CONTENT_TYPES, EXPORT_FORMATS } from "../../nft/exports/formats.ts";
import { startWalk } from "../../nft/walks/walk.ts";
import type { ApiKey, ApiKeys } from "../../operators/keys.ts";
import type { Question } from "../../operators/questions.ts";
import { asOfBlock, responseHeaders, wholeFactsOf } from "../wire/answered-block.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import { choice, flag, type ParsedValues, wholeNumber } from "../wire/parameters.ts";
import { COLLECTION_PARTS, type CollectionDeps, ONE_COLLECTION, requestedCollection } from "./collection-path.ts";
import type { ListingDeps } from "./listing.ts";

/** An export that a client reads. */
interface RunningExport {
  /** Monotonic time of the last read. */
  readMs: number;
  /** Breaks it off. */
  readonly breakOff: () => void;
}

/** An export that was not read for this long gives way to the next one of its key. */
const IDLE_MS = 60_000;

/** The exports that run now, at most one per key. */
export class RunningExports {
  readonly thread = new FileThread();
  readonly #clock: Clock;
  readonly #byKey = new Map<string, RunningExport>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Begins an export, and breaks off one of the key that is not read. That would hold its rows in memory until its client reads
   * on, and a key could begin another one each minute. @throws Refusal 429 while another one of the key runs
   */
  begin(key: string, breakOff: () => void): RunningExport {
    const now = this.#clock.monotonic();
    const other = this.#byKey.get(key);
    if (other !== undefined && now - other.readMs < IDLE_MS) {
      const text = "an export of this key is running: read it to its end, close its connection, or use another key";
      throw new Refusal("rate_limited", text, { retryAfter: 5 });
    }
    other?.breakOff();
    const running = { readMs: now, breakOff };
    this.#byKey.set(key, running);
    return running;
  }

  /** Notes that the client reads on. */
  read(running: RunningExport): void {
    running.readMs = this.#clock.monotonic();
  }

  end(key: string, running: RunningExport): void {
    if (this.#byKey.get(key) === running) this.#byKey.delete(key);
  }
}

const ROW = {
  token_id: "1234",
  contract_type: "ERC721",
  owner_of: "0xf4a1f3ba15a8b3a93a9b84e0e2e8a2ab5dc9e8ce",
  amount: "1",
  block_number: 21_000_000,
  block_number_minted: 12_346_178,
  minter_address: "0xf4a1f3ba15a8b3a93a9b84e0e2e8a2ab5dc9e8ce",
  token_uri: "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/1234",
  metadata: null,
  last_token_uri_sync: EXAMPLE_TIME,
  last_metadata_sync: null,
};

interface ExportDeps extends CollectionDeps, Pick<ListingDeps, "projections" | "clock" | "isStale"> {
  readonly keys: ApiKeys;
  readonly logger: Logger;
  readonly exports: RunningExports;
  readonly explorer: Explorer;
}

const { file } = operationsFor<ExportDeps>();

const EXPORT_QUERY = {
  format: choice(
    EXPORT_FORMATS,
    { allowed: `must be one of ${EXPORT_FORMATS.join(", ")}`, default: "csv" },
    { description: "Format of the file", example: "parquet" },
  ),
  holders: flag(false, {
    description: "A row per owner, with share and rank, in place of a row per token",
    example: false,
  }),
  as_of_block: wholeNumber(
    { min: 0 },
    {
      description: "Block; by default the newest final one that has the collection, else the newest shown one",
      example: 21_000_000,
    },
  ),
};

export const EXPORT_OPERATIONS: readonly Operation<ExportDeps>[] = [
  file({
    method: "GET",
    path: `${ONE_COLLECTION}/export`,
    scope: "read",
    id: "exportCollection",
    summary: "All tokens or all owners at one block, as a file. A lost block breaks the connection",
    tag: "NFT",
    parts: COLLECTION_PARTS,
    query: EXPORT_QUERY,
    content: {
      "text/csv": {
        schema: { type: "string" },
        example: `${Object.keys(ROW).join(",")}\r\n${Object.values(ROW).join(",")}\r\n`,
      },
      "application/x-ndjson": { schema: { type: "string" }, example: `${JSON.stringify(ROW)}\n` },
      "application/vnd.apache.parquet": { schema: { type: "string", format: "binary" }, example: "PAR1" },
    },
    hasBlock: true,
    errors: [400, 404, 409],
    handle: async ({ path, query, requester, question }, deps) => {
      const { facts, pieces, headers } = await openExport({ path, query, requester }, deps);
      return new Response(streamOf(pieces, { requester, question }, deps), {
        headers: {
          ...headers,
          ...metadataHeader(facts),
          "content-type": CONTENT_TYPES[query.format],
          "content-disposition": `attachment; filename="${fileName(facts, query)}"`,
          "cache-control": "no-store",
          "x-content-type-options": "nosniff",
        },
      });
    },
  }),
];

interface AskedExport {
  readonly path: ParsedValues<typeof COLLECTION_PARTS>;
  readonly query: ParsedValues<typeof EXPORT_QUERY>;
  readonly requester: ApiKey;
}

/** What the file has, its pieces, and the headers of its block. @throws Refusal 400, 404, 409 */
async function openExport(
  { path, query: { format, holders, as_of_block: block }, requester }: AskedExport,
  deps: ExportDeps,
) {
  const { chain, address, runtime } = await requestedCollection(path, deps);
  const source = { projections: deps.projections, chain: runtime.view, chainId: chain.chainId, address };
  const start = await startWalk(source, { asOfBlock: block, prefersFinal: true, byPair: holders });
  const { memory, rankings } = deps.explorer;
  // Before the first byte, because a collection that is too large is an error of the client.
  const ranking = holders ? await memory.run(requester, () => rankings.of(source, start)) : undefined;
  const asOf = await asOfBlock(start, runtime);
  const headers = responseHeaders(asOf, { trouble: runtime.trouble(), isStale: deps.isStale() });
  const facts: FileFacts = {
    ...{ chain: chain.name, address, block: String(start.walk.block) },
    ...{ block_hash: headers["x-as-of-hash"], block_time: headers["x-as-of-time"], finality: headers["x-finality"] },
    ...(holders ? {} : await metadataFacts({ chain, address, runtime }, deps)),
  };
  // A time fixes the metadata to one moment, and has no token of a million fetched again.
  const known = { normalizeMetadata: false, mediaItems: false, asOf: deps.clock.now() };
  const pieces = piecesOf(source, start, {
    ...{ format, holders, facts, ranking, thread: deps.exports.thread },
    // A file that looks complete is complete.
    factsOf: (entries) => wholeFactsOf(runtime, address, entries, known),
  });
  return { facts, pieces, headers };
}

/** How much metadata there is when the export begins, for the facts of a file. */
async function metadataFacts(
  { chain, address, runtime }: Pick<Awaited<ReturnType<typeof requestedCollection>>, "chain" | "address" | "runtime">,
  { catalogue }: ExportDeps,
) {
  const [{ resolved, failed }, described] = await Promise.all([
    runtime.healthOf(address),
    catalogue.describe(chain.chainId, address),
  ]);
  const nfts = described?.entry.nfts ?? undefined;
  const left = nfts === undefined ? undefined : String(Math.max(0, nfts - resolved - failed));
  return { metadata_resolved: String(resolved), metadata_failed: String(failed), metadata_left: left };
}

/** The same beside a file that has no place for it. */
function metadataHeader({ metadata_resolved: resolved, metadata_failed: failed, metadata_left: left }: FileFacts) {
  if (resolved === undefined) return {};
  return { "x-metadata": `resolved=${resolved}, failed=${failed}${left === undefined ? "" : `, left=${left}`}` };
}

/** The sender of an export, and its question, which ends with the file. */
interface Exporting {
  readonly requester: ApiKey;
  readonly question: Question;
}

/** Makes each piece when the client has taken the last one. An error breaks the connection. */
function streamOf(
  pieces: AsyncGenerator<Uint8Array>,
  { requester: { hash }, question }: Exporting,
  { exports, keys, logger }: ExportDeps,
): ReadableStream<Uint8Array> {
  const key = hash.toString("hex");
  const broken = new AbortController();
  const running = exports.begin(key, () => broken.abort());
  question.isStreamed = true;
  const end = () => {
    exports.end(key, running);
    question.end();
  };
  const next = async (): Promise<IteratorResult<Uint8Array, unknown>> => {
    exports.read(running);
    if (!keys.isValid(hash)) throw new Refusal("invalid_api_key", "the key was revoked");
    return pieces.next();
  };
  return new ReadableStream(
    {
      start: (controller) => {
        broken.signal.addEventListener("abort", () => {
          end();
          controller.error();
          void pieces.return(undefined);
          logger.info({}, "an export that is not read gave way to another one of its key");
        });
      },
      pull: async (controller) => {
        try {
          const { done, value } = await question.budget.run(next);
          if (done !== true) return controller.enqueue(value as Uint8Array<ArrayBuffer>);
          end();
          controller.close();
        } catch (error) {
          if (broken.signal.aborted) return;
          end();
          await pieces.return(undefined);
          logger.warn({ err: error }, "an export broke off");
          // The runtime would print an error that it is given, beside the log.
          controller.error();
        }
      },
      cancel: async () => {
        end();
        await pieces.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}
