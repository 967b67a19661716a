import { join } from "node:path";
import { openApprovals } from "../../src/approvals/approvals.ts";
import { createRiskRules } from "../../src/approvals/risk.ts";
import { mint, type Planned } from "../../src/core/evidence.ts";
import type { Tool } from "../../src/core/types.ts";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { MODULES } from "../../src/modules.ts";
import type { GateContext } from "../../src/pipeline/approval/call.ts";
import { type ApprovalGate, createApprovalGate } from "../../src/pipeline/approval/gate.ts";
import { CallScopes } from "../../src/pipeline/call-scope.ts";
import { createPolicyEvaluator } from "../../src/pipeline/policy-points.ts";
import { readConfig } from "../support/build.ts";
import { changing } from "./tools/changing.ts";

const ROUNDS = { pass: 20_000, grant: 500 } as const;
const SESSION = "sid:bench";
const BY = { issuer: "https://bench/people", subject: "alice" };

export interface GateFindings {
  /** A change that its manifest lets through: risk rules and every step before it. */
  readonly passUs: number;
  /** A call that an approval for the session covers: the store is asked. */
  readonly grantUs: number;
}

/** What the gate adds to a call, at the median. */
export async function gateFindings(folder: string): Promise<GateFindings> {
  const { approvals: limits } = readConfig(
    {
      tools: [changing],
      audit: { dir: join(folder, "audit") },
      jwt: { issuers: [{ issuer: "https://bench", publicKey: "-" }] },
    },
    { folder, environment: {}, origin: "bench" },
  );
  const store = await openApprovals({
    stores: MODULES.approvalStores,
    url: `sqlite://${join(folder, "gate.sqlite")}`,
    now: Date.now,
    newId: () => crypto.randomUUID(),
    newToken: () => crypto.randomUUID(),
    journal: async () => {},
    limits,
  });
  const policy = createPolicyEvaluator(MODULES.policyPoints, createRiskRules({ rules: [] }), DETECTOR);
  const gate = createApprovalGate({
    attaches: true,
    approvals: store,
    mode: "default",
    callbackTimeoutMs: 1_000,
    detector: DETECTOR,
    newId: () => crypto.randomUUID(),
  });
  const scope = new CallScopes({ clock: Date.now, monotonic: () => performance.now() }).open({ timeoutMs: 600_000 });
  const context: GateContext = {
    request: { tool: changing.name, args: {}, authorization: undefined, source: "bench" },
    traceId: "bench",
    scope,
    replan: () => Promise.reject(new Error("not asked for")),
    verifyAgain: async () => undefined,
  };
  const decide = async (planned: Planned) => gate.approve(await policy.assess(planned), context);
  const quiet = plannedCall(changing, "quiet");
  const loud = plannedCall(changing, "loud");
  const asked: unknown = await decide(loud).catch((refusal: unknown) => refusal);
  const { details } = asked as { readonly details: { readonly approval: { readonly id: string } } };
  await store.decide({ id: details.approval.id, by: BY, decision: "approve", scope: "session" });
  const passUs = await medianUs(ROUNDS.pass, () => decide(quiet));
  const grantUs = await medianUs(ROUNDS.grant, () => decide(loud));
  scope.close();
  await store.close();
  return { passUs, grantUs };
}

function plannedCall(tool: Tool, how: string): Planned {
  const caller = { issuer: "https://bench", subject: "a", permissions: [], actors: [], session: SESSION, expiresAt: 0 };
  const plan = { kind: "inline", input: { how } } as const;
  const binding = { plan: () => plan, run: async () => ({}) };
  return mint<Planned>({
    tool,
    binding,
    caller,
    input: { how },
    plan,
    digest: how.padEnd(64, "0"),
  } as unknown as Planned);
}

async function medianUs(rounds: number, work: () => ReturnType<ApprovalGate["approve"]>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const at = performance.now();
    await work();
    times.push((performance.now() - at) * 1_000);
  }
  return times.sort((a, b) => a - b)[rounds >> 1] ?? Number.NaN;
}
