/**
 * The API keys: those of the environment, the one made at first start, and those that operators add. Added keys are
 * events of the log, so all replicas know them. Only SHA-256 hashes are kept, and comparing takes the same time for
 * every key.
 */

import { randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { invalidParameter, Refusal } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { PROGRAM } from "../core/program.ts";
import { TokenBuckets } from "../core/rate.ts";
import type { Requester } from "../core/work.ts";
import { type KeyEvent, type KeyScope, keysStream, type Recorded } from "../events/types.ts";
import { appendWithRetry, type EventLog } from "../log/event-log.ts";
import type { KeyCost, ListedKey } from "./models.ts";

/** Setting of the log with the hash of the key made at first start. */
export const FIRST_KEY_SETTING = "api-key-sha256";
const FIRST_KEY = "first";
/** The key that a command has in its own process. Bills have its name, and no list. */
const OWN_KEY = "command line";
/** What to do without a key of scope `operate`, as the end of a sentence. */
export const WAY_TO_OPERATE = `set OPERATOR_KEYS, or run \`${PROGRAM} keys add <name> --scope operate\` with the service's EVENT_LOG_URL`;
/** Keys of the log. Each request compares its key with all of them: a tenth of a millisecond. */
const MAX_KEYS = 1_000;
/** Allowed names. Keys of the environment have other ones. */
export const KEY_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const DAY_MS = 86_400_000;
const MAX_GRACE_MS = 30 * DAY_MS;
/** Valid texts of one key: the newest, and former ones in their grace periods. */
const MAX_TEXTS = 5;
/** The highest limits that an operator may give a key. */
const HIGHEST: KeyLimits = { requestsPerMinute: 10_000_000, collectionsPerHour: 1_000_000, subscriptions: 1_000_000 };
const MINUTE_MS = 60_000;
/**
 * A key may send twice its requests a minute as messages over its sockets at once, and at least `LEAST_MESSAGES`. After
 * `MESSAGES_MS` it may send as many again. The rate refuses most messages, but a refused one also takes some 30 µs of the serving
 * thread.
 */
const LEAST_MESSAGES = 1_000;
const MESSAGES_MS = 12_000;
const HOUR_MS = 3_600_000;
const ATTEMPTS = 8;

/** What a key may ask of one replica. */
export interface KeyLimits {
  readonly requestsPerMinute: number;
  /** New collections per hour. */
  readonly collectionsPerHour: number;
  /** Subscriptions at one time, over all sockets. */
  readonly subscriptions: number;
}

/** Limits of a new key. An absent one is the server's. */
type GivenLimits = { readonly [Name in keyof KeyLimits]?: number | undefined };

/** A key that a request has shown. */
export interface ApiKey extends KeyLimits, Requester {
  /** Name of the key. */
  readonly key: string;
  readonly scope: KeyScope;
  /** SHA-256 of the shown text. */
  readonly hash: Buffer;
}

/** A key with its rate alone. */
export type RatedKey = Pick<ApiKey, "key" | "requestsPerMinute">;

/** A key's rate, as its answers tell it. */
export interface KeyRate {
  /** Requests a minute. */
  readonly limit: number;
  readonly left: number;
  readonly resetSeconds: number;
}

/** A text of a key, as its hash. After a rotation the former text is valid for a while. */
interface KeyText {
  readonly hash: Buffer;
  /** ms since the epoch; infinite for the newest text. */
  readonly until: number;
}

interface KnownKey extends KeyLimits {
  readonly name: string;
  readonly scope: KeyScope;
  readonly source: "environment" | "log";
  readonly createdAt: number | undefined;
  readonly texts: readonly KeyText[];
}

/** Uses of a key in this process. */
interface KeyUses {
  day: number;
  requests: number;
  lastMs: number;
}

/** The hash of a key in the environment: SHA-256, hex. */
interface EnvironmentKey {
  readonly hash: string;
  readonly scope: KeyScope;
  /** `API_KEYS#1`. */
  readonly name: string;
}

interface KeysOptions {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly environment: readonly EnvironmentKey[];
  /** SHA-256 of a key of scope `operate` that is valid in this process only, in hex. */
  readonly ownKeyHash?: string | undefined;
  /** Limits of a key that has none of its own. */
  readonly limits: KeyLimits;
  /** Called when a text of a key has become invalid. */
  readonly onDropped?: (keys: ApiKeys) => void;
}

export const hashOfKey = (text: string): string => Bun.CryptoHasher.hash("sha256", text, "hex");

/** A new key's text: 32 random bytes. */
export const newKeyText = (): string => randomBytes(32).toString("base64url");

export class ApiKeys {
  readonly #options: KeysOptions;
  readonly #keys = new Map<string, KnownKey>();
  readonly #uses = new Map<string, KeyUses>();
  readonly #requests: TokenBuckets;
  readonly #newCollections: TokenBuckets;
  readonly #messages: TokenBuckets;
  /** All valid texts, of all keys. */
  #texts: readonly (KeyText & { readonly key: KnownKey })[] = [];
  #version = 0;
  #reading: Promise<void> = Promise.resolve();
  #hasFailed = false;
  readonly #unsubscribe: () => void;
  #cancelExpiry: () => void = () => undefined;

  constructor(options: KeysOptions) {
    this.#options = options;
    const { environment, ownKeyHash, limits, logger } = options;
    this.#requests = new TokenBuckets(options.clock);
    this.#newCollections = new TokenBuckets(options.clock);
    this.#messages = new TokenBuckets(options.clock);
    for (const { hash, ...key } of environment) {
      this.#put({ ...key, ...limits, source: "environment", createdAt: undefined }, hash);
    }
    if (ownKeyHash !== undefined) {
      const own = { name: OWN_KEY, scope: "operate", source: "environment", createdAt: undefined } as const;
      this.#put({ ...own, ...HIGHEST }, ownKeyHash);
    }
    this.#unsubscribe = options.log.subscribe((stream, version) => {
      if (stream !== keysStream || version <= this.#version) return;
      this.read().catch((error: unknown) => logger.error({ err: error }, "the keys of the log could not be read"));
    });
  }

  /** Reads the first key, which is valid from the next `read` on. The events may tell that it was revoked. */
  async begin(): Promise<void> {
    const hash = await this.#options.log.findSetting(FIRST_KEY_SETTING);
    if (hash === undefined) return;
    const first = { name: FIRST_KEY, scope: "operate", source: "log", createdAt: undefined } as const;
    this.#put({ ...first, ...this.#options.limits }, hash);
  }

  /** Puts in a key with its only text. Keys of scope `operate` have no limit of collections and subscriptions. */
  #put(key: Omit<KnownKey, "texts">, hash: string): void {
    const most = Number.POSITIVE_INFINITY;
    const own = key.scope === "operate" ? { collectionsPerHour: most, subscriptions: most } : {};
    this.#keys.set(key.name, { ...key, ...own, texts: [newestText(hash)] });
  }

  /** Reads what the log has in addition. @throws AppError if the log does not answer */
  read(): Promise<void> {
    this.#reading = this.#reading.catch(() => undefined).then(() => this.#readOn());
    return this.#reading;
  }

  /**
   * Waits for the running read, and repeats one that has failed: it may have missed a revocation. Rejects if that fails
   * again.
   */
  async caughtUp(): Promise<void> {
    await this.#reading.catch(() => undefined);
    if (this.#hasFailed) await this.read();
  }

  async #readOn(): Promise<void> {
    this.#hasFailed = true;
    for (;;) {
      const events = (await this.#options.log.read(keysStream, { from: this.#version + 1 })) as Recorded<KeyEvent>[];
      for (const recorded of events) this.#fold(recorded);
      if (events.length === 0) break;
    }
    this.#hasFailed = false;
    this.#rebuild();
  }

  close(): void {
    this.#unsubscribe();
    this.#cancelExpiry();
  }

  #fold({ event, version, time }: Recorded<KeyEvent>): void {
    this.#version = version;
    const { name } = event;
    const known = this.#keys.get(name);
    switch (event.type) {
      case "KeyAdded": {
        const { scope, hash } = event;
        const { limits } = this.#options;
        const own: KeyLimits = {
          requestsPerMinute: event.requestsPerMinute ?? limits.requestsPerMinute,
          collectionsPerHour: event.collectionsPerHour ?? limits.collectionsPerHour,
          subscriptions: event.subscriptions ?? limits.subscriptions,
        };
        this.#put({ name, scope, ...own, source: "log", createdAt: time }, hash);
        return;
      }
      case "KeyRotated": {
        if (known === undefined) return;
        const former = known.texts
          .filter(({ until }) => until > time)
          .map(({ hash, until }) => ({ hash, until: Math.min(until, event.graceUntil) }));
        this.#keys.set(name, { ...known, texts: [newestText(event.hash), ...former] });
        return;
      }
      case "KeyRevoked":
        this.#keys.delete(name);
        this.#uses.delete(name);
        return;
      default:
        event satisfies never;
    }
  }

  /** Collects the valid texts, and again when the next one expires. */
  #rebuild(): void {
    const { clock, onDropped } = this.#options;
    const now = clock.now();
    const before = this.#texts;
    const valid = [...this.#keys.values()].flatMap((key) => key.texts.map((text) => ({ ...text, key })));
    this.#texts = valid.filter(({ until }) => until > now);
    const next = Math.min(...this.#texts.map(({ until }) => until));
    this.#cancelExpiry();
    // Timers can't wait longer than 24 days.
    if (Number.isFinite(next)) {
      this.#cancelExpiry = clock.after(Math.min(next - now, DAY_MS) + 1, () => this.#rebuild());
    }
    const hashes = new Set(this.#texts.map(({ hash }) => hash.toString("hex")));
    if (before.some(({ hash }) => !hashes.has(hash.toString("hex")))) onDropped?.(this);
  }

  /** Returns the key of a text. @throws Refusal `invalid_api_key` */
  check(text: string | null | undefined): ApiKey {
    if (!text) throw new Refusal("missing_api_key", "API KEY missing from x-api-key header");
    const hash = Bun.SHA256.hash(text.slice(0, 256)) as Uint8Array;
    let found: (KeyText & { readonly key: KnownKey }) | undefined;
    // Compare every hash, so that the time reveals nothing.
    for (const known of this.#texts) if (timingSafeEqual(known.hash, hash)) found = known;
    if (found === undefined) {
      throw new Refusal("invalid_api_key", "x-api-key: the API key is not valid on this server");
    }
    this.#count(found.key.name);
    const { name, scope, requestsPerMinute, collectionsPerHour, subscriptions } = found.key;
    const limits = { requestsPerMinute, collectionsPerHour, subscriptions };
    return { key: name, scope, isOperator: scope === "operate", ...limits, hash: found.hash };
  }

  /** Takes a request from a key's rate: a bucket that holds one minute's worth. @throws Refusal `rate_limited` with Retry-After */
  takeRequest({ key, requestsPerMinute: capacity }: ApiKey): void {
    const wait = this.#requests.take(key, { capacity, fillMs: MINUTE_MS });
    if (wait > 0) throw rateExceeded(wait);
  }

  /**
   * Takes the further requests that a batch counts for, after its first one. Together they empty the bucket at most.
   * @throws Refusal `rate_limited`. After its Retry-After, the bucket has all of them and the first one of the repetition
   */
  takeFurther({ key, requestsPerMinute: capacity }: ApiKey, count: number): void {
    const rate = { capacity, fillMs: MINUTE_MS };
    const taken = Math.min(count, capacity - 1);
    if (this.#requests.take(key, rate, taken) > 0) throw rateExceeded(this.#requests.wait(key, rate, taken + 1));
  }

  /** Counts a message over any of a key's sockets. Returns false beyond its bound. Operators have none. */
  takeMessage({ key, requestsPerMinute, isOperator }: ApiKey): boolean {
    const capacity = Math.max(LEAST_MESSAGES, 2 * requestsPerMinute);
    return isOperator || this.#messages.take(key, { capacity, fillMs: MESSAGES_MS }) === 0;
  }

  /** The rate of a key by its name; undefined without a key of this name. */
  ratedKey(name: string): RatedKey | undefined {
    const known = this.#keys.get(name);
    return known && { key: name, requestsPerMinute: known.requestsPerMinute };
  }

  /** True while a key owes requests: work that was done for it has cost more than its rate had left. */
  isInDebt({ key, requestsPerMinute: capacity }: RatedKey): boolean {
    return this.#requests.left(key, { capacity, fillMs: MINUTE_MS }) < 0;
  }

  /** Charges a key's rate for what a request has cost beyond the one that was taken. */
  charge({ key, requestsPerMinute: capacity }: RatedKey, requests: number): void {
    this.#requests.charge(key, { capacity, fillMs: MINUTE_MS }, requests);
  }

  /** What is left of a key's rate. `resetSeconds`: until the bucket is full again. */
  rateOf({ key, requestsPerMinute: limit }: ApiKey): KeyRate {
    const left = this.#requests.left(key, { capacity: limit, fillMs: MINUTE_MS });
    const resetSeconds = Math.ceil(((limit - left) * MINUTE_MS) / limit / 1_000);
    return { limit, left: Math.max(0, Math.floor(left)), resetSeconds };
  }

  /** Takes one new collection from a key's quota. @throws Refusal `rate_limited` with Retry-After */
  takeCollection({ key: name }: Requester): void {
    const capacity = this.#keys.get(name)?.collectionsPerHour ?? Number.POSITIVE_INFINITY;
    if (!Number.isFinite(capacity)) return;
    const wait = this.#newCollections.take(name, { capacity, fillMs: HOUR_MS });
    if (wait === 0) return;
    const text = `the key ${name} may request ${capacity} new collections an hour; an operator may give it more`;
    throw new Refusal("rate_limited", text, { retryAfter: Math.ceil(wait / 1_000) });
  }

  #count(name: string): void {
    const now = this.#options.clock.now();
    const day = Math.floor(now / DAY_MS);
    const uses = this.#uses.get(name);
    if (uses === undefined || uses.day !== day) this.#uses.set(name, { day, requests: 1, lastMs: now });
    else {
      uses.requests++;
      uses.lastMs = now;
    }
  }

  /** True while the text with this hash is valid. */
  isValid(hash: Uint8Array): boolean {
    return this.#texts.some((text) => text.hash.equals(hash));
  }

  /** True if a valid key may operate. */
  get hasOperator(): boolean {
    return this.#texts.some(({ key }) => key.scope === "operate");
  }

  /** True if the log has no key, and never had one. */
  get isFirstStart(): boolean {
    return this.#version === 0 && this.#keys.size === 0;
  }

  /** @param costOf returns what a key has cost; by default nothing is known of it */
  list(costOf: (name: string) => KeyCost | null = () => null): ListedKey[] {
    const today = Math.floor(this.#options.clock.now() / DAY_MS);
    const timeText = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString());
    const nullable = (limit: number) => (Number.isFinite(limit) ? limit : null);
    const listed = [...this.#keys.values()].filter(({ name }) => name !== OWN_KEY);
    return listed.map((key) => {
      const { name, scope, source, requestsPerMinute, collectionsPerHour, subscriptions, createdAt } = key;
      const uses = this.#uses.get(name);
      return {
        name,
        scope,
        source,
        requestsPerMinute,
        collectionsPerHour: nullable(collectionsPerHour),
        subscriptions: nullable(subscriptions),
        createdAt: timeText(createdAt),
        lastUse: timeText(uses && Math.floor(uses.lastMs / MINUTE_MS) * MINUTE_MS),
        requestsToday: uses?.day === today ? uses.requests : 0,
        cost: costOf(name),
      };
    });
  }

  /**
   * Adds a key and returns its text, which is not kept.
   * @throws Refusal `invalid_parameter` for a bad name or limit, `conflict` if there is a key of this name, or too many keys
   */
  async add(name: string, scope: KeyScope, limits: GivenLimits = {}): Promise<string> {
    if (!KEY_NAME.test(name)) {
      throw invalidParameter("name", "must be 1 to 64 lower-case letters, digits, dots, hyphens or underscores");
    }
    for (const [limit, most] of Object.entries(HIGHEST)) {
      const value = limits[limit as keyof KeyLimits] ?? 1;
      if (!Number.isInteger(value) || value < 1 || value > most) {
        throw invalidParameter(limit, `must be a whole number from 1 to ${most}`);
      }
    }
    const text = newKeyText();
    await this.#append(() => {
      if (this.#keys.has(name)) throw conflict(`there is a key of the name ${name} already`);
      if (this.#keys.size >= MAX_KEYS) throw conflict(`there are ${MAX_KEYS} keys: revoke one first`);
      const { requestsPerMinute = null, collectionsPerHour = null, subscriptions = null } = limits;
      const own = { requestsPerMinute, collectionsPerHour, subscriptions };
      return { type: "KeyAdded", name, scope, hash: hashOfKey(text), ...own };
    });
    return text;
  }

  /**
   * Gives a key a new text and returns it.
   * @param graceMs time that the former text stays valid. Texts of earlier rotations keep their time if it is shorter
   * @throws Refusal `invalid_parameter`, `not_found`, `conflict` for a key of the environment, or with too many valid texts
   */
  async rotate(name: string, graceMs: number): Promise<string> {
    if (!Number.isInteger(graceMs) || graceMs < 0 || graceMs > MAX_GRACE_MS) {
      throw invalidParameter("graceSeconds", `must be a whole number from 0 to ${MAX_GRACE_MS / 1_000}`);
    }
    const text = newKeyText();
    await this.#append(() => {
      this.#assertChangeable(name);
      const now = this.#options.clock.now();
      const valid = this.#keys.get(name)?.texts.filter(({ until }) => until > now) ?? [];
      if (graceMs > 0 && valid.length >= MAX_TEXTS) {
        throw conflict(`${name} has ${MAX_TEXTS} valid texts: rotate it without grace, which ends all former ones`);
      }
      return { type: "KeyRotated", name, hash: hashOfKey(text), graceUntil: now + graceMs };
    });
    return text;
  }

  /** @throws Refusal `not_found`, `conflict` for a key of the environment */
  async revoke(name: string): Promise<void> {
    await this.#append(() => {
      this.#assertChangeable(name);
      return { type: "KeyRevoked", name };
    });
  }

  #assertChangeable(name: string): void {
    const key = this.#keys.get(name);
    if (key === undefined) throw new Refusal("not_found", `there is no key of the name ${name.slice(0, 64)}`);
    if (key.source === "environment") {
      throw conflict(`${name} is set by the environment: change the variable and start the service again`);
    }
  }

  /** Appends the event that `make` returns for the newest state, and folds it. */
  async #append(make: () => KeyEvent): Promise<void> {
    await appendWithRetry(this.#options.log, ATTEMPTS, async () => {
      await this.read();
      return { stream: keysStream, expectedVersion: this.#version, events: [make()] };
    });
    await this.read();
  }
}

/** The newest text of a key. */
const newestText = (hash: string): KeyText => ({ hash: Buffer.from(hash, "hex"), until: Number.POSITIVE_INFINITY });

const rateExceeded = (waitMs: number): Refusal =>
  new Refusal("rate_limited", "Rate limit exceeded", { retryAfter: Math.max(1, Math.ceil(waitMs / 1_000)) });

const conflict = (message: string): Refusal => new Refusal("conflict", message);
