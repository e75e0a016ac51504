/**
 * Removes the secrets of an endpoint's URL from texts. Providers quote them in refusals ("invalid API key …"), and an
 * endpoint's message ends up in logs, in the event log and at subscribers.
 */

/** Shorter parts of a path or a host are words like `v2`. */
const MIN_LENGTH = 6;
/** Shorter user names and passwords occur inside ordinary words. */
const MIN_LOGIN_LENGTH = 3;

/** Returns a function that redacts the host, user, longer path parts and parameters of `url`, in any case. */
export function withoutSecrets(url: string): (text: string) => string {
  const { host, hostname, username, password, pathname, searchParams } = new URL(url);
  // A key may be a subdomain of the provider's domain.
  const names = hostname.split(".").slice(0, -2);
  // The query may consist of the key alone.
  const values = [...searchParams].map(([name, value]) => (value === "" ? name : value));
  const parts = [host, hostname, ...names, ...pathname.split("/"), ...values];
  const secrets = [
    ...parts.flatMap((part) => [part, plain(part), ...piecesOf(part)]).filter((part) => part.length >= MIN_LENGTH),
    ...[username, password].flatMap((part) => [part, plain(part)]).filter((part) => part.length >= MIN_LOGIN_LENGTH),
  ].sort((a, b) => b.length - a.length);
  if (secrets.length === 0) return (text) => text;
  const pattern = new RegExp(secrets.map((secret) => RegExp.escape(secret)).join("|"), "gi");
  return (text) => text.replace(pattern, "[redacted]");
}

/** Splits a part such as `Bearer …` or `key=…`: a provider quotes the key without the prefix. */
const piecesOf = (part: string): string[] => plain(part).split(/[\s;=]+/);

/** Decodes a part of a URL; returns it unchanged if its escapes are malformed. */
export function plain(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
