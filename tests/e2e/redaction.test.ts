import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { z } from "zod";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { defineTool, SafeToolCall } from "../../src/index.ts";
import { filler } from "../detection/secret-examples.ts";
import type { Loose } from "../support/asking-service.ts";
import { auditEntries, dayFilesText, journalEntries } from "../support/audit-files.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-redaction-")));
const issuers = new LiveIssuers();
const input = z.strictObject({ text: z.string().max(10_000), list: z.array(z.string()).optional() });
const common = {
  permissions: { required: ["notes:use"] },
  input,
  inputPolicy: { "*": "allow" },
  output: z.object({ said: input }),
  outputPolicy: { "*": "allow" },
  handler: (said: z.output<typeof input>) => ({ said }),
} as const;

/** Answers what it was asked, and lets all of it out. */
const echo = defineTool({
  ...common,
  name: "echo_note",
  description: "Says it again",
  classification: "read",
  scan: { "said.list[]": "balanced" },
});

const keep = defineTool({
  ...common,
  name: "keep_note",
  description: "Keeps it",
  classification: "write",
  category: "write",
});

/** More than is looked through, with a secret at its end. */
const flood = defineTool({
  permissions: { required: ["notes:use"] },
  name: "flood",
  description: "Says much",
  classification: "read",
  input: z.strictObject({}),
  handler: () => ({ text: `${"x".repeat(8_500_000)} DB_PASSWORD=correct-horse-7` }),
  output: z.object({ text: z.string() }),
  outputPolicy: { "*": "allow" },
  limits: { outputBytesMax: 33_554_432 },
});

const TOKEN = `ghp_${filler(36)}`;
const PEM_BODY = filler(64);
const PEM = `-----BEGIN PRIVATE KEY-----\n${PEM_BODY}\n${PEM_BODY}\n-----END PRIVATE KEY-----`;

const SECRETS: readonly (readonly [string, string, string, string])[] = [
  ["a token", `clone with ${TOKEN} today`, TOKEN, "github-token"],
  ["a private key", `here:\n${PEM}`, PEM_BODY, "private-key"],
  ["a DSN", "postgres://app:s3cr3t-Pw@db.internal:5432/orders", "s3cr3t-Pw", "url-password"],
  ["an assignment", "DB_PASSWORD=correct-horse-7", "correct-horse-7", "password-assignment"],
  ["a secret that only the operators know", "open with ACME-481516 now", "ACME-481516", "acme-key"],
];

/** Rules of the operators. */
const redaction = {
  rules: [
    { id: "acme-key", anchors: ["acme-"], pattern: "\\bACME-\\d{6}\\b", matches: ["ACME-123456"], misses: ["ACME-1"] },
    { id: "EMPLOYEE_ID", anchors: ["emp-"], pattern: "\\bEMP-(\\d{6})\\b", level: "balanced", matches: ["EMP-123456"] },
  ],
} as const;

const HEX = "3f9a8b7c6d5e4f3f9a8b7c6d5e4f3f9a8b7c6d5e";
const LOOK_ALIKES: readonly (readonly [string, string])[] = [
  ["a commit id", `commit ${HEX}`],
  ["a UUID", "3f0c9a52-6b1e-4c77-9d3a-000000000001"],
  ["a SHA-256 digest", `registry.example.com/web@sha256:${HEX}${HEX.slice(0, 24)}`],
  [
    "an image",
    `data:image/png;base64,${Buffer.from(Array.from({ length: 600 }, (_, at) => (at * 7_919 + (at >> 3) * 104_729) & 0xff)).toString("base64")}`,
  ],
  ["prose about passwords", "The password must have 12 characters; see password: required"],
];

interface Answered {
  readonly body: Loose;
  /** The line of the audit. */
  readonly entry: Loose;
}

interface Door {
  readonly dir: string;
  call(tool: string, args: unknown, reason?: string): Promise<Answered>;
}

const library = SafeToolCall.create({
  tools: [echo, keep, flood],
  folder,
  audit: { dir: "library" },
  redaction: structuredClone(redaction) as never,
  jwt: { issuers: issuers.profiles() as never },
});
let service: RunningService;

function agent(): Promise<string> {
  return issuers.token({ kind: "good", sub: "agent-7", permissions: ["notes:use"] });
}

