/**
 * An event log in memory for the price tests. It implements the port's versions, headlines, conflicts, paging and
 * wake-ups, but no leases and no blobs.
 */

import { ConcurrencyError } from "../../src/core/errors.ts";
import type { DomainEvent, Recorded, StreamName } from "../../src/events/types.ts";
import type { Append, AppendOutcome, EventLog, Headline, HeadlineChange, StreamHead } from "../../src/log/event-log.ts";

export class MemoryLog implements EventLog {
  readonly isAnswering = true;
  readonly tail = { polledMs: 0, latencyMs: 0, isListening: true };
  readonly engine = "sqlite";
  readonly #streams = new Map<string, Recorded[]>();
  readonly #headlines = new Map<string, Headline>();
  readonly #settings = new Map<string, string>();
  readonly #listeners = new Set<(stream: StreamName, version: number) => void>();

  events(stream: StreamName): DomainEvent[] {
    return (this.#streams.get(stream) ?? []).map((recorded) => recorded.event);
  }

  async append({ stream, events, expectedVersion, headline, guard }: Append): Promise<number> {
    const own = this.#streams.get(stream) ?? [];
    if (own.length !== expectedVersion) throw new ConcurrencyError(stream, expectedVersion, own.length);
    const guarded = guard === undefined ? 0 : (this.#streams.get(guard.stream)?.length ?? 0);
    if (guard !== undefined && guarded !== guard.version) {
      throw new ConcurrencyError(guard.stream, guard.version, guarded);
    }
    const fresh = events.map((event, index) => ({
      stream,
      version: own.length + index + 1,
      time: 1_700_000_000_000,
      checksum: 0,
      event,
    }));
    if (fresh.length === 0) return own.length;
    const version = own.length + fresh.length;
    this.#streams.set(stream, [...own, ...fresh]);
    if (headline !== undefined) this.#headlines.set(stream, headline);
    for (const listener of this.#listeners) listener(stream, version);
    return version;
  }

  async appendAll(appends: readonly Append[]): Promise<AppendOutcome[]> {
    return Promise.all(
      appends.map((append) =>
        this.append(append).then(
          (version) => ({ version }),
          (error: Error) => ({ error }),
        ),
      ),
    );
  }

  async read(stream: StreamName, { from = 1, limit = 1_000 } = {}): Promise<Recorded[]> {
    return (this.#streams.get(stream) ?? []).slice(from - 1, from - 1 + limit);
  }

  async readBackwards(stream: StreamName, { before, limit }: { before?: number; limit: number }): Promise<Recorded[]> {
    const own = this.#streams.get(stream) ?? [];
    const end = before === undefined ? own.length : before - 1;
    return own.slice(Math.max(0, end - limit), end).reverse();
  }

  async head(stream: StreamName): Promise<StreamHead> {
    return { stream, version: this.#streams.get(stream)?.length ?? 0, headline: this.#headlines.get(stream) };
  }

  async checksum(stream: StreamName, version: number): Promise<number | undefined> {
    return this.#streams.get(stream)?.[version - 1]?.checksum;
  }

  async heads(streams: readonly StreamName[]): Promise<StreamHead[]> {
    return Promise.all(streams.filter((stream) => this.#streams.has(stream)).map((stream) => this.head(stream)));
  }

  async streams(prefix: string, { after = "", limit }: { after?: string; limit: number }): Promise<StreamHead[]> {
    const names = [...this.#streams.keys()].filter((name) => name.startsWith(prefix) && name > after).sort();
    return this.heads(names.slice(0, limit) as StreamName[]);
  }

  subscribe(listener: (stream: StreamName, version: number) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  putBlob(): never {
    throw new Error("this log has no blobs");
  }

  getBlob(): never {
    throw new Error("this log has no blobs");
  }

  getBlobs(): never {
    throw new Error("this log has no blobs");
  }

  acquireLease(): never {
    throw new Error("this log has no leases");
  }

  releaseLease(): never {
    throw new Error("this log has no leases");
  }

  leases(): never {
    throw new Error("this log has no leases");
  }

  status(): never {
    throw new Error("this log has no disk");
  }

  async replaceHeadline({ stream, version, headline, guard }: HeadlineChange): Promise<boolean> {
    if (this.#streams.get(stream)?.length !== version) return false;
    if (guard !== undefined && (this.#streams.get(guard.stream)?.length ?? 0) !== guard.version) return false;
    this.#headlines.set(stream, headline);
    for (const listener of this.#listeners) listener(stream, version);
    return true;
  }

  async findSetting(name: string): Promise<string | undefined> {
    return this.#settings.get(name);
  }

  async setting(name: string, initial: () => string): Promise<{ value: string; created: boolean }> {
    const known = this.#settings.get(name);
    const value = known ?? initial();
    this.#settings.set(name, value);
    return { value, created: known === undefined };
  }

  async close(): Promise<void> {}
}
