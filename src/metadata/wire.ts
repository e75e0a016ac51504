/**
 * Network access of the guarded fetcher: the addresses of a name, and one HTTP request to exactly one address. Built on
 * `node:http(s)` with its own `lookup` and no agent. So the connection goes to the address that was checked, and
 * proxies and credentials of the environment are not used.
 */
import { lookup as dnsLookup } from "node:dns/promises";
import http, { type ClientRequest, type IncomingMessage } from "node:http";
import https from "node:https";
import { isIPv6 } from "node:net";

export interface WireRequest {
  readonly url: URL;
  /** The address to connect to. The name in the URL is used for Host and for the certificate only. */
  readonly address: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Most bytes of the response's header. */
  readonly maxHeaderBytes: number;
}

/** An interface, so that a test can record requests and redirect them. */
export interface Wire {
  /** All addresses of the name. @throws if there is none */
  resolve(host: string): Promise<readonly string[]>;
  request(request: WireRequest, onResponse: (response: IncomingMessage) => void): ClientRequest;
}

type LookupCallback = (
  error: Error | null,
  address: string | { address: string; family: number }[],
  family?: number,
) => void;

export const systemWire: Wire = {
  resolve: async (host) => (await dnsLookup(host, { all: true, verbatim: true })).map(({ address }) => address),
  request: ({ url, address, headers, maxHeaderBytes }, onResponse) => {
    const family = isIPv6(address) ? 6 : 4;
    const lookup = (_host: string, options: { all?: boolean }, callback: LookupCallback) => {
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
        lookup: lookup as never,
        family,
        maxHeaderSize: maxHeaderBytes,
      },
      onResponse,
    );
  },
};
