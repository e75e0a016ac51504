/**
 * The guarded fetcher: every connection for metadata is opened through it. It resolves a name once, requires that all
 * its addresses are public, and connects to the checked address. Each redirect passes the same checks. Bounded per
 * fetch: header size, body size before and after decompression, time to the first byte, and total time.
 */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { type Clock, withTimeout } from "../../../core/clock.ts";
import { type Gateway, GuardedSecrets, parseGateway } from "../../../core/gateway.ts";
import { readContent } from "./content.ts";
import { MetadataFailure } from "./failure.ts";
import type { RawContent } from "./parse.ts";
import { isLocalName, isPublicAddress } from "./public-hosts.ts";
import type { Tunnel } from "./tunnel.ts";
import type { Wire, WireRequest } from "./wire.ts";

/** The gateways of the operator in the form of `core/gateway.ts`, in order of preference. */
export interface Gateways {
  readonly ipfs: readonly string[];
  readonly arweave: readonly string[];
}

export interface FetchLimits {
  readonly maxBytes: number;
  readonly firstByteMs: number;
  readonly totalMs: number;
  /** Refuses http, also after a redirect. False by default. */
  readonly httpsOnly?: boolean;
  /** True if the URL is the operator's: no other host learns its parameters. */
  readonly isOperators?: boolean;
}

interface FetcherOptions {
  readonly wire: Wire;
  readonly clock: Clock;
  /** For demo and tests: private addresses and any port. */
  readonly allowPrivate: boolean;
  /** The operator's gateways. They are trusted and may have private addresses. */
  readonly gateways: Gateways;
}

interface TrustedGateway {
  readonly gateway: Gateway;
  readonly secrets: GuardedSecrets;
  /** Start of its URLs, and the form of the rest. */
  readonly start: string;
  readonly rest: RegExp;
}

function trusted(text: string, rest: RegExp): TrustedGateway[] {
  const gateway = parseGateway(text);
  if (gateway === undefined) return [];
  const { base: url, query, headers } = gateway;
  const start = `${new URL(url).href.replace(/\/+$/, "")}/`;
  return [{ gateway, secrets: new GuardedSecrets({ url, query, headers }), start, rest }];
}

const MAX_REDIRECTS = 5;
const MAX_HEADER_BYTES = 16 * 1024;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const HEADERS = {
  accept: "application/json, image/*;q=0.9, */*;q=0.8",
  "accept-encoding": "gzip, deflate, br",
  "user-agent": "evm-data-service",
  connection: "close",
};

/** A response whose header was read, and the function that ends it. */
interface Opened {
  readonly response: IncomingMessage;
  readonly destroy: () => void;
}

export class Fetcher {
  readonly #options: FetcherOptions;
  /**
   * Gateways, by the start of their URLs. Such a URL is exempt from the address check and gets the gateway's query and
   * header. The operator trusts a gateway's content, not the other paths of its host.
   */
  readonly #trusted: readonly TrustedGateway[];

