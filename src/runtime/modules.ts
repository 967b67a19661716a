import { riskPoint } from "../approvals/floor.ts";
import type { ShellRule } from "../approvals/risk/rule.ts";
import { SHELL_TABLES } from "../approvals/risk/shell.ts";
import { type AuditExporter, lokiExporter, otlpExporter } from "../audit/export/collectors.ts";
import { COMMANDS } from "../cli/commands.ts";
import type { openConsole } from "../console/routes.ts";
import type { TargetKind } from "../core/target-kind.ts";
import type { ApprovalStore } from "../database/dialect.ts";
import { postgresStore } from "../database/postgres-url.ts";
import { sqliteStore } from "../database/sqlite.ts";
import type { DetectorRule } from "../detection/rules/rule.ts";
import { DETECTOR_RULES } from "../detection/rules/rules.ts";
import type { AssertionContext } from "../egress/assertion.ts";
import type { Endpoint } from "../http/endpoint.ts";
import {
  jwksFileSource,
  jwksSource,
  jwksUriSource,
  publicKeyFileSource,
  publicKeySource,
  type TokenSource,
} from "../pipeline/identity/token-sources.ts";
import { elevation, permissions } from "../pipeline/permission-engine.ts";
import type { PolicyPoints } from "../pipeline/policy.ts";
import { type CommandContext, command } from "../targets/command/kind.ts";
import { type FilesContext, files } from "../targets/files/kind.ts";
import { inline } from "../targets/function/kind.ts";
import { grpc } from "../targets/grpc/kind.ts";
import { httpKind } from "../targets/http/kind.ts";
import { mcp } from "../targets/mcp/kind.ts";
import type { McpContext } from "../targets/mcp/settings.ts";

export type KindContext = AssertionContext & CommandContext & FilesContext & McpContext;

/**
 * The parts of a build. Everything else is derived from these declarations. Endpoints and commands are imported when they are
 * needed: the library loads no HTTP code.
 */
export interface Modules {
  readonly targetKinds: readonly TargetKind<KindContext>[];
  readonly policyPoints: PolicyPoints;
  /** Tables of rules for secrets and personal data, by title. */
  readonly detectorRules: Readonly<Record<string, readonly DetectorRule[]>>;
  /** Tables of rules about shell commands, by title. */
  readonly shellRules: Readonly<Record<string, readonly ShellRule[]>>;
  readonly approvalStores: readonly ApprovalStore[];
  readonly auditExporters: readonly AuditExporter[];
  readonly tokenSources: readonly TokenSource[];
  readonly endpoints: readonly (() => Promise<{ readonly endpoints: readonly Endpoint[] }>)[];
  /** The operators' console, imported when it is configured. */
  readonly console: () => Promise<{ readonly openConsole: typeof openConsole }>;
  /** The files that declare the commands of `stc`. */
  readonly commands: typeof COMMANDS;
}

export const MODULES = {
  targetKinds: [
    grpc, //
    httpKind,
    command,
    files,
    mcp({
      processes: async (options) => {
        const { serverProcesses } = await import("../targets/command/confinement/server-process.ts");
        return serverProcesses(options);
      },
    }),
    inline,
  ],
  policyPoints: {
    permissions,
    elevation,
    risk: riskPoint,
    others: [],
  },
  detectorRules: DETECTOR_RULES,
  shellRules: SHELL_TABLES,
  approvalStores: [sqliteStore, postgresStore],
  auditExporters: [otlpExporter, lokiExporter],
  tokenSources: [jwksUriSource, jwksFileSource, publicKeyFileSource, jwksSource, publicKeySource],
  endpoints: [
    () => import("../http/routes/service.ts"),
    () => import("../http/routes/call.ts"),
    () => import("../mcp/endpoint.ts"),
    () => import("../http/routes/tools.ts"),
    () => import("../http/routes/learning.ts"),
    () => import("../http/routes/inventory.ts"),
    () => import("../http/routes/data-flow.ts"),
    () => import("../http/routes/approvals.ts"),
    () => import("../http/routes/sessions.ts"),
    () => import("../http/routes/rpc.ts"),
    () => import("../http/routes/events.ts"),
    () => import("../http/routes/webhooks.ts"),
    () => import("../http/routes/audit.ts"),
  ],
  console: () => import("../console/routes.ts"),
  commands: COMMANDS,
} as const satisfies Modules;

export async function loadEndpoints({ endpoints }: Pick<Modules, "endpoints">): Promise<readonly Endpoint[]> {
  const loaded = await Promise.all(endpoints.map((load) => load()));
  return loaded.flatMap((module) => module.endpoints);
}
