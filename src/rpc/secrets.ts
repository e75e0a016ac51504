/**
 * What an endpoint's URL must not be recognised by. Providers quote it in refusals ("invalid API key …"), and what a node says
 * ends in logs, in the log of events and at subscribers.
 */

/** Shorter parts of a path or a host are words like `v2`. */
const MIN_LENGTH = 6;
/** Shorter names and passwords are parts of words. */
const MIN_LOGIN_LENGTH = 3;

/** What takes from a text the host, the user, the longer parts of the path and the parameters of `url`, in any case. */
export function withoutSecrets(url: string): (text: string) => string {
  const { host, hostname, username, password, pathname, searchParams } = new URL(url);
  // A key may be the name below the provider's own.
  const names = hostname.split(".").slice(0, -2);
  // A query may be the key alone.
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

/** What a part is put together from: `Bearer …`, `key=…`. Who quotes the key leaves out what is before it. */
const piecesOf = (part: string): string[] => plain(part).split(/[\s;=]+/);

/** A part of a URL as it was before it was put into one. */
export function plain(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
