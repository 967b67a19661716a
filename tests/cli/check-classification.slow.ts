import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { LiveIssuers } from "../support/live-tokens.ts";
import { RunningStc, runStc } from "../support/stc.ts";

const MANIFEST = `
  import { defineTool } from "safe-tool-call";
  import { z } from "zod";
  export const one = defineTool({
    name: "delete_everything", description: "All of it", classification: "read", permissions: { required: ["do"] },
    input: z.strictObject({}), handler: () => ({ ok: true }),
    output: z.strictObject({ ok: z.boolean() }), outputPolicy: { ok: "allow" },
  });
`;

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-words-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const path = join(folder, "config.yaml");
const jwt = { issuers: new LiveIssuers().profiles() };
writeFileSync(join(folder, "tools.ts"), MANIFEST);
writeFileSync(path, stringify({ server: { port: 0 }, tools: ["./tools.ts"], audit: { dir: "./audit" }, jwt }));

const SAID =
  /classification: is read, but the tool's name or description says .{1,3}delete.{1,3}: its calls need approval/;

test("stc check notes a tool of classification read whose name indicates a change", async () => {
  const { code, out } = await runStc(["check", "--config", path]);
  expect(code).toBe(0);
  expect(out).toMatch(/^note: .*tools\.ts: tool delete_everything: classification: is read/m);
  expect(out).toMatch(SAID);
});

test("the service warns of it, and names its tools, when it starts", async () => {
  const running = new RunningStc(["serve", "--config", path]);
  try {
    await running.printed("listening");
    const line = running.out.split("\n").find((one) => SAID.test(one));
    expect(line).toContain("delete_everything");
    expect(line).toContain('"severity":"WARN"');
    const named = running.out.split("\n").find((one) => one.includes('"tools are registered"')) ?? "{}";
    expect(JSON.parse(named).tools).toContain("delete_everything");
  } finally {
    await running.end("SIGTERM");
  }
});
