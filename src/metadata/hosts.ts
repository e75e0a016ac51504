/**
 * How much of this server a host may take: at most so many requests at once, and none for a while after it did not
 * answer several times in a row. What waits for a slot waits for its host only.
 */
import type { Clock } from "../core/clock.ts";
import { MetadataFailure } from "./outcome.ts";

interface Host {
  active: number;
  readonly waiting: (() => void)[];
  /** Failures to answer at all, in a row. */
  failures: number;
  closedUntil: number;
  /** The reason a closed host's tokens get. */
  reason: "dns_failed" | "connection_failed" | "timeout";
}

const FAILURES_TO_CLOSE = 4;
const FIRST_CLOSED_MS = 5_000;
const MAX_CLOSED_MS = 600_000;
/** Hosts remembered; one that is idle and well is forgotten at once. */
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
   * Runs `work` when the host has a slot free. `patient`: content that is slow to come does not speak against the host,
   * as on a gateway to other hosts' content. @throws MetadataFailure at once while the host is closed
   */
  async run<T>(name: string, patient: boolean, work: () => Promise<T>): Promise<T> {
    const host = this.#host(name);
    this.#assertOpen(host);
    this.#assertTried(host);
    if (host.active >= this.#perHost) await new Promise<void>((resolve) => host.waiting.push(resolve));
    else host.active++;
    try {
      // The host may have been closed while this waited.
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
    const host: Host = { active: 0, waiting: [], failures: 0, closedUntil: 0, reason: "connection_failed" };
    this.#hosts.set(name, host);
    return host;
  }

  #assertOpen({ closedUntil, reason }: Host): void {
    if (this.#clock.monotonic() < closedUntil) throw new ClosedHost(reason);
  }

  /** A host that was closed is tried by one before all the others come. */
  #assertTried({ active, failures, reason }: Host): void {
    if (failures >= FAILURES_TO_CLOSE && active > 0) throw new ClosedHost(reason);
  }

  #note(host: Host, error: unknown, patient: boolean): void {
    if (!(error instanceof MetadataFailure) || error instanceof ClosedHost) return;
    const { reason } = error;
    if (reason !== "dns_failed" && reason !== "connection_failed" && (reason !== "timeout" || patient)) {
      host.failures = 0;
      return;
    }
    // What was under way when the host was closed says nothing new.
    if (this.#clock.monotonic() < host.closedUntil) return;
    host.failures++;
    host.reason = reason;
    if (host.failures < FAILURES_TO_CLOSE) return;
    const wait = Math.min(MAX_CLOSED_MS, FIRST_CLOSED_MS * 2 ** (host.failures - FAILURES_TO_CLOSE));
    host.closedUntil = this.#clock.monotonic() + wait;
  }
}

/** The host did not answer others just now, so it was not asked. */
class ClosedHost extends MetadataFailure {}
