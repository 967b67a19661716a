import { afterAll, beforeAll, expect, test } from "bun:test";
import { Wire } from "../http/load-stand.ts";
import { CALL, callHeaders, type IdentityStand, issuers, startIdentityService } from "../support/identity-service.ts";
import { until } from "../support/until.ts";

let stand: IdentityStand;
let authorization: string;

beforeAll(async () => {
  stand = await startIdentityService({ server: { allowedHosts: ["tools.agents.svc.cluster.local"] } });
  authorization = `Authorization: ${(await callHeaders())["authorization"]}`;
});
afterAll(() => stand.close());

async function statusOf(host: string, lines: readonly string[] = []): Promise<readonly number[]> {
  const all = [`Host: ${host}`, authorization, "Content-Type: application/json", `Content-Length: ${CALL.length}`];
  const wire = new Wire(Number(new URL(stand.service.url).port));
  wire.send([`POST /call HTTP/1.1`, ...all, ...lines, "Connection: close", "", CALL].join("\r\n"));
  await wire.closed;
  return wire.statuses;
}

/** A dot at its end keeps a cluster's resolver from trying its search list, and clients send the name as it was written. */
test.each([
  ["localhost.", 200],
  ["localhost.:8787", 200],
  ["localhost:", 200],
  ["tools.agents.svc.cluster.local", 200],
  ["tools.agents.svc.cluster.local.", 200],
  ["Tools.Agents.svc.cluster.local.:80", 200],
  ["localhost..", 403],
  [".", 403],
  ["evil.example.", 403],
  ["localhost.evil.example", 403],
  ["tools.agents.svc.cluster.local.evil.example.", 403],
])("Host: %s", async (host, status) => {
  expect(await statusOf(host)).toEqual([status]);
});

test("a client that sends Expect gets 100 Continue", async () => {
  expect(await statusOf("localhost", ["Expect: 100-Continue"])).toEqual([100, 200]);
});

test("a tail that resumes from a future day follows from now", async () => {
  const token = await issuers.token({ kind: "operator", sub: "olga", permissions: ["audit:read"] });
  const ending = new AbortController();
  const tail = await fetch(`${stand.service.url}/audit/tail`, {
    headers: { authorization: `Bearer ${token}`, "last-event-id": "9999-12-31:0" },
    signal: ending.signal,
  });
  let text = "";
  const reading = (async () => {
    for await (const piece of tail.body ?? []) text += new TextDecoder().decode(piece);
  })().catch(() => {});
  await until("the stream's beginning", () => (text.includes(": open") ? true : undefined));
  await fetch(`${stand.service.url}/call`, { method: "POST", headers: await callHeaders(), body: CALL });
  await until("the call's entry", () => (text.includes("event: entry") ? true : undefined));
  ending.abort();
  await reading;
});
