import { expect, test } from "bun:test";
import fc from "fast-check";
import type { RiskRules } from "../../src/approvals/risk.ts";
import { Refusal } from "../../src/core/errors.ts";
import { mint, type Parsed } from "../../src/core/evidence.ts";
import type { PolicyDecision, PolicyPoint } from "../../src/core/policy-point.ts";
import { ConfiguredPoint, PointTally } from "../../src/decision-points/point.ts";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { MODULES } from "../../src/modules.ts";
import { createPolicyEvaluator } from "../../src/pipeline/policy-points.ts";
import { callerOf, PAY } from "../decision-points/cedar-point.ts";

/** What a point does about a call, and the verdict that it amounts to. */
const BEHAVIOURS = {
  allows: "allow",
  asks: "ask",
  denies: "deny",
  throws: "deny",
  rejects: "deny",
  "is late": "deny",
  "answers nothing": "deny",
  "answers true": "deny",
  "answers with a text as verdict": "deny",
} as const;

type Behaviour = keyof typeof BEHAVIOURS;

interface Drawn {
  readonly behaviour: Behaviour;
  readonly isAsync: boolean;
  readonly isConfigured: boolean;
}

const DECISIONS: Readonly<Partial<Record<Behaviour, unknown>>> = {
  allows: { verdict: "allow" },
  asks: { verdict: "requireApproval", reasons: ["look"] },
  denies: { verdict: "deny", reasons: ["no"] },
  "answers true": true,
  "answers with a text as verdict": { verdict: "Allow", reasons: [] },
};

function behave<Answer>({ behaviour, isAsync }: Drawn, answer: unknown): Answer {
  if (behaviour === "throws") throw new Error("broken");
  if (behaviour === "rejects") return Promise.reject(new Error("broken")) as Answer;
  if (behaviour === "is late") return new Promise(() => {}) as Answer;
  return (isAsync ? Promise.resolve(answer) : answer) as Answer;
}

/** A point of the build, or one of the configuration whose kind behaves like this. */
function pointOf(drawn: Drawn, index: number): PolicyPoint {
  const name = `point-${index}`;
  const { behaviour } = drawn;
  if (!drawn.isConfigured) {
    const decide = () => behave<PolicyDecision>(drawn, DECISIONS[behaviour]);
    return { name, stage: "elevation", timeoutMs: 1, decide };
  }
  const answers: Readonly<Partial<Record<Behaviour, unknown>>> = {
    allows: { allows: true, reasons: [] },
    asks: { allows: false, reasons: ["look"], mayAsk: true },
    denies: { allows: false, reasons: ["no"] },
    "answers true": true,
    "answers with a text as verdict": { allows: "true", reasons: [] },
  };
  const kind = { evaluate: () => behave<never>(drawn, answers[behaviour]), preview: () => null, close: () => {} };
  const point = new ConfiguredPoint(kind, {
    ...{ name, kind: "test", isRemote: true, timeoutMs: 1 - 250, onAccessRequest: "ask", cacheSeconds: 0, claims: [] },
    ...{
      concerns: () => true,
      argumentsOf: () => undefined,
      now: () => 0,
      monotonic: () => 0,
      tally: new PointTally(),
    },
  });
  return point;
}

const drawn = fc.record<Drawn>({
  behaviour: fc.constantFrom(...(Object.keys(BEHAVIOURS) as Behaviour[])),
  isAsync: fc.boolean(),
  isConfigured: fc.boolean(),
});

const rules: Pick<RiskRules, "assess"> = {
  assess: () => ({ verdict: "none", risk: "low", rules: [], notes: [], rememberable: true }),
};

test("no order or combination of points lets a call through that one of them denies, and all reasons are recorded", async () => {
  const parsed = mint<Parsed>({ tool: PAY, caller: callerOf(), input: { amount: 1 } } as never);
  await fc.assert(
    fc.asyncProperty(fc.array(drawn, { maxLength: 6 }), async (points) => {
      const others = points.map(pointOf);
      const policy = createPolicyEvaluator({ ...MODULES.policyPoints, others }, rules, DETECTOR);
      const outcome = await Promise.resolve()
        .then(() => policy.elevate(parsed, { traceId: "t" }))
        .catch((error: unknown) => error);
      const verdicts = points.map(({ behaviour }) => BEHAVIOURS[behaviour]);
      const findings = (
        outcome as { readonly findings?: readonly { readonly point: string; readonly verdict: string }[] }
      ).findings;
      const recorded = (findings ?? []).map(({ point, verdict }) => [point, verdict]);
      const expected = verdicts.flatMap((verdict, index) => {
        if (verdict === "allow") return [];
        return [[`point-${index}`, verdict === "ask" ? "requireApproval" : "deny"]];
      });
      expect(outcome instanceof Refusal).toBe(verdicts.includes("deny"));
      if (outcome instanceof Refusal) expect(outcome.code).toBe("POLICY_DENIED");
      expect([...recorded].sort()).toEqual(expected.sort());
    }),
    { numRuns: 150 },
  );
});

test("an approval is used only when every point that wants to confirm it says allow", async () => {
  const asking: Drawn = { behaviour: "asks", isAsync: true, isConfigured: true };
  await fc.assert(
    fc.asyncProperty(fc.array(drawn, { minLength: 1, maxLength: 4 }), async (confirming) => {
      const others = confirming.map((each, index) => {
        const first = pointOf(asking, index);
        const second = pointOf({ ...each, isConfigured: true }, index) as ConfiguredPoint;
        return {
          name: first.name,
          stage: "elevation",
          timeoutMs: 1,
          decide: first.decide.bind(first),
          confirm: second.confirm,
        } as PolicyPoint;
      });
      const policy = createPolicyEvaluator({ ...MODULES.policyPoints, others }, rules, DETECTOR);
      const planned = { tool: PAY, caller: callerOf(), input: { amount: 1 } } as never;
      const findings = others.map(({ name }) => ({
        ...({ point: name, verdict: "requireApproval", reason: "look", rememberable: false } as const),
      }));
      const confirm = policy.confirmation({ planned, findings, traceId: "t" });
      const given = { id: "a", approvers: [], decidedAt: 0 };
      const outcome = await confirm?.(given).catch((error: unknown) => error);
      const isConfirmed = confirming.every(({ behaviour }) => behaviour === "allows");
      expect(outcome instanceof Refusal).toBe(!isConfirmed);
    }),
    { numRuns: 100 },
  );
});

test("an approval that no confirming point required is not confirmed, unless the list of findings is full", () => {
  const point = pointOf({ behaviour: "asks", isAsync: true, isConfigured: true }, 0);
  const policy = createPolicyEvaluator({ ...MODULES.policyPoints, others: [point] }, rules, DETECTOR);
  const planned = { tool: PAY, caller: callerOf(), input: {} } as never;
  const finding = { point: "risk", verdict: "requireApproval", reason: "x", rememberable: false } as const;
  const confirmation = (count: number) =>
    policy.confirmation({ planned, findings: Array(count).fill(finding), traceId: "t" });
  expect([confirmation(0), confirmation(15)]).toEqual([undefined, undefined]);
  expect(confirmation(16)).toBeFunction();
});
