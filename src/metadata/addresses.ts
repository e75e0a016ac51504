/**
 * Decides which hosts a token URI may reach: those of the public internet only. The ranges come from `ipaddr.js`. An
 * IPv6 address that embeds an IPv4 address is refused.
 */
import ipaddr from "ipaddr.js";

/** Addresses of cloud metadata services in ranges that count as unicast. */
const ALWAYS_FORBIDDEN: ReadonlySet<string> = new Set(["168.63.129.16", "100.100.100.200", "192.0.0.192"]);

function isPublicV4(address: ipaddr.IPv4): boolean {
  return address.range() === "unicast" && !ALWAYS_FORBIDDEN.has(address.toString());
}

/** True for 2000::/3, the only global unicast range in use; `ipaddr.js` also calls unassigned ranges unicast. */
function isGlobalUnicast(address: ipaddr.IPv6): boolean {
  return ((address.parts[0] as number) & 0xe000) === 0x2000;
}

/** True if the text is an IP address of the public internet. */
export function isPublicAddress(text: string): boolean {
  // A zone id names an interface of this machine.
  if (text.includes("%") || !ipaddr.isValid(text)) return false;
  const address = ipaddr.parse(text);
  if (address instanceof ipaddr.IPv4) return ipaddr.IPv4.isValidFourPartDecimal(text) && isPublicV4(address);
  const v6 = address as ipaddr.IPv6;
  return v6.range() === "unicast" && isGlobalUnicast(v6);
}

/** Names of this machine or its network, whatever a resolver returns for them. */
const LOCAL_NAME = /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|home|lan|corp|arpa)$/i;

/** True if a host name belongs to the local network. Ignores trailing dots. */
export const isLocalName = (host: string): boolean => {
  let end = host.length;
  while (host[end - 1] === ".") end--;
  const name = host.slice(0, end);
  return LOCAL_NAME.test(name) || !name.includes(".");
};