async function send(path: string, token: string, body?: unknown): Promise<Loose> {
  const response = await fetch(`${service.url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return response.json();
}

function lineOf(dir: string, traceId: string): Loose {
  return auditEntries(join(folder, dir)).find((entry) => entry.traceId === traceId);
}

const DOORS: Readonly<Record<string, Door>> = {
  service: {
    dir: "service",
    async call(tool, args, reason) {
      const body = await send("/call", await agent(), { tool, args, ...(reason !== undefined && { reason }) });
      return { body, entry: lineOf("service", body.traceId) };
    },
  },
  library: {
    dir: "library",
    async call(tool, args, reason) {
      const body: Loose = await library.call(tool, args, await agent(), reason === undefined ? {} : { reason });
      return { body, entry: lineOf("library", body.traceId) };
    },
  },
};

beforeAll(async () => {
  const written = {
    server: { port: 0 },
    log: { level: "silent" },
    tools: [echo, keep, flood],
    audit: { dir: "service" },
    redaction,
    jwt: { issuers: issuers.profiles() },
    approvals: { store: "sqlite://./approvals.sqlite" },
  };
  service = await startService(readConfig(written, { folder, environment: { PATH: "" }, origin: "test" }));
});

afterAll(async () => {
  await service.drain();
  await library.close();
  rmSync(folder, { recursive: true, force: true });
});

describe.each(Object.entries(DOORS))("through the %s", (_name, door) => {
  test.each(SECRETS)(
    "%s is neither in the answer nor in the audit, and is counted",
    async (_title, text, secret, rule) => {
      const { body, entry } = await door.call("echo_note", { text }, `because ${text}`);
      expect(body).toMatchObject({ status: "success", untrusted: true, secretsSent: ["text"] });
      expect(body.result.said.text).toContain("[REDACTED]");
      expect(body.filteredFields).toEqual(["said.text"]);
      expect(entry).toMatchObject({
        decision: "ALLOWED",
        request: { secrets: ["text"], args: { text: expect.stringContaining("[REDACTED]") } },
        response: { filteredFields: ["said.text"], redactions: { [rule]: 1 } },
      });
      expect(entry.request.reason).toContain("[REDACTED]");
      expect(JSON.stringify(body) + dayFilesText(join(folder, door.dir))).not.toContain(secret);
    },
  );

  test.each(LOOK_ALIKES)("%s stays, everywhere", async (_title, text) => {
    const { body, entry } = await door.call("echo_note", { text, list: [text] }, text.slice(0, 100));
    expect(body).toMatchObject({ status: "success", result: { said: { text, list: [text] } }, filteredFields: [] });
    expect([entry.request.secrets, entry.response.redactions, body.secretsSent]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(entry.request.args.text).toBe(text);
  });

  test("personal data is hidden where the manifest asks for it, and only there", async () => {
    const text = "ask jane@example.com";
    const { body, entry } = await door.call("echo_note", { text, list: [text, text] });
    expect(body.result.said).toEqual({ text, list: ["ask [REDACTED:EMAIL]", "ask [REDACTED:EMAIL]"] });
    expect(body.filteredFields).toEqual(["said.list[]"]);
    expect(entry.response).toMatchObject({ filteredFields: ["said.list[]"], redactions: { EMAIL: 2 } });
    expect(entry.request.secrets).toBeUndefined();
  });

  test("personal data of the operators' rules is hidden at its level, also when it is encoded", async () => {
    const text = "by EMP-271828";
    const { body, entry } = await door.call("echo_note", {
      text,
      list: [text, btoa("by the clerk EMP-271828 at noon")],
    });
    expect(body.result.said).toEqual({
      text,
      list: ["by EMP-[REDACTED:EMPLOYEE_ID]", "[REDACTED:EMPLOYEE_ID]"],
    });
    expect(entry.response.redactions).toEqual({ EMPLOYEE_ID: 2 });
  });

  test("invisible characters are removed, and a secret that they split is found", async () => {
    const { body, entry } = await door.call("echo_note", { text: `a\u200bb ${[...TOKEN].join("\u200b")}` });
    expect(body.result.said.text).toBe("ab [REDACTED]");
    expect(entry.response.redactions).toEqual({ "github-token": 1 });
  });

  test("refused arguments are not in the audit, and their reason contains no secret", async () => {
    const { body, entry } = await door.call("echo_note", { text: 1, other: TOKEN }, `see ${TOKEN}`);
    expect([body.error.code, entry.request.args, entry.request.reason]).toEqual([
      "INVALID_INPUT",
      {},
      "see [REDACTED]",
    ]);
    expect(JSON.stringify([body, entry])).not.toContain(TOKEN);
  });
});

test.each(Object.values(DOORS))("text too large to scan is withheld completely", async (door) => {
  const { body, entry } = await door.call("flood", {});
  expect(body).toMatchObject({ status: "error", error: { code: "OUTPUT_TOO_LARGE", stage: "OUTPUT" } });
  expect(entry).toMatchObject({ decision: "ERROR", error: { code: "OUTPUT_TOO_LARGE" } });
  expect(JSON.stringify([body, entry])).not.toContain("correct-horse-7");
  expect(JSON.stringify([body, entry]).length).toBeLessThan(3_000);
});

test.each(SECRETS)("%s is not in an approval request, nor in the store or journal", async (_title, text, secret) => {
  const args = { text: `${text} `, list: [text] };
  const { body, entry } = await (DOORS["service"] as Door).call("keep_note", args, `because ${text}`);
  expect([body.status, body.secretsSent, entry.decision]).toEqual(["pending", ["text", "list[]"], "PENDING"]);
  expect(entry.request.secrets).toEqual(["text", "list[]"]);
  const operator = await issuers.token({ kind: "operator", sub: "alice", permissions: ["approvals:decide"] });
  const { approval: asked } = await send(`/approvals/${body.approval.id}`, operator);
  expect(asked.view.arguments.text).toContain("[REDACTED]");
  expect(asked.view.reason.text).toContain("[REDACTED]");
  const listed = await send("/approvals?state=pending", operator);
  const journal = journalEntries(join(folder, "service"));
  expect(JSON.stringify([asked, listed, journal, body, entry])).not.toContain(secret);
  for (const name of readdirSync(folder).filter((file) => file.startsWith("approvals.sqlite"))) {
    expect(readFileSync(join(folder, name)).includes(secret)).toBe(false);
  }
});

describe("docs/redaction.md", () => {
  const guide = readFileSync(join(PROJECT, "docs/redaction.md"), "utf8");
  const blocks = (language: string): readonly string[] =>
    [...guide.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"))].map(([, block = ""]) => block);

  test("its example of `stc filter` prints what it says, and `stc check` the same notes", async () => {
    const [manifest = ""] = blocks("ts");
    const [sample = ""] = blocks("json");
    const [command = "", shown = "", checked = ""] = blocks("text");
    writeFileSync(join(folder, "ticket.ts"), manifest);
    writeFileSync(join(folder, "ticket.json"), sample);
    const config = { tools: ["./ticket.ts"], audit: { dir: "./guide" }, jwt: { issuers: issuers.profiles() } };
    writeFileSync(join(folder, "stc.yaml"), stringify(config));
    const [, ...args] = command.trim().split(" ");
    const env = { STC_CONFIG: join(folder, "stc.yaml") };
    const { out, err, code } = await runStc(args, { cwd: folder, env });
    expect([code, err]).toEqual([0, ""]);
    expect(out).toBe(shown);
    const notes = (await runStc(["check"], { cwd: folder, env })).out
      .split("\n")
      .filter((line) => line.includes(" tool "));
    expect(`${notes.join("\n")}\n`).toBe(checked);
  });

  test("its rule is accepted, and `stc check` names the field of one that is not", async () => {
    const [written = ""] = blocks("yaml");
    const base = stringify({ tools: ["./ticket.ts"], audit: { dir: "./guide" }, jwt: { issuers: issuers.profiles() } });
    writeFileSync(join(folder, "stc.yaml"), base + written);
    const env = { STC_CONFIG: join(folder, "stc.yaml") };
    expect((await runStc(["check"], { cwd: folder, env })).code).toBe(0);
    writeFileSync(join(folder, "stc.yaml"), base + written.replace('"employee EMP-123456"', '"EMP-123456", "EMP 1"'));
    const refused = await runStc(["check"], { cwd: folder, env });
    expect([refused.code, refused.err]).toEqual([
      78,
      expect.stringContaining('redaction.rules[0].matches[1]: "EMP 1"'),
    ]);
  });

  test("it names every existing level", () => {
    for (const level of ["off", "secrets", "balanced", "strict"]) expect(guide).toContain(`| \`${level}\``);
  });
});
