/**
 * The hosts that a token URI may reach: public addresses, and names outside the local network. Pure; it resolves no name.
 */
import ipaddr from "ipaddr.js";

/** Addresses of cloud metadata services in ranges that count as unicast. */
const ALWAYS_FORBIDDEN: ReadonlySet<string> = new Set(["168.63.129.16", "100.100.100.200", "192.0.0.192"]);

/**
 * True if the text is an IP address of the public internet, the only addresses that a token URI may reach. The ranges
 * come from `ipaddr.js`. An IPv6 address that embeds an IPv4 address is refused.
 */
export function isPublicAddress(text: string): boolean {
  // A zone id names an interface of this machine.
  if (text.includes("%") || !ipaddr.isValid(text)) return false;
  const address = ipaddr.parse(text);
  if (address.range() !== "unicast") return false;
  if (address instanceof ipaddr.IPv4)
    return ipaddr.IPv4.isValidFourPartDecimal(text) && !ALWAYS_FORBIDDEN.has(address.toString());
  // 2000::/3 is the only global unicast range in use; `ipaddr.js` also calls unassigned ranges unicast.
  return (((address as ipaddr.IPv6).parts[0] as number) & 0xe000) === 0x2000;
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
