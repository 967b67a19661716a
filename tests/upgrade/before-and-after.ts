import { expect } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { until } from "../support/until.ts";
import { outcome, type StoredService } from "./stored-service.ts";

/** What is known of a store when its service is started again. */
export interface Recorded {
  /** When its service was killed. */
  readonly at: string;
  /** Whether its version has halts, quotas, data flow and bounded grants. */
  readonly hasPolicies: boolean;
  /** The process that answered. */
  readonly pid: number;
  /** Approval requests and sessions, by what they are there for. */
  readonly ids: Readonly<Record<"approved" | "pending" | "halfApproved" | "executed" | "denied" | "cancelled", string>>;
  readonly sessions: Readonly<Record<"granted" | "autoEdit", string>>;
}

const LETTER_ADDRESS = "mallory.example.org/inbox-4711";
/** File that `hang` writes into the service's folder. */
const BEGUN = "begun";
export const QUOTA_CALLS = 3;

/** Leaves state of every kind. The service is then killed while the call of `hang` runs. */
export async function live(service: StoredService, hasPolicies: boolean): Promise<Recorded> {
  expect(outcome(await service.call("look", { what: "a" }))).toBe("200 success");
  expect(outcome(await service.call("look", { what: 7 }))).toBe("400 INVALID_INPUT");

  const approved = await service.ask("change", { what: "approved" });
  await service.decide(approved, "approve");
  const pending = await service.ask("change", { what: "pending" });
  const halfApproved = await service.ask("pay", { what: "half approved" });
  await service.decide(halfApproved, "approve", { by: "alice" });
  const executed = await service.ask("change", { what: "executed" });
  await service.decide(executed, "approve");
  expect(outcome(await service.call("change", { what: "executed" }, { approval: executed }))).toBe("200 success");
  const denied = await service.ask("change", { what: "denied" });
  await service.decide(denied, "deny");
  const cancelled = await service.ask("change", { what: "cancelled" });
  expect((await service.send(`DELETE /approvals/${cancelled}`, { token: await service.agent("agent-7") })).http).toBe(
    200,
  );

  const granted = await openSession(service);
  const first = await service.ask("change", { what: "granted" }, { session: granted });
  await service.decide(first, "approve", { scope: "session" });
  const autoEdit = await openSession(service);
  const mode = await service.send(`PUT /sessions/${encodeURIComponent(autoEdit)}/mode`, {
    token: await service.person(),
    body: { mode: "autoEdit", expiresInSeconds: 7_200 },
  });
  expect(mode.http).toBe(200);

  expect(outcome(await service.call("change_freely", { what: "once" }, { key: "answered" }))).toBe("200 success");
  if (hasPolicies) await liveWithPolicies(service);

  const { pid } = service;
  // The end of a service signs its audit.
  expect(await service.end("SIGTERM")).toBe(0);
  await service.start();
  void service.call("hang", { what: BEGUN }, { key: "hanging" }).catch(() => {});
  await until("the call of hang", () => existsSync(join(service.folder, BEGUN)) || undefined);
  await service.end("SIGKILL");
  return {
    ...{ at: new Date().toISOString(), hasPolicies, pid },
    ids: { approved, pending, halfApproved, executed, denied, cancelled },
    sessions: { granted, autoEdit },
  };
}

async function openSession(service: StoredService): Promise<string> {
  const { http, body } = await service.send("POST /sessions", { token: await service.agent("agent-7"), body: {} });
  expect(http).toBe(201);
  return body.session.id;
}

async function liveWithPolicies(service: StoredService): Promise<void> {
  const body = { kind: "tool", tool: "halted", reason: "for the next version" };
  expect((await service.send("POST /halts", { token: await service.person(), body })).http).toBe(201);
  for (let calls = 1; calls < QUOTA_CALLS; calls += 1) {
    expect(outcome(await service.call("metered", {}))).toBe("200 success");
  }
  expect(outcome(await service.call("read_letter", {}, { agent: "reader" }))).toBe("200 success");
  const refund = await service.ask("refund", { cents: 100 });
  expect((await service.decide(refund, "approve", { scope: "bounded" })).http).toBe(200);
  expect(outcome(await service.call("refund", { cents: 100 }, { approval: refund }))).toBe("200 success");
  expect(outcome(await service.call("refund", { cents: 200 }))).toBe("200 success");
}