  constructor(options: FetcherOptions) {
    this.#options = options;
    const { ipfs, arweave } = options.gateways;
    this.#trusted = [
      ...ipfs.flatMap((text) => trusted(text, /^ip[fn]s\//)),
      ...arweave.flatMap((text) => trusted(text, /^[\w-]{43}(?:[/?#]|$)/)),
    ];
  }

  /** Gets a URL and follows redirects. @throws MetadataFailure, and the signal's reason when it is aborted */
  async fetch(url: string, limits: FetchLimits, signal: AbortSignal): Promise<RawContent> {
    const { clock } = this.#options;
    const over = new AbortController();
    const cancel = clock.after(limits.totalMs, () => over.abort(new MetadataFailure("timeout", "total time")));
    const either = AbortSignal.any([signal, over.signal]);
    const given = limits.isOperators === true ? URL.parse(url) : null;
    const own = given === null ? undefined : new GuardedSecrets({ url: given.href, query: [...given.searchParams] });
    const guards = [...this.#trusted.map(({ secrets }) => secrets), ...(own === undefined ? [] : [own])];
    try {
      return await this.#follow(url, limits, either, { guards, told: new Set(own === undefined ? [] : [own]) });
    } catch (error) {
      // A server's words may be in the reason.
      if (error instanceof MetadataFailure) for (const guard of guards) error.message = guard.redact(error.message);
      throw error;
    } finally {
      cancel();
    }
  }

  /** @param guarded the secrets that no other host may learn, and those that a host on the way was told */
  async #follow(
    first: string,
    limits: FetchLimits,
    signal: AbortSignal,
    { guards, told }: { readonly guards: readonly GuardedSecrets[]; readonly told: Set<GuardedSecrets> },
  ): Promise<RawContent> {
    let url = this.#admit(first);
    for (let hops = 0; ; hops++) {
      for (const guard of guards) {
        const kept = guard.removedFrom(url, told.has(guard));
        if (kept === undefined) throw new MetadataFailure("credentials_in_url", "an operator's secret");
        url = kept;
      }
      const { secrets } = this.#gatewayOf(url) ?? {};
      if (secrets !== undefined) told.add(secrets);
      if (limits.httpsOnly === true && url.protocol !== "https:") {
        throw new MetadataFailure("unsupported_scheme", url.protocol);
      }
      const { response, destroy } = await this.#open(url, limits, signal);
      try {
        const status = response.statusCode ?? 0;
        const location = response.headers.location;
        if (REDIRECTS.has(status) && location !== undefined) {
          if (hops >= MAX_REDIRECTS) throw new MetadataFailure("too_many_redirects");
          url = this.#admit(location, url);
          continue;
        }
        if (status !== 200) throw new MetadataFailure(reasonOfStatus(status), String(status));
        return await readContent(response, limits.maxBytes, signal);
      } finally {
        destroy();
      }
    }
  }

  /** Sends a request to the checked address of a URL, through the proxy if there is one for it. */
  async #open(url: URL, limits: FetchLimits, signal: AbortSignal): Promise<Opened> {
    const open = this.#options.wire.tunnelTo?.(url);
    // The operator's own hosts may have names that only the proxy knows.
    const isByName = open !== undefined && this.#isExempt(url);
    const address = isByName ? url.hostname.replace(/^\[|\]$/g, "") : await this.#addressOf(url, signal);
    if (open === undefined) return await this.#request(url, { address }, limits, signal);
    const tunnel = await this.#tunnelled(open(address, signal), limits, signal);
    const close = () => void tunnel.close().catch(() => undefined);
    try {
      const { response, destroy } = await this.#request(url, { address, socketPath: tunnel.path }, limits, signal);
      return {
        response,
        destroy: () => {
          destroy();
          close();
        },
      };
    } catch (error) {
      close();
      throw error;
    }
  }

  /** The proxy has as long as a host has for its first byte. */
  async #tunnelled(opening: Promise<Tunnel>, limits: FetchLimits, signal: AbortSignal): Promise<Tunnel> {
    const opened = await withTimeout(this.#options.clock, limits.firstByteMs, opening);
    if (opened !== undefined) return opened.value;
    opening.then((late) => late.close()).catch(() => undefined);
    signal.throwIfAborted();
    throw new MetadataFailure("timeout", "the proxy");
  }

  /** Checks scheme, credentials and port. @throws MetadataFailure */
  #admit(text: string, base?: URL): URL {
    const url = URL.parse(text, base?.href);
    if (url === null) throw new MetadataFailure("invalid_uri");
    const { protocol } = url;
    if (protocol !== "http:" && protocol !== "https:") throw new MetadataFailure("unsupported_scheme", protocol);
    if (url.username !== "" || url.password !== "") throw new MetadataFailure("credentials_in_url");
    const usual = url.port === "" || url.port === "80" || url.port === "443";
    if (!usual && !this.#isExempt(url)) throw new MetadataFailure("forbidden_port", url.port);
    return url;
  }

  #isExempt(url: URL): boolean {
    return this.#options.allowPrivate || this.#gatewayOf(url) !== undefined;
  }

  #gatewayOf({ href }: URL): TrustedGateway | undefined {
    return this.#trusted.find(({ start, rest }) => href.startsWith(start) && rest.test(href.slice(start.length)));
  }

  /** What is sent to a URL: a gateway's also has the operator's query and header. They are in no other place. */
  #credentialed(url: URL): { readonly url: URL; readonly headers: Readonly<Record<string, string>> } {
    const { gateway } = this.#gatewayOf(url) ?? {};
    if (gateway === undefined) return { url, headers: HEADERS };
    const full = new URL(url);
    for (const [name] of gateway.query) full.searchParams.delete(name);
    for (const [name, value] of gateway.query) full.searchParams.append(name, value);
    return { url: full, headers: { ...HEADERS, ...gateway.headers } };
  }

  /** The address to connect to, after checking all addresses of the name. @throws MetadataFailure */
  async #addressOf(url: URL, signal: AbortSignal): Promise<string> {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const exempt = this.#isExempt(url);
    if (!exempt && isIP(host) === 0 && isLocalName(host)) throw new MetadataFailure("forbidden_address", "local name");
    let addresses: readonly string[];
    try {
      addresses = isIP(host) === 0 ? await abortable(this.#options.wire.resolve(host), signal) : [host];
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof MetadataFailure ? error : new MetadataFailure("dns_failed");
    }
    const [address] = addresses;
    if (address === undefined) throw new MetadataFailure("dns_failed");
    if (!exempt && !addresses.every(isPublicAddress)) throw new MetadataFailure("forbidden_address");
    return address;
  }

  #request(
    url: URL,
    way: Pick<WireRequest, "address" | "socketPath">,
    limits: FetchLimits,
    signal: AbortSignal,
  ): Promise<Opened> {
    const { wire, clock } = this.#options;
    return new Promise((resolve, reject) => {
      const sent = { ...this.#credentialed(url), ...way, maxHeaderBytes: MAX_HEADER_BYTES };
      const request = wire.request(sent, (response) => {
        // The body has no reader yet. An error event without a listener would end the process.
        response.on("error", () => undefined);
        settle();
        if (headerBytes(response) > MAX_HEADER_BYTES) fail(new MetadataFailure("too_large", "header"));
        else resolve({ response, destroy: () => request.destroy() });
      });
      const onAbort = () => fail(signal.reason);
      const cancel = clock.after(limits.firstByteMs, () => fail(new MetadataFailure("timeout", "first byte")));
      signal.addEventListener("abort", onAbort, { once: true });
      const settle = () => {
        cancel();
        signal.removeEventListener("abort", onAbort);
      };
      const fail = (error: unknown) => {
        settle();
        request.destroy();
        reject(error);
      };
      request.on("error", (error) => fail(new MetadataFailure("connection_failed", error.message)));
      if (signal.aborted) onAbort();
      else request.end();
    });
  }
}

function headerBytes(response: IncomingMessage): number {
  return response.rawHeaders.reduce((sum, text) => sum + text.length + 2, 0);
}

function reasonOfStatus(status: number): "not_found" | "server_error" | "refused" {
  if (status === 404 || status === 410) return "not_found";
  return status >= 500 || status === 429 || status === 408 ? "server_error" : "refused";
}

/** The promise's result, or the signal's reason if that comes first. A later result is ignored. */
function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
