import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import { ShellRules } from "../../src/shell-rules/shell-rules.ts";
import type { Reply } from "../support/asking-service.ts";
import { PROJECT } from "../support/world.ts";
import { ModuleWorld } from "./module-world.ts";
import { shellRules } from "./toy-shell-rule.ts";

const WITH_SHIPPING: BuildModules = { ...MODULES, shellRules: { ...MODULES.shellRules, Shipping: shellRules } };

const BASH = Bun.which("bash");
const world = new ModuleWorld();
afterEach(() => world.stop());
afterAll(() => world.end());

/** Starts the service with the tool `bash` and calls the tool in a session. */
async function run(command: string, modules: BuildModules): Promise<Reply> {
  mkdirSync(join(world.folder, "work"), { recursive: true });
  const sections = {
    tools: [join(PROJECT, "tools/workspace/bash.ts")],
    commands: { allowed: ["bash"], confinement: "off", unconfinedBash: true, launchers: 0 },
    workspace: { project: "work" },
  };
  await world.start(modules, sections, dirname(BASH ?? ""));
  const token = await world.agent({ permissions: ["workspace:bash"], claims: { sid: "s-1" } });
  return world.send("POST", "/call", { token, body: { tool: "bash", args: { command } } });
}

describe.skipIf(BASH === null)("a shell rule that one line of the build registers", () => {
  test("makes the service ask a person about each call, and the approver sees why", async () => {
    const { http, body } = await run("shipit --production", WITH_SHIPPING);
    expect([http, body.status, body.approval.options]).toEqual([202, "pending", ["cancel", "once"]]);
    const shown = await world.send("GET", `/approvals/${body.approval.id}`, { token: await world.person() });
    expect(shown.body.approval).toMatchObject({ risk: "high", rules: expect.arrayContaining(["ships-to-customers"]) });
    expect(shown.body.approval.view.notes).toContain("Ships to the machines of customers (shipit).");
    expect(world.entry(body.traceId)).toMatchObject({
      decision: "PENDING",
      decisionReasons: [
        { point: "risk", verdict: "requireApproval", reason: expect.stringContaining("ships-to-customers") },
      ],
    });
  });

  test("denies a call, and the audit names the rule", async () => {
    const { http, body } = await run("shipit wipe", WITH_SHIPPING);
    expect([http, body.error.code]).toEqual([403, "POLICY_DENIED"]);
    expect(world.entry(body.traceId)).toMatchObject({
      decision: "DENIED",
      decisionReasons: [{ point: "risk", verdict: "deny", reason: expect.stringContaining("wipes-customers") }],
    });
  });

  test("does nothing in a build without it", async () => {
    const { http, body } = await run("shipit --production", MODULES);
    expect([http, body.approval.options]).toEqual([202, ["cancel", "once", "session"]]);
  });
});

test("a shell rule matches exactly what its own examples say", () => {
  const rules = new ShellRules(Object.values(WITH_SHIPPING.shellRules).flat());
  const nowhere = { cwd: undefined, home: undefined };
  for (const rule of shellRules) {
    for (const script of rule.matches) expect(rules.judge(script, nowhere).rules).toContain(rule);
    for (const script of rule.misses) expect(rules.judge(script, nowhere).rules).not.toContain(rule);
  }
});
