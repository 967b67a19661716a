import { expect, test } from "bun:test";
import { sanitizeArgs } from "../../src/detection/sanitize-args.ts";

const HIDDEN = "[REDACTED]";

test.each([
  [
    { password: "hunter2", user: "ann" },
    { password: HIDDEN, user: "ann" },
  ],
  [
    { api_key: "abc", authToken: "z" },
    { api_key: HIDDEN, authToken: HIDDEN },
  ],
  [{ login: { dbPassword: 12345 } }, { login: { dbPassword: HIDDEN } }],
  [{ tokens: ["a", "b"] }, { tokens: [HIDDEN, HIDDEN] }],
  [{ headers: { Authorization: "Basic x" } }, { headers: { Authorization: HIDDEN } }],
  [{ command: "mysql -psecret99 -u root" }, { command: `mysql -p${HIDDEN} -u root` }],
])("%j is shown as %j", (args, want) => {
  expect(sanitizeArgs(args)).toEqual(want);
});

test.each([
  [{ key: "color", sort_key: "name", monkey: "banana", keyword: "rent" }],
  [{ author: "Ann Lee", max_tokens: 100, next_page_token: "p2", passwordless: true }],
  [{ secret: { name: "db-login", namespace: "payments" }, password: null, token: "" }],
  [{ amount: 12, note: "the token is on the desk" }],
  [{ tokens: 500, refresh_tokens: 3 }],
  [[]],
  ["plain"],
])("nothing of %j is hidden", (args) => {
  expect(sanitizeArgs(args)).toEqual(args as never);
});

test("the arguments themselves are unchanged", () => {
  const args = { password: "hunter2" };
  sanitizeArgs(args);
  expect(args).toEqual({ password: "hunter2" });
});

test.each([
  ["lists", (deep: unknown) => [deep]],
  ["members", (deep: unknown) => ({ password: deep })],
] as const)("arguments that are too deep are not shown, in %s as well", (_name, wrap) => {
  let deep: unknown = "hunter2";
  for (let depth = 0; depth < 200_000; depth += 1) deep = wrap(deep);
  expect(JSON.stringify(sanitizeArgs({ password: deep })).length).toBeLessThan(2_000);
});
