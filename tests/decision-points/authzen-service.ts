import { expect } from "bun:test";
import type { ModuleWorld } from "../modules/module-world.ts";
import type { Reply } from "../support/asking-service.ts";
import type { RawServer } from "../support/raw-server.ts";

export const UNDECIDED = "A policy of the service's operators could not be decided, so the call was not run.";

/** Returns a whole answer with this body. */
export function answerOf(body: string, { status = "200 OK", type = "application/json", more = "" } = {}): string {
  const length = Buffer.byteLength(body);
  const head = `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\n${more}\r\n`;
  return Buffer.from(`${head}${body}`).toString("latin1");
}

export function decision(allows: boolean, context?: unknown): string {
  return answerOf(JSON.stringify({ decision: allows, ...(context !== undefined && { context }) }));
}

interface SentEvaluation {
  readonly head: string;
  readonly body: ReturnType<typeof JSON.parse>;
}

/** The requests that a decision point has received. */
export function evaluations({ requests }: RawServer): readonly SentEvaluation[] {
  return requests.map(({ text }) => {
    const [head = "", body = ""] = text.split("\r\n\r\n");
    return { head, body: JSON.parse(Buffer.from(body, "latin1").toString()) };
  });
}

/** An entry of `decisionPoints` for a point on this host. */
export function pointAt(server: RawServer, more: Readonly<Record<string, unknown>> = {}) {
  const { authzen = {}, ...shared } = more as { readonly authzen?: object };
  return {
    name: "pdp",
    authzen: { url: `http://127.0.0.1:${server.port}`, addresses: ["loopback"], retries: 0, ...authzen },
    ...shared,
  };
}

/** Expects the refusal of a point that could not decide, and its reason in the audit. */
export function expectUndecided(world: ModuleWorld, { http, body }: Reply, reason: RegExp): void {
  expect([http, body.error?.code, body.error?.message]).toEqual([403, "POLICY_DENIED", UNDECIDED]);
  const [recorded] = world.entry(body.traceId)?.decisionReasons ?? [];
  expect(recorded).toMatchObject({ point: "pdp", verdict: "deny" });
  expect(recorded?.reason).toMatch(reason);
}
