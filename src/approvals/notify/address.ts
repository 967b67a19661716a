import { BlockList, isIP } from "node:net";
import { isLoopback } from "../../core/loopback.ts";

/** Addresses that no notification may go to: link-local, cloud metadata services, unspecified, multicast and reserved. */
const FORBIDDEN = new BlockList();
for (const [network, bits] of [
  ["0.0.0.0", 8],
  ["169.254.0.0", 16],
  ["224.0.0.0", 3],
  // Metadata services with other than link-local addresses: Alibaba Cloud, Oracle Cloud.
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

/** Returns whether sending to this address is forbidden. An IPv4 address embedded in an IPv6 one is checked too. */
export function isForbiddenAddress(address: string): boolean {
  const [plain = ""] = address.split("%", 1);
  const kind = isIP(plain);
  if (kind === 0) return true;
  if (kind === 4) return FORBIDDEN.check(plain, "ipv4");
  // An address that only one of the two parsers accepts is not valid.
  if (!URL.canParse(`http://[${plain}]`)) return true;
  const inner = innerAddress(plain);
  return FORBIDDEN.check(plain, "ipv6") || (inner !== undefined && FORBIDDEN.check(inner, "ipv4"));
}

/** Matches an embedded IPv4 address: mapped, compatible, translated, NAT64 with the well-known and the local prefix; and 6to4. */
const INNER = [
  /^(?:::ffff:|::ffff:0:|::|64:ff9b::|64:ff9b:1:(?:[0-9a-f:]*:)?)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/,
  /^2002:([0-9a-f]{1,4}):([0-9a-f]{1,4}):[0-9a-f:]*$/,
] as const;

function innerAddress(address: string): string | undefined {
  // Normalize the address with the URL parser.
  const text = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [, high, low] = INNER.map((form) => form.exec(text)).find((found) => found !== null) ?? [];
  if (high === undefined || low === undefined) return undefined;
  const bits = Number.parseInt(high, 16) * 0x10000 + Number.parseInt(low, 16);
  return [24, 16, 8, 0].map((shift) => Math.floor(bits / 2 ** shift) % 256).join(".");
}

/** Returns the host of a URL as an address, without brackets; undefined when it is a name. */
export function literalAddress(hostname: string): string | undefined {
  const bare = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
  return isIP(bare) === 0 ? undefined : bare;
}

const URL_CHARACTERS_MAX = 2_048;

/** Returns why notifications may not go to the URL; undefined when they may. Does not quote the URL, which may be a secret. */
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
