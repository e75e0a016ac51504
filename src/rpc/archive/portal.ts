/**
 * A client of SQD's Portal, a public archive of chains over plain HTTP. One request gives the blocks of a range that
 * have a matching log, a line each; a body may end anywhere, so the next request goes on behind its last line. Holds no
 * more than one answer's bytes, which are bounded. Errors name the archive by its label, never by its URL or key.
 */
import { secondsIn } from "../../core/block-time.ts";
import { type Clock, retry } from "../../core/clock.ts";
import type { Hash } from "../../core/hex.ts";
import { TokenBuckets } from "../../core/rate.ts";
import { Secrets, secretsOfHeader, secretsOfLogin, secretsOfUrl } from "../../core/secrets.ts";
import type { BlockRange, BlockRef } from "../../events/types.ts";
import type { Decoder } from "../decode/decode-pool.ts";
import { AVALANCHE_FIELDS, HEADER_FIELDS } from "../decode/hashes.ts";
import { readPortal } from "../decode/portal.ts";
import { NFT_TOPICS } from "../decode/transfers.ts";
import type { RequestOutcome } from "../endpoint/provider.ts";
import type { ArchivedRange, LogFilter, TransferFilter } from "../port.ts";
import type { HeaderForm } from "../reading/header-form.ts";
import { connectionFault, RpcError } from "../rpc-errors.ts";
import { ArchiveError, type HistorySource, type LogsPart, type TransfersPart } from "./port.ts";

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

/** Time to the answer's first bytes, and between two pieces of its body. The archive holds some answers for 5 s. */
const IDLE_MS = 30_000;
/** Longest time of an answer, however steadily it drips. */
const MAX_MS = 120_000;
/** Bytes of an answer after which it is cut: a few ten thousand logs, a second of decoding. */
export const MAX_BYTES = 16 << 20;
const MAX_ERROR_BYTES = 16_384;
/** Characters of a refusal that are examined for its reason, and that are shown. */
const [MAX_WORDS, MAX_SHOWN] = [4_000, 300];
/** Most blocks that an answer tells of its own branch. */
const MAX_PREVIOUS = 1_000;
/** Attempts of a request, and the waits between them. */
const ATTEMPTS = 6;
const [RETRY_BASE_MS, RETRY_MAX_MS] = [200, 10_000];
/** Longest wait that an archive can ask for. */
const MAX_WAIT_MS = 60_000;
/** Most bytes of a query, and contracts per list of it. */
const [MAX_QUERY, MAX_ADDRESSES] = [262_144, 1_000];
const RATE_MS = 10_000;

