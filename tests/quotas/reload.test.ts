import { afterEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { defineTool, SafeToolCall } from "../../src/index.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { ReloadService } from "../support/reload-service.ts";

let stand: ReloadService;
afterEach(() => stand?.end());

const quotas = (calls: number, more: Readonly<Record<string, unknown>> = {}) => ({
  limits: { quotas: [{ name: "monthly", per: ["caller"], calls, window: "month", ...more }] },
});

async function said(count: number): Promise<readonly string[]> {
  const all: string[] = [];
  for (let call = 0; call < count; call += 1) all.push(await stand.says());
  return all;
}

async function adopt(changes: Readonly<Record<string, unknown>>): Promise<string> {
  stand.configure(changes);
  const { body } = await stand.reload();
  return body.outcome ?? (body.problems ?? []).join("\n") ?? body.error?.code;
}

test("a reload adds quotas, raises and lowers them, and removes them", async () => {
  stand = await new ReloadService({ approvals: { store: "sqlite://./approvals.sqlite" } }).start();
  expect(await said(2)).toEqual(["first", "first"]);
  await adopt(quotas(2));
  expect(await said(3)).toEqual(["first", "first", "QUOTA_EXCEEDED"]);
  await adopt(quotas(4));
  expect(await said(3)).toEqual(["first", "first", "QUOTA_EXCEEDED"]);
  await adopt(quotas(3));
  expect(await said(1)).toEqual(["QUOTA_EXCEEDED"]);
  await adopt(quotas(3, { when: { tools: ["another"] } }));
  expect(await said(1)).toEqual(["first"]);
  await adopt({});
  expect(await said(1)).toEqual(["first"]);
});

test("a reload with a wrong quota is refused with the field, and the former quotas stay", async () => {
  stand = new ReloadService();
  stand.configure(quotas(1));
  await stand.start();
  expect(await adopt(quotas(5, { bytes: 5 }))).toContain("limits.quotas[0].bytes: cannot be combined with calls");
  expect(await said(2)).toEqual(["first", "QUOTA_EXCEEDED"]);
});

test("the library counts quotas in its process", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stc-quotas-"));
  const issuers = new LiveIssuers();
  const tool = defineTool({
    ...{ name: "say", description: "Says something", classification: "read" },
    permissions: { required: ["hello:say"] },
    ...{ input: z.strictObject({}), output: z.object({ said: z.string() }), outputPolicy: { said: "allow" } },
    handler: () => ({ said: "hello" }),
  });
  const [profile = {}] = issuers.profiles();
  const stc = SafeToolCall.create({
    ...{ tools: [tool], folder, audit: { dir: "audit" }, jwt: profile as never },
    limits: { quotas: [{ name: "monthly", per: ["caller"], calls: 1, window: "month" }] },
  });
  try {
    const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["hello:say"] });
    const first = await stc.call("say", {}, token);
    const second = await stc.call("say", {}, token);
    expect([first.status, second.status === "denied" && second.error.code]).toEqual(["success", "QUOTA_EXCEEDED"]);
  } finally {
    await stc.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
