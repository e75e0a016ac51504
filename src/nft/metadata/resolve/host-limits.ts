/**
 * Limits per remote host: slots, and a circuit breaker per host and collection. A circuit breaker judges by answers as
 * well as by failures to answer: a document that hangs while others arrive says nothing about the host. One collection's
 * dead links don't stop another collection on the same host.
 */

import type { Clock } from "../../../core/clock.ts";
import { countedCache } from "../../../core/counted-cache.ts";
import { FAILURE_STATUS, MetadataFailure } from "./failure.ts";
import { HostLanes } from "./host-lanes.ts";

/** Failure reasons without an answer of the host. */
type Silence = "dns_failed" | "connection_failed" | "timeout";

interface Circuit {
  /** Requests that run or wait. */
  active: number;
  /** Failures to answer since the last answer. */
  failures: number;
  /** Time of the last answer on the monotonic clock. */
  answeredAt: number;
  /** End of the open state, on the monotonic clock. */
  openUntil: number;
  /** Requests that probe a host in doubt. */
  probes: number;
  /** Failure reason of rejected requests. */
  reason: Silence;
}

interface HostRequest {
  readonly url: string;
  /** The collection that the request is for. */
  readonly collection: string;
  /** True if a timeout does not count against the host: a gateway waits for content of other hosts. */
  readonly isPatient: boolean;
}

/** One request, and the circuits that judge it. */
interface HostAttempt {
  readonly isPatient: boolean;
  /** The host's circuit, which all collections share. */
  readonly all: Circuit;
  /** The collection's circuit on this host. */
  readonly own: Circuit;
  /** Hash of the URL. */
  readonly url: bigint;
}

/** Failures to answer, with no answer since, that put a host in doubt. */
const FAILURES_TO_OPEN = 4;
/** Concurrent requests to a host in doubt. Several, because one document may hang although the host answers. */
const PROBES = 4;
const FIRST_OPEN_MS = 5_000;
const MAX_OPEN_MS = 600_000;
/** Most circuits in memory: of hosts, and of collections on hosts. An idle one without failures is removed at once. */
const MAX_CIRCUITS = 20_000;
/** Most URLs whose last request timed out. 50,000 hashes take about 5 MB. */
const MAX_SILENT = 50_000;

export class Hosts {
  readonly #clock: Clock;
  readonly #perHost: number;
  /** By host. Only hosts with a request. */
  readonly #queues = new Map<string, HostLanes>();
  /** By host, and by host and collection. A host's own circuit counts, but never opens. */
  readonly #circuits = new Map<string, Circuit>();
  /** Hashes of URLs whose last request timed out. */
  readonly #silent = countedCache<bigint, true>(MAX_SILENT);

  /** @param perHost concurrent requests per host, and the same number for requests that are silent for seconds */
  constructor(clock: Clock, perHost: number) {
    this.#clock = clock;
    this.#perHost = perHost;
  }

  /**
   * Runs `work`, which sends the request, once the host has a free slot for the collection.
   * @throws MetadataFailure at once while the circuit breaker is open; any error of `work`
   */
  async run<T>(request: HostRequest, work: () => Promise<T>): Promise<T> {
    const host = URL.parse(request.url)?.host ?? "";
    const keys = [host, `${host} ${request.collection}`] as const;
    const [all, own] = keys.map((key) => this.#used(key)) as [Circuit, Circuit];
    const attempt = { isPatient: request.isPatient, all, own, url: BigInt(Bun.hash(request.url)) };
    try {
      this.#admit(attempt);
      return await this.#queue(host).run(request.collection, () => this.#judged(attempt, work));
    } finally {
      all.active--;
      own.active--;
      if (this.#queues.get(host)?.isIdle) this.#queues.delete(host);
      for (const key of keys) this.#forget(key);
    }
  }

  #queue(host: string): HostLanes {
    const queue = this.#queues.get(host) ?? new HostLanes(this.#clock, this.#perHost);
    this.#queues.set(host, queue);
    return queue;
  }

  async #judged<T>(attempt: HostAttempt, work: () => Promise<T>): Promise<T> {
    // The circuit breaker may have opened during the wait.
    const probed = this.#admit(attempt);
    const begun = this.#clock.monotonic();
    if (probed !== undefined) probed.probes++;
    try {
      const result = await work();
      this.#answered(attempt);
      return result;
    } catch (error) {
      if (error instanceof MetadataFailure) this.#failed(attempt, error, begun);
      throw error;
    } finally {
      if (probed !== undefined) probed.probes--;
    }
  }

