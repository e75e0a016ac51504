/**
 * Which addresses a token may make this server talk to: the public internet's and no others. The ranges come from
 * `ipaddr.js`; an IPv6 address that carries an IPv4 one is judged by that one too.
 */
import ipaddr from "ipaddr.js";

/** Cloud metadata services on addresses that are unicast by their range. */
const ALWAYS_FORBIDDEN: ReadonlySet<string> = new Set(["168.63.129.16", "100.100.100.200", "192.0.0.192"]);

function isPublicV4(address: ipaddr.IPv4): boolean {
  return address.range() === "unicast" && !ALWAYS_FORBIDDEN.has(address.toString());
}

/** Only what lies in 2000::/3 is given out to anybody; the rest of "unicast" is nobody's yet. */
function isGlobalUnicast(address: ipaddr.IPv6): boolean {
  return ((address.parts[0] as number) & 0xe000) === 0x2000;
}

/** Whether the textual IP address belongs to the public internet. False for anything that is not an address. */
export function isPublicAddress(text: string): boolean {
  // A zone names an interface of this machine.
  if (text.includes("%") || !ipaddr.isValid(text)) return false;
  const address = ipaddr.parse(text);
  if (address instanceof ipaddr.IPv4) return ipaddr.IPv4.isValidFourPartDecimal(text) && isPublicV4(address);
  const v6 = address as ipaddr.IPv6;
  return v6.range() === "unicast" && isGlobalUnicast(v6);
}

/** Names that mean this machine or its network whatever a resolver says. */
const LOCAL_NAME = /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|home|lan|corp|arpa)$/i;

/** Whether a host name is one of the local network's own. Trailing dots change nothing. */
export const isLocalName = (host: string): boolean => {
  let end = host.length;
  while (host[end - 1] === ".") end--;
  const name = host.slice(0, end);
  return LOCAL_NAME.test(name) || !name.includes(".");
};
