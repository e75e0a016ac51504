/**
 * The network access of the fetcher: the request to one address. It is built on `node:http(s)` with its own `lookup` and
 * no agent. So a connection goes to the address that was checked, through the operator's proxy if there is one.
 */
import { lookup as dnsLookup } from "node:dns/promises";
import http, { type ClientRequest, type IncomingMessage } from "node:http";
import https from "node:https";
import { isIPv6, type LookupFunction } from "node:net";
import { type Proxies, proxyFor } from "../../../core/proxies.ts";
import { openTunnel, type Tunnel } from "./tunnel.ts";

/** One HTTP request to exactly one address. */
export interface WireRequest {
  readonly url: URL;
  /** The address to connect to. The name in the URL is used for Host and for the certificate only. */
  readonly address: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Most bytes of the response's header. */
  readonly maxHeaderBytes: number;
  /** The open way through a proxy to that address. */
  readonly socketPath?: string | undefined;
}

/** Opens a way through a proxy to an address and the port of a URL. */
type OpenTunnel = (address: string, signal: AbortSignal) => Promise<Tunnel>;

/** The network. An interface, so that a test can record requests and redirect them. */
export interface Wire {
  /** All addresses of the name. @throws if there is none */
  resolve(host: string): Promise<readonly string[]>;
  request(request: WireRequest, onResponse: (response: IncomingMessage) => void): ClientRequest;
  /** The way to a URL's host if it goes through a proxy. */
  tunnelTo?(url: URL): OpenTunnel | undefined;
}

const portOf = ({ port, protocol }: URL): number => (port === "" ? (protocol === "https:" ? 443 : 80) : Number(port));

/** The network of this machine, with the operator's proxies. */
export const wireWith = (proxies: Proxies): Wire => ({
  ...systemWire,
  tunnelTo: (url) => {
    const proxy = proxyFor(proxies, url.href);
    if (proxy === undefined) return undefined;
    return (host, signal) => openTunnel(proxy, { host, port: portOf(url) }, signal);
  },
});

export const systemWire: Wire = {
  resolve: async (host) => (await dnsLookup(host, { all: true, verbatim: true })).map(({ address }) => address),
  request: ({ url, address, headers, maxHeaderBytes, socketPath }, onResponse) => {
    const family = isIPv6(address) ? 6 : 4;
    const lookup: LookupFunction = (_host, options, callback) => {
      if (options.all === true) callback(null, [{ address, family }]);
      else callback(null, address, family);
    };
    const hostname = url.hostname.replace(/^\[|\]$/g, "");
    return (url.protocol === "https:" ? https : http).request(
      {
        protocol: url.protocol,
        hostname,
        port: portOf(url),
        path: `${url.pathname}${url.search}`,
        method: "GET",
        headers: { host: url.host, ...headers },
        agent: false,
        ...(socketPath === undefined ? { lookup, family } : { socketPath }),
        maxHeaderSize: maxHeaderBytes,
      },
      onResponse,
    );
  },
};
