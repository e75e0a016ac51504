/**
 * A wire that records the resolved names and the connected addresses. The test defines the names. Connections to known
 * addresses are redirected to servers on loopback, all others are refused.
 */
import type { ClientRequest } from "node:http";
import { systemWire, type Wire } from "../../../src/nft/metadata/resolve/wire.ts";

export interface RecordingWire extends Wire {
  /** Resolved names in order. */
  readonly resolved: string[];
  /** `address host` of every attempted connection. */
  readonly attempts: string[];
}

export interface WireWorld {
  /** Addresses of names. A function is called at each resolution. */
  readonly names: Readonly<Record<string, readonly string[] | (() => readonly string[])>>;
  /** Port on loopback by address. Other addresses refuse connections. */
  readonly ports: Readonly<Record<string, number>>;
}

/** No server listens on this port. */
const CLOSED_PORT = 9;

export function recordingWire({ names, ports }: WireWorld): RecordingWire {
  const resolved: string[] = [];
  const attempts: string[] = [];
  return {
    resolved,
    attempts,
    resolve: async (host) => {
      resolved.push(host);
      const known = names[host];
      if (known === undefined) throw new Error(`the name ${host} does not exist`);
      return typeof known === "function" ? known() : known;
    },
    request: (request, onResponse): ClientRequest => {
      attempts.push(`${request.address} ${request.url.host}`);
      const url = new URL(request.url);
      const { host } = url;
      url.protocol = "http:";
      // Node would connect directly to a literal address.
      url.hostname = "127.0.0.1";
      url.port = String(ports[request.address] ?? CLOSED_PORT);
      const headers = { ...request.headers, host };
      return systemWire.request({ ...request, url, headers, address: "127.0.0.1" }, onResponse);
    },
  };
}
