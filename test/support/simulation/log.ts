/**
 * The simulated log: one disk that survives every crash, and one client per process, with latency, failures before and
 * after the write, and wake-ups that are late or lost. Records go through the real codec.
 */

import { AppError, ConcurrencyError } from "../../../src/core/errors.ts";
import type { Hash } from "../../../src/core/hex.ts";
import type { DomainEvent, Recorded, StreamName } from "../../../src/events/types.ts";
import type {
  Append,
  AppendOutcome,
  BlobPage,
  EventLog,
  Headline,
  HeadlineChange,
  HeldLease,
  ReadOptions,
  StreamHead,
  WakeUpListener,
} from "../../../src/log/event-log.ts";
import { assertGapless, fromStored, type StoredEvent, toRecorded, toStored } from "../../../src/log/records.ts";
import type { FaultCounter } from "./fault-kinds.ts";
import type { ProcessClock, Scheduler } from "./scheduler.ts";

interface Stream {
  readonly rows: StoredEvent[];
  headline: Headline | undefined;
  seq: number;
}

/** Called for each durable append. Throws if the append must not happen. */
export type AppendWitness = (append: {
  readonly stream: StreamName;
  readonly events: readonly DomainEvent[];
  readonly version: number;
  /** The process that appended. */
  readonly writer: string;
}) => void;

export class SimDisk {
  readonly streams = new Map<StreamName, Stream>();
  readonly leases = new Map<string, { holder: string; until: number }>();
  /** Every pair of a lease and a process that ever held it. */
  readonly held = new Set<string>();
  readonly settings = new Map<string, string>();
  readonly clients = new Set<SimLog>();
  readonly witness: AppendWitness;
  /** All appends in order, each with what it replaced. */
  readonly #appends: { readonly stream: StreamName; readonly rows: number; readonly before: Omit<Stream, "rows"> }[] =
    [];
  seq = 0;

  constructor(witness: AppendWitness) {
    this.witness = witness;
  }

  version(stream: StreamName): number {
    return this.streams.get(stream)?.rows.length ?? 0;
  }

  /** @throws ConcurrencyError */
  append(append: Append, time: number, writer: string): number {
    const { stream, expectedVersion, events, headline, guard } = append;
    const version = this.version(stream);
    if (version !== expectedVersion) throw new ConcurrencyError(stream, expectedVersion, version);
    if (guard !== undefined && this.version(guard.stream) !== guard.version) {
      throw new ConcurrencyError(guard.stream, guard.version, this.version(guard.stream));
    }
    if (events.length === 0) return version;
    const rows = toStored(append, time).events;
    const decoded = rows.map((row) => fromStored(stream, row).event);
    const held = this.streams.get(stream) ?? { rows: [], headline: undefined, seq: 0 };
    this.#appends.push({ stream, rows: rows.length, before: { headline: held.headline, seq: held.seq } });
    held.rows.push(...rows);
    if (headline !== undefined) held.headline = JSON.parse(JSON.stringify(headline)) as Headline;
    held.seq = ++this.seq;
    this.streams.set(stream, held);
    this.witness({ stream, events: decoded, version: held.rows.length, writer });
    return held.rows.length;
  }

  /** Loses the last appends, like a failover to a standby that lacks them. */
  goBack(count: number): void {
    for (const { stream, rows, before } of this.#appends.splice(-count).reverse()) {
      const held = this.streams.get(stream)!;
      held.rows.length -= rows;
      Object.assign(held, before);
      if (held.rows.length === 0) this.streams.delete(stream);
    }
  }

  /** The appends that are left, in order. */
  *history(): Generator<PastAppend> {
    const read = new Map<StreamName, number>();
    for (const { stream, rows } of this.#appends) {
      const from = read.get(stream) ?? 0;
      read.set(stream, from + rows);
      const stored = this.streams.get(stream)!.rows.slice(from, from + rows);
      yield { stream, events: stored.map((row) => fromStored(stream, row).event) };
    }
  }
}

/** An append that is in the log. */
export interface PastAppend {
  readonly stream: StreamName;
  readonly events: readonly DomainEvent[];
}

export interface SimLogWorld {
  readonly scheduler: Scheduler;
  readonly faults: FaultCounter;
  readonly isHostile: boolean;
  /** Probability of a fault per operation. */
  readonly logFault: number;
  /** Probability that the process crashes at an append. */
  readonly crashAtAppend: number;
  /** Probability that the process pauses at an append, for longer than a lease lasts. */
  readonly pauseAtAppend: number;
}

