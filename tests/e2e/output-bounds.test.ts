import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { defineTool, grpcMethod, SafeToolCall, type ToolCallResult, toToolResult } from "../../src/index.ts";
import { filler } from "../detection/secret-examples.ts";
import type { Loose } from "../support/asking-service.ts";
import { auditEntries, dayFilesText } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { PROJECT } from "../support/world.ts";
import { LAB_PROTO_FOLDER, type Lab, startLab } from "../targets/grpc/support/lab.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-bounds-")));
mkdirSync(join(folder, "work"));
const issuers = new LiveIssuers();
const shared = { permissions: { required: ["bounds:use"] }, limits: { outputBytesMax: 20_000 } } as const;
let runs = 0;

const listing = defineTool({
  ...shared,
  name: "listing",
  description: "Says much",
  classification: "read",
  input: z.strictObject({ rows: z.int(), text: z.int(), names: z.int() }),
  handler: ({ rows, text, names }) => ({
    rows: Array.from({ length: rows }, (_, id) => ({ id, note: "x".repeat(50) })),
    text: "é".repeat(text),
    total: rows,
    names: Object.fromEntries(Array.from({ length: names }, (_, at) => [`name-${at}`, at])),
  }),
  output: z.strictObject({
    rows: z.array(z.strictObject({ id: z.int(), note: z.string() })),
    text: z.string(),
    total: z.int(),
    names: z.record(z.string(), z.int()),
    truncated: z.boolean().optional(),
  }),
  outputPolicy: { "rows[].*": "allow", text: "allow", total: "allow", names: "allow", truncated: "allow" },
});

const change = defineTool({
  ...shared,
  name: "change",
  description: "Changes something, and says much",
  classification: "write",
  category: "write",
  idempotent: true,
  input: z.strictObject({ how: z.enum(["text", "names", "digits", "huge"]) }),
  handler: ({ how }) => {
    runs += 1;
    if (how === "names") return { text: "", [filler(30_000)]: 1 } as never;
    if (how === "huge") return { text: "x".repeat(40_000_000) };
    return { text: (how === "digits" ? "7" : "x").repeat(30_000) };
  },
  // A text of digits ends with a stop: it cannot be cut.
  output: z.strictObject({ text: z.string().regex(/^x*$|^7+\.$/) }),
  outputPolicy: { text: "allow" },
});

const stream = defineTool({
  ...shared,
  name: "stream",
  description: "Lists",
  classification: "read",
  input: z.strictObject({ items: z.int(), labelBytes: z.int().optional() }),
  target: grpcMethod("lab", "lab.v1.Lab", "List", { stream: { itemsMax: 5_000, bytesMax: 20_000 } }),
  output: z.object({ items: z.array(z.object({ label: z.string() })), truncated: z.boolean() }),
  outputPolicy: { "items[].label": "allow", truncated: "allow" },
});

const blob = (name: string, classification: "read" | "write") =>
  defineTool({
    ...shared,
    name,
    classification,
    description: "Answers with so many bytes",
    input: z.strictObject({ answerBytes: z.int() }),
    target: grpcMethod("lab", "lab.v1.Lab", "Blob"),
    output: z.object({ payload: z.string(), receivedBytes: z.int() }),
    outputPolicy: { payload: "allow", receivedBytes: "allow" },
  });

let lab: Lab;
let stc: SafeToolCall;
let token: string;

beforeAll(async () => {
  lab = await startLab();
  token = await issuers.token({
    kind: "good",
    sub: "agent-7",
    permissions: ["bounds:use", "workspace:bash", "workspace:fs:read"],
  });
  stc = SafeToolCall.create({
    folder,
    tools: [
      ...[listing, change, stream, blob("blob_read", "read"), blob("blob_write", "write")],
      ...["bash", "fs-read"].map((name) => join(PROJECT, `tools/workspace/${name}.ts`)),
    ],
    systems: { lab: { endpoint: `127.0.0.1:${lab.port}`, plaintext: true, proto: LAB_PROTO_FOLDER } },
    audit: { dir: "audit" },
    jwt: { issuers: issuers.profiles() as never },
    commands: { allowed: ["bash"], confinement: "off", unconfinedBash: true },
    workspace: { project: "work" },
    approvals: { store: "sqlite://./approvals.sqlite" },
    onToolApprove: () => true,
  });
});

