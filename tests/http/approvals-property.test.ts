import { afterAll, beforeAll, expect, test } from "bun:test";
import fc from "fast-check";
import { ApprovalStand, agentToken, operatorToken } from "./approval-stand.ts";

let stand: ApprovalStand;
let tokens: readonly string[];
beforeAll(async () => {
  stand = await ApprovalStand.open();
  tokens = [await agentToken(), await operatorToken()];
});
afterAll(() => stand.close());

const segment = fc.string({ unit: "binary", maxLength: 40 }).map((text) => encodeURIComponent(text.toWellFormed()));
const odd = fc.oneof(segment, fc.constantFrom("__proto__", "constructor", "hasOwnProperty", "%", "%zz", ".", ".."));

test("any path or query is found, not found, or refused", async () => {
  const routes = fc.constantFrom("GET /approvals/", "DELETE /approvals/", "DELETE /sessions/", "DELETE /grants/");
  await fc.assert(
    fc.asyncProperty(routes, odd, odd, odd, fc.nat(1), async (route, id, name, value, who) => {
      const request = `${route}${id}?${name}=${value}`;
      const { status } = await stand.send(request, { token: tokens[who] });
      expect([400, 401, 403, 404]).toContain(status);
    }),
    { numRuns: 300 },
  );
  expect(stand.faults).toEqual([]);
});

test("any body decides only by the words for it", async () => {
  const { id } = await stand.ask();
  const routes = [`POST /approvals/${id}/decisions`, "POST /rpc", `PUT /sessions/${id}/mode`];
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...routes), fc.json(), fc.nat(1), async (route, body, who) => {
      const { status } = await stand.send(route, { token: tokens[who], body });
      expect([200, 204, 400, 403, 404]).toContain(status);
    }),
    { numRuns: 200 },
  );
  expect((await stand.approvals.get(id))?.state).toBe("pending");
  expect(stand.faults).toEqual([]);
});
