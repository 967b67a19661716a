import { BlockList, isIP } from "node:net";

/**
 * The class of an address. `metadata`: a cloud's metadata or credentials service. `special`, `reserved`: ranges that are not
 * for ordinary hosts. `embedded`: an IPv6 address that contains an IPv4 address (mapped, NAT64, 6to4).
 */
export type AddressClass =
  | "public"
  | "private"
  | "loopback"
  | "special"
  | "reserved"
  | "link-local"
  | "unspecified"
  | "multicast"
  | "metadata"
  | "embedded"
  | "invalid";

/** The addresses that connections may go to. All others are refused. */
export interface AddressRules {
  readonly classes: readonly AddressClass[];
  /** Further networks, each inside one range of `RANGES` or outside all of them. */
  readonly networks?: readonly Network[];
  /** Judges an embedded IPv4 address instead of refusing its form. */
  readonly judgesEmbedded?: boolean;
}

/** Addresses that receivers of notifications may have. */
export const RECEIVER_ADDRESSES: AddressRules = {
  classes: ["public", "private", "loopback", "special"],
  judgesEmbedded: true,
};

/** Addresses of servers that the operator runs for this service, such as collectors and key servers: all usable ones. */
export const OPERATED_ADDRESSES: AddressRules = {
  classes: ["public", "private", "loopback", "special", "reserved", "link-local", "unspecified"],
  judgesEmbedded: true,
};

interface Network {
  readonly cidr: string;
  readonly address: string;
  readonly bits: number;
  readonly family: "ipv4" | "ipv6";
  readonly list: BlockList;
}

function network(cidr: string): Network {
  const [address = "", length = ""] = cidr.split("/");
  const family = isIP(address) === 6 ? "ipv6" : "ipv4";
  const list = new BlockList();
  list.addSubnet(address, Number(length), family);
  return { cidr, address, bits: Number(length), family, list };
}

/** Ranges by class, the more specific ones first (IANA's special-purpose registries, and the clouds' documentation). */
const RANGES = (
  [
    [
      "metadata",
      // Amazon (metadata, time, DNS, credentials of containers and pods), Tencent, Scaleway, Alibaba, Oracle, Azure.
      ..."169.254.169.0/24 169.254.170.0/24 169.254.0.23/32 169.254.42.42/32 100.100.100.200/32".split(" "),
      ..."192.0.0.192/32 168.63.129.16/32".split(" "),
      // Amazon, Google, Scaleway, Oracle, Akamai, Alibaba.
      ..."fd00:ec2::/32 fd20:ce::254/128 fd00:42::42/128 fd00:c1::a9fe:a9fe/128".split(" "),
      ..."fd00:a9fe:a9fe::1/128 fd00:100::100:200/128".split(" "),
    ],
    ["unspecified", "0.0.0.0/8", "::/128"],
    ["loopback", "127.0.0.0/8", "::1/128"],
    ["private", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
    ["link-local", "169.254.0.0/16", "fe80::/10"],
    ["multicast", "224.0.0.0/4", "255.255.255.255/32", "ff00::/8"],
    [
      "special",
      ..."100.64.0.0/10 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24".split(" "),
      ..."203.0.113.0/24 100::/64 100:0:0:1::/64 2001::/23 2001:db8::/32 3fff::/20 5f00::/16 fec0::/10".split(" "),
    ],
    ["embedded", "::ffff:0:0/96", "::ffff:0:0:0/96", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16"],
    ["reserved", "240.0.0.0/4"],
  ] as const
).flatMap(([name, ...cidrs]) => cidrs.map((cidr) => ({ name, network: network(cidr) })));

/** Every other IPv6 address is reserved. */
const GLOBAL_IPV6 = network("2000::/3");

/** Returns the class of an address. A zone (`%eth0`) is ignored. */
export function classOf(address: string): AddressClass {
  const [plain = ""] = address.split("%", 1);
  const family = familyOf(plain);
  if (family === undefined) return "invalid";
  const range = RANGES.find((each) => each.network.family === family && each.network.list.check(plain, family));
  if (range !== undefined) return range.name;
  return family === "ipv4" || GLOBAL_IPV6.list.check(plain, family) ? "public" : "reserved";
}

function familyOf(address: string): "ipv4" | "ipv6" | undefined {
  const kind = isIP(address);
  if (kind === 4) return "ipv4";
  // An address that only one of the two parsers accepts is not valid.
  return kind === 6 && URL.canParse(`http://[${address}]`) ? "ipv6" : undefined;
}

/** Returns why no connection may go to the address, as a class of addresses; undefined when it may. */
export function addressProblem(address: string, rules: AddressRules): AddressClass | undefined {
  const { classes, networks = [], judgesEmbedded = false } = rules;
  const name = classOf(address);
  if (classes.includes(name)) return undefined;
  const inner = judgesEmbedded && name === "embedded" ? innerAddress(address) : undefined;
  if (inner !== undefined) return addressProblem(inner, rules);
  if (NEVER.has(name)) return name;
  const [plain = ""] = address.split("%", 1);
  const family = familyOf(plain);
  return networks.some((each) => each.family === family && each.list.check(plain, family)) ? undefined : name;
}

/** Classes that no list of networks can allow. */
const NEVER: ReadonlySet<AddressClass> = new Set([
  ...(["metadata", "link-local", "unspecified", "multicast", "embedded", "invalid"] as const),
]);

/** Matches an embedded IPv4 address: mapped, translated, compatible, NAT64 with the well-known and the local prefix; and 6to4. */
const INNER = [
  /^(?:::ffff:|::ffff:0:|::|64:ff9b::|64:ff9b:1:(?:[0-9a-f:]*:)?)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/,
  /^2002:([0-9a-f]{1,4}):([0-9a-f]{1,4}):[0-9a-f:]*$/,
] as const;

function innerAddress(address: string): string | undefined {
  // Normalize the address with the URL parser.
  const text = new URL(`http://[${address.split("%", 1)[0]}]`).hostname.slice(1, -1);
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

const NAMED_CLASSES = ["public", "private", "loopback"] as const;

/** Returns the rules that a configuration names: `public`, `private`, `loopback`, and networks such as `10.1.0.0/16`. */
export function readAddressRules(names: readonly string[]): AddressRules | { readonly problem: string } {
  const networks: Network[] = [];
  for (const name of names) {
    if (NAMED_CLASSES.some((each) => each === name)) continue;
    const read = readNetwork(name);
    if (typeof read === "string") return { problem: `${JSON.stringify(name)} ${read}` };
    networks.push(read);
  }
  return { classes: NAMED_CLASSES.filter((each) => names.includes(each)), networks };
}

function readNetwork(cidr: string): Network | string {
  const [, address = "", length = ""] = /^([0-9A-Fa-f.:]+)\/(\d{1,3})$/.exec(cidr) ?? [];
  const family = familyOf(address);
  if (family === undefined || Number(length) > (family === "ipv4" ? 32 : 128)) {
    return `is not ${NAMED_CLASSES.join(", ")}, or a network such as 10.1.0.0/16`;
  }
  const read = network(cidr);
  const own = RANGES.filter((range) => range.network.family === family);
  const around = own.find((range) => range.network.bits <= read.bits && range.network.list.check(address, family));
  if (around !== undefined && NEVER.has(around.name))
    return `is a range of ${around.name} addresses, which are refused always`;
  const within = own.find(
    (range) =>
      range.network.bits > read.bits && read.list.check(range.network.address, family) && !NEVER.has(range.name),
  );
  if (around === undefined && within !== undefined)
    return `contains the special range ${within.network.cidr}: name that range itself`;
  return read;
}
