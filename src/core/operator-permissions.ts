/** What operators' permissions open, one row each. Their names in endpoints and configurations are compared exactly. */

interface Row {
  /** What it opens: for `docs/identity.md`, whose links are left out here. */
  readonly opens: string;
  /** Left out of `stc token --operator` unless `--permission` names it. */
  readonly onlyByName?: true;
}

const ROWS = {
  "approvals:decide": { opens: "approval requests, decisions, `/events`, `/rpc`, the report: `stc approvals`" },
  "data-flow:read": { opens: "what a caller has read: `stc flow show`" },
  "data-flow:vouch": {
    opens:
      "telling what the user asked a caller to do, for the program that hosts the agent; never for the agent itself",
  },
  "data-flow:write": { opens: "making the service forget it: `stc flow clear`" },
  "grants:manage": { opens: "approvals that cover further calls, for sessions or within bounds: `stc grants`" },
  "modes:manage": { opens: "how much sessions ask: `stc mode`" },
  "halts:read": { opens: "the halts in force: `stc halts`" },
  "halts:write": { opens: "halting calls, and lifting halts: `stc halt`, `stc resume`" },
  "audit:read": { opens: "`/audit` and below" },
  "metrics:read": { opens: "`/metrics`, `/systems`, `/members`, and the details of `/readyz`" },
  "configuration:read": {
    opens: "`/configuration` and `/configuration/versions`: the settings in use and before, without secrets and paths",
  },
  "tenants:read": { opens: "`/tenants`, for operators of a service that has tenants: `stc tenants`" },
  "tools:read": { opens: "`/catalog`: every tool with its policies, schemas and who may call it" },
  "tools:learn": { opens: "what a tool's answers look like, without their values: `stc learn`" },
  "quotas:read": { opens: "`GET /quotas`, who has used how much: `stc quotas list`" },
  "quotas:write": { opens: "`POST /quotas/reset`: `stc quotas reset`" },
  "policy:evaluate": {
    opens: "`/access/v1/evaluation` and `/access/v1/evaluations`: whether an agent may call a tool, for other programs",
  },
  "policy:explain": { opens: "`POST /explain`: what every policy says about a call: `stc explain --service`" },
  "service:reload": { opens: "`POST /reload`: `stc reload`", onlyByName: true },
} as const satisfies Readonly<Record<string, Row>>;

export type OperatorPermission = keyof typeof ROWS;

export const OPERATOR_PERMISSIONS: Readonly<Record<OperatorPermission, Row>> = ROWS;

/** First parts of names that tools may share with operators: agents' own permissions begin so, too. */
const SHARED: ReadonlySet<string> = new Set(["configuration", "tools"]);

const RESERVED: ReadonlySet<string> = new Set(
  Object.keys(ROWS)
    .map(firstPart)
    .filter((part) => !SHARED.has(part)),
);

function firstPart(permission: string): string {
  return permission.slice(0, Math.max(permission.indexOf(":"), 0));
}

export function isOperatorPermission(permission: string): permission is OperatorPermission {
  return Object.hasOwn(ROWS, permission);
}

/** Returns whether no tool may require a permission, because operators would have to grant their own to agents. */
export function isForOperatorsOnly(permission: string): boolean {
  return isOperatorPermission(permission) || RESERVED.has(firstPart(permission));
}