/**
 * Expects that a service goes on where the one of `recorded` was killed. What an approval covers has had another digest since
 * 0.1.0 (`from010`): its approvals are asked for again. Its intents do not say which idempotency key a call has, so that an
 * interrupted one ends with its lease.
 */
export async function expectContinued(
  service: StoredService,
  recorded: Recorded,
  { from010 }: { readonly from010: boolean },
): Promise<void> {
  const { ids, sessions } = recorded;
  const change = async (name: keyof Recorded["ids"]) =>
    outcome(await service.call("change", { what: name }, { approval: ids[name] }));
  const ifKept = (code: string, otherwise: string) => (from010 ? otherwise : code);
  const other = "409 APPROVAL_MISMATCH";

  expect(await change("approved")).toBe(ifKept("200 success", other));
  expect(await change("approved")).toBe(ifKept("409 APPROVAL_CONSUMED", other));
  expect(await change("pending")).toBe(ifKept("202 pending", other));
  expect((await service.decide(ids.pending, "approve")).http).toBe(200);
  expect(await change("pending")).toBe(ifKept("200 success", other));
  expect(await change("executed")).toBe(ifKept("409 APPROVAL_CONSUMED", other));
  expect(await change("denied")).toBe(ifKept("403 APPROVAL_DENIED", other));
  expect(await change("cancelled")).toBe(ifKept("410 APPROVAL_CANCELLED", other));
  const mixed = await service.call("change", { what: "another" }, { approval: ids.approved });
  expect(outcome(mixed)).toBe(other);

  const pay = async (approval: string) => outcome(await service.call("pay", { what: "half approved" }, { approval }));
  expect(await pay(ids.halfApproved)).toBe(ifKept("202 pending", other));
  expect((await service.decide(ids.halfApproved, "approve", { by: "alice" })).http).toBe(409);
  expect((await service.decide(ids.halfApproved, "approve", { by: "berta" })).http).toBe(200);
  expect(await pay(ids.halfApproved)).toBe(ifKept("200 success", other));

  const inSession = async (session: string, what: string) =>
    outcome(await service.call("change", { what }, { session }));
  expect(await inSession(sessions.granted, "granted")).toBe(ifKept("200 success", "202 pending"));
  expect(await inSession(sessions.autoEdit, "by mode")).toBe("200 success");
  expect(await inSession("invented", "granted")).toBe("202 pending");

  const again = await service.ask("change", { what: "asked again" });
  await service.decide(again, "approve");
  expect(outcome(await service.call("change", { what: "asked again" }, { approval: again }))).toBe("200 success");

  const answered = (what: string) => service.call("change_freely", { what }, { key: "answered" });
  expect((await answered("once")).body.result).toEqual({ did: "once", by: recorded.pid });
  expect(outcome(await answered("twice"))).toBe("409 IDEMPOTENCY_CONFLICT");
  expect(outcome(await service.call("hang", { what: BEGUN }, { key: "hanging" }))).toBe(
    ifKept("502 OUTCOME_UNKNOWN", "409 CALL_IN_PROGRESS"),
  );
  expect((await service.call("look", { what: "now" })).body.result).toEqual({ did: "now", by: service.pid });
  if (recorded.hasPolicies) await expectPoliciesContinued(service);
}

async function expectPoliciesContinued(service: StoredService): Promise<void> {
  const token = await service.person();
  const call = async (tool: string, args: unknown = {}, agent = "agent-7") =>
    outcome(await service.call(tool, args, { agent }));

  expect(await call("halted")).toBe("403 HALTED");
  const { body } = await service.send("GET /halts", { token });
  expect(body.halts).toMatchObject([{ kind: "tool", tool: "halted", reason: "for the next version" }]);
  expect((await service.send(`DELETE /halts/${body.halts[0].id}`, { token })).http).toBe(200);
  expect(await call("halted")).toBe("200 success");

  expect(await call("metered")).toBe("200 success");
  expect(await call("metered")).toBe("429 QUOTA_EXCEEDED");

  expect(await call("refund", { cents: 300 })).toBe("202 pending");

  const mail = { to: LETTER_ADDRESS, body: "here it is" };
  expect(await call("send_mail", mail, "reader")).toBe("202 pending");
  expect(await call("send_mail", mail, "agent-7")).toBe("200 success");
}
