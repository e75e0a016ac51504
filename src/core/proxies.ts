/**
 * The proxies of the operator's network (`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`): which one an outgoing request goes through.
 * The runtime would take them from the environment for some requests and not for others, so `main.ts` takes them out of it,
 * and each request is told.
 */
import ipaddr from "ipaddr.js";

/** Names of the variables. They count in lower case, too, which then comes first. */
export const PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"] as const;

export interface Proxies {
  /** Base URL of the proxy for http and ws. May have a login. */
  readonly http: string | undefined;
  /** The same for https and wss. */
  readonly https: string | undefined;
  /** Hosts that are reached without a proxy, as `NO_PROXY` names them. */
  readonly direct: readonly string[];
}

export const NO_PROXIES: Proxies = { http: undefined, https: undefined, direct: [] };

/** The entries of `NO_PROXY`. */
export const directHosts = (text: string): string[] =>
  text
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean);

/** Returns the proxy for a URL; undefined if the request goes straight to its host. */
export function proxyFor({ http, https, direct }: Proxies, url: string): string | undefined {
  const { protocol, hostname, port } = new URL(url);
  const isSecure = protocol === "https:" || protocol === "wss:";
  const proxy = isSecure ? https : http;
  if (proxy === undefined) return undefined;
  const host = hostname
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "")
    .toLowerCase();
  const at = { host, port: port === "" ? (isSecure ? "443" : "80") : port };
  return isThisMachine(host) || direct.some((entry) => isNamed(entry, at)) ? undefined : proxy;
}

/** A proxy elsewhere would reach itself. */
function isThisMachine(host: string): boolean {
  if (host === "localhost" || host.endsWith(".localhost")) return true;
  return ipaddr.isValid(host) && ipaddr.process(host).range() === "loopback";
}

/** `*`; a name with the names below it, with or without a dot or `*.` before it; an address; a range; each with a port. */
function isNamed(entry: string, { host, port }: { readonly host: string; readonly port: string }): boolean {
  if (entry === "*") return true;
  if (ipaddr.isValid(host) && ipaddr.isValidCIDR(entry)) {
    const [address, [range, bits]] = [ipaddr.process(host), ipaddr.parseCIDR(entry)];
    return address.kind() === range.kind() && address.match(range, bits);
  }
  const [, bracketed, plain = entry, ofPort] = /^(?:\[([^\]]+)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? [];
  if (ofPort !== undefined && ofPort !== port) return false;
  const name = (bracketed ?? plain).replace(/^\*?\./, "");
  return name !== "" && (host === name || host.endsWith(`.${name}`));
}
