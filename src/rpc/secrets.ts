/**
 * What an endpoint's URL must not be recognised by. Providers quote it in refusals ("invalid API key …"), and what a node says
 * ends in logs, in the log of events and at subscribers.
 */

/** Shorter parts of a path are words like `v2`. */
const MIN_LENGTH = 6;

/** What takes from a text the host, the user, the longer parts of the path and the parameters of `url`. */
export function withoutSecrets(url: string): (text: string) => string {
  const { host, hostname, username, password, pathname, searchParams } = new URL(url);
  const parts = [host, hostname, username, password, ...pathname.split("/"), ...searchParams.values()];
  const forms = parts.flatMap((part) => [part, plain(part)]);
  const secrets = [...new Set(forms)].filter((part) => part.length >= MIN_LENGTH).sort((a, b) => b.length - a.length);
  return (text) => secrets.reduce((clean, secret) => clean.replaceAll(secret, "[redacted]"), text);
}

function plain(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
