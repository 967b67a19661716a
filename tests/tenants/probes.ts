import type { Loose, Reply } from "../support/asking-service.ts";
import { type Ids, KEY, mcp, READ, relay, SESSION, TASKS } from "./acts.ts";
import { CALLER, TENANTS, type Tenant, type TenantsWorld } from "./tenants-world.ts";

/** Requests of a tenant's agent and operator with ids of another tenant: a row for each endpoint, in the order in which they are asked. */

export interface Probe {
  readonly endpoint: string;
  /** The id that it names: its owner gets another answer than anybody else. */
  readonly names?: keyof Ids;
  ask(world: TenantsWorld, tenant: Tenant, ids: Ids): Promise<Reply>;
}

type Role = "agent" | "operator" | "anybody";
interface Asked {
  readonly path?: (ids: Ids) => string;
  readonly body?: (ids: Ids) => unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A request to an endpoint; a segment of its path that begins with a colon is an id of this name, unless `path` says more. */
function probe(role: Role, endpoint: string, names?: keyof Ids, { path, body, headers }: Asked = {}): Probe {
  const [method = "", declared = ""] = endpoint.split(" ");
  return {
    endpoint,
    ...(names !== undefined && { names }),
    async ask(world, tenant, ids) {
      const url = path?.(ids) ?? (names === undefined ? declared : declared.replace(/:\w+/, ids[names]));
      const more = { ...(body !== undefined && { body: body(ids) }), ...(headers !== undefined && { headers }) };
      if (role === "anybody") return world.send(method, url, more);
      return role === "agent" ? world.asAgent(tenant, method, url, more) : world.asOperator(tenant, method, url, more);
    },
  };
}

function overMcp(method: string, names: keyof Ids | undefined, params: (ids: Ids) => Loose): Probe {
  const ask: Probe["ask"] = (world, tenant, ids) => mcp(world, tenant, method, params(ids));
  return { endpoint: "POST /mcp", ...(names !== undefined && { names }), ask };
}

const CALLER_QUERY = `issuer=${encodeURIComponent(CALLER.issuer)}&subject=${CALLER.subject}`;
const SUBJECT = { type: "user", id: CALLER.subject };
const EVALUATION = { subject: SUBJECT, action: { name: "tools/call" }, resource: { type: "tool", id: "notes_read" } };
const call = (tool: string, text: string, more: Loose = {}): Loose => ({ tool, args: { text }, ...more });

/** Readings of a tenant's whole state, without ids. */
export const READINGS: readonly Probe[] = [
  probe("operator", "GET /approvals"),
  probe("agent", "GET /approvals"),
  probe("operator", "GET /approvals", undefined, { path: () => `/approvals?${CALLER_QUERY}` }),
  probe("operator", "GET /approvals/report"),
  probe("operator", "GET /audit"),
  probe("operator", "GET /audit", undefined, { path: () => `/audit?sub=${CALLER.subject}` }),
  probe("operator", "GET /audit/activity"),
  probe("operator", "GET /audit/export", undefined, { path: () => "/audit/export?format=jsonl" }),
  probe("operator", "GET /audit/exporters"),
  probe("operator", "GET /audit/keys"),
  probe("operator", "GET /audit/stats"),
  probe("operator", "GET /audit/verify"),
  probe("operator", "GET /catalog"),
  probe("operator", "GET /catalog/:name", undefined, { path: () => "/catalog/notes_read" }),
  probe("operator", "GET /configuration"),
  probe("operator", "GET /configuration/versions"),
  probe("operator", "GET /data-flow", undefined, { path: () => `/data-flow?${CALLER_QUERY}` }),
  probe("operator", "POST /explain", undefined, { body: () => call("notes_write", "a", { sub: CALLER.subject }) }),
  probe("operator", "POST /access/v1/evaluation", undefined, { body: () => EVALUATION }),
  probe("operator", "POST /access/v1/evaluations", undefined, { body: () => ({ evaluations: [EVALUATION] }) }),
  probe("operator", "GET /grants"),
  probe("agent", "GET /grants"),
  probe("operator", "GET /halts"),
  probe("operator", "GET /quotas"),
  probe("operator", "GET /readyz"),
  probe("operator", "POST /rpc", undefined, { body: () => ({ jsonrpc: "2.0", id: 1, method: "exec.list" }) }),
  probe("operator", "GET /sessions"),
  probe("operator", "GET /sessions", undefined, { path: () => `/sessions?${CALLER_QUERY}` }),
  probe("operator", "GET /systems"),
  probe("agent", "GET /tools"),
  probe("agent", "GET /tools/:name", undefined, { path: () => "/tools/notes_write" }),
  probe("operator", "GET /tools/:name/learning", undefined, { path: () => "/tools/notes_read/learning" }),
  probe("operator", "GET /tools/:name/learning/progress", undefined, {
    path: () => "/tools/notes_read/learning/progress",
  }),
  overMcp("server/discover", undefined, () => ({})),
  overMcp("tools/list", undefined, () => ({})),
  probe("operator", "GET /metrics"),
];

/** Requests with ids and names of another tenant. */
export const FOREIGN: readonly Probe[] = [
  probe("agent", "GET /approvals/:id", "pending"),
  probe("agent", "GET /approvals/:id", "approved"),
  probe("operator", "GET /approvals/:id", "pending"),
  probe("anybody", "GET /approvals/:id/page", undefined, { path: ({ pending }) => `/approvals/${pending}/page` }),
  probe("operator", "POST /approvals/:id/decisions", "pending", { body: () => ({ decision: "approve" }) }),
  probe("operator", "POST /approvals/:id/revoke", "approved"),
  probe("agent", "DELETE /approvals/:id", "pending"),
  probe("operator", "POST /rpc", "second", {
    body: ({ second: approvalId }) => ({ jsonrpc: "2.0", id: 1, method: "exec.approve", params: { approvalId } }),
  }),
  probe("operator", "POST /rpc", "third", {
    body: ({ third: approvalId }) => ({ jsonrpc: "2.0", id: 1, method: "exec.deny", params: { approvalId } }),
  }),
  {
    endpoint: "POST /webhooks/:name/decisions",
    names: "pending",
    ask: (world, tenant, { pending }) => relay(world, tenant, { approvalId: pending, decision: "approve" }),
  },
  probe("operator", "GET /audit/:traceId", "trace"),
  probe("operator", "GET /audit/:traceId", "pending"),
  probe("operator", "GET /audit/:traceId/proof", "trace"),
  probe("operator", "GET /audit", "trace", { path: ({ trace }) => `/audit?traceId=${trace}` }),
  probe("operator", "GET /configuration/versions/:policyVersion", "version"),
  // The same key and arguments, the same session, and approvals of the same caller.
  probe("agent", "POST /call", undefined, {
    headers: { "idempotency-key": KEY },
    body: () => call("notes_read", "read"),
  }),
  probe("agent", "POST /call", undefined, {
    headers: { "idempotency-key": KEY },
    body: () => call("notes_read", "other"),
  }),
  probe("agent", "POST /call", undefined, { body: () => call("notes_read", "x", { session: SESSION }) }),
  probe("agent", "POST /call", "session", { body: ({ session }) => call("notes_write", READ, { session }) }),
  probe("agent", "POST /call", undefined, { body: () => call("notes_write", "within the bounds of a grant") }),
  probe("agent", "POST /call", "approved", {
    body: ({ approved, session }) => call("notes_write", READ, { session, approval: { id: approved } }),
  }),
  probe("agent", "POST /call", "pending", {
    body: ({ pending: id }) => call("notes_send", "pending", { approval: { id } }),
  }),
  overMcp("tasks/get", "task", ({ task: taskId }) => ({ taskId, ...TASKS })),
  overMcp("tasks/update", "task", ({ task: taskId }) => ({ taskId, inputResponses: {}, ...TASKS })),
  overMcp("tasks/cancel", "task", ({ task: taskId }) => ({ taskId, ...TASKS })),
  overMcp("tools/call", undefined, () => ({ name: "notes_read", arguments: { text: "mcp" } })),
  probe("operator", "DELETE /grants/:id", "grant"),
  probe("operator", "DELETE /grants/:id", "bounded"),
  probe("operator", "PUT /sessions/:id/mode", "session", { body: () => ({ mode: "default", expiresInSeconds: 60 }) }),
  probe("operator", "DELETE /sessions/:id", "session"),
  probe("agent", "DELETE /sessions/:id", undefined, { path: ({ session }) => `/sessions/${session}` }),
  probe("operator", "DELETE /halts/:id", "halt"),
  probe("operator", "POST /quotas/reset", undefined, { body: () => ({ quota: "daily" }) }),
  probe("operator", "POST /data-flow/requests", undefined, { body: () => ({ ...CALLER, text: "Pay shop.example" }) }),
  probe("operator", "POST /data-flow/clear", undefined, { body: () => ({ ...CALLER, reason: "done" }) }),
  probe("operator", "POST /halts", undefined, {
    body: () => ({ kind: "tool", tool: "nothing_real", reason: "drill" }),
  }),
  probe("operator", "DELETE /tools/:name/learning", undefined, { path: () => "/tools/notes_read/learning" }),
  // Endpoints of the service alone.
  probe("operator", "GET /tenants"),
  probe("operator", "GET /members"),
  probe("operator", "POST /reload"),
  ...TENANTS.map((tenant) =>
    probe("operator", "POST /halts", undefined, { body: () => ({ kind: "all", reason: "drill", tenant }) }),
  ),
  // Endpoints that the service itself answers, also without a token.
  probe("anybody", "GET /healthz"),
  probe("anybody", "GET /readyz"),
  probe("anybody", "GET /metrics"),
  probe("anybody", "GET /openapi.json"),
  probe("agent", "GET /openapi.json"),
  probe("anybody", "GET /.well-known/authzen-configuration"),
  probe("anybody", "GET /.well-known/oauth-protected-resource"),
];

/** Endpoints that are asked elsewhere, with the name of the test. */
export const ELSEWHERE: Readonly<Record<string, string>> = {
  "POST /sessions": "acts: each tenant opens one",
  "POST /tools/:name/learning": "acts: each tenant begins one",
  "GET /events": "streams",
  "GET /audit/tail": "streams",
  "GET /mcp": "streams",
  "GET /console": "a page without data",
  "GET /console/assets/:name": "a page without data",
  "GET /console/settings": "how people sign in, before anybody knows who they are",
  "POST /console/sign-in": "how people sign in, before anybody knows who they are",
  "POST /console/links": "console sessions",
  "POST /console/session": "console sessions",
  "GET /console/session": "console sessions",
  "DELETE /console/session": "console sessions",
};
