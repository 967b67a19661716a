import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LiveIssuers } from "../../support/live-tokens.ts";
import { runStc } from "../../support/stc.ts";

const SECRET = "hunter2-Xq91LmZp0Tt";
const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-faults-")));
const issuers = new LiveIssuers();

/** What keeps the service from starting, each with a secret in its message. */
const FAULTS: readonly (readonly [string, Readonly<Record<string, unknown>>])[] = [
  ["a manifest that throws", { tools: ["./throws.ts"] }],
  ["a database that is not there", { approvals: { storeUrlFile: "./store-url" } }],
  ["a database's address that is none", { approvals: { storeUrlFile: "./odd-url" } }],
  ["a value of the wrong kind", { log: { level: `password=${SECRET}` } }],
  ["a key that is not known", { [`token=${SECRET}`]: true }],
  ["a collector with credentials", { telemetry: { traces: { endpoint: `https://u:${SECRET}@otel.example` } } }],
  [
    "headers that are none",
    { telemetry: { traces: { endpoint: "https://otel.example", headersFile: "./odd-headers" } } },
  ],
  ["a command with a token for a name", { commands: { allowed: [`--token=${SECRET}`] } }],
];

beforeAll(() => {
  mkdirSync(join(folder, "tools"));
  writeFileSync(join(folder, "throws.ts"), `throw new Error("connect to postgres://stc:${SECRET}@db/x failed");`);
  writeFileSync(
    join(folder, "tools/hello.ts"),
    `import { defineTool } from "safe-tool-call"; import { z } from "zod";
export const hello = defineTool({ name: "hello", description: "Hello", classification: "read", category: "read",
  permissions: { required: ["a:b"] }, input: z.strictObject({}), target: { system: "s", handler: async () => ({}) },
  output: z.strictObject({}), outputPolicy: {}, examples: { accepts: [{}], rejects: [{ x: 1 }] } });`,
  );
  writeFileSync(join(folder, "store-url"), `postgres://stc:${SECRET}@127.0.0.1:1/approvals?password=${SECRET}\n`);
  writeFileSync(join(folder, "odd-url"), `mysql://stc:${SECRET}@127.0.0.1:1/approvals\n`);
  writeFileSync(join(folder, "odd-headers"), `Bearer ${SECRET}\n`);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each(FAULTS)("%s: the messages at the start contain no secret", async (_title, changes) => {
  const config = {
    server: { port: 0 },
    tools: ["./tools"],
    audit: { dir: "./audit" },
    jwt: { issuers: issuers.profiles() },
    ...changes,
  };
  const path = join(folder, "stc.json");
  writeFileSync(path, JSON.stringify(config));
  const { code, out, err } = await runStc(["serve", "--config", path], { cwd: folder });
  expect(code).not.toBe(0);
  expect(err.length).toBeGreaterThan(10);
  expect(out + err).not.toContain(SECRET);
});
