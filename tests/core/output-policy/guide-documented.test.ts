import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { mask } from "../../../src/core/output-policy/masks.ts";
import { applyPolicy, compilePolicy } from "../../../src/core/output-policy/output-policy.ts";
import type { OutputFieldPolicy } from "../../../src/core/types.ts";
import { PROJECT } from "../../support/world.ts";

const page = readFileSync(join(PROJECT, "docs/redaction.md"), "utf8");
const [, table = ""] = /^\| value \| masked \|\n\|---\|---\|\n((?:\|.*\n)+)/m.exec(page) ?? [];
const shown = [...table.matchAll(/^\| `(.*)` \| `(.*)` \|$/gm)].map(([, value = "", masked = ""]) => [value, masked]);

test("the masked values that the guide shows are the released ones", () => {
  expect(shown.length).toBeGreaterThan(5);
  expect(shown.map(([value = ""]) => [value, mask(value) ?? ""])).toEqual(shown);
});

test("the policy that the guide shows does what its comments say", () => {
  const [, lines = ""] = /^outputPolicy: \{\n([\s\S]*?)^\}/m.exec(page) ?? [];
  const rows = [...lines.matchAll(/^ {2}"(.+)": "(\w+)",/gm)];
  const policy = Object.fromEntries(rows.map(([, path = "", action = ""]) => [path, action])) as OutputFieldPolicy;
  const customer = { id: "7", fullName: "Ann Lee", email: "a@b.org", address: { city: "Rome" } };
  const answer = { customer, orders: [{ number: "1", internalNote: "late" }], other: true };
  const schema = z.object({
    customer: z.object({
      ...{ id: z.string(), fullName: z.string(), email: z.string(), address: z.object({ city: z.string() }) },
    }),
    orders: z.array(z.object({ number: z.string(), internalNote: z.string() })),
    other: z.boolean(),
  });
  expect(applyPolicy(compilePolicy(policy, schema), answer)).toMatchObject({
    result: { customer: { id: "7", fullName: "A** L**", address: { city: "R***" } }, orders: [{ number: "1" }] },
    filteredFields: ["customer.address.city", "customer.email", "customer.fullName", "orders[].internalNote", "other"],
  });
});