afterAll(async () => {
  await stc.close();
  lab.close();
  rmSync(folder, { recursive: true, force: true });
});

async function call(
  tool: string,
  args: unknown,
  options = {},
): Promise<{ readonly body: Loose; readonly entry: Loose }> {
  const body: Loose = await stc.call(tool, args, token, options);
  return { body, entry: auditEntries(join(folder, "audit")).find(({ traceId }) => traceId === body.traceId) };
}

const TRUNCATED = { decision: "ALLOWED", response: { truncated: true } };

describe("lists and texts", () => {
  test("within the limit are not marked", async () => {
    const { body, entry } = await call("listing", { rows: 3, text: 3, names: 3 });
    expect(body.result).not.toHaveProperty("truncated");
    expect(body).not.toHaveProperty("truncated");
    expect(entry.response).not.toHaveProperty("truncated");
  });

  test("over it are cut, the longest first; small ones stay whole", async () => {
    const { body, entry } = await call("listing", { rows: 1_000, text: 100, names: 3 });
    expect(body).toMatchObject({ status: "success", truncated: true, result: { truncated: true, total: 1_000 } });
    expect(body.result.text).toBe("é".repeat(100));
    expect(Object.keys(body.result.names)).toHaveLength(3);
    const { length } = body.result.rows;
    expect(body.result.rows).toEqual(Array.from({ length }, (_, id) => ({ id, note: "x".repeat(50) })));
    expect([length > 250, JSON.stringify(body.result.rows).length <= 20_000]).toEqual([true, true]);
    expect(entry).toMatchObject(TRUNCATED);
  });

  test("share the limit, and no character is cut in two", async () => {
    const { body } = await call("listing", { rows: 1_000, text: 30_001, names: 0 });
    expect(body.result.text).toMatch(/^é{4900,5000}$/);
    expect(body.result.rows.length).toBeGreaterThan(120);
    expect(Buffer.byteLength(JSON.stringify(body.result))).toBeLessThanOrEqual(20_000);
  });

  test("results that cannot be cut are refused for reads", async () => {
    const { body, entry } = await call("listing", { rows: 1, text: 1, names: 5_000 });
    expect(body).toMatchObject({
      status: "error",
      error: {
        ...{ code: "OUTPUT_TOO_LARGE", stage: "OUTPUT", retryable: false, details: { outputBytesMax: 20_000 } },
        message: "The target's answer is over the tool's limit. Ask for less.",
      },
    });
    expect(entry).toMatchObject({ decision: "ERROR", error: { code: "OUTPUT_TOO_LARGE" } });
    expect(entry).not.toHaveProperty("response");
  });
});

describe("a change", () => {
  test("whose answer is cut has happened", async () => {
    const { body, entry } = await call("change", { how: "text" });
    expect(body).toMatchObject({ status: "success", truncated: true, result: { text: "x".repeat(20_000 - 11) } });
    expect(entry).toMatchObject(TRUNCATED);
  });

  test.each(["names", "digits", "huge"])(
    "whose answer cannot be cut (%s) has happened, and says nothing more",
    async (how) => {
      const idempotencyKey = `key-${how}`;
      const before = runs;
      const { body, entry } = await call("change", { how }, { idempotencyKey });
      expect(body).toMatchObject({ status: "success", truncated: true, result: null, filteredFields: ["*"] });
      expect(entry).toMatchObject({ ...TRUNCATED, approval: { by: "callback" } });
      expect(toToolResult(body as ToolCallResult)).toEqual({ ok: true, untrusted: true, truncated: true, data: null });
      const again = await call("change", { how }, { idempotencyKey });
      expect(again.body).toMatchObject({ status: "success", truncated: true, result: null });
      expect(again.entry).toMatchObject({ ...TRUNCATED, approval: { by: "idempotency-key" } });
      expect(runs).toBe(before + 1);
    },
  );
});

