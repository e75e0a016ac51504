/**
 * The hosts of token URIs: which ones may be reached, the request to one, and the limits of each. The network access is
 * built on `node:http(s)` with its own `lookup` and no agent. So a connection goes to the address that was checked, and
 * proxies and credentials of the environment are not used.
 */
import { lookup as dnsLookup } from "node:dns/promises";
import http, { type ClientRequest, type IncomingMessage } from "node:http";
import https from "node:https";
import { isIPv6, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import type { Clock } from "../../core/clock.ts";
import { MetadataFailure } from "../outcome.ts";

/** The gateways of the operator: bases without a trailing slash, in order of preference. */
export interface Gateways {
  readonly ipfs: readonly string[];
  readonly arweave: readonly string[];
}

/** Addresses of cloud metadata services in ranges that count as unicast. */
const ALWAYS_FORBIDDEN: ReadonlySet<string> = new Set(["168.63.129.16", "100.100.100.200", "192.0.0.192"]);

/**
 * True if the text is an IP address of the public internet, the only addresses that a token URI may reach. The ranges
 * come from `ipaddr.js`. An IPv6 address that embeds an IPv4 address is refused.
 */
export function isPublicAddress(text: string): boolean {
  // A zone id names an interface of this machine.
  if (text.includes("%") || !ipaddr.isValid(text)) return false;
  const address = ipaddr.parse(text);
  if (address.range() !== "unicast") return false;
  if (address instanceof ipaddr.IPv4)
    return ipaddr.IPv4.isValidFourPartDecimal(text) && !ALWAYS_FORBIDDEN.has(address.toString());
  // 2000::/3 is the only global unicast range in use; `ipaddr.js` also calls unassigned ranges unicast.
  return (((address as ipaddr.IPv6).parts[0] as number) & 0xe000) === 0x2000;
}

/** Names of this machine or its network, whatever a resolver returns for them. */
const LOCAL_NAME = /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|home|lan|corp|arpa)$/i;

/** True if a host name belongs to the local network. Ignores trailing dots. */
export const isLocalName = (host: string): boolean => {
  let end = host.length;
  while (host[end - 1] === ".") end--;
  const name = host.slice(0, end);
  return LOCAL_NAME.test(name) || !name.includes(".");
};

/** One HTTP request to exactly one address. */
interface WireRequest {
  readonly url: URL;
  /** The address to connect to. The name in the URL is used for Host and for the certificate only. */
  readonly address: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Most bytes of the response's header. */
  readonly maxHeaderBytes: number;
}

/** The network. An interface, so that a test can record requests and redirect them. */
export interface Wire {
  /** All addresses of the name. @throws if there is none */
  resolve(host: string): Promise<readonly string[]>;
  request(request: WireRequest, onResponse: (response: IncomingMessage) => void): ClientRequest;
}

export const systemWire: Wire = {
  resolve: async (host) => (await dnsLookup(host, { all: true, verbatim: true })).map(({ address }) => address),
  request: ({ url, address, headers, maxHeaderBytes }, onResponse) => {
    const family = isIPv6(address) ? 6 : 4;
    const lookup: LookupFunction = (_host, options, callback) => {
      if (options.all === true) callback(null, [{ address, family }]);
      else callback(null, address, family);
    };
    const hostname = url.hostname.replace(/^\[|\]$/g, "");
    const secure = url.protocol === "https:";
    return (secure ? https : http).request(
      {
        protocol: url.protocol,
        hostname,
        port: url.port === "" ? (secure ? 443 : 80) : Number(url.port),
        path: `${url.pathname}${url.search}`,
        method: "GET",
        headers: { host: url.host, ...headers },
        agent: false,
        lookup,
        family,
        maxHeaderSize: maxHeaderBytes,
      },
      onResponse,
    );
  },
};

interface Host {
  active: number;
  readonly waiting: (() => void)[];
  /** Consecutive failures to answer. */
  failures: number;
  /** End of the circuit breaker's open state, on the monotonic clock. */
  openUntil: number;
  /** Failure reason of the requests that an open circuit breaker rejects. */
  reason: "dns_failed" | "connection_failed" | "timeout";
}

/** Consecutive failures that open the circuit breaker. A success closes it. */
const FAILURES_TO_OPEN = 4;
const FIRST_OPEN_MS = 5_000;
const MAX_OPEN_MS = 600_000;
/** Most hosts in memory. An idle host without failures is removed at once. */
const MAX_HOSTS = 10_000;

/**
 * Limits per remote host: a maximum of concurrent requests, and a circuit breaker that opens after several failures to
 * answer in a row. A request that waits for a slot delays only requests to the same host.
 */
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
    this.#assertNotOpen(host);
    this.#assertNotProbing(host);
    if (host.active >= this.#perHost) await new Promise<void>((resolve) => host.waiting.push(resolve));
    else host.active++;
    try {
      // The circuit breaker may have opened during the wait.
      this.#assertNotOpen(host);
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
    if (this.#hosts.size >= MAX_HOSTS) this.#evict();
    const host: Host = { active: 0, waiting: [], failures: 0, openUntil: 0, reason: "connection_failed" };
    this.#hosts.set(name, host);
    return host;
  }

  /** Removes the oldest idle host with a closed circuit breaker, or else the oldest idle one. */
  #evict(): void {
    let evicted: string | undefined;
    for (const [name, { active, failures }] of this.#hosts) {
      if (active > 0) continue;
      evicted ??= name;
      if (failures >= FAILURES_TO_OPEN) continue;
      evicted = name;
      break;
    }
    if (evicted !== undefined) this.#hosts.delete(evicted);
  }

  #assertNotOpen({ openUntil, reason }: Host): void {
    if (this.#clock.monotonic() < openUntil) throw new CircuitOpen(reason);
  }

  /** Half-open state: one request probes the host before more are allowed. */
  #assertNotProbing({ active, failures, reason }: Host): void {
    if (failures >= FAILURES_TO_OPEN && active > 0) throw new CircuitOpen(reason);
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
    if (host.failures < FAILURES_TO_OPEN) return;
    const wait = Math.min(MAX_OPEN_MS, FIRST_OPEN_MS * 2 ** (host.failures - FAILURES_TO_OPEN));
    host.openUntil = this.#clock.monotonic() + wait;
  }
}

/** Rejection by an open circuit breaker: no request was sent. */
class CircuitOpen extends MetadataFailure {}
