import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { defineTool } from "../../src/index.ts";
import { filler } from "../detection/secret-examples.ts";
import { auditEntries, journalEntries } from "../support/audit-files.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers } from "../support/live-tokens.ts";

/** A credential of a form that is known, another one for each place that it is put into. */
let made = 0;
const planted: string[] = [];
function secret(): string {
  made += 1;
  const one = `ghp_${filler(30)}${String(made).padStart(6, "0")}`;
  planted.push(one);
  return one;
}

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-audit-secrets-")));
const dir = join(folder, "audit");
const issuers = new LiveIssuers();
let service: RunningService;

/** Says in its text what to do with it. */
const tool = defineTool({
  name: "case_secret",
  description: "Answers, fails or throws with what it is given",
  classification: "read",
  category: "read",
  permissions: { required: ["case:run"] },
  input: z.strictObject({ text: z.string().max(200), how: z.enum(["answer", "throw", "odd"]) }),
  inputPolicy: { text: "allow" },
  handler: ({ text, how }) => {
    if (how === "throw") throw new Error(`failed with ${text}`);
    return Promise.resolve((how === "odd" ? { [text]: text } : { text }) as { text: string });
  },
  output: z.strictObject({ text: z.string() }),
  outputPolicy: { text: "allow" },
});

beforeAll(async () => {
  const written = {
    server: { port: 0 },
    tools: [tool],
    audit: { dir },
    jwt: { issuers: issuers.profiles() },
    log: { level: "silent" },
  };
  service = await startService(readConfig(written, { folder, environment: {}, origin: "test" }));
});
afterAll(async () => {
  await service.drain();
  rmSync(folder, { recursive: true, force: true });
});

interface Sent {
  readonly body?: unknown;
  readonly raw?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly token?: string;
}

async function call({ body, raw, headers = {}, token }: Sent): Promise<void> {
  const order = { kind: "good", sub: "agent-7", permissions: ["case:run"] } as const;
  const authorization = token ?? (await issuers.authorization(order)) ?? "";
  planted.push(authorization.split(".").at(-1) ?? "");
  const sent = { tool: "case_secret", args: { text: "harmless", how: "answer" }, ...(body as object) };
  await fetch(`${service.url}/call`, {
    method: "POST",
    headers: { authorization, "content-type": "application/json", ...headers },
    body: raw ?? JSON.stringify(sent),
  }).then((response) => response.text());
}

/** Of every file below the audit directory, whatever its name. */
function everyText(from = dir): string {
  return readdirSync(from)
    .map((name) => join(from, name))
    .map((path) => (statSync(path).isDirectory() ? everyText(path) : readFileSync(path, "latin1")))
    .join("\n");
}

type Row = readonly [place: string, make: () => Sent];

const ROWS: readonly Row[] = [
  ["the token", () => ({})],
  ["a token that is none", () => ({ token: `Bearer ${secret()}` })],
  ["an argument that is logged", () => ({ body: { args: { text: `key ${secret()}`, how: "answer" } } })],
  ["an argument of another type", () => ({ body: { args: { text: [secret()], how: secret() } } })],
  ["the reason", () => ({ body: { reason: `because ${secret()}` } })],
  ["an approval's id", () => ({ body: { approval: { id: secret() } } })],
  ["a header", () => ({ headers: { "x-api-key": secret(), cookie: `session=${secret()}`, "user-agent": secret() } })],
  ["a traceparent that is none", () => ({ headers: { traceparent: secret() } })],
  ["an idempotency key", () => ({ headers: { "idempotency-key": secret() } })],
  ["a body that is no JSON", () => ({ raw: `{"tool":"${secret()}` })],
  ["what a target answered", () => ({ body: { args: { text: secret(), how: "answer" } } })],
  ["what a target threw", () => ({ body: { args: { text: secret(), how: "throw" } } })],
  ["an answer of another shape", () => ({ body: { args: { text: secret(), how: "odd" } } })],
  ["a key of the arguments", () => ({ body: { args: { [secret()]: 1 } } })],
  ["the session", () => ({ body: { session: secret() } })],
  ["the call's id", () => ({ body: { callId: secret() } })],
  ["the name of a tool", () => ({ body: { tool: secret() } })],
  ["a member that nobody knows", () => ({ body: { [secret()]: 1 } })],
];

async function check(make: () => Sent): Promise<void> {
  const before = auditEntries(dir).length;
  planted.length = 0;
  await call(make());
  expect(auditEntries(dir)).toHaveLength(before + 1);
  const text = everyText();
  expect(planted.length).toBeGreaterThan(0);
  expect(planted.filter((one) => text.includes(one))).toEqual([]);
}

test.each(ROWS)("no secret is in the audit: not %s", (_place, make) => check(make));

test("no secret is in the journal: not in the filters of a query", async () => {
  const token = await issuers.token({ kind: "operator", sub: "auditor", permissions: ["audit:read"] });
  for (const path of ["/audit?text=harmless", "/audit/stats", "/audit/verify"]) {
    const answer = await fetch(service.url + path, { headers: { authorization: `Bearer ${token}` } });
    expect(answer.status).toBe(200);
  }
  expect(journalEntries(dir).map(({ type }) => type)).toContain("audit.queried");
  expect(everyText()).not.toContain(token.split(".").at(-1) ?? "");
});
