import { afterEach, expect, test } from "bun:test";
import fc from "fast-check";
import type { Reply } from "../support/asking-service.ts";
import { CombinedWorld, DEEDS, ENGINE, type EngineAnswer, NEUTRAL, OURS, THEIRS } from "./combined-points-world.ts";

/** What each point says about one call, and what changes while a person thinks about it. */
interface Situation {
  readonly tool: string;
  readonly held: "by token" | "by role" | "not";
  readonly large: boolean;
  readonly mayLarge: boolean;
  readonly isHalted: boolean;
  readonly cedar: "allows" | "denies" | "errs";
  readonly engine: EngineAnswer;
  readonly rule: "none" | "asks" | "denies";
  readonly flow: "none" | "asks" | "denies";
  readonly mode: "default" | "autoEdit" | "yolo";
  readonly waived: boolean;
  readonly hasGrant: boolean;
  readonly then: "nothing" | "halt" | "permission lost" | "engine denies" | "reads private data";
}

/** Mostly what does not deny, so that most calls get far. */
const mostly = <Value>(usual: Value, ...others: readonly Value[]): fc.Arbitrary<Value> =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(usual) }, { weight: 2, arbitrary: fc.constantFrom(...others) });

const situation: fc.Arbitrary<Situation> = fc.record({
  tool: mostly("deed", ...DEEDS),
  held: mostly<Situation["held"]>("by token", "by role", "not"),
  large: mostly(false, true),
  mayLarge: fc.boolean(),
  isHalted: mostly(false, false, true),
  cedar: mostly<Situation["cedar"]>("allows", "denies", "errs"),
  engine: mostly<EngineAnswer>("allows", ...(Object.keys(ENGINE) as EngineAnswer[]), "offers", "offers", "withdraws"),
  rule: mostly<Situation["rule"]>("none", "asks", "asks", "denies"),
  flow: mostly<Situation["flow"]>("none", "asks", "asks", "denies"),
  mode: mostly<Situation["mode"]>("default", "autoEdit", "yolo"),
  waived: mostly(false, true),
  hasGrant: mostly(false, true),
  then: mostly<Situation["then"]>("nothing", "halt", "permission lost", "engine denies", "reads private data"),
});

/** The answer of the model: one word, or the code of the refusal. */
function expected(drawn: Situation): string {
  const { tool, held, large, mayLarge, isHalted, cedar, engine, rule, flow, mode, waived, hasGrant } = drawn;
  if (held === "not") return "PERMISSION_DENIED";
  if (isHalted) return "HALTED";
  if (large && !mayLarge) return "PERMISSION_DENIED";
  const offers = engine === "offers" || engine === "withdraws";
  if (cedar !== "allows" || (engine !== "allows" && !offers) || tool.includes("_slow")) return "POLICY_DENIED";
  if (rule === "denies" || flow === "denies") return "POLICY_DENIED";
  const isByMode = mode === "default" && !waived && !(hasGrant && !large);
  if (offers || rule === "asks" || flow === "asks" || isByMode) return "pending";
  return tool.includes("_costly") ? "QUOTA_EXCEEDED" : "success";
}

/** What an approved call gets. */
function afterApproval({ then, engine, tool, held }: Situation): string {
  if (then === "halt") return "HALTED";
  if (then === "permission lost" && held === "by token") return "PERMISSION_DENIED";
  if (then === "engine denies" || then === "reads private data") return "POLICY_DENIED";
  // A claim takes from the quotas before the engine is asked to confirm the approval.
  if (engine === "withdraws" && !tool.includes("_costly")) return "POLICY_DENIED";
  return tool.includes("_costly") ? "QUOTA_EXCEEDED" : "success";
}

function said({ body }: Reply): string {
  return body.status === "denied" || body.status === "error" ? body.error.code : body.status;
}

const worlds: CombinedWorld[] = [];
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.end();
});

async function started(isReversed: boolean): Promise<CombinedWorld> {
  const world = new CombinedWorld();
  worlds.push(world);
  return world.start(isReversed);
}

