/**
 * A gateway to IPFS or Arweave as the operator writes it: `<base URL>[?<query>][ <header>: <value>]`. The query and the
 * header are secrets. The fetcher alone reads them, and adds them to a request at the last moment.
 */
export interface Gateway {
  /** Without a trailing slash. */
  readonly base: string;
  readonly query: readonly (readonly [name: string, value: string])[];
  readonly headers: Readonly<Record<string, string>>;
}

const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)$/;
/** Headers with which the fetcher bounds and addresses a request. */
const OWN_HEADERS =
  /^(?:host|connection|content-length|transfer-encoding|accept|accept-encoding|te|upgrade|expect|range)$/i;

/** Undefined if the text is no gateway. */
export function parseGateway(text: string): Gateway | undefined {
  const [, address = "", header] = /^(\S+)(?:[ \t]+(.*))?$/.exec(text) ?? [];
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol) || url.hash + url.username + url.password !== "")
    return undefined;
  const [, name, value] = HEADER.exec(header ?? "") ?? [];
  if (header !== undefined && (name === undefined || OWN_HEADERS.test(name))) return undefined;
  return {
    base: (address.split("?")[0] as string).replace(/\/+$/, ""),
    query: [...url.searchParams],
    headers: name === undefined ? {} : { [name.toLowerCase()]: value as string },
  };
}

/** The base URL alone, which holds no secret. */
export const baseOf = (gateway: string): string => parseGateway(gateway)?.base ?? "";
