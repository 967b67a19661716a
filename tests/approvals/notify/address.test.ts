import { expect, test } from "bun:test";
import fc from "fast-check";
import { urlProblem } from "../../../src/approvals/notify/sender.ts";
import { addressProblem, RECEIVER_ADDRESSES } from "../../../src/egress/addresses.ts";

function isForbiddenAddress(address: string): boolean {
  return addressProblem(address, RECEIVER_ADDRESSES) !== undefined;
}

test.each([
  ..."169.254.169.254 169.254.0.1 0.0.0.0 224.0.0.1 255.255.255.255 100.100.100.200 192.0.0.192".split(" "),
  ...":: fe80::1 fe80::1%eth0 ff02::1 fd00:ec2::254 fd20:ce::254".split(" "),
  ..."::ffff:169.254.169.254 ::ffff:a9fe:a9fe ::169.254.169.254 64:ff9b::a9fe:a9fe".split(" "),
  ..."0:0:0:0:0:ffff:a9fe:a9fe FE80::1 2002:a9fe:a9fe:: 2002:a9fe:a9fe::7 ::ffff:0:a9fe:a9fe".split(" "),
  ..."64:ff9b:1::a9fe:a9fe 64:ff9b:1:7::169.254.169.254".split(" "),
  "no address",
])("nothing is sent to %s", (address) => {
  expect(isForbiddenAddress(address)).toBe(true);
});

test.each([
  ..."127.0.0.1 10.1.2.3 192.168.1.1 172.16.0.9 8.8.8.8 100.64.0.1 ::1 fd00::1 2001:db8::1 ::ffff:10.0.0.1".split(" "),
  ..."2002:a00:1::1 64:ff9b:1::808:808 64:ff9b::808:808".split(" "),
])("%s is an allowed receiver", (address) => {
  expect(isForbiddenAddress(address)).toBe(false);
});

test.each([
  ["https://hooks.example/x?token=y", undefined],
  ["https://10.0.0.8:8443/x", undefined],
  ["http://127.0.0.1:9000/", undefined],
  ["http://localhost:9000/", undefined],
  ["http://[::1]:9000/", undefined],
  ["http://hooks.example/", "must begin with https://"],
  ["http://10.0.0.8/", "must begin with https://"],
  ["http://localhost.evil.example/", "must begin with https://"],
  ["ftp://hooks.example/", "must begin with https://"],
  ["file:///etc/passwd", "must begin with https://"],
  ["hooks.example", "must be a URL"],
  [`https://hooks.example/${"x".repeat(3_000)}`, "must be a URL"],
  ["https://user:word@hooks.example/", "contains credentials"],
  ["https://169.254.169.254/latest/", "names a link-local"],
  ["https://2852039166/", "names a link-local"],
  ["https://0xa9.0xfe.0xa9.0xfe/", "names a link-local"],
  ["https://[::ffff:169.254.169.254]/", "names a link-local"],
  ["https://[fe80::1]/", "names a link-local"],
])("%s", (url, fault) => {
  if (fault === undefined) expect(urlProblem(url)).toBeUndefined();
  else expect(urlProblem(url)).toContain(fault);
});

test("any text is classified as an address without an error", () => {
  fc.assert(fc.property(fc.string({ unit: fc.constantFrom(..."0123456789abcdef:.%["), maxLength: 45 }), judges));
  fc.assert(fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), judges));
});

function judges(address: string): boolean {
  return typeof isForbiddenAddress(address) === "boolean";
}
