import { expect } from "bun:test";
import type { Row } from "./case-row.ts";
import type { Place } from "./case-situations.ts";
import type { LiveIssuers, TokenOrder } from "./live-tokens.ts";
import { until } from "./until.ts";

type Given = Row["given"];

/** What happened before the row's call: earlier calls, and what became of the question that one of them asked. */
export async function playEarlier(given: Given, place: Place, issuers: LiveIssuers): Promise<string | undefined> {
  const { earlier } = given;
  if (earlier === undefined) return undefined;
  const order = { ...given.token, ...(earlier.sub !== undefined && { sub: earlier.sub }) };
  const first = call(given, place, await issuers.token(order));
  if (earlier.unanswered) {
    await place.oneInFlight();
    first.catch(() => {});
    return undefined;
  }
  const { approval } = (await first) as { readonly approval?: { readonly id: string } };
  if (earlier.question === undefined) return undefined;
  const id = approval?.id ?? "";
  await bring(id, { to: earlier.question, given, place, issuers, order });
  return id;
}

async function call(given: Given, place: Place, token: string): Promise<unknown> {
  const { earlier, tool, args, headers } = given;
  const names = headers.map((line) => line.split(/: /, 2) as [string, string]);
  const body = { tool: earlier?.tool ?? tool, args: earlier?.args ?? args };
  return send(place, "POST /call", { token, body, headers: Object.fromEntries(names) });
}

interface Bringing {
  readonly to: NonNullable<NonNullable<Given["earlier"]>["question"]>;
  readonly given: Given;
  readonly place: Place;
  readonly issuers: LiveIssuers;
  readonly order: TokenOrder;
}

async function bring(id: string, { to, given, place, issuers, order }: Bringing): Promise<void> {
  const agent = await issuers.token(order);
  const person = await issuers.token({ kind: "operator", sub: "alice", permissions: ["approvals:decide"] });
  const decide = (body: unknown) => send(place, `POST /approvals/${id}/decisions`, { token: person, body });
  if (to === "cancelled") await send(place, `DELETE /approvals/${id}`, { token: agent });
  if (to === "denied") await decide({ decision: "deny", reason: "not on a Friday" });
  if (to === "approved" || to === "revoked" || to === "used") await decide({ decision: "approve" });
  if (to === "revoked") await send(place, `POST /approvals/${id}/revoke`, { token: person, body: {} });
  if (to === "used") {
    const body = { tool: given.tool, args: given.args, approval: { id } };
    await send(place, "POST /call", { token: agent, body });
  }
  const wanted = to === "used" ? "executed" : to;
  await until(`the question to be ${wanted}`, async () => {
    const { approval } = (await send(place, `GET /approvals/${id}`, { token: agent })) as {
      readonly approval: { readonly state: string };
    };
    return approval.state === wanted || undefined;
  });
}

interface Sent {
  readonly token: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

async function send(place: Place, route: string, { token, body, headers = {} }: Sent): Promise<unknown> {
  const [method = "", path] = route.split(" ");
  const json = body === undefined ? {} : { "content-type": "application/json" };
  const response = await fetch(`${place.url}${path}`, {
    method,
    headers: { ...headers, ...json, authorization: `Bearer ${token}` },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  expect(response.status).toBeLessThan(300);
  return response.json();
}
