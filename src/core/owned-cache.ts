/**
 * A cache that several owners share. When it is full, the owner with the most entries loses its oldest one, so an owner
 * that fills the cache evicts its own entries, and those of all others stay.
 */
export class OwnedCache<K, V> {
  readonly #max: number;
  /** By owner, each with the least recently used entry first. */
  readonly #entries = new Map<string, Map<K, V>>();
  readonly #ownerOf = new Map<K, string>();

  /** @param max entries of all owners */
  constructor(max: number) {
    this.#max = max;
  }

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
    return owner === undefined ? undefined : this.#entries.get(owner);
  }

  /** Sets an entry, which belongs to this owner from now on. */
  set(key: K, value: V, owner: string): void {
    this.delete(key);
    this.#ownerOf.set(key, owner);
    this.#entries.getOrInsertComputed(owner, () => new Map()).set(key, value);
    if (this.size > this.#max) this.#evict();
  }

  delete(key: K): void {
    const owner = this.#ownerOf.get(key);
    if (owner === undefined) return;
    this.#ownerOf.delete(key);
    const own = this.#entries.get(owner)!;
    own.delete(key);
    if (own.size === 0) this.#entries.delete(owner);
  }

  clear(): void {
    this.#entries.clear();
    this.#ownerOf.clear();
  }

  /** All entries, in no order. */
  *entries(): Generator<readonly [K, V]> {
    for (const own of this.#entries.values()) yield* own;
  }

  #evict(): void {
    let most: Map<K, V> | undefined;
    for (const own of this.#entries.values()) if (most === undefined || own.size > most.size) most = own;
    const [oldest] = most ?? [];
    if (oldest !== undefined) this.delete(oldest[0]);
  }
}
