import { expect, test } from "bun:test";
import { checkedTenant, tenantFile } from "../../src/core/tenant-names.ts";

test.each([
  ["/var/approvals.sqlite", "/var/approvals.acme.sqlite"],
  ["/var/approvals", "/var/approvals.acme.sqlite"],
  ["/var.d/approvals", "/var.d/approvals.acme.sqlite"],
  ["/var/approvals.v1.db", "/var/approvals.v1.acme.db"],
  ["/var/.approvals", "/var/.approvals.acme.sqlite"],
  ["./a.sqlite", "./a.acme.sqlite"],
])("the file of a tenant next to %s is %s", (path, file) => {
  expect(tenantFile(path, "acme")).toBe(file);
  expect(tenantFile(path, undefined)).toBe(path);
});

test.each(["", "Acme", "a/b", "..", "a.b", 'a"b', "-a", "a-", "1a", "a b", "a".repeat(41)])(
  "the name %j becomes a part of no path and no identifier",
  (name) => {
    expect(() => checkedTenant(name)).toThrow("a tenant's name must be");
    expect(() => tenantFile("/var/approvals.sqlite", name)).toThrow("a tenant's name must be");
  },
);
