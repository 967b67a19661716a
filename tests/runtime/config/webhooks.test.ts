import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { problemsOf, read } from "./reading.ts";

const OUT = { name: "chat", url: "https://hooks.example/x", secretFile: "./key" };
const IN = { name: "chat", decisions: { secretFile: "./key", people: { U1: { issuer: "i", subject: "s" } } } };

test("nobody is notified unless configured, and then with a summary of new approval requests", () => {
  expect(read({}).approvals.webhooks).toEqual([]);
  expect(read({ approvals: { webhooks: [OUT] } }).approvals.webhooks).toEqual([
    { ...OUT, events: ["approval.requested"], detail: "summary" },
  ]);
  expect(read({ approvals: { webhooks: [IN] } }).approvals.webhooks[0]?.decisions?.people["U1"]).toEqual({
    issuer: "i",
    subject: "s",
    permissions: [],
  });
});

test.each([
  ["https://stc.example/", "https://stc.example"],
  ["https://example/tools/", "https://example/tools"],
  ["http://127.0.0.1:8787", "http://127.0.0.1:8787"],
])("links begin with %s", (publicUrl, want) => {
  expect(read({ approvals: { publicUrl } }).approvals.publicUrl).toBe(want);
});

test.each([
  [[{ ...OUT, name: "../x" }], "webhooks[0].name: must consist of lowercase letters, digits and dashes"],
  [[{ ...OUT, url: undefined }], "webhooks[0].secretFile: signs messages: set url or urlFile too"],
  [[{ ...OUT, urlFile: "./u" }], "webhooks[0].urlFile: cannot be set together with url"],
  [[{ ...OUT, secretFile: undefined }], "webhooks[0].secretFile: is missing: messages are signed"],
  [[{ ...OUT, events: [] }], "webhooks[0].events"],
  [[{ ...OUT, events: ["session.mode"] }], "webhooks[0].events[0]: must be one of approval.requested"],
  [[{ ...OUT, detail: "arguments" }], "webhooks[0].detail: must be one of summary, view"],
  [[{ ...OUT, secret: "whsec_x" }], "webhooks[0].secret: is not a known key"],
  [[{ name: "chat" }], "webhooks[0].url: is missing"],
  [[OUT, OUT], "webhooks[1].name: appears twice"],
  [[{ ...IN, decisions: { secretFile: "./key" } }], "webhooks[0].decisions.people"],
  [[{ ...IN, decisions: { secretFile: "./key", people: { U1: { subject: "s" } } } }], "people.U1.issuer"],
  [[{ ...IN, decisions: { secretFile: "./key", people: { "U 1": { issuer: "i", subject: "s" } } } }], "people"],
])("%j is refused", (webhooks, message) => {
  expect(problemsOf({ approvals: { webhooks } }).join("\n")).toContain(message);
});

test.each([
  "stc.example",
  "ftp://stc.example",
  "https://a:b@stc.example",
  "https://stc.example/?x",
  "javascript:alert(1)",
])("links do not begin with %s", (publicUrl) => {
  expect(problemsOf({ approvals: { publicUrl } }).join("\n")).toContain("approvals.publicUrl: must ");
});

test.each([
  "https://stc.example/approvals/{id}/page",
  "http://127.0.0.1:8787/approvals/{id}/page",
  "https://people.example/?request={id}#open",
])("the page that MCP clients open may be %s", (pageUrl) => {
  expect(read({ approvals: { pageUrl } }).approvals.pageUrl).toBe(pageUrl);
});

test.each([
  ["http://people.example/{id}", "must be https, or http on loopback"],
  ["https://ann:word@people.example/{id}", "must hold no credentials"],
  ["javascript:alert(1)", "must be a URL such as https://stc.example/approvals/{id}/page"],
  ["/approvals/{id}/page", "must be a URL such as https://stc.example/approvals/{id}/page"],
])("the page that MCP clients open may not be %s", (pageUrl, problem) => {
  expect(problemsOf({ approvals: { pageUrl } }).join("\n")).toContain(`approvals.pageUrl: ${problem}`);
});

test("the examples of docs/webhooks.md are valid configurations", () => {
  const page = readFileSync(join(import.meta.dir, "../../../docs/webhooks.md"), "utf8");
  const blocks = [...page.matchAll(/^ *```yaml\n([\s\S]*?)^ *```/gm)].map(([, block = ""]) => parse(block).approvals);
  expect(blocks).toHaveLength(3);
  const [out, answers, slack] = blocks.map((approvals) => read({ approvals }).approvals);
  expect(out?.webhooks[0]).toMatchObject({ name: "chat", events: ["approval.requested", "approval.denied"] });
  expect(out?.publicUrl).toBe("https://stc.example");
  expect(answers?.webhooks[0]?.decisions?.people["U03GHIJKL"]?.permissions).toEqual(["role:secops"]);
  expect(slack?.webhooks[0]).toMatchObject({ name: "slack", detail: "view" });
});
