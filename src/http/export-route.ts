/**
 * `GET …/export`: parameters in, a file out that is made while the client reads it. A slow client slows the export, a
 * gone client ends it. If its block is lost, the connection is broken: the file must not look complete.
 */
import type { Chain } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import { ApiError, invalidParameter } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { fileName, piecesOf } from "../exports/export.ts";
import { CONTENT_TYPES, EXPORT_FORMATS, type ExportFormat } from "../exports/formats.ts";
import { assertRankable } from "../exports/holders.ts";
import { startExport } from "../exports/walk.ts";
import type { ApiKeys } from "../operators/keys.ts";
import { asOfBlock, type NftRouteDeps, responseHeaders } from "./operations.ts";
import { integer, notEnabled, parseQueryString, single } from "./requests.ts";

export const EXPORT_PARAMETERS: ReadonlySet<string> = new Set(["as_of_block", "holders", "format"]);

export interface ExportDeps extends Pick<NftRouteDeps, "projections" | "clock" | "nftChain" | "isStale"> {
  readonly keys: ApiKeys;
  readonly logger: Logger;
}

/** An export that a client reads. */
interface Running {
  /** Monotonic time of the last read. */
  readMs: number;
}

/** An export that was not read for this long gives way to the next one of its key. */
const IDLE_MS = 60_000;

/** The exports that run now, at most one per key. */
export class RunningExports {
  readonly #clock: Clock;
  readonly #byKey = new Map<string, Running>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Begins an export. @throws ApiError 429 while another one of the key runs */
  begin(key: string): Running {
    const now = this.#clock.monotonic();
    const other = this.#byKey.get(key);
    if (other !== undefined && now - other.readMs < IDLE_MS) {
      const text = "an export of this key is running: read it to its end, close its connection, or use another key";
      throw new ApiError(429, "rate_limited", text, { headers: { "retry-after": "5" } });
    }
    const running = { readMs: now };
    this.#byKey.set(key, running);
    return running;
  }

  /** Notes that the client reads on. @throws ApiError 429 if the export gave way to another one */
  read(key: string, running: Running): void {
    if (this.#byKey.get(key) !== running) throw new ApiError(429, "rate_limited", "another export took its place");
    running.readMs = this.#clock.monotonic();
  }

  end(key: string, running: Running): void {
    if (this.#byKey.get(key) === running) this.#byKey.delete(key);
  }
}

interface ExportRequest {
  readonly chain: Chain;
  readonly address: Address;
  readonly search: string;
  /** Text of the key. */
  readonly key: string;
}

/** Answers with the file. @throws ApiError before its first byte */
export async function exportOf(
  { chain, address, search, key }: ExportRequest,
  deps: ExportDeps & { readonly exports: RunningExports },
): Promise<Response> {
  const { format, holders, block } = exportQuery(search);
  const runtime = deps.nftChain(chain);
  if (runtime === undefined) throw notEnabled(chain);
  const source = { projections: deps.projections, chain: runtime.view, chainId: chain.chainId, address };
  const start = await startExport(source, { asOfBlock: block, byPair: holders });
  if (holders) await assertRankable(source, start);
  const asOf = await asOfBlock(start, runtime);
  const state = { isHalted: runtime.isHalted(), isStale: deps.isStale() };
  const headers = responseHeaders(asOf, state);
  const facts = {
    ...{ chain: chain.name, address, block: String(start.walk.block) },
    ...{ block_hash: headers["x-as-of-hash"], block_time: headers["x-as-of-time"], finality: headers["x-finality"] },
  };
  // As known now: so an export asks for no refresh of a million tokens, and is of one moment in this, too.
  const known = { normalizeMetadata: false, mediaItems: false, asOf: deps.clock.now() };
  const pieces = piecesOf(source, start, {
    ...{ format, holders, facts },
    factsOf: async (entries) => (await runtime.factsOf(address, entries, known)).facts,
  });
  return new Response(streamOf(pieces, key, deps), {
    headers: {
      ...headers,
      "content-type": CONTENT_TYPES[format],
      "content-disposition": `attachment; filename="${fileName(facts, { format, holders })}"`,
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
    },
  });
}

function exportQuery(search: string) {
  const query = parseQueryString(search);
  const format = (single(query, "format") ?? "csv") as ExportFormat;
  if (!EXPORT_FORMATS.includes(format)) throw invalidParameter("format", `must be one of ${EXPORT_FORMATS.join(", ")}`);
  const holders = single(query, "holders") ?? "false";
  if (holders !== "true" && holders !== "false") throw invalidParameter("holders", "must be true or false");
  const block = integer(query, "as_of_block", 0, Number.MAX_SAFE_INTEGER);
  return { format, holders: holders === "true", block };
}

/** Makes each piece when the client has taken the last one. An error breaks the connection. */
function streamOf(
  pieces: AsyncGenerator<Uint8Array>,
  keyText: string,
  { exports, keys, logger }: ExportDeps & { readonly exports: RunningExports },
): ReadableStream<Uint8Array> {
  const hash = Bun.SHA256.hash(keyText.slice(0, 256)) as Uint8Array;
  const key = Buffer.from(hash).toString("hex");
  const running = exports.begin(key);
  const next = async (): Promise<IteratorResult<Uint8Array, unknown>> => {
    exports.read(key, running);
    if (!keys.isValid(hash)) throw new ApiError(401, "invalid_api_key", "the key was revoked");
    return pieces.next();
  };
  return new ReadableStream(
    {
      pull: async (controller) => {
        try {
          const { done, value } = await next();
          if (done !== true) return controller.enqueue(value as Uint8Array<ArrayBuffer>);
          exports.end(key, running);
          controller.close();
        } catch (error) {
          exports.end(key, running);
          await pieces.return(undefined);
          logger.warn({ err: error }, "an export broke off");
          // The runtime would print an error that it is given, beside the log.
          controller.error();
        }
      },
      cancel: async () => {
        exports.end(key, running);
        await pieces.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}
