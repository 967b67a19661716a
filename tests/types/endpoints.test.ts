import { expect, test } from "bun:test";
import { z } from "zod";
import { json } from "../../src/http/answers.ts";
import { endpointsWith } from "../../src/http/endpoint.ts";

const { endpoint, selfGuarded } = endpointsWith();

const named = { method: "GET", path: "/x", summary: "X.", audited: "no" } as const;

/** Declarations that must not compile. */
export function mistakes(): void {
  // @ts-expect-error operators are known by a permission
  endpoint({ ...named, audience: "operators", handle: () => json(200, {}) });
  // @ts-expect-error agents see what is their own; the operators among "either" need a permission
  endpoint({ ...named, audience: "either", handle: () => json(200, {}) });
  // @ts-expect-error the guard cannot verify a signature over the body
  endpoint({ ...named, audience: "signers", handle: () => json(200, {}) });
  // @ts-expect-error what anybody may ask for goes through the guard
  selfGuarded({ ...named, audience: "anybody", receive: async () => json(200, {}) });
  // @ts-expect-error how an endpoint is recorded is not left open
  endpoint({ method: "GET", path: "/x", summary: "X.", audience: "agents", handle: () => json(200, {}) });
  endpoint({
    ...named,
    audience: "agents",
    query: z.strictObject({ size: z.int() }),
    // @ts-expect-error the handle gets what the schema yields
    handle: ({ query }) => json(200, query.length),
  });
  endpoint({
    ...named,
    audience: "agents",
    // @ts-expect-error a part that was not asked for may be missing
    handle: async (_visit, { approvals }) => json(200, await approvals.listSessions()),
  });
  endpoint({
    ...named,
    audience: "anybody",
    // @ts-expect-error there may be no caller where anybody is answered
    handle: ({ caller }) => json(200, caller.subject),
  });
}

test("a declaration that leaves somebody unchecked does not compile", () => {
  expect(mistakes).toBeInstanceOf(Function);
});
