import { readKeys, signMessage } from "../../src/approvals/notify/signature.ts";
import { TASKS_EXTENSION } from "../../src/mcp/tasks.ts";
import { ENVELOPE, MODERN } from "../mcp/mcp-world.ts";
import type { Loose, Reply } from "../support/asking-service.ts";
import { until } from "../support/until.ts";
import { CALLER, type Tenant, type TenantsWorld } from "./tenants-world.ts";

/** Ids of everything that a tenant has made, by its kind. */
export type Ids = Readonly<Record<(typeof ID_NAMES)[number], string>>;
const ID_NAMES = [
  "pending",
  "second",
  "third",
  "approved",
  "grant",
  "bounded",
  "session",
  "halt",
  "task",
  "trace",
  "version",
] as const;

/** Ids of the same form that nobody has made. */
export function unknownIds(): Ids {
  const hex = (bytes: number): string => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex");
  const uuid = Object.fromEntries(ID_NAMES.map((name) => [name, crypto.randomUUID()])) as Ids;
  return { ...uuid, trace: Bun.randomUUIDv7(), version: hex(32), task: crypto.randomUUID() };
}

export const KEY = "the-same-key";
/** A text that is read from an untrusted source, and then written. */
export const READ = "the quarterly figures of the northern branch were corrected twice before anybody had read them";
export const SESSION = "the-same-session";

/** A request of MCP. */
export async function mcp(world: TenantsWorld, tenant: Tenant, method: string, params: Loose = {}): Promise<Reply> {
  const name = params.name ?? params.taskId;
  return world.asAgent(tenant, "POST", "/mcp", {
    headers: { "mcp-protocol-version": MODERN, "mcp-method": method, ...(name && { "mcp-name": name }) },
    body: { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: { ...ENVELOPE, ...params._meta } } },
  });
}

export const TASKS = {
  _meta: { "io.modelcontextprotocol/clientCapabilities": { extensions: { [TASKS_EXTENSION]: {} } } },
};

function ok(reply: Reply, status?: number): Loose {
  if (status === undefined ? reply.http >= 300 : reply.http !== status)
    throw new Error(`${reply.http}: ${JSON.stringify(reply.body)}`);
  return reply.body;
}

/** A tenant uses everything that a service keeps anything of. */
export async function actAs(world: TenantsWorld, tenant: Tenant): Promise<Ids> {
  const decide = async (id: string, body: Loose): Promise<void> => {
    ok(await world.asOperator(tenant, "POST", `/approvals/${id}/decisions`, { body }));
  };
  const ask = async (tool: string, text: string, more: Loose = {}): Promise<string> =>
    ok(await world.call(tenant, tool, text, more), 202).approval.id;
  const session = ok(await world.asAgent(tenant, "POST", "/sessions")).session.id;
  const trace = ok(await world.call(tenant, "notes_read", "read", { headers: { "idempotency-key": KEY } })).traceId;
  ok(await world.call(tenant, "notes_read", READ, { session }));
  const approved = await ask("notes_write", READ, { session });
  await decide(approved, { decision: "approve", scope: "session" });
  ok(await world.call(tenant, "notes_write", READ, { session, approval: { id: approved } }));
  const bounded = await ask("notes_write", "bounded");
  await decide(bounded, { decision: "approve", scope: "bounded" });
  ok(await world.call(tenant, "notes_write", "bounded", { approval: { id: bounded } }));
  const denied = await ask("notes_send", "denied");
  await decide(denied, { decision: "deny" });
  const pending = await ask("notes_send", "pending");
  const [second, third] = [await ask("notes_send", "second"), await ask("notes_send", "third")];
  const created = ok(
    await mcp(world, tenant, "tools/call", { name: "notes_send", arguments: { text: "task" }, ...TASKS }),
  );
  const { grants } = ok(await world.asOperator(tenant, "GET", "/grants"));
  const grantOf = (isBounded: boolean): string =>
    grants.find((each: Loose) => (each.bounded !== undefined) === isBounded).id;
  ok(
    await world.asOperator(tenant, "PUT", `/sessions/${session}/mode`, {
      body: { mode: "autoEdit", expiresInSeconds: 600 },
    }),
  );
  const { halt } = ok(
    await world.asOperator(tenant, "POST", "/halts", { body: { kind: "session", session: SESSION, reason: "drill" } }),
  );
  ok(
    await world.asOperator(tenant, "POST", "/data-flow/requests", {
      body: { ...CALLER, text: "Send it to shop.example" },
    }),
  );
  ok(await world.asOperator(tenant, "POST", "/tools/notes_read/learning", { body: { seconds: 600 } }));
  const { versions } = ok(await world.asOperator(tenant, "GET", "/configuration/versions"));
  ok(await relay(world, tenant, { approvalId: pending, decision: "deny" }), 409);
  await until("a delivery", () => world.notified[tenant][0]);
  return {
    ...{ pending, second, third, approved, session, trace },
    grant: grantOf(false),
    bounded: grantOf(true),
    halt: halt.id,
    task: created.result.taskId,
    version: versions[0].policyVersion,
  };
}

/** A decision by the integration of a tenant. */
export async function relay(
  world: TenantsWorld,
  tenant: Tenant,
  { approvalId, decision, planDigest = "0".repeat(64) }: Loose,
): Promise<Reply> {
  const body = JSON.stringify({ approvalId, planDigest, decision, decidedBy: { user: "U1" } });
  const keys = readKeys(`whsec_${Buffer.alloc(32, 2).toString("base64")}`, "verify");
  const headers = { ...signMessage({ id: `msg_${approvalId}`, body }, { keys, nowMs: Date.now() }) };
  return world.send("POST", `/webhooks/${tenant}-chat/decisions`, { body, headers });
}
