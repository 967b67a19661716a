import { riskPoint } from "./approvals/risk-point.ts";
import { AUDIT_EXPORTERS } from "./audit/export/collectors.ts";
import type { openConsole } from "./console/routes.ts";
import type { FleetShown } from "./core/api/inventory.ts";
import type { TenantShown } from "./core/api/tenants.ts";
import type { ServerProcesses, ServerProcessOptions } from "./core/server-process.ts";
import { postgresStore } from "./database/postgres-store.ts";
import { sqliteStore } from "./database/sqlite.ts";
import { DECISION_POINTS } from "./decision-points/kinds.ts";
import { DETECTOR_RULES } from "./detection/rules/rules.ts";
import { type EndpointFile, endpointFiles, type ListenerState, type NotReady } from "./http/endpoint.ts";
import type { ResourcePart } from "./http/routes/resource-metadata.ts";
import type { ServicePart } from "./http/routes/service.ts";
import type { McpSettings } from "./mcp/part.ts";
import { elevation, halts, permissions } from "./pipeline/built-in-points.ts";
import { TOKEN_SOURCES } from "./pipeline/identity/token-sources.ts";
import type { Service } from "./runtime/composition/wiring.ts";
import type { Modules } from "./runtime/module-types.ts";
import { SHELL_TABLES } from "./shell-rules/shell-rules.ts";
import { command } from "./targets/command/kind.ts";
import { files } from "./targets/files/kind.ts";
import { inline } from "./targets/function/kind.ts";
import { grpc } from "./targets/grpc/kind.ts";
import { httpKind } from "./targets/http/kind.ts";
import { mcp } from "./targets/mcp/kind.ts";
import { sqlKind } from "./targets/sql/kind.ts";

/** A service and its listeners, of which each file of endpoints gets its part. */
export interface ServedParts extends Omit<Service, "learning">, ServicePart {
  /** Undefined with several workers: an observation is in the memory of one process. */
  readonly learning: Service["learning"] | undefined;
  readonly notReady: () => readonly NotReady[];
  /** Returns the open listeners. */
  readonly listening: () => readonly ListenerState[];
  readonly fleet: () => FleetShown;
  /** Returns the tenants; undefined in a service that has none, and in a tenant. */
  readonly tenants: (() => readonly TenantShown[]) | undefined;
  readonly auditDir: string;
  /** Undefined while MCP is off. */
  readonly mcp: McpSettings | undefined;
  readonly resourceScopes: readonly string[] | undefined;
  /** Undefined without `server.resource`, and while the document is off. */
  readonly resourceMetadata: ResourcePart | undefined;
}

/** Joins a file of endpoints with its part of a service. */
export const served = endpointFiles<ServedParts>();

/** The parts of a build that has listeners. Imported when they are needed: the library loads no HTTP code. */
export interface BuildModules extends Modules {
  readonly endpoints: readonly EndpointFile<ServedParts>[];
  /** The operators' console, imported when it is configured. */
  readonly console: () => Promise<{ readonly openConsole: typeof openConsole }>;
}

/** Loads what starts programs that serve the service itself: MCP servers, and the processes that have databases open. */
async function processes(options: ServerProcessOptions): Promise<ServerProcesses> {
  const { serverProcesses } = await import("./targets/command/confinement/server-process.ts");
  return serverProcesses(options);
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
    mcp({ processes }),
    sqlKind({ processes }),
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
    served(
      () => import("./http/routes/service.ts"),
      ({ notReady, readiness }) => ({ notReady, readiness }),
    ),
    served(
      () => import("./http/routes/reload.ts"),
      ({ reload }) => reload && { reload },
    ),
    served(
      () => import("./http/routes/resource-metadata.ts"),
      ({ resourceMetadata }) => resourceMetadata,
    ),
    served(
      () => import("./http/routes/call.ts"),
      ({ proxy, approvals }) => ({ proxy, approvals }),
    ),
    served(
      () => import("./mcp/endpoint.ts"),
      ({ mcp, proxy, registry, approvals, detector, dataFlow, notReady, resourceScopes }) =>
        mcp && { mcp, proxy, registry, approvals, detector, dataFlow, notReady, resourceScopes },
    ),
    served(
      () => import("./http/routes/tools.ts"),
      ({ registry }) => ({ registry }),
    ),
    served(
      () => import("./http/routes/learning.ts"),
      ({ registry, learning }) => learning && { registry, learning },
    ),
    served(
      () => import("./http/routes/inventory.ts"),
      ({ inventory, configurationVersions, notReady, listening, fleet }) => ({
        inventory,
        configurationVersions,
        notReady,
        listening,
        fleet,
      }),
    ),
    served(
      () => import("./http/routes/members.ts"),
      ({ hub }) => hub && { hub },
    ),
    served(
      () => import("./http/routes/tenants.ts"),
      ({ tenants }) => tenants && { tenants },
    ),
    served(
      () => import("./http/routes/halts.ts"),
      ({ halts, registry, detector, tenants }) => ({ halts, registry, detector, tenants }),
    ),
    served(
      () => import("./http/routes/explain.ts"),
      ({ explain }) => ({ explain }),
    ),
    served(
      () => import("./http/routes/data-flow.ts"),
      ({ dataFlow, detector }) => ({ dataFlow, detector }),
    ),
    served(
      () => import("./http/routes/approvals.ts"),
      ({ approvals, registry, dataFlow }) => approvals && { approvals, registry, dataFlow },
    ),
    served(
      () => import("./http/routes/approval-report.ts"),
      ({ approvals, auditDir }) => approvals?.report && { report: approvals.report, auditDir },
    ),
    served(
      () => import("./http/routes/approval-page.ts"),
      ({ approvals }) => approvals && {},
    ),
    served(
      () => import("./http/routes/sessions.ts"),
      ({ approvals }) => approvals && { approvals },
    ),
    served(
      () => import("./http/routes/rpc.ts"),
      ({ approvals }) => approvals && { approvals },
    ),
    served(
      () => import("./http/routes/events.ts"),
      ({ approvals }) => approvals && { approvals },
    ),
    served(
      () => import("./http/routes/webhooks.ts"),
      ({ approvals }) => {
        const { webhooks, inbox } = approvals ?? {};
        return approvals && webhooks && inbox && { approvals, webhooks, inbox };
      },
    ),
    served(
      () => import("./http/routes/audit.ts"),
      ({ auditDir, auditStore, exports, checkpointKey }) => ({ auditDir, auditStore, exports, checkpointKey }),
    ),
    served(
      () => import("./http/routes/quotas.ts"),
      ({ quotas }) => ({ quotas }),
    ),
    served(
      () => import("./http/routes/authzen.ts"),
      ({ evaluate }) => ({ evaluate }),
    ),
  ],
  console: () => import("./console/routes.ts"),
} as const satisfies BuildModules;