/** The process that owns a client of the log. */
export interface SimLogOwner {
  readonly name: string;
  readonly crash: () => void;
}

const POLL_MS = 1_000;
const down = () =>
  new AppError("the event log is not available: connection closed", { code: "log_unavailable", retryable: true });

export class SimLog implements EventLog {
  readonly isAnswering = true;
  readonly tail = { polledMs: 0, latencyMs: 0, isListening: true };
  readonly engine = "sqlite";
  readonly #disk: SimDisk;
  readonly #clock: ProcessClock;
  readonly #world: SimLogWorld;
  readonly #crash: () => void;
  readonly #writer: string;
  readonly #listeners = new Set<WakeUpListener>();
  #seenSeq: number;

  constructor(disk: SimDisk, clock: ProcessClock, world: SimLogWorld, { name, crash }: SimLogOwner) {
    this.#writer = name;
    this.#disk = disk;
    this.#clock = clock;
    this.#world = world;
    this.#crash = crash;
    this.#seenSeq = disk.seq;
    disk.clients.add(this);
    this.#schedulePoll();
  }

  #schedulePoll(): void {
    this.#clock.after(POLL_MS, () => {
      const grown = [...this.#disk.streams].filter(([, { seq }]) => seq > this.#seenSeq);
      this.#seenSeq = this.#disk.seq;
      for (const [stream, { rows }] of grown) this.#notify(stream, rows.length);
      this.#schedulePoll();
    });
  }

  #notify(stream: StreamName, version: number, appended?: readonly Recorded[]): void {
    for (const listener of this.#listeners) listener(stream, version, appended);
  }

  /** Notifies all other clients of an append. Some notifications are late and some are lost. */
  #wake(stream: StreamName, version: number): void {
    const { scheduler, faults, isHostile } = this.#world;
    for (const client of this.#disk.clients) {
      if (client === this) continue;
      if (isHostile && scheduler.chance(0.1)) {
        faults.hit("wake-up lost");
        continue;
      }
      const isLate = isHostile && scheduler.chance(0.1);
      if (isLate) faults.hit("wake-up late");
      const wait = isLate ? 500 + scheduler.random.below(3_000) : scheduler.random.below(20);
      client.#clock.after(wait, () => client.#notify(stream, version));
    }
  }

  #strikes(chance: number): boolean {
    return this.#world.isHostile && this.#world.scheduler.chance(chance);
  }

  /** A promise that never settles. A dead process waits for it. */
  async #dead(): Promise<never> {
    return new Promise(() => undefined);
  }

  async #latency(): Promise<void> {
    await this.#clock.sleep(this.#world.scheduler.random.below(8));
  }

  async append(append: Append): Promise<number> {
    const { faults, logFault, crashAtAppend, pauseAtAppend, scheduler } = this.#world;
    await this.#latency();
    if (this.#strikes(pauseAtAppend)) {
      faults.hit("pause before an append");
      // Longer than its leases last. Another process has taken them over and written by then.
      this.#clock.pause(2_000 + scheduler.random.below(12_000));
      await this.#latency();
    }
    if (this.#strikes(crashAtAppend)) {
      faults.hit("crash before an append");
      this.#crash();
      return this.#dead();
    }
    if (this.#strikes(logFault)) {
      faults.hit("append fails");
      throw down();
    }
    const time = this.#clock.now();
    const version = this.#disk.append(append, time, this.#writer);
    this.#wake(append.stream, version);
    if (this.#strikes(crashAtAppend)) {
      faults.hit("crash after an append");
      this.#crash();
      return this.#dead();
    }
    await this.#latency();
    if (this.#strikes(logFault)) {
      faults.hit("append succeeds, answer lost");
      throw down();
    }
    if (append.events.length > 0) this.#notify(append.stream, version, toRecorded(append, toStored(append, time)));
    return version;
  }

  appendAll(appends: readonly Append[]): Promise<AppendOutcome[]> {
    return Promise.all(
      appends.map((append) =>
        this.append(append).then(
          (version) => ({ version }),
          (error: Error) => ({ error }),
        ),
      ),
    );
  }

  async #reading(): Promise<void> {
    await this.#latency();
    if (!this.#strikes(this.#world.logFault)) return;
    this.#world.faults.hit("read fails");
    throw down();
  }

  async read(stream: StreamName, { from = 1, limit = 1_000 }: ReadOptions = {}): Promise<Recorded[]> {
    await this.#reading();
    const rows = (this.#disk.streams.get(stream)?.rows ?? []).slice(from - 1, from - 1 + limit);
    assertGapless(stream, rows, from);
    return rows.map((row) => fromStored(stream, row));
  }

  async readBackwards(stream: StreamName, { before, limit }: { before?: number; limit: number }): Promise<Recorded[]> {
    await this.#reading();
    const rows = this.#disk.streams.get(stream)?.rows ?? [];
    const end = before === undefined ? rows.length : before - 1;
    return rows
      .slice(Math.max(0, end - limit), end)
      .reverse()
      .map((row) => fromStored(stream, row));
  }

  async checksum(stream: StreamName, version: number): Promise<number | undefined> {
    await this.#reading();
    return this.#disk.streams.get(stream)?.rows[version - 1]?.crc;
  }

  #headOf(stream: StreamName): StreamHead {
    const held = this.#disk.streams.get(stream);
    return { stream, version: held?.rows.length ?? 0, headline: held?.headline };
  }

  async head(stream: StreamName): Promise<StreamHead> {
    await this.#reading();
    return this.#headOf(stream);
  }

  async heads(streams: readonly StreamName[]): Promise<StreamHead[]> {
    await this.#reading();
    return streams.filter((stream) => this.#disk.streams.has(stream)).map((stream) => this.#headOf(stream));
  }

  async streams(prefix: string, { after = "", limit }: { after?: string; limit: number }): Promise<StreamHead[]> {
    await this.#reading();
    const names = [...this.#disk.streams.keys()].filter((name) => name.startsWith(prefix) && name > after).sort();
    return names.slice(0, limit).map((name) => this.#headOf(name));
  }

  subscribe(listener: WakeUpListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async acquireLease(name: string, holder: string, ttlMs: number): Promise<boolean> {
    await this.#reading();
    const now = this.#world.scheduler.time;
    const lease = this.#disk.leases.get(name);
    if (lease !== undefined && lease.holder !== holder && lease.until > now) return false;
    this.#disk.leases.set(name, { holder, until: now + ttlMs });
    this.#disk.held.add(`${name} ${holder}`);
    return true;
  }

  async releaseLease(name: string, holder: string): Promise<void> {
    await this.#reading();
    if (this.#disk.leases.get(name)?.holder === holder) this.#disk.leases.delete(name);
  }

  async leases(): Promise<HeldLease[]> {
    await this.#reading();
    const now = this.#world.scheduler.time;
    return [...this.#disk.leases].flatMap(([name, { holder, until }]) => (until > now ? [{ name, holder }] : []));
  }

  status(): Promise<never> {
    return Promise.reject(new Error("the simulated log has no disk"));
  }

  async replaceHeadline({ stream, version, headline, guard }: HeadlineChange): Promise<boolean> {
    await this.#reading();
    const held = this.#disk.streams.get(stream);
    if (held?.rows.length !== version) return false;
    if (guard !== undefined && (this.#disk.streams.get(guard.stream)?.rows.length ?? 0) !== guard.version) return false;
    held.headline = headline;
    this.#wake(stream, version);
    this.#notify(stream, version);
    return true;
  }

  async findSetting(name: string): Promise<string | undefined> {
    await this.#reading();
    return this.#disk.settings.get(name);
  }

  async setting(name: string, initial: () => string): Promise<{ value: string; created: boolean }> {
    const value = await this.findSetting(name);
    if (value !== undefined) return { value, created: false };
    const made = initial();
    this.#disk.settings.set(name, made);
    return { value: made, created: true };
  }

  putBlob(): Promise<Hash> {
    return Promise.reject(new Error("the simulated log keeps no blobs"));
  }

  getBlob(): Promise<never> {
    return Promise.reject(new Error("the simulated log keeps no blobs"));
  }

  getBlobs(hashes: readonly Hash[]): Promise<BlobPage> {
    return Promise.resolve({ blobs: new Map(), read: hashes.length });
  }

  /** Ends the client with its process. */
  async close(): Promise<void> {
    this.#disk.clients.delete(this);
  }
}
