import { BlockList, isIP } from "node:net";
import { isLoopback } from "../../core/loopback.ts";

/** Where no notification may go: link-local addresses, clouds' metadata services, no host, many hosts. */
const FORBIDDEN = new BlockList();
for (const [network, bits] of [
  ["0.0.0.0", 8],
  ["169.254.0.0", 16],
  ["224.0.0.0", 3],
  // Metadata services beside the link-local ones: Alibaba Cloud, Oracle Cloud.
  ["100.100.100.200", 32],
  ["192.0.0.192", 32],
] as const) {
  FORBIDDEN.addSubnet(network, bits, "ipv4");
}
for (const [network, bits] of [
  ["::", 128],
  ["fe80::", 10],
  ["ff00::", 8],
  // Metadata services: Amazon, Google.
  ["fd00:ec2::254", 128],
  ["fd20:ce::254", 128],
] as const) {
  FORBIDDEN.addSubnet(network, bits, "ipv6");
}

/** Whether nothing may be sent to this address. An IPv4 address within an IPv6 one counts as itself. */
export function isForbiddenAddress(address: string): boolean {
  const [plain = ""] = address.split("%", 1);
  const kind = isIP(plain);
  if (kind === 0) return true;
  if (kind === 4) return FORBIDDEN.check(plain, "ipv4");
  // What the two readers of addresses do not agree on is none.
  if (!URL.canParse(`http://[${plain}]`)) return true;
  const inner = innerAddress(plain);
  return FORBIDDEN.check(plain, "ipv6") || (inner !== undefined && FORBIDDEN.check(inner, "ipv4"));
}

/** Where an IPv4 address stands in an IPv6 one: mapped, compatible, translated, NAT64, NAT64 of one's own; and 6to4. */
const INNER = [
  /^(?:::ffff:|::ffff:0:|::|64:ff9b::|64:ff9b:1:(?:[0-9a-f:]*:)?)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/,
  /^2002:([0-9a-f]{1,4}):([0-9a-f]{1,4}):[0-9a-f:]*$/,
] as const;

function innerAddress(address: string): string | undefined {
  // One spelling of all: a URL's.
  const text = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [, high, low] = INNER.map((form) => form.exec(text)).find((found) => found !== null) ?? [];
  if (high === undefined || low === undefined) return undefined;
  const bits = Number.parseInt(high, 16) * 0x10000 + Number.parseInt(low, 16);
  return [24, 16, 8, 0].map((shift) => Math.floor(bits / 2 ** shift) % 256).join(".");
}

/** The host of a URL as an address, without brackets; undefined when it is a name. */
export function literalAddress(hostname: string): string | undefined {
  const bare = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
  return isIP(bare) === 0 ? undefined : bare;
}

const URL_CHARACTERS_MAX = 2_048;

/** Why notifications may not go there; undefined when they may. The URL itself is not quoted: it may be a secret. */
export function urlFault(text: string): string | undefined {
  if (text.length > URL_CHARACTERS_MAX || !URL.canParse(text)) return "must be a URL that begins with https://";
  const { protocol, hostname, username, password } = new URL(text);
  if (protocol !== "https:" && !(protocol === "http:" && isLoopback(hostname))) {
    return "must begin with https:// (http:// is for loopback alone)";
  }
  if (username !== "" || password !== "") return "holds credentials: messages are signed, and need none";
  const address = literalAddress(hostname);
  return address !== undefined && isForbiddenAddress(address)
    ? "names a link-local, metadata, multicast or empty address"
    : undefined;
}
