import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { canonicalJson, sha256Hex } from "../../src/core/digest.ts";
import { defineTool, SafeToolCall } from "../../src/index.ts";
import { auditEntries } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";

const LIMITS = { depthMax: 64, nodesMax: 10_000, bytesMax: 1_048_576 } as const;

const repeat = defineTool({
  name: "case_repeat",
  description: "Answers what it was given",
  classification: "read",
  permissions: { required: ["case:run"] },
  input: z.strictObject({ words: z.array(z.enum(["one", "two", "three"])).max(8) }),
  handler: async ({ words }) => ({ words }),
  output: z.strictObject({ words: z.array(z.string()) }),
  outputPolicy: { "words[]": "allow" },
});

let folder: string;
let stc: SafeToolCall;
let token: string;

beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-attack-")));
  const issuers = new LiveIssuers();
  token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["case:run"] });
  stc = SafeToolCall.create({
    tools: [repeat],
    audit: { dir: join(folder, "audit") },
    jwt: { issuers: issuers.profiles() as never },
  });
  await stc.ready();
});

afterAll(async () => {
  await stc.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("what runs is what the audit records", () => {
  test("arguments that are changed after the call began change nothing", async () => {
    const args = { words: ["one"] };
    const called = stc.call("case_repeat", args, token);
    args.words.push("two", "three");
    const result = await called;
    expect(result).toMatchObject({ status: "success", result: { words: ["one"] } });
    const entry = auditEntries(join(folder, "audit")).find(({ traceId }) => traceId === result.traceId);
    expect(entry?.request.args).toEqual({ words: ["one"] });
    expect(entry?.request.argsHash).toBe(sha256Hex(canonicalJson({ words: ["one"] }, LIMITS)));
  });

  test("a getter that returns something else each time is called once", async () => {
    const words = ["one", "two", "three"];
    let asked = 0;
    const args = {
      get words() {
        asked += 1;
        return words.slice(0, asked);
      },
    };
    const result = await stc.call("case_repeat", args, token);
    expect(result).toMatchObject({ status: "success", result: { words: ["one"] } });
    const entry = auditEntries(join(folder, "audit")).find(({ traceId }) => traceId === result.traceId);
    expect(entry?.request.argsHash).toBe(sha256Hex(canonicalJson({ words: ["one"] }, LIMITS)));
    expect(asked).toBe(1);
  });
});

const throwing = { toJSON: () => Promise.reject(new Error("hostile")) };

describe("details that an embedder passes on with a call", () => {
  test.each([
    ["a reason that is an object", { reason: throwing }],
    ["a reason that is a BigInt", { reason: 1n }],
    ["a reason of two thousand characters", { reason: "x".repeat(2_000) }],
    ["a session with a line end", { session: "a\nb" }],
    ["a call id of a megabyte", { callId: "x".repeat(1_048_576) }],
    ["a call id that is a number", { callId: 7 }],
  ])("%s: refused before anything runs, and recorded", async (_title, options) => {
    const before = auditEntries(join(folder, "audit")).length;
    const result = await stc.call("case_repeat", { words: [] }, token, options as never);
    expect(result).toMatchObject({ status: "denied", error: { code: "MALFORMED_REQUEST", stage: "REQUEST" } });
    const added = auditEntries(join(folder, "audit")).slice(before);
    expect(added).toHaveLength(1);
    expect(added[0]).toMatchObject({ traceId: result.traceId, caller: { sub: "agent-7" }, decision: "DENIED" });
  });

  test.each([5, {}, "00-xyz", "\n"])(
    "the traceparent %p is left out, as its specification requires",
    async (traceparent) => {
      const options = { traceparent } as never;
      const result = await stc.call("case_repeat", { words: [] }, token, options);
      expect(result.status).toBe("success");
      const entry = auditEntries(join(folder, "audit")).find(({ traceId }) => traceId === result.traceId);
      expect(entry?.trace).toBeUndefined();
    },
  );

  test("a valid one is in the audit", async () => {
    const options = { session: "s-1", callId: "call_1", reason: "because\nof \u202e this" };
    const result = await stc.call("case_repeat", { words: [] }, token, options);
    const entry = auditEntries(join(folder, "audit")).find(({ traceId }) => traceId === result.traceId);
    expect(entry?.request).toMatchObject(options);
  });
});
