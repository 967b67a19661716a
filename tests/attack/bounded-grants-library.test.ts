import { afterEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { PolicyDecision, PolicyPoint } from "../../src/core/policy-point.ts";
import { defineTool, SafeToolCall } from "../../src/index.ts";
import { MODULES } from "../../src/modules.ts";
import { LiveIssuers } from "../support/live-tokens.ts";

const ASK: PolicyDecision = { verdict: "requireApproval", reasons: ["look at it"], rememberable: true };
const ANN = { issuer: "https://people.test", subject: "ann" };
const ARGS = { to: "bob", text: "first" };

const folder = mkdtempSync(join(tmpdir(), "stc-bounded-"));
const open: SafeToolCall[] = [];
afterEach(async () => {
  for (const stc of open.splice(0)) await stc.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A library with a tool whose calls can be granted, and a policy point that says what a test wants of each call. */
async function library(decide: (input: unknown) => PolicyDecision) {
  mkdirSync(folder, { recursive: true });
  const sent: unknown[] = [];
  const point: PolicyPoint = { name: "watcher", stage: "approval", decide: ({ input }) => decide(input) };
  const send = defineTool({
    ...{ name: "send_note", description: "Sends a note", classification: "write", category: "network" },
    permissions: { required: ["deeds:do"] },
    input: z.strictObject({ to: z.string().max(20), text: z.string().max(100) }),
    output: z.object({ done: z.boolean() }),
    outputPolicy: { done: "allow" },
    approval: { grants: { runs: 5, minutes: 10, arguments: { text: "any" } } },
    handler: (input) => {
      sent.push(input);
      return { done: true };
    },
  });
  const issuers = new LiveIssuers();
  const stc = SafeToolCall.create(
    {
      ...{ tools: [send], folder, audit: { dir: join(folder, "audit") } },
      jwt: { issuers: issuers.profiles() as never },
      approvals: { store: "sqlite://./approvals.sqlite" },
    },
    { ...MODULES, policyPoints: { ...MODULES.policyPoints, others: [point] } },
  );
  open.push(stc);
  await stc.ready();
  const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["deeds:do"] });
  return { stc, sent, call: (args: unknown) => stc.call("send_note", args, token) };
}

type Library = Awaited<ReturnType<typeof library>>;

async function asked(
  { call }: Library,
  args: unknown,
): Promise<{ readonly id: string; readonly options: readonly string[] }> {
  const result = await call(args);
  if (result.status !== "pending") throw new Error(`not asked but ${result.status}`);
  return result.approval;
}

test("the library's decision grants several calls, and only so many run", async () => {
  const own = await library(() => ({ verdict: "allow" }));
  const { id } = await asked(own, ARGS);
  const wide = await own.stc.decide({ id, by: ANN, decision: "approve", scope: "bounded", grant: { runs: 6 } });
  expect(wide).toMatchObject({ outcome: "grant_refused", problem: { field: "grant.runs" } });
  await own.stc.decide({ id, by: ANN, decision: "approve", scope: "bounded", grant: { runs: 2 } });
  const statuses = await Promise.all(["a", "b", "c", "d"].map((text) => own.call({ ...ARGS, text })));
  expect(statuses.map(({ status }) => status).sort()).toEqual(["pending", "pending", "success", "success"]);
  expect(own.sent).toHaveLength(2);
});

test("a point that wants a person now is not answered by a grant, whether it wants one at the request or later", async () => {
  let rememberable = false;
  const own = await library(() => ({ ...ASK, rememberable }));
  expect((await asked(own, { ...ARGS, to: "eve" })).options).toEqual(["cancel", "once"]);
  rememberable = true;
  const { id, options } = await asked(own, ARGS);
  expect(options).toEqual(["cancel", "once", "bounded"]);
  await own.stc.decide({ id, by: ANN, decision: "approve", scope: "bounded" });
  expect((await own.call({ ...ARGS, text: "second" })).status).toBe("success");
  rememberable = false;
  expect((await own.call({ ...ARGS, text: "third" })).status).toBe("pending");
  expect(own.sent).toHaveLength(1);
});

test("a point that did not ask about the approved call is not answered by its grant", async () => {
  const own = await library((input) => ((input as typeof ARGS).text === "first" ? { verdict: "allow" } : ASK));
  const { id } = await asked(own, ARGS);
  await own.stc.decide({ id, by: ANN, decision: "approve", scope: "bounded" });
  expect((await own.call({ ...ARGS, text: "second" })).status).toBe("pending");
  expect((await own.call(ARGS)).status).toBe("success");
});

test("a denial is not answered by a grant, and uses no run", async () => {
  const own = await library((input) =>
    (input as typeof ARGS).text === "bad" ? { verdict: "deny", reasons: ["no"] } : { verdict: "allow" },
  );
  const { id } = await asked(own, ARGS);
  await own.stc.decide({ id, by: ANN, decision: "approve", scope: "bounded", grant: { runs: 1 } });
  expect((await own.call({ ...ARGS, text: "bad" })).status).toBe("denied");
  expect((await own.call({ ...ARGS, text: "good" })).status).toBe("success");
});
