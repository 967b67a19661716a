import { expect, test } from "bun:test";
import type { RiskAssessment } from "../../../src/approvals/risk.ts";
import type { Approvals } from "../../../src/approvals/types.ts";
import { Refusal } from "../../../src/core/errors.ts";
import type { Planned } from "../../../src/core/evidence.ts";
import type { Tool } from "../../../src/core/types.ts";
import { DETECTOR } from "../../../src/detection/sensitive.ts";
import { MODULES } from "../../../src/modules.ts";
import { createApprovalGate } from "../../../src/pipeline/approval/gate.ts";
import { CallScopes } from "../../../src/pipeline/call-scope.ts";
import { createPolicyEvaluator } from "../../../src/pipeline/policy-points.ts";

type Given = Pick<Tool, "classification" | "category"> & {
  readonly approval?: Record<string, unknown>;
  readonly mode?: "default" | "autoEdit" | "yolo";
  readonly found?: Partial<RiskAssessment>;
  /** Of the token's session: what the store says of it, or that the store does not answer. Without it there is no store. */
  readonly session?: "default" | "autoEdit" | "yolo" | "away";
};

const HARMLESS: RiskAssessment = { risk: "low", rules: [], verdict: "none", rememberable: true, notes: [] };

async function outcome({ approval = {}, mode = "default", found, session, ...tool }: Given): Promise<string> {
  const gate = createApprovalGate({
    attaches: true,
    approvals: session && storeOf(session),
    mode,
    callbackTimeoutMs: 1_000,
    detector: DETECTOR,
    newId: () => "0191e2a0-0000-7000-8000-000000000001",
  });
  const policy = createPolicyEvaluator(MODULES.policyPoints, { assess: () => ({ ...HARMLESS, ...found }) }, DETECTOR);
  const scope = new CallScopes({ clock: () => 0, monotonic: () => 0 }).open({ timeoutMs: 5_000 });
  const caller = {
    issuer: "https://idp.example",
    subject: "agent-7",
    permissions: [],
    actors: [],
    expiresAt: 1,
    session: session && "sid:s",
  };
  const planned = { tool: { name: "t", ...tool, approval }, caller, input: { status: "BLOCKED" } };
  const request = { tool: "t", args: {}, authorization: undefined, source: "test" };
  try {
    const replan = () => Promise.reject(new Error("not asked for"));
    const context = { request, traceId: "t", scope, replan, verifyAgain: async () => undefined };
    const assessed = await policy.assess(planned as unknown as Planned);
    return `allow by ${(await gate.approve(assessed, context)).by}`;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return `${error.code} by ${String(error.details?.["rule"] ?? error.details?.["rules"])}`;
  } finally {
    scope.close();
  }
}

/** Knows one session, and no grants; whoever asks it to ask people hears that it cannot. */
function storeOf(session: NonNullable<Given["session"]>): Approvals {
  const isAway = session === "away";
  const away = () => Promise.reject(new Error("the store does not answer"));
  const found = async () => ({ id: "sid:s", mode: session, modeSetBy: { issuer: "i", subject: "operator" } });
  const findGrant = async () => undefined;
  return { findSession: isAway ? away : found, findGrant: isAway ? away : findGrant, ask: away } as never;
}

const no = () => false;
const mode = (wanted: string) => (_input: unknown, told: { readonly mode: string }) => told.mode !== wanted;
const WRITE = { classification: "write", category: "write" } as const;

