import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { defineTool, SafeToolCall } from "../../src/index.ts";
import { auditEntries } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";

type Input = { which: "first" | "second" };

const ran: string[] = [];

const declared = {
  description: "Says which one it ran",
  permissions: { required: ["case:run"] },
  input: z.strictObject({ which: z.enum(["first", "second"]) }),
  output: z.strictObject({ which: z.string() }),
  outputPolicy: { which: "allow" },
} as const;

/** A careless gate: it "normalises" what it was only asked about, after the plan was sealed. */
const changedByItsGate = defineTool({
  ...declared,
  name: "case_gate",
  classification: "write",
  category: "network",
  approval: {
    needsApproval(input: Input) {
      input.which = "second";
      return false;
    },
  },
  handler: ({ which }: Input) => {
    ran.push(which);
    return { which };
  },
} as never);

/** Dates cannot be frozen. */
const dateChangedByItsGate = defineTool({
  ...declared,
  name: "case_date",
  classification: "write",
  category: "network",
  input: z.strictObject({ on: z.iso.date().transform((text) => new Date(text)) }),
  approval: { needsApproval: ({ on }: { on: Date }) => on.setUTCFullYear(2999) < 0 },
  handler: ({ on }: { on: Date }) => ({ which: on.toISOString() }),
} as never);

/** A careless handler: it uses its input as a scratch pad. */
const changedByItself = defineTool({
  ...declared,
  name: "case_handler",
  classification: "read",
  handler: (input: Input) => {
    const { which } = input;
    input.which = "second";
    return { which };
  },
} as never);

let folder: string;
let stc: SafeToolCall;
let token: string;

beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-attack-")));
  const issuers = new LiveIssuers();
  token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["case:run"] });
  const jwt = { issuers: issuers.profiles() as never };
  stc = SafeToolCall.create({
    tools: [changedByItsGate, dateChangedByItsGate, changedByItself],
    audit: { dir: join(folder, "audit") },
    jwt,
  });
  await stc.ready();
});

afterAll(async () => {
  await stc.close();
  rmSync(folder, { recursive: true, force: true });
});

// The parsed input has to be frozen before anybody is asked about it, and a handler has to get a copy of its own.
describe("the parsed and sealed arguments are what runs and what the audit shows", () => {
  test("a gate cannot change the call that it checks", async () => {
    await stc.call("case_gate", { which: "first" }, token);
    expect(ran).not.toContain("second");
    expect(auditEntries(join(folder, "audit")).at(-1)?.request.args).toEqual({ which: "first" });
  });

  test("nor a date in it", async () => {
    const result = await stc.call("case_date", { on: "2026-01-01" }, token);
    expect(result).toMatchObject({ status: "success", result: { which: "2026-01-01T00:00:00.000Z" } });
  });

  test("a handler cannot change what the audit says it received", async () => {
    expect((await stc.call("case_handler", { which: "first" }, token)).status).toBe("success");
    expect(auditEntries(join(folder, "audit")).at(-1)?.request.args).toEqual({ which: "first" });
  });
});