describe("gRPC", () => {
  test("a stream whose JSON is larger than its messages is cut at an item", async () => {
    const { body, entry } = await call("stream", { items: 4_000 });
    const labels = body.result.items.map(({ label }: Loose) => Number(label));
    expect(labels).toEqual(Array.from(labels, (_, at) => at + 1));
    expect([labels.length > 300, labels.length < 1_000]).toEqual([true, true]);
    expect(body).toMatchObject({ status: "success", truncated: true, result: { truncated: true } });
    expect(entry).toMatchObject(TRUNCATED);
  });

  test("a stream that is cut off at its limit is marked in the envelope too", async () => {
    const { body, entry } = await call("stream", { items: 200, labelBytes: 1_000 });
    expect(body).toMatchObject({ truncated: true, result: { truncated: true } });
    expect(body.result.items).toHaveLength(18);
    expect(entry).toMatchObject(TRUNCATED);
  });

  test.each(["blob_read", "blob_write"])("%s: a text is cut", async (tool) => {
    const { body, entry } = await call(tool, { answerBytes: 100_000 });
    expect(body).toMatchObject({ truncated: true, result: { receivedBytes: 0 } });
    expect(body.result.payload).toMatch(/^x+$/);
    expect(JSON.stringify(body.result)).toHaveLength(20_000);
    expect(entry).toMatchObject(TRUNCATED);
  });

  test("an answer over the system's limit is refused for a read, and withheld for a change", async () => {
    expect((await call("blob_read", { answerBytes: 5_000_000 })).body.error.code).toBe("OUTPUT_TOO_LARGE");
    const { body, entry } = await call("blob_write", { answerBytes: 5_000_000 });
    expect(body).toMatchObject({ status: "success", truncated: true, result: null });
    expect(entry).toMatchObject(TRUNCATED);
  });
});

describe.skipIf(Bun.which("bash") === null)("bash", () => {
  const SECRET = `ghp_${filler(36)}`;

  test("output over the limit is cut, the command ends, and its exit code is reported", async () => {
    const command = "seq 200000; echo done > end; exit 3";
    const { body, entry } = await call("bash", { command });
    expect(body).toMatchObject({ status: "success", truncated: true, result: { exitCode: 3, truncated: true } });
    expect(JSON.stringify(body.result).length).toBeWithin(262_100, 262_145);
    expect(entry).toMatchObject({ ...TRUNCATED, approval: { by: "callback" } });
    expect(readFileSync(join(folder, "work/end"), "utf8")).toBe("done\n");
  });

  test("output is whole as long as its JSON is within the limit", async () => {
    const { body } = await call("bash", { command: "yes | head -c 174700" });
    expect(body.result).toEqual({ output: "y\n".repeat(87_350), exitCode: 0, truncated: false });
    expect(body).not.toHaveProperty("truncated");
    const longer = await call("bash", { command: "yes | head -c 174800" });
    expect(longer.body).toMatchObject({ truncated: true, result: { exitCode: 0, truncated: true } });
    expect(JSON.stringify(longer.body.result).length).toBeLessThanOrEqual(262_144);
  });

  test("a command that times out keeps its output so far: filtered, marked, and not in the audit", async () => {
    const command = `echo started; echo GITHUB_TOKEN=$(printf '%s' ghp_)${filler(36)}; printf 'half: ghp_${filler(20)}'; sleep 60`;
    const { body, entry } = await call("bash", { command, timeoutMs: 2_000 });
    expect(body).toMatchObject({
      status: "error",
      error: {
        ...{ code: "OUTCOME_UNKNOWN", stage: "EXECUTION", retryable: false },
        message:
          "The command did not end within 2000 ms, and was ended. " +
          "It is not known whether the change happened. Check before you call again.",
        details: {
          ...{ timedOut: true, timeoutMs: 2_000 },
          output: "started\nGITHUB_TOKEN=[REDACTED]\nhalf: ",
          exitCode: 137,
          truncated: true,
          untrusted: true,
        },
      },
    });
    expect(entry).toMatchObject({
      decision: "ERROR",
      error: { code: "OUTCOME_UNKNOWN" },
      response: { filteredFields: ["output"], truncated: true, redactions: { "token-assignment": 1 } },
    });
    expect(JSON.stringify(entry.denial)).not.toContain("started");
    expect(dayFilesText(join(folder, "audit"))).not.toContain(SECRET);
  });
});

test.skipIf(Bun.which("bash") === null)("a partly read file is marked in the envelope", async () => {
  await Bun.write(join(folder, "work/long.txt"), "0123456789\n".repeat(10_000));
  const { body, entry } = await call("fs_read", { path: "@project/long.txt" });
  expect(body).toMatchObject({ status: "success", truncated: true, result: { truncated: true } });
  expect(entry).toMatchObject(TRUNCATED);
});