let nonces = 0;

/** Lives through a situation, and compares each answer, and what ran, with the model. Returns the answers. */
async function live(world: CombinedWorld, drawn: Situation): Promise<readonly string[]> {
  nonces += 1;
  const [sub, nonce] = [`agent-${nonces}`, `n-${nonces}`];
  const { tool, held, large, mayLarge, isHalted, cedar, engine, rule, flow, mode, waived, hasGrant, then } = drawn;
  const more = ["mail:read", ...(mayLarge ? ["deeds:more"] : [])];
  const full = await world.agent({ sub, permissions: ["deeds:do", ...more] });
  const bare = await world.agent({ sub, permissions: more });
  const role = await world.agent({ sub, permissions: more, claims: { groups: ["doers"] } });
  const token = { "by token": full, "by role": role, not: bare }[held];
  const session = await world.session(full, mode);
  const extras = session === undefined ? {} : { session };
  const approve = async (id: string, scope: string): Promise<void> => {
    await world.decide(id, "approve", { scope });
    if (!tool.includes("_two")) return;
    await world.decide(id, "approve", { scope, token: await world.person({ sub: "bob" }) });
  };
  if (hasGrant && mode === "default" && !tool.includes("_slow")) {
    const asked = await world.call(full, tool, { ...NEUTRAL, nonce: "never" }, extras);
    expect(said(asked)).toBe("pending");
    await approve(asked.body.approval.id, "bounded");
  }
  if (flow === "asks") await world.call(full, "read_mail", {});
  if (flow === "denies") await world.call(full, "read_account", {});
  const halt = isHalted ? await world.halt(sub) : undefined;
  const to = flow === "asks" ? THEIRS : OURS;
  const args = { to, cedar, engine, rule, large, waived, nonce };

  const wanted = expected(drawn);
  const runs = (): number => world.deeds.filter((deed) => deed === nonce).length;
  const dry = await world.call(token, tool, args, { ...extras, dryRun: true });
  const verdicts: Readonly<Record<string, string>> = { pending: "ask", success: "allow" };
  expect([dry.body.verdict, dry.body.error?.code]).toEqual([
    verdicts[wanted] ?? "deny",
    verdicts[wanted] === undefined ? wanted : undefined,
  ]);
  expect(runs()).toBe(0);
  const first = await world.call(token, tool, args, extras);
  const answers = [said(first)];
  expect(answers).toEqual([wanted]);
  expect(runs()).toBe(wanted === "success" ? 1 : 0);
  if (halt !== undefined) await world.lift(halt);
  if (wanted !== "pending") return answers;

  const { id } = first.body.approval;
  if (tool.includes("_two")) {
    await world.decide(id, "approve", { scope: "once" });
    expect(said(await world.call(token, tool, args, extras))).toBe("pending");
  }
  await approve(id, "once");
  const late = then === "halt" ? await world.halt(sub) : undefined;
  if (then === "engine denies") world.denied.add(nonce);
  if (then === "reads private data") await world.call(full, "read_account", {});
  const again = then === "permission lost" && held === "by token" ? bare : token;
  const second = said(await world.call(again, tool, args, extras));
  expect(second).toBe(afterApproval(drawn));
  expect(runs()).toBe(second === "success" ? 1 : 0);
  if (late !== undefined) await world.lift(late);
  if (second !== "success") return [...answers, second];
  // One approval is one run.
  expect(said(await world.call(token, tool, args, extras))).toBe("pending");
  expect(runs()).toBe(1);
  return [...answers, second];
}

test.each([
  ["in one order", false],
  ["in the opposite order", true],
])(
  "no combination of points, configured %s, lets a call through that one of them denies",
  async (_order, isReversed) => {
    const world = await started(isReversed);
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(situation, async (drawn) => {
        seen.add((await live(world, drawn)).join(" then "));
      }),
      { numRuns: 120 },
    );
    // The situations that were drawn end in every way that the model has.
    expect(seen.size).toBeGreaterThanOrEqual(8);
  },
  60_000,
);
