/**
 * A wire that records: which names were resolved, which addresses were connected to. Names are what the test says they
 * are; connections to known addresses are led to servers on loopback, all others are refused.
 */
import type { ClientRequest } from "node:http";
import { systemWire, type Wire } from "../../../src/metadata/resolve/wire.ts";

export interface RecordingWire extends Wire {
  /** Names in the order they were asked for. */
  readonly resolved: string[];
  /** `address host` of every attempted connection. */
  readonly attempts: string[];
}

export interface WireWorld {
  /** Addresses of names; a function is asked at each resolution. */
  readonly names: Readonly<Record<string, readonly string[] | (() => readonly string[])>>;
  /** Port on loopback by address; nobody listens at the others. */
  readonly ports: Readonly<Record<string, number>>;
}

/** Nobody listens there. */
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
      if (known === undefined) throw new Error(`no such name: ${host}`);
      return typeof known === "function" ? known() : known;
    },
    request: (request, onResponse): ClientRequest => {
      attempts.push(`${request.address} ${request.url.host}`);
      const url = new URL(request.url);
      const { host } = url;
      url.protocol = "http:";
      // A literal address would be connected to as it is.
      url.hostname = "127.0.0.1";
      url.port = String(ports[request.address] ?? CLOSED_PORT);
      const headers = { ...request.headers, host };
      return systemWire.request({ ...request, url, headers, address: "127.0.0.1" }, onResponse);
    },
  };
}
