/**
 * A client of SQD's Portal, a public archive of chains over plain HTTP. One request gives the blocks of a range that
 * have a matching log, a line each; a body may end anywhere, so the next request goes on behind its last line. Holds no
 * more than one answer's bytes, which are bounded. Errors name the archive by its label, never by its URL or key.
 */
import { secondsIn } from "../../core/block-time.ts";
import { type Clock, retry } from "../../core/clock.ts";
import { EncodingError, readBody } from "../../core/decompress.ts";
import { type ErrorMeta, isRetryable } from "../../core/errors.ts";
import type { Hash } from "../../core/hex.ts";
import { jsonIn } from "../../core/json-bytes.ts";
import { RateWindow } from "../../core/rate.ts";
import { Secrets, secretsOfHeader, secretsOfLogin, secretsOfUrl } from "../../core/secrets.ts";
import type { BlockRange, BlockRef } from "../../events/types.ts";
import type { Decoder } from "../decode/decode-pool.ts";
import { AVALANCHE_FIELDS, HEADER_FIELDS } from "../decode/header-hash.ts";
import { readPortal } from "../decode/portal.ts";
import { NFT_TOPICS } from "../decode/transfers.ts";
import type { RequestOutcome } from "../endpoint/provider.ts";
import type { ArchivedRange, LogFilter, TransferFilter } from "../port.ts";
import type { HeaderForm } from "../reading/header-form.ts";
import { connectionFault, RpcError } from "../rpc-errors.ts";
import { ArchiveError, type HistorySource, type LogsPart, type TransfersPart } from "./port.ts";
import { AnswerSpan, PartTime } from "./portal-limits.ts";
import { type PortalAnswer, portalRefusal } from "./refusals.ts";

interface PortalOptions {
  /** The address of the data set, without a trailing slash. */
  readonly url: string;
  readonly label: string;
  /** A header that holds the operator's key. */
  readonly key?: { readonly header: string; readonly value: string } | undefined;
  /** Most requests in ten seconds. */
  readonly per10s: number;
  /** The operator's proxy for the URL. */
  readonly proxy?: string | undefined;
  readonly clock: Clock;
  readonly decoder: Pick<Decoder, "decode">;
  /** What the node's headers show of the chain's. Default: the form of Ethereum. */
  readonly form?: Pick<HeaderForm, "isSettling">;
  readonly onRequest?: (outcome: RequestOutcome) => void;
}

/**
 * Time that the archive has for one part, with everything it refuses and repeats; the caller then asks another archive
 * or the node. A Portal waits up to 60 s for one of its workers, and another worker may answer at once.
 */
const READ_MS = 15_000;
/** Longest time of an answer. What came by then counts. */
const ANSWER_MS = 10_000;
/** Time to the answer's first bytes, and between two pieces of its body: half of the time for a part. */
const IDLE_MS = 7_500;
/** Nothing more is asked with less time left: an archive holds an answer for 5 s if it has no newer block. */
const LEAST_MS = 7_000;
/** Time for the newest block. */
const HEAD_MS = 5_000;
/** Bytes of an answer after which it is cut: a few ten thousand logs, a second of decoding. */
export const MAX_BYTES = 16 << 20;
const MAX_ERROR_BYTES = 16_384;
/** Attempts of a request, and the waits between them. An outage of seconds is left to the caller, which reads on elsewhere. */
const ATTEMPTS = 4;
const [RETRY_BASE_MS, RETRY_MAX_MS] = [200, 1_000];
/** Most bytes of a query, and contracts per list of it. */
const [MAX_QUERY, MAX_ADDRESSES] = [262_144, 1_000];
/** Half a second more than an archive counts: one request may take so much longer to reach it than a later one. */
const RATE_MS = 10_500;
/** Time after which a field is asked for again. Only a part of the data set may lack it. */
const LACKING_MS = 3_600_000;

const LOG_FIELDS = ["logIndex", "transactionIndex", "transactionHash", "address", "data", "topics"];
const BLOCK_FIELDS = ["parentHash", "timestamp", ...HEADER_FIELDS, ...AVALANCHE_FIELDS];
/** Without the other fields an answer is of no use. */
const OPTIONAL_FIELDS = new Set(
  BLOCK_FIELDS.map((name) => name.toLowerCase()).filter((name) => name !== "number" && name !== "hash"),
);

