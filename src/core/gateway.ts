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

/** A header `<name>: <value>` that holds a secret. Undefined for other text, and for headers that bound a request. */
export function parseSecretHeader(text: string): { readonly header: string; readonly value: string } | undefined {
  const [, name, value] = HEADER.exec(text) ?? [];
  return name === undefined || OWN_HEADERS.test(name)
    ? undefined
    : { header: name.toLowerCase(), value: value as string };
}

/** Undefined if the text is no gateway. */
export function parseGateway(text: string): Gateway | undefined {
  const [, address = "", header] = /^(\S+)(?:[ \t]+(.*))?$/.exec(text) ?? [];
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol) || url.hash + url.username + url.password !== "")
    return undefined;
  const secret = header === undefined ? undefined : parseSecretHeader(header);
  if (header !== undefined && secret === undefined) return undefined;
  return {
    base: (address.split("?")[0] as string).replace(/\/+$/, ""),
    query: [...url.searchParams],
    headers: secret === undefined ? {} : { [secret.header]: secret.value },
  };
}

/** The base URL alone, which holds no secret. */
export const baseOf = (gateway: string): string => parseGateway(gateway)?.base ?? "";