const rows: readonly (readonly [string, Given, string])[] = [
  ["a read passes", { classification: "read", category: "read" }, "allow by category:read"],
  ["a read of another category asks", { classification: "read", category: "network" }, "APPROVAL_DENIED by default"],
  ["a write asks by default", { classification: "write", category: "write" }, "APPROVAL_DENIED by default"],
  [
    "a write that says it needs none passes",
    { classification: "write", category: "network", approval: { needsApproval: no } },
    "allow by needsApproval",
  ],
  [
    "a write that says yes asks",
    { classification: "write", category: "network", approval: { needsApproval: () => true } },
    "APPROVAL_DENIED by default",
  ],
  [
    "nothing but false is a no: undefined",
    { classification: "write", category: "write", approval: { needsApproval: () => undefined } },
    "APPROVAL_DENIED by default",
  ],
  [
    "nothing but false is a no: 0",
    { classification: "write", category: "write", approval: { needsApproval: () => 0 } },
    "APPROVAL_DENIED by default",
  ],
  [
    "a promise of false is a no",
    { classification: "write", category: "write", approval: { needsApproval: async () => false } },
    "allow by needsApproval",
  ],
  [
    "a promise of anything else asks",
    { classification: "write", category: "write", approval: { needsApproval: async () => "false" } },
    "APPROVAL_DENIED by default",
  ],
  [
    "a promise that is broken asks",
    { classification: "write", category: "write", approval: { needsApproval: () => Promise.reject(new Error("x")) } },
    "APPROVAL_DENIED by default",
  ],
  [
    "a promise that is never kept asks",
    { classification: "write", category: "write", approval: { needsApproval: () => new Promise(() => {}) } },
    "APPROVAL_DENIED by default",
  ],
  [
    "a manifest gets the mode, however it takes it: with a default",
    {
      classification: "write",
      category: "network",
      approval: { needsApproval: (_input: unknown, { mode } = { mode: "" }) => mode === "default" },
    },
    "APPROVAL_DENIED by default",
  ],
  [
    "a manifest gets the mode, however it takes it: as the rest",
    {
      classification: "write",
      category: "network",
      approval: { needsApproval: (...told: { mode?: string }[]) => told[1]?.mode === "default" },
    },
    "APPROVAL_DENIED by default",
  ],
  ["yolo lets a write through", { classification: "write", category: "write", mode: "yolo" }, "allow by mode:yolo"],
  ["yolo lets a command through", { classification: "write", category: "command", mode: "yolo" }, "allow by mode:yolo"],
  [
    "APR-25: yolo never answers a question",
    { classification: "read", category: "ask", mode: "yolo" },
    "APPROVAL_DENIED by floor:category",
  ],
  [
    "autoEdit lets a write through",
    { classification: "write", category: "write", mode: "autoEdit" },
    "allow by mode:autoEdit",
  ],
  [
    "autoEdit lets no command through",
    { classification: "write", category: "command", mode: "autoEdit" },
    "APPROVAL_DENIED by default",
  ],
  [
    "autoEdit lets no network call through",
    { classification: "write", category: "network", mode: "autoEdit" },
    "APPROVAL_DENIED by default",
  ],
  [
    "the manifest's no comes before autoEdit",
    { classification: "write", category: "write", mode: "autoEdit", approval: { needsApproval: no } },
    "allow by needsApproval",
  ],
  [
    "APR-24: banned is denied in yolo",
    {
      classification: "write",
      category: "command",
      mode: "yolo",
      found: { verdict: "deny", rules: ["rm-root"], risk: "critical" },
    },
    "POLICY_DENIED by rm-root",
  ],
  [
    "APR-24: high risk asks in yolo",
    { classification: "write", category: "command", mode: "yolo", found: { risk: "high", rules: ["rm-r"] } },
    "APPROVAL_DENIED by floor:risk:high",
  ],
  [
    "a rule that asks is not softened by needsApproval",
    {
      classification: "write",
      category: "write",
      approval: { needsApproval: no },
      found: { verdict: "ask", rules: ["mine"] },
    },
    "APPROVAL_DENIED by floor:mine",
  ],
  [
    "a rule that asks makes a read ask",
    { classification: "read", category: "read", found: { verdict: "ask", rules: ["mine"] } },
    "APPROVAL_DENIED by floor:mine",
  ],
  [
    "APR-23: deny wins over ask",
    {
      classification: "destructive",
      category: "write",
      approval: { required: true },
      found: { verdict: "deny", rules: ["no"] },
    },
    "POLICY_DENIED by no",
  ],
  [
    "what destroys asks in yolo",
    { classification: "destructive", category: "write", mode: "yolo" },
    "APPROVAL_DENIED by floor:destructive",
  ],
  [
    "a throw asks",
    {
      classification: "write",
      category: "write",
      approval: {
        needsApproval: () => {
          throw new Error("x");
        },
      },
    },
    "APPROVAL_DENIED by default",
  ],
  [
    "what destroys asks, whatever it says",
    { classification: "destructive", category: "write", approval: { needsApproval: no } },
    "APPROVAL_DENIED by floor:destructive",
  ],
  [
    "required asks, even for a read",
    { classification: "read", category: "read", approval: { required: true, needsApproval: no } },
    "APPROVAL_DENIED by floor:approval.required",
  ],
  [
    "a question is always asked",
    { classification: "read", category: "ask", approval: { needsApproval: no } },
    "APPROVAL_DENIED by floor:category",
  ],
];

const withStore: typeof rows = [
  [
    "a manifest that says false needs no mode, and so no store",
    { ...WRITE, session: "away", approval: { needsApproval: no } },
    "allow by needsApproval",
  ],
  [
    "a promise of false needs no store",
    { ...WRITE, session: "away", approval: { needsApproval: async () => false } },
    "allow by needsApproval",
  ],
  [
    "an answer that may depend on the mode waits for the mode",
    { ...WRITE, session: "away", approval: { needsApproval: mode("default") } },
    "APPROVAL_UNAVAILABLE by undefined",
  ],
  [
    "an answer that looks at the mode late waits for the mode",
    {
      ...WRITE,
      session: "away",
      approval: {
        needsApproval: (_: unknown, told: { mode: string }) => Promise.resolve().then(() => told.mode === "yolo"),
      },
    },
    "APPROVAL_UNAVAILABLE by undefined",
  ],
  ["no answer is no allow", { ...WRITE, session: "away" }, "APPROVAL_UNAVAILABLE by undefined"],
  [
    "a throw is no allow",
    { ...WRITE, session: "away", approval: { needsApproval: () => JSON.parse("{") } },
    "APPROVAL_UNAVAILABLE by undefined",
  ],
  [
    "the mode of other sessions is not this one's: yolo",
    { ...WRITE, session: "away", mode: "yolo" },
    "APPROVAL_UNAVAILABLE by undefined",
  ],
  [
    "what must ask still asks: required",
    { ...WRITE, session: "away", approval: { required: true, needsApproval: no } },
    "APPROVAL_UNAVAILABLE by undefined",
  ],
  [
    "what is banned is denied without a store",
    { ...WRITE, session: "away", found: { verdict: "deny", rules: ["mine"] } },
    "POLICY_DENIED by mine",
  ],
  ["a read needs no store", { classification: "read", category: "read", session: "away" }, "allow by category:read"],
  [
    "the session's mode counts for a manifest that asks",
    { ...WRITE, session: "yolo", approval: { needsApproval: () => true } },
    "allow by mode:yolo",
  ],
  [
    "a manifest gets the session's mode",
    { ...WRITE, session: "autoEdit", approval: { needsApproval: mode("autoEdit") } },
    "allow by needsApproval",
  ],
  [
    "a stricter mode of the session counts",
    { ...WRITE, session: "default", mode: "yolo", approval: { needsApproval: mode("default") } },
    "allow by needsApproval",
  ],
];

test.each([...rows, ...withStore])("%s", async (_title, given, want) => {
  expect(await outcome(given)).toBe(want);
});