export class Portal implements HistorySource {
  readonly label: string;
  readonly #options: PortalOptions;
  readonly #rate: RateWindow;
  readonly #secrets: Secrets;
  /** Header fields, in lower case, that a part of the data set lacks, and until when they are left out. */
  readonly #lacking = new Map<string, number>();
  /** The newest head that was seen. Replicas of an archive differ, so it may seem to fall. */
  #head: BlockRef | undefined;
  readonly #span = new AnswerSpan();

  constructor(options: PortalOptions) {
    this.label = options.label;
    this.#options = options;
    this.#rate = new RateWindow(options.clock, { count: options.per10s, ms: RATE_MS });
    const { url, key, proxy } = options;
    this.#secrets = new Secrets([
      ...secretsOfUrl(url),
      ...(key === undefined ? [] : [key.value, ...secretsOfHeader(key.value)]),
      ...(proxy === undefined ? [] : secretsOfLogin(proxy)),
    ]);
  }

  async head(signal?: AbortSignal): Promise<BlockRef> {
    const time = new PartTime(this.#options.clock, HEAD_MS);
    const answer = await this.#send({ path: "/finalized-head", time, signal });
    if (answer.status !== 200 && answer.status !== 204) throw this.#refusal(answer);
    const head = blockIn(jsonIn(answer.bytes));
    if (head !== undefined && head.number >= (this.#head?.number ?? 0)) this.#head = head;
    // A replica that has just started tells `null`.
    if (this.#head === undefined) throw this.#retryable("it tells no head");
    return this.#head;
  }

  async *transfers(filter: TransferFilter, signal: AbortSignal): AsyncGenerator<TransfersPart> {
    const { address, fromBlock, toBlock } = filter;
    const logs = { addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock };
    yield* this.#parts(logs, signal, async (bytes, range) => {
      const { decoder, form } = this.#options;
      const isSettling = form?.isSettling === true;
      const meta = { archive: this.label, ...range };
      const { range: decoded } = await decoder.decode(
        bytes,
        { ...filter, ...range, isArchives: true, isSettling },
        meta,
      );
      const { coveredThrough, toHash: hash, touched, ...columns } = decoded as ArchivedRange;
      return {
        fromBlock: range.fromBlock,
        toBlock: coveredThrough,
        hash,
        decoded: { ...columns, toHash: hash },
        touched,
      };
    });
  }

  async *logs(filter: LogFilter, signal: AbortSignal): AsyncGenerator<LogsPart> {
    let left = filter.maxLogs ?? Number.POSITIVE_INFINITY;
    for await (const { logs, ...part } of this.#parts(filter, signal, async (bytes, range) => {
      const { logs, touched, last } = readPortal(bytes, { ...filter, ...range }, this.#options.form?.isSettling);
      if (last === undefined) throw this.#retryable("its answer has no block");
      const times = new Map(touched.flatMap(({ number, timestamp }) => timesOf(number, timestamp)));
      return { fromBlock: range.fromBlock, toBlock: last.number, hash: last.hash, logs, times };
    })) {
      left -= logs.length;
      if (left < 0) throw new ArchiveError("split", "the range has more logs than the caller's limit");
      yield { ...part, logs };
    }
  }

  /** Reads part after part. Asks for the next one while the caller uses the last one. */
  async *#parts<T extends BlockRange & { readonly hash: Hash }>(
    filter: LogFilter,
    signal: AbortSignal,
    decode: (bytes: Uint8Array<ArrayBuffer>, range: BlockRange) => Promise<T>,
  ): AsyncGenerator<T & { readonly tookMs: number }> {
    const { toBlock } = filter;
    const ended = new AbortController();
    const either = AbortSignal.any([signal, ended.signal]);
    const read = (fromBlock: number, parent?: Hash) => {
      const reading = this.#read({ ...filter, fromBlock }, parent, decode, either);
      // The caller may stop before it takes this part.
      reading.catch(() => undefined);
      return reading;
    };
    try {
      for (let next: ReturnType<typeof read> | undefined = read(filter.fromBlock); next !== undefined; ) {
        const part: T & { readonly tookMs: number } = await next;
        next = part.toBlock < toBlock ? read(part.toBlock + 1, part.hash) : undefined;
        yield part;
      }
    } finally {
      ended.abort();
    }
  }

  /**
   * Reads the first blocks of a range: retries, and asks for fewer blocks or fields where the archive demands it.
   * @throws ArchiveError at the latest when the archive's time for a part is over
   */
  async #read<T>(
    filter: LogFilter,
    parent: Hash | undefined,
    decode: (bytes: Uint8Array<ArrayBuffer>, range: BlockRange) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T & { readonly tookMs: number }> {
    const { clock } = this.#options;
    const { fromBlock } = filter;
    const time = new PartTime(clock, READ_MS);
    for (;;) {
      const toBlock = Math.min(filter.toBlock, fromBlock + this.#span.most - 1);
      const blocks = toBlock - fromBlock + 1;
      const ask = async () => {
        const query = this.#query({ ...filter, toBlock }, parent);
        const answer = await this.#send({ path: "/finalized-stream", query, time, signal });
        if (answer.status === 204) throw this.#retryable("it has no such block yet");
        if (answer.status !== 200) throw this.#refusal(answer);
        return decode(wholeLines(answer.bytes), { fromBlock, toBlock });
      };
      try {
        const part = await retry(() => ask().catch((error: unknown) => Promise.reject(this.#asArchiveError(error))), {
          ...{ clock, signal, attempts: ATTEMPTS, baseMs: RETRY_BASE_MS, maxMs: RETRY_MAX_MS },
          shouldRetry: (error) => isRetryable(error) && time.leftMs - waitOf(error) >= LEAST_MS,
          onFailure: waitOf,
        });
        this.#span.answered(blocks);
        return { ...part, tookMs: time.usedMs };
      } catch (error) {
        if (!(error instanceof ArchiveError)) throw error;
        const isSplit = error.action === "split" && !("contracts" in error.meta);
        // A long range without logs may take a slow archive minutes, in which it sends nothing.
        if (isSplit || error.meta["isLate"] === true) this.#span.refused(blocks);
        const isOther = isSplit ? blocks > 1 : error.action === "give up" && this.#drops(error);
        if (isOther && time.leftMs >= LEAST_MS) continue;
        // Whatever made it refuse one block may pass.
        throw isSplit || isOther ? this.#retryable(error.message) : error;
      }
    }
  }

  /** Leaves out the field that a refusal names. False if it names none, or a needed one. */
  #drops({ meta }: ArchiveError): boolean {
    const column = meta["column"];
    if (typeof column !== "string" || !OPTIONAL_FIELDS.has(column) || this.#isLacking(column)) return false;
    this.#lacking.set(column, this.#options.clock.monotonic() + LACKING_MS);
    return true;
  }

  #isLacking(name: string): boolean {
    const until = this.#lacking.get(name.toLowerCase());
    return until !== undefined && until > this.#options.clock.monotonic();
  }

  #query({ addresses, topics, moreTopics = [], fromBlock, toBlock }: LogFilter, parent: Hash | undefined): string {
    const more = this.#options.form?.isSettling === true ? AVALANCHE_FIELDS : [];
    const fieldsOf = (names: readonly string[]) =>
      Object.fromEntries(names.filter((name) => !this.#isLacking(name)).map((name) => [name, true]));
    // An empty list would match nothing.
    const asked: Record<string, readonly string[]> = topics.length === 0 ? {} : { topic0: topics };
    for (const [at, some] of moreTopics.entries()) if (some !== undefined) asked[`topic${at + 1}`] = some;
    const chunks: (readonly string[])[] = [];
    for (let at = 0; at < addresses.length; at += MAX_ADDRESSES) chunks.push(addresses.slice(at, at + MAX_ADDRESSES));
    const query = JSON.stringify({
      type: "evm",
      fromBlock,
      toBlock,
      ...(parent === undefined ? {} : { parentBlockHash: parent }),
      fields: {
        block: fieldsOf(["number", "hash", "parentHash", "timestamp", ...HEADER_FIELDS, ...more]),
        log: fieldsOf(LOG_FIELDS),
      },
      logs: chunks.length === 0 ? [asked] : chunks.map((address) => ({ address, ...asked })),
    });
    if (query.length <= MAX_QUERY) return query;
    const meta = { archive: this.label, contracts: addresses.length };
    throw new ArchiveError("split", "the query names too many contracts for an archive", { meta });
  }

  /**
   * One request. Returns what came of the body if it breaks off, or if the time for it is over.
   * @throws ArchiveError `retry` if nothing came
   */
  async #send({ path, query, time, signal }: PortalRequest): Promise<PortalAnswer> {
    const { clock, url, key, proxy, onRequest } = this.#options;
    await time.without(async () => {
      for (let wait = this.#rate.take(); wait > 0; wait = this.#rate.take()) await clock.sleep(wait, signal);
    });
    const idle = new AbortController();
    const cancelAll = clock.after(Math.min(ANSWER_MS, time.leftMs), () => idle.abort());
    let cancel = clock.after(IDLE_MS, () => idle.abort());
    const begun = clock.monotonic();
    let answer: PortalAnswer | undefined;
    try {
      const response = await fetch(`${url}${path}`, {
        ...(query === undefined ? {} : { method: "POST", body: query }),
        headers: {
          accept: "application/jsonl, application/json",
          "accept-encoding": "zstd, gzip",
          ...(query === undefined ? {} : { "content-type": "application/json" }),
          ...(key === undefined ? {} : { [key.header]: key.value }),
        },
        // The runtime would decompress without a limit.
        decompress: false,
        redirect: "error",
        ...(proxy === undefined ? {} : { proxy }),
        signal: signal === undefined ? idle.signal : AbortSignal.any([signal, idle.signal]),
      });
      const { bytes, isTooLarge, error } = await readBody(response.body, {
        encoding: response.headers.get("content-encoding"),
        maxBytes: response.ok ? MAX_BYTES : MAX_ERROR_BYTES,
        keepsCut: true,
        onArrival: () => {
          cancel();
          cancel = clock.after(IDLE_MS, () => idle.abort());
        },
      });
      if (isTooLarge) idle.abort();
      // A body that breaks off is whole up to its last line.
      else if (error !== undefined && (signal?.aborted === true || bytes.length === 0)) throw error;
      answer = { status: response.status, headers: response.headers, bytes };
      return answer;
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      const isLate = idle.signal.aborted;
      const fault = error instanceof EncodingError ? error.message : connectionFault(error);
      throw isLate ? this.#retryable("it does not answer in time", { isLate }) : this.#retryable(fault);
    } finally {
      cancel();
      cancelAll();
      onRequest?.({
        ...{ endpoint: this.label, calls: [], method: "archive", bytes: answer?.bytes.length ?? 0 },
        outcome: answer === undefined ? "transient" : answer.status < 300 ? "ok" : String(answer.status),
        seconds: (clock.monotonic() - begun) / 1_000,
      });
    }
  }

  #retryable(reason: string, meta: ErrorMeta = {}): ArchiveError {
    return new ArchiveError("retry", `the archive failed: ${reason}`, { meta: { ...meta, archive: this.label } });
  }

  #asArchiveError(error: unknown): unknown {
    if (!(error instanceof RpcError)) return error;
    const { kind, message, meta } = error;
    if (kind !== "lie") return this.#retryable(message);
    return new ArchiveError("distrust", message, { meta: { ...meta, archive: this.label } });
  }

  #refusal(answer: PortalAnswer): ArchiveError {
    const { clock } = this.#options;
    return portalRefusal(answer, { label: this.label, secrets: this.#secrets, clock });
  }
}