  /**
   * Decides if a request may be sent:
   * 1. The collection's circuit breaker is open: no.
   * 2. It is half-open: the request is a probe. A URL that timed out before is a bad probe, so at most one is that.
   * 3. The host has answered no collection since several failures, and this collection not yet: the request is a probe.
   *    All such collections share the probes, so that a dead host with a thousand collections costs little.
   * 4. Otherwise: yes.
   * Returns the circuit that counts the probe. @throws CircuitOpen
   */
  #admit({ all, own, url }: HostAttempt): Circuit | undefined {
    if (this.#clock.monotonic() < own.openUntil) throw new CircuitOpen(own.reason);
    const isInDoubt = own.failures >= FAILURES_TO_OPEN;
    const isUnknown = own.answeredAt === Number.NEGATIVE_INFINITY && all.failures >= FAILURES_TO_OPEN;
    if (!isInDoubt && !isUnknown) return undefined;
    const probed = isInDoubt ? own : all;
    if (probed.probes >= (this.#silent.has(url) ? 1 : PROBES)) throw new CircuitOpen(probed.reason);
    return probed;
  }

  #answered({ all, own, url }: HostAttempt): void {
    this.#silent.delete(url);
    for (const circuit of [all, own]) {
      circuit.failures = 0;
      circuit.openUntil = 0;
      circuit.answeredAt = this.#clock.monotonic();
    }
  }

  #failed(attempt: HostAttempt, error: MetadataFailure, begun: number): void {
    const { reason } = error;
    if (error instanceof CircuitOpen) return;
    if (reason !== "dns_failed" && reason !== "connection_failed" && reason !== "timeout") {
      // The fetcher refuses bad URLs itself, without a request.
      if (FAILURE_STATUS[reason] !== "invalid_url") this.#answered(attempt);
      return;
    }
    if (reason === "timeout") {
      const wasSilent = this.#silent.has(attempt.url);
      this.#silent.set(attempt.url, true);
      // The same silence again tells nothing new about the host.
      if (attempt.isPatient || wasSilent) return;
    }
    this.#count(attempt.all, reason, begun);
    if (this.#count(attempt.own, reason, begun) && attempt.own.failures >= FAILURES_TO_OPEN) this.#open(attempt.own);
  }

  /** Counts a failure to answer, unless the host has answered another request since. Returns true if it counts. */
  #count(circuit: Circuit, reason: Silence, begun: number): boolean {
    // Requests that started before the circuit breaker opened tell nothing new, either.
    if (circuit.answeredAt > begun || this.#clock.monotonic() < circuit.openUntil) return false;
    circuit.failures++;
    circuit.reason = reason;
    return true;
  }

  #open(circuit: Circuit): void {
    const wait = Math.min(MAX_OPEN_MS, FIRST_OPEN_MS * 2 ** (circuit.failures - FAILURES_TO_OPEN));
    circuit.openUntil = this.#clock.monotonic() + wait;
  }

  /** Returns a circuit, in use: an idle one could be evicted for the next. */
  #used(key: string): Circuit {
    const circuit = this.#circuit(key);
    circuit.active++;
    return circuit;
  }

  #circuit(key: string): Circuit {
    const known = this.#circuits.get(key);
    if (known !== undefined) return known;
    if (this.#circuits.size >= MAX_CIRCUITS) this.#evict();
    const [answeredAt, reason] = [Number.NEGATIVE_INFINITY, "connection_failed"] as const;
    const circuit: Circuit = { active: 0, failures: 0, answeredAt, openUntil: 0, probes: 0, reason };
    this.#circuits.set(key, circuit);
    return circuit;
  }

  #forget(key: string): void {
    const circuit = this.#circuits.get(key);
    if (circuit?.active === 0 && circuit.failures === 0) this.#circuits.delete(key);
  }

  /** Removes the oldest idle circuit that is not in doubt, or else the oldest idle one. */
  #evict(): void {
    let evicted: string | undefined;
    for (const [key, { active, failures }] of this.#circuits) {
      if (active > 0) continue;
      evicted ??= key;
      if (failures >= FAILURES_TO_OPEN) continue;
      evicted = key;
      break;
    }
    if (evicted !== undefined) this.#circuits.delete(evicted);
  }
}

/** Rejection by an open circuit breaker: no request was sent. */
class CircuitOpen extends MetadataFailure {}