const LOG_FIELDS = ["logIndex", "transactionIndex", "transactionHash", "address", "data", "topics"];
/** Without these fields an answer is of no use. */
const NEEDED_FIELDS = new Set(["number", "hash", ...LOG_FIELDS].map((name) => name.toLowerCase()));

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export class Portal implements HistorySource {
  readonly label: string;
  readonly #options: PortalOptions;
  readonly #rate: TokenBuckets;
  readonly #secrets: Secrets;
  /** Header fields, in lower case, that a part of the data set lacks. */
  readonly #lacking = new Set<string>();
  /** The newest head that was seen. Replicas of an archive differ, so it may seem to fall. */
  #head: BlockRef | undefined;
  /** Most blocks per request, after the archive refused more. */
  #span = Number.POSITIVE_INFINITY;

  constructor(options: PortalOptions) {
    this.label = options.label;
    this.#options = options;
    this.#rate = new TokenBuckets(options.clock);
    const { url, key, proxy } = options;
    this.#secrets = new Secrets([
      ...secretsOfUrl(url),
      ...(key === undefined ? [] : [key.value, ...secretsOfHeader(key.value)]),
      ...(proxy === undefined ? [] : secretsOfLogin(proxy)),
    ]);
  }

  async head(signal?: AbortSignal): Promise<BlockRef | undefined> {
    const { bytes, status, headers } = await this.#send("/finalized-head", signal);
    if (status === 204) return this.#head;
    if (status !== 200) throw this.#refusal(status, headers, bytes);
    const head = blockIn(jsonIn(bytes));
    if (head !== undefined && head.number >= (this.#head?.number ?? 0)) this.#head = head;
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
  ): AsyncGenerator<T> {
    const { toBlock } = filter;
    const read = (fromBlock: number, parent?: Hash) => {
      const reading = this.#read({ ...filter, fromBlock }, parent, decode, signal);
      // The caller may stop before it takes this part.
      reading.catch(() => undefined);
      return reading;
    };
    for (let next: Promise<T> | undefined = read(filter.fromBlock); next !== undefined; ) {
      const part: T = await next;
      next = part.toBlock < toBlock ? read(part.toBlock + 1, part.hash) : undefined;
      yield part;
    }
  }

  /** Reads the first blocks of a range: retries, and asks for fewer blocks or fields where the archive demands it. */
  async #read<T>(
    filter: LogFilter,
    parent: Hash | undefined,
    decode: (bytes: Uint8Array<ArrayBuffer>, range: BlockRange) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const { clock } = this.#options;
    const { fromBlock } = filter;
    for (;;) {
      const toBlock = Math.min(filter.toBlock, fromBlock + this.#span - 1);
      const ask = async () => {
        const query = this.#query({ ...filter, toBlock }, parent);
        const { status, headers, bytes } = await this.#send("/finalized-stream", signal, query);
        if (status === 204) throw this.#retryable("it has no such block yet");
        if (status !== 200) throw this.#refusal(status, headers, bytes);
        return decode(wholeLines(bytes), { fromBlock, toBlock });
      };
      try {
        return await retry(() => ask().catch((error: unknown) => Promise.reject(this.#asArchiveError(error))), {
          ...{ clock, signal, attempts: ATTEMPTS, baseMs: RETRY_BASE_MS, maxMs: RETRY_MAX_MS },
          onFailure: (error) => (error instanceof ArchiveError ? error.retryAfterMs : undefined),
        });
      } catch (error) {
        if (!(error instanceof ArchiveError)) throw error;
        if (error.action === "give up" && this.#drops(error)) continue;
        if (error.action !== "split" || toBlock === fromBlock || "contracts" in error.meta) throw error;
        this.#span = Math.max(1, Math.floor((toBlock - fromBlock + 1) / 2));
      }
    }
  }

  /** Leaves out the field that a refusal names from now on. False if it names none, or a needed one. */
  #drops({ meta }: ArchiveError): boolean {
    const column = meta["column"];
    if (typeof column !== "string" || NEEDED_FIELDS.has(column) || this.#lacking.has(column)) return false;
    this.#lacking.add(column);
    return true;
  }

  #query({ addresses, topics, moreTopics = [], fromBlock, toBlock }: LogFilter, parent: Hash | undefined): string {
    const more = this.#options.form?.isSettling === true ? AVALANCHE_FIELDS : [];
    const isKnown = (name: string) => !this.#lacking.has(name.toLowerCase());
    const fieldsOf = (names: readonly string[]) =>
      Object.fromEntries(names.filter(isKnown).map((name) => [name, true]));
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

  /** One request. Returns what came of the body if it breaks off. @throws ArchiveError `retry` if nothing came */
  async #send(path: string, signal: AbortSignal | undefined, query?: string): Promise<Answer> {
    const { clock, url, key, per10s, proxy, onRequest } = this.#options;
    for (let wait = this.#takeTurn(per10s); wait > 0; wait = this.#takeTurn(per10s)) await clock.sleep(wait, signal);
    const idle = new AbortController();
    const cancelAll = clock.after(MAX_MS, () => idle.abort());
    let cancel = clock.after(IDLE_MS, () => idle.abort());
    const begun = clock.monotonic();
    let answer: Answer | undefined;
    try {
      const response = await fetch(`${url}${path}`, {
        ...(query === undefined ? {} : { method: "POST", body: query }),
        headers: {
          accept: "application/jsonl, application/json",
          "accept-encoding": "zstd, gzip",
          ...(query === undefined ? {} : { "content-type": "application/json" }),
          ...(key === undefined ? {} : { [key.header]: key.value }),
        },
        redirect: "error",
        ...(proxy === undefined ? {} : { proxy }),
        signal: signal === undefined ? idle.signal : AbortSignal.any([signal, idle.signal]),
      });
      const chunks: Uint8Array[] = [];
      let length = 0;
      const most = response.ok ? MAX_BYTES : MAX_ERROR_BYTES;
      try {
        for await (const chunk of response.body ?? []) {
          cancel();
          cancel = clock.after(IDLE_MS, () => idle.abort());
          chunks.push(chunk);
          length += chunk.length;
          if (length >= most) break;
        }
      } catch (error) {
        // A body that breaks off is whole up to its last line.
        if (signal?.aborted || chunks.length === 0) throw error;
      }
      if (length >= most) idle.abort();
      answer = { status: response.status, headers: response.headers, bytes: Buffer.concat(chunks) };
      return answer;
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw this.#retryable(idle.signal.aborted ? "it does not answer in time" : connectionFault(error));
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

  #takeTurn(per10s: number): number {
    return this.#rate.take(this.label, { capacity: per10s, fillMs: RATE_MS });
  }

  #retryable(reason: string, retryAfterMs?: number): ArchiveError {
    const meta = { archive: this.label };
    return new ArchiveError("retry", `the archive failed: ${reason}`, { meta, retryAfterMs });
  }

  #asArchiveError(error: unknown): unknown {
    if (!(error instanceof RpcError)) return error;
    const { kind, message, meta } = error;
    if (kind !== "lie") return this.#retryable(message);
    return new ArchiveError("distrust", message, { meta: { ...meta, archive: this.label } });
  }

  /** Says what a status other than 200 asks for. The status decides; the text only tells refusals of a query apart. */
  #refusal(status: number, headers: Headers, bytes: Uint8Array): ArchiveError {
    const words = new TextDecoder()
      .decode(bytes.subarray(0, MAX_ERROR_BYTES))
      .replace(/[\s\p{Cc}]+/gu, " ")
      .trim();
    const said = this.#secrets.redact(words.slice(0, MAX_WORDS), MAX_WORDS / 2);
    const text = this.#secrets.redact(words.slice(0, MAX_WORDS), MAX_SHOWN);
    const message = `the archive answered ${status}${text === "" ? "" : `: ${text}`}`;
    const meta = { archive: this.label, status };
    if (status === 409) {
      return new ArchiveError("fork", message, { meta, previousBlocks: previousIn(jsonIn(bytes)) });
    }
    if (status === 413 || (status === 400 && /too large|too big/i.test(said))) {
      return new ArchiveError("split", message, { meta });
    }
    if (status === 400) {
      const first = /starts from block (\d{1,15})/i.exec(said)?.[1];
      if (first !== undefined) return new ArchiveError("shift", message, { meta, from: Number(first) });
      // Columns are named in snake case, fields in camel case. A release that doesn't know a field names it, too.
      const column = /(?:column|unknown field) ['"`]?(\w{1,40})/i.exec(said)?.[1]?.replaceAll("_", "").toLowerCase();
      return new ArchiveError("give up", message, { meta: { ...meta, ...(column === undefined ? {} : { column }) } });
    }
    if (status === 429 || status >= 500) {
      return new ArchiveError("retry", message, {
        meta,
        retryAfterMs: waitIn(headers.get("retry-after"), this.#options.clock),
      });
    }
    return new ArchiveError("give up", message, { meta });
  }
}

/** The bytes up to the last line's end, if the answer has one: what follows may be half a line. */
function wholeLines(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const end = bytes.lastIndexOf(0x0a);
  // A last line without an end may be whole, too. The decoder tells.
  return bytes.length < MAX_BYTES || end < 0 ? bytes : bytes.subarray(0, end + 1);
}

function jsonIn(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}

function blockIn(value: unknown): BlockRef | undefined {
  const { number, hash } = (value ?? {}) as { readonly number?: unknown; readonly hash?: unknown };
  if (!Number.isSafeInteger(number) || typeof hash !== "string" || !/^0x[0-9a-f]{64}$/i.test(hash)) return undefined;
  return { number: number as number, hash: hash.toLowerCase() as Hash };
}

/** The blocks of a 409, in rising order: archives send them in either one. */
function previousIn(value: unknown): readonly BlockRef[] {
  const { previousBlocks } = (value ?? {}) as { readonly previousBlocks?: unknown };
  if (!Array.isArray(previousBlocks)) return [];
  const blocks = previousBlocks.slice(0, MAX_PREVIOUS).flatMap((one) => blockIn(one) ?? []);
  return blocks.sort((a, b) => a.number - b.number);
}

/** A block's number with its time, if the archive tells one. */
function timesOf(number: number, time: unknown): [number, number][] {
  const seconds = typeof time === "number" ? secondsIn(time) : undefined;
  return seconds === undefined ? [] : [[number, seconds]];
}

/** The wait of a `Retry-After` in ms: seconds or a date. */
function waitIn(text: string | null, clock: Pick<Clock, "now">): number | undefined {
  if (text === null) return undefined;
  const seconds = Number(text);
  const ms = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(text) - clock.now();
  return Number.isFinite(ms) ? Math.min(MAX_WAIT_MS, Math.max(0, ms)) : undefined;
}
