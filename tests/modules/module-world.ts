import { defineTool } from "safe-tool-call";
import { z } from "zod";
import type { PolicyPoint } from "../../src/core/policy-point.ts";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import { AskingService, type Reply } from "../support/asking-service.ts";

const payment = {
  classification: "write",
  category: "network",
  permissions: { required: ["money:send"] },
  approval: { needsApproval: () => false },
  input: z.strictObject({ amount: z.int() }),
  output: z.object({ paid: z.number() }),
  outputPolicy: { paid: "allow" },
  handler: ({ amount }: { readonly amount: number }) => ({ paid: amount }),
} as const;

/** Tools that run without an approval unless a policy point of the build objects. */
const TOOLS = [
  defineTool({ ...payment, name: "pay", description: "Pays an amount" }),
  defineTool({ ...payment, name: "refund", description: "Refunds an amount" }),
];

const USUAL = {
  tools: TOOLS,
  approvals: { store: "sqlite://./approvals.sqlite" },
  commands: { confinement: "off", launchers: 0 },
};

/** The real service with modules that a test adds. */
export class ModuleWorld extends AskingService {
  /** `path`: the PATH of the service. */
  async start(
    modules: BuildModules = MODULES,
    sections: Readonly<Record<string, unknown>> = {},
    path = "",
  ): Promise<this> {
    await this.run({ ...USUAL, ...sections }, path, modules);
    return this;
  }

  /** A configuration for a service that a test builds itself. */
  sections(more: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> {
    return { ...USUAL, audit: { dir: "./own-audit" }, jwt: { issuers: this.issuers.profiles() }, ...more };
  }

  async call(tool: "pay" | "refund", args: unknown, more: Readonly<Record<string, unknown>> = {}): Promise<Reply> {
    const token = await this.agent({ permissions: ["money:send"] });
    return this.send("POST", "/call", { token, body: { tool, args, ...more } });
  }
}

/** The modules of this build and the given policy points. */
export function withPoints(...points: readonly PolicyPoint[]): BuildModules {
  return { ...MODULES, policyPoints: { ...MODULES.policyPoints, others: points } };
}
