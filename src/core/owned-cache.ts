/**
 * A cache that several owners share. When it is full, it drops the oldest entry of the owner that has the most. So an
 * owner that fills the cache evicts its own entries.
 */
interface Owned<K, V> {
  /** The least recently used entry first. */
  readonly entries: Map<K, V>;
  size: number;
}

export class OwnedCache<K, V> {
  readonly #max: number;
  readonly #sizeOf: (value: V) => number;
  readonly #owned = new Map<string, Owned<K, V>>();
  readonly #ownerOf = new Map<K, string>();
  #total = 0;

  /**
   * @param max entries of all owners, or their size
   * @param sizeOf what an entry counts for. Must not change while it is kept. Default: 1
   */
  constructor(max: number, sizeOf: (value: V) => number = () => 1) {
    this.#max = max;
    this.#sizeOf = sizeOf;
  }

  /** Number of entries of all owners. */
  get size(): number {
    return this.#ownerOf.size;
  }

  /** The owner of an entry; undefined without an entry. */
  ownerOf(key: K): string | undefined {
    return this.#ownerOf.get(key);
  }

  get(key: K): V | undefined {
    const own = this.#of(key);
    const value = own?.get(key);
    if (own === undefined || value === undefined) return undefined;
    own.delete(key);
    own.set(key, value);
    return value;
  }

  /** Like `get`, but doesn't count as a use. */
  peek(key: K): V | undefined {
    return this.#of(key)?.get(key);
  }

  #of(key: K): Map<K, V> | undefined {
    const owner = this.#ownerOf.get(key);
    return owner === undefined ? undefined : this.#owned.get(owner)?.entries;
  }

  /** Sets an entry, which belongs to this owner from now on. One that is larger than the whole cache is not kept. */
  set(key: K, value: V, owner: string): void {
    this.delete(key);
    const size = this.#sizeOf(value);
    if (size > this.#max) return;
    this.#ownerOf.set(key, owner);
    const own = this.#owned.getOrInsertComputed(owner, () => ({ entries: new Map(), size: 0 }));
    own.entries.set(key, value);
    own.size += size;
    this.#total += size;
    while (this.#total > this.#max) this.#evict();
  }

  delete(key: K): void {
    const owner = this.#ownerOf.get(key);
    if (owner === undefined) return;
    this.#ownerOf.delete(key);
    const own = this.#owned.get(owner) as Owned<K, V>;
    const size = this.#sizeOf(own.entries.get(key) as V);
    own.entries.delete(key);
    own.size -= size;
    this.#total -= size;
    if (own.entries.size === 0) this.#owned.delete(owner);
  }

  clear(): void {
    this.#owned.clear();
    this.#ownerOf.clear();
    this.#total = 0;
  }

  /** All entries, in no order. */
  *entries(): Generator<readonly [K, V]> {
    for (const { entries } of this.#owned.values()) yield* entries;
  }

  #evict(): void {
    let most: Owned<K, V> | undefined;
    for (const own of this.#owned.values()) if (most === undefined || own.size > most.size) most = own;
    const [oldest] = most?.entries ?? [];
    if (oldest !== undefined) this.delete(oldest[0]);
  }
}