interface PortalRequest {
  readonly path: string;
  readonly query?: string;
  /** The time of the part that the request is for. */
  readonly time: PartTime;
  readonly signal: AbortSignal | undefined;
}

/** The wait that an archive asked for, in ms. */
const waitOf = (error: unknown): number => (error instanceof ArchiveError ? error.retryAfterMs : undefined) ?? 0;

/** The bytes up to the last line's end, if the answer has one: what follows may be half a line. */
function wholeLines(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const end = bytes.lastIndexOf(0x0a);
  // A last line without an end may be whole, too. The decoder tells.
  return bytes.length < MAX_BYTES || end < 0 ? bytes : bytes.subarray(0, end + 1);
}

function blockIn(value: unknown): BlockRef | undefined {
  const { number, hash } = (value ?? {}) as { readonly number?: unknown; readonly hash?: unknown };
  if (!Number.isSafeInteger(number) || typeof hash !== "string" || !/^0x[0-9a-f]{64}$/i.test(hash)) return undefined;
  return { number: number as number, hash: hash.toLowerCase() as Hash };
}

/** A block's number with its time, if the archive tells one. */
function timesOf(number: number, time: unknown): [number, number][] {
  const seconds = typeof time === "number" ? secondsIn(time) : undefined;
  return seconds === undefined ? [] : [[number, seconds]];
}
