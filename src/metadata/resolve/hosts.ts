/**
 * The hosts of token URIs: which ones may be reached, and the request to one. The network access is built on
 * `node:http(s)` with its own `lookup` and no agent. So a connection goes to the address that was checked, and proxies
 * and credentials of the environment are not used.
 */
import { lookup as dnsLookup } from "node:dns/promises";
import http, { type ClientRequest, type IncomingMessage } from "node:http";
import https from "node:https";
import { isIPv6, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";

/** The gateways of the operator in the form of `core/gateway.ts`, in order of preference. */
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
