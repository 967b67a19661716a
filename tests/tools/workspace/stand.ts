import { z } from "zod";
import { compilePolicy } from "../../../src/core/output-policy/output-policy.ts";
import { compileScan } from "../../../src/core/output-policy/scan-policy.ts";
import type { ExecutionPlan, Tool, ToolConfig } from "../../../src/core/types.ts";
import { DETECTOR } from "../../../src/detection/sensitive.ts";
import { release } from "../../../src/pipeline/output-filter.ts";
import { cliHandler } from "../../../src/targets/command/handler.ts";
import { bash } from "../../../tools/workspace/bash.ts";
import { temporaryDirectory } from "../../targets/command/temporary-directory.ts";

const BASH = Bun.which("bash") ?? "/bin/bash";

/** What the configuration would offer with this workspace. */
export function configFor(workspace: string): ToolConfig {
  return {
    oneOf: () => z.enum(["none"]),
    sample: () => "",
    repository: () => "",
    gitDirectory: () => "",
    setting: () => "",
    path: () => "",
    shellWorkspace: () => workspace,
    workspaceMounts: () => ["@project"],
    has: () => false,
  };
}

export interface BashStand {
  readonly workspace: string;
  readonly tool: Tool;
  plan(args: Readonly<Record<string, unknown>>): Promise<ExecutionPlan>;
  run(plan: ExecutionPlan, options?: { readonly deadline?: number; readonly signal?: AbortSignal }): Promise<unknown>;
  call(args: Readonly<Record<string, unknown>>): Promise<unknown>;
}

const caller = { issuer: "https://idp.test", subject: "agent", permissions: [], actors: [], expiresAt: 0 };

/** The shipped tool over a fresh workspace, parsed, planned, run and released as in the pipeline. The clock stands at 0. */
export function bashStand(workspace: string = temporaryDirectory()): BashStand {
  const tool = bash.make(configFor(workspace));
  const handler = cliHandler({
    commands: new Map([["bash", BASH]]),
    emptyDirectory: temporaryDirectory(),
    now: () => 0,
    newId: () => crypto.randomUUID(),
  });
  const binding = handler.bind(tool);
  const idle = new AbortController().signal;
  const plan = async (args: Readonly<Record<string, unknown>>) =>
    binding.plan(tool.input.parse(args), { signal: idle });
  const parts = { tool, outputPolicy: compilePolicy(tool.outputPolicy, tool.output), scan: compileScan(tool.scan) };
  const released = (raw: unknown) => release({ ...parts, raw } as never, DETECTOR).result;
  const run: BashStand["run"] = async (sealed, { deadline = 20_000, signal = idle } = {}) =>
    released(await binding.run(sealed, { signal, deadline, traceId: "trace", caller }));
  return { workspace, tool, plan, run, call: async (args) => run(await plan(args)) };
}
