/**
 * Limits per remote host: a maximum of concurrent requests, and a circuit breaker that opens after several failures to
 * answer in a row. A request that waits for a slot delays only requests to the same host.
 */
import type { Clock } from "../../core/clock.ts";
import { MetadataFailure } from "../outcome.ts";

interface Host {
  active: number;
  readonly waiting: (() => void)[];
  /** Consecutive failures to answer. */
  failures: number;
  openUntil: number;
  /** Failure reason of the requests that an open circuit breaker rejects. */
  reason: "dns_failed" | "connection_failed" | "timeout";
}

const FAILURES_TO_CLOSE = 4;
const FIRST_CLOSED_MS = 5_000;
const MAX_CLOSED_MS = 600_000;
/** Most hosts in memory. An idle host without failures is removed at once. */
const MAX_HOSTS = 10_000;

export class Hosts {
  readonly #hosts = new Map<string, Host>();
  readonly #clock: Clock;
  readonly #perHost: number;

  constructor(clock: Clock, perHost: number) {
    this.#clock = clock;
    this.#perHost = perHost;
  }

  /**
   * Runs `work` once the host has a free slot.
   * @param patient true if a timeout does not count against the host: a gateway waits for content of other hosts
   * @throws MetadataFailure at once while the circuit breaker is open
   */
  async run<T>(name: string, patient: boolean, work: () => Promise<T>): Promise<T> {
    const host = this.#host(name);
    this.#assertOpen(host);
    this.#assertTried(host);
    if (host.active >= this.#perHost) await new Promise<void>((resolve) => host.waiting.push(resolve));
    else host.active++;
    try {
      // The circuit breaker may have opened during the wait.
      this.#assertOpen(host);
      const result = await work();
      host.failures = 0;
      return result;
    } catch (error) {
      this.#note(host, error, patient);
      throw error;
    } finally {
      const next = host.waiting.shift();
      if (next !== undefined) next();
      else host.active--;
      if (host.active === 0 && host.failures === 0) this.#hosts.delete(name);
    }
  }

  #host(name: string): Host {
    const known = this.#hosts.get(name);
    if (known !== undefined) return known;
    if (this.#hosts.size >= MAX_HOSTS) {
      for (const [key, { active }] of this.#hosts) {
        if (active > 0) continue;
        this.#hosts.delete(key);
        break;
      }
    }
    const host: Host = { active: 0, waiting: [], failures: 0, openUntil: 0, reason: "connection_failed" };
    this.#hosts.set(name, host);
    return host;
  }

  #assertOpen({ openUntil, reason }: Host): void {
    if (this.#clock.monotonic() < openUntil) throw new CircuitOpen(reason);
  }

  /** Half-open state: one request probes the host before more are allowed. */
  #assertTried({ active, failures, reason }: Host): void {
    if (failures >= FAILURES_TO_CLOSE && active > 0) throw new CircuitOpen(reason);
  }

  #note(host: Host, error: unknown, patient: boolean): void {
    if (!(error instanceof MetadataFailure) || error instanceof CircuitOpen) return;
    const { reason } = error;
    if (reason !== "dns_failed" && reason !== "connection_failed" && (reason !== "timeout" || patient)) {
      host.failures = 0;
      return;
    }
    // Requests that started before the circuit breaker opened tell nothing new.
    if (this.#clock.monotonic() < host.openUntil) return;
    host.failures++;
    host.reason = reason;
    if (host.failures < FAILURES_TO_CLOSE) return;
    const wait = Math.min(MAX_CLOSED_MS, FIRST_CLOSED_MS * 2 ** (host.failures - FAILURES_TO_CLOSE));
    host.openUntil = this.#clock.monotonic() + wait;
  }
}

/** Rejection by an open circuit breaker: no request was sent. */
class CircuitOpen extends MetadataFailure {}
