import { riskPoint } from "./approvals/floor.ts";
import { AUDIT_EXPORTERS } from "./audit/export/collectors.ts";
import type { openConsole } from "./console/routes.ts";
import { postgresStore } from "./database/postgres-store.ts";
import { sqliteStore } from "./database/sqlite.ts";
import { DECISION_POINTS } from "./decision-points/kinds.ts";
import { DETECTOR_RULES } from "./detection/rules/rules.ts";
import type { EndpointFile } from "./http/endpoint.ts";
import { TOKEN_SOURCES } from "./pipeline/identity/token-sources.ts";
import { elevation, halts, permissions } from "./pipeline/permission-engine.ts";
import type { Modules } from "./runtime/modules.ts";
import { SHELL_TABLES } from "./shell-rules/shell-rules.ts";
import { command } from "./targets/command/kind.ts";
import { files } from "./targets/files/kind.ts";
import { inline } from "./targets/function/kind.ts";
import { grpc } from "./targets/grpc/kind.ts";
import { httpKind } from "./targets/http/kind.ts";
import { mcp } from "./targets/mcp/kind.ts";

/** The parts of a build that has listeners. Imported when they are needed: the library loads no HTTP code. */
export interface BuildModules extends Modules {
  readonly endpoints: readonly EndpointFile[];
  /** The operators' console, imported when it is configured. */
  readonly console: () => Promise<{ readonly openConsole: typeof openConsole }>;
}

/**
 * The parts of this build. Everything else is derived from these declarations. Programs (`cli/`, `index.ts`) hand the list in;
 * nothing below them names it.
 */
export const MODULES = {
  targetKinds: [
    grpc, //
    httpKind,
    command,
    files,
    mcp({
      processes: async (options) => {
        const { serverProcesses } = await import("./targets/command/confinement/server-process.ts");
        return serverProcesses(options);
      },
    }),
    inline,
  ],
  policyPoints: {
    halts,
    permissions,
    elevation,
    risk: riskPoint,
    others: [],
  },
  decisionPoints: DECISION_POINTS,
  detectorRules: DETECTOR_RULES,
  shellRules: SHELL_TABLES,
  approvalStores: [sqliteStore, postgresStore],
  auditExporters: AUDIT_EXPORTERS,
  tokenSources: TOKEN_SOURCES,
  endpoints: [
    () => import("./http/routes/service.ts"),
    () => import("./http/routes/call.ts"),
    () => import("./mcp/endpoint.ts"),
    () => import("./http/routes/tools.ts"),
    () => import("./http/routes/learning.ts"),
    () => import("./http/routes/inventory.ts"),
    () => import("./http/routes/halts.ts"),
    () => import("./http/routes/explain.ts"),
    () => import("./http/routes/data-flow.ts"),
    () => import("./http/routes/approvals.ts"),
    () => import("./http/routes/sessions.ts"),
    () => import("./http/routes/rpc.ts"),
    () => import("./http/routes/events.ts"),
    () => import("./http/routes/webhooks.ts"),
    () => import("./http/routes/audit.ts"),
    () => import("./http/routes/quotas.ts"),
    () => import("./http/routes/authzen.ts"),
  ],
  console: () => import("./console/routes.ts"),
} as const satisfies BuildModules;
