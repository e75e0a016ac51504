/**
 * A gateway to IPFS or Arweave as the operator writes it: `<base URL>[?<query>][ <header>: <value>]`. The query and the
 * header are secrets. The fetcher alone reads them, and adds them to a request at the last moment. No other host may
 * learn them.
 */
import { parameterSecrets, Secrets, secretsOfHeader } from "./secrets.ts";

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

/** Shorter parameters of an operator are as likely words, which an author's URL may have, too. */
const MIN_KEY_LENGTH = 12;

interface HostSecrets {
  /** A URL of the host. */
  readonly url: string;
  readonly query: readonly (readonly [name: string, value: string])[];
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Keeps the secrets of an operator's host from every other host. A server may repeat the address or the header of a request
 * in a redirect or in a document, so each URL is examined before its host is even looked up.
 */
export class GuardedSecrets {
  readonly #host: URL;
  readonly #query: HostSecrets["query"];
  readonly #all: Secrets;
  readonly #keys: Secrets;

  constructor({ url, query, headers = {} }: HostSecrets) {
    this.#host = new URL(url);
    this.#query = query;
    const texts = [...parameterSecrets(query), ...Object.values(headers).flatMap(secretsOfHeader)];
    this.#all = new Secrets(texts);
    this.#keys = new Secrets(texts.filter((text) => text.length >= MIN_KEY_LENGTH));
  }

  /** The host and its subdomains, over the same scheme or a safer one. */
  #isOwn({ protocol, host }: URL): boolean {
    if (protocol !== this.#host.protocol && protocol !== "https:") return false;
    return host === this.#host.host || host.endsWith(`.${this.#host.host}`);
  }

  /**
   * The URL without the parameters that hold a secret, unless its host may have them.
   * @param isTold true if a host that was asked on the way knows the secrets, so that even a short one is no chance
   * @returns undefined if a secret is in another part of the URL, which must not be asked then
   */
  removedFrom(url: URL, isTold: boolean): URL | undefined {
    if (this.#isOwn(url)) return url;
    const secrets = isTold ? this.#all : this.#keys;
    const kept = new URL(url);
    kept.hash = "";
    for (const [name, value] of [...kept.searchParams]) {
      const isRepeated = isTold && this.#query.some(([own, text]) => own === name && text === value);
      if (isRepeated || secrets.occurIn(name) || secrets.occurIn(value)) kept.searchParams.delete(name);
    }
    return secrets.occurIn(kept.href) ? undefined : kept;
  }

  redact(text: string): string {
    return this.#all.redact(text);
  }
}
