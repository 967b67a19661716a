import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { addressProblem, classOf, OPERATED_ADDRESSES, readAddressRules } from "../../src/egress/addresses.ts";

test.each([
  ["8.8.8.8", "public"],
  ["2606:4700::1111", "public"],
  ["10.1.2.3", "private"],
  ["172.31.255.255", "private"],
  ["172.32.0.0", "public"],
  ["192.168.0.1", "private"],
  ["fd00::1", "private"],
  ["127.0.0.1", "loopback"],
  ["127.255.255.254", "loopback"],
  ["::1", "loopback"],
  ["0:0:0:0:0:0:0:1", "loopback"],
  ["0.0.0.0", "unspecified"],
  ["0.1.2.3", "unspecified"],
  ["::", "unspecified"],
  ["169.254.1.1", "link-local"],
  ["fe80::1%eth0", "link-local"],
  ["169.254.169.254", "metadata"],
  ["169.254.170.2", "metadata"],
  ["169.254.170.23", "metadata"],
  ["169.254.0.23", "metadata"],
  ["100.100.100.200", "metadata"],
  ["192.0.0.192", "metadata"],
  ["168.63.129.16", "metadata"],
  ["fd00:ec2::254", "metadata"],
  ["fd00:ec2::23", "metadata"],
  ["fd20:ce::254", "metadata"],
  ["100.64.0.1", "special"],
  ["192.0.0.8", "special"],
  ["198.18.0.1", "special"],
  ["203.0.113.7", "special"],
  ["2001:db8::1", "special"],
  ["2001::1", "special"],
  ["fec0::1", "special"],
  ["240.0.0.1", "reserved"],
  ["4000::1", "reserved"],
  ["224.0.0.1", "multicast"],
  ["255.255.255.255", "multicast"],
  ["ff02::1", "multicast"],
  ["::ffff:8.8.8.8", "embedded"],
  ["::ffff:808:808", "embedded"],
  ["::ffff:0:8.8.8.8", "embedded"],
  ["::8.8.8.8", "embedded"],
  ["64:ff9b::8.8.8.8", "embedded"],
  ["64:ff9b:1::1", "embedded"],
  ["2002:808:808::1", "embedded"],
  ["name.example", "invalid"],
  ["0x7f.1", "invalid"],
  ["2130706433", "invalid"],
  ["127.1", "invalid"],
  ["0177.0.0.1", "invalid"],
  ["", "invalid"],
] as const)("%s is %s", (address, name) => {
  expect(classOf(address)).toBe(name);
});

function allowed(names: readonly string[], address: string): boolean {
  const rules = readAddressRules(names);
  if ("problem" in rules) throw new Error(rules.problem);
  return addressProblem(address, rules) === undefined;
}

describe("the addresses of a configuration", () => {
  test.each([
    [["public"], "8.8.8.8", true],
    [["public"], "10.0.0.1", false],
    [["public"], "127.0.0.1", false],
    [["private"], "8.8.8.8", false],
    [["private"], "10.0.0.1", true],
    [["private"], "127.0.0.1", false],
    [["loopback"], "127.0.0.1", true],
    [["loopback"], "::1", true],
    [["public", "private", "loopback"], "100.64.0.1", false],
    [["100.64.0.0/10"], "100.64.0.1", true],
    [["100.64.0.0/10"], "100.100.100.200", false],
    [["10.1.0.0/16"], "10.1.9.9", true],
    [["10.1.0.0/16"], "10.2.9.9", false],
    [["240.0.0.0/4"], "240.1.1.1", true],
    [["8.8.8.0/24"], "8.8.8.8", true],
    [["8.8.8.0/24"], "8.8.4.4", false],
    [["fd12::/16"], "fd12::7", true],
    [["public", "private", "loopback"], "64:ff9b::808:808", false],
    [["public", "private", "loopback"], "::ffff:8.8.8.8", false],
  ] as const)("%j: %s is allowed: %s", (names, address, want) => {
    expect(allowed(names, address)).toBe(want);
  });

  test.each([
    ["everything", '"everything" is not public, private, loopback, or a network such as 10.1.0.0/16'],
    ["10.0.0.1", '"10.0.0.1" is not public, private, loopback, or a network such as 10.1.0.0/16'],
    ["10.0.0.0/33", '"10.0.0.0/33" is not public, private, loopback, or a network such as 10.1.0.0/16'],
    ["169.254.169.254/32", '"169.254.169.254/32" is a range of metadata addresses, which are refused always'],
    ["169.254.0.0/16", '"169.254.0.0/16" is a range of link-local addresses, which are refused always'],
    ["64:ff9b::/96", '"64:ff9b::/96" is a range of embedded addresses, which are refused always'],
    ["0.0.0.0/0", '"0.0.0.0/0" contains the special range 127.0.0.0/8: name that range itself'],
  ])("%s does not load", (name, problem) => {
    expect(readAddressRules([name])).toEqual({ problem });
  });

  test("no list of names allows an address of a metadata service, and no text is an error", () => {
    const names = fc.array(
      fc.oneof(
        fc.constantFrom("public", "private", "loopback", "0.0.0.0/1", "128.0.0.0/1", "fc00::/7", "100.64.0.0/10"),
        fc.tuple(fc.ipV4(), fc.nat(32)).map(([address, bits]) => `${address}/${bits}`),
        fc.tuple(fc.ipV6(), fc.nat(128)).map(([address, bits]) => `${address}/${bits}`),
        fc.string(),
      ),
    );
    const metadata = ["169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd00:c1::a9fe:a9fe"];
    metadata.push("fd00:a9fe:a9fe::1", "fd00:100::100:200", "fd20:ce::254", "::ffff:a9fe:a9fe");
    fc.assert(
      fc.property(names, fc.constantFrom(...metadata), (list, address) => {
        const rules = readAddressRules(list);
        return "problem" in rules || addressProblem(address, rules) !== undefined;
      }),
    );
  });
});

test("servers of the operator may have every address but those of metadata services and groups", () => {
  const all = ["10.0.0.1", "169.254.1.1", "0.0.0.0", "240.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1"];
  expect(all.filter((address) => addressProblem(address, OPERATED_ADDRESSES) !== undefined)).toEqual([]);
  const none = ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "224.0.0.1"];
  expect(none.filter((address) => addressProblem(address, OPERATED_ADDRESSES) === undefined)).toEqual([]);
});
