import { afterAll, beforeAll, expect, test } from "bun:test";
import { OPERATOR_PERMISSIONS } from "../../src/core/operator-permissions.ts";
import type { Endpoint } from "../../src/http/endpoint.ts";
import { ConsoleWorld } from "../console/app/console-world.ts";
import { hubSection } from "../support/identity-service.ts";
import { bodyOf, ENDPOINTS } from "./server-parts.ts";

const world = new ConsoleWorld();
beforeAll(async () => {
  const quotas = [{ name: "daily", per: ["caller"], window: "day", calls: 100 }];
  await world.start({ limits: { quotas }, dataFlow: { default: "on" }, hub: hubSection() });
});
afterAll(() => world.end());

const ALL = Object.keys(OPERATOR_PERMISSIONS);
const ID = "01900000-0000-7000-8000-000000000000";
/** Endpoints with special cases: `/readyz` answers without a token, with details for operators; `/reload` needs a file, `/tenants` tenants. */
const OTHERS = ["/readyz", "/reload", "/tenants"];
const rows = ENDPOINTS.flatMap((endpoint) =>
  endpoint.permission === undefined || OTHERS.includes(endpoint.path)
    ? []
    : [[`${endpoint.method} ${endpoint.path}`, endpoint] as const],
);
async function codeFor(endpoint: Endpoint, permissions: readonly string[]): Promise<string> {
  const token = await world.person({ sub: "olga", permissions });
  const { method, path } = endpoint;
  const body = bodyOf(endpoint);
  const url = `${world.consoleUrl}${path.replaceAll(/:\w+/g, ID)}`;
  const answer = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body !== undefined && { "content-type": "application/json" }) },
    ...(body !== undefined && { body }),
    signal: AbortSignal.timeout(20_000),
  });
  if (answer.ok) {
    await answer.body?.cancel();
    return String(answer.status);
  }
  return ((await answer.json()) as { error: { code: string } }).error.code;
}

/** The error's code, or the status of a successful answer; and the refusals in the journal. */
async function asked(endpoint: Endpoint, permissions: readonly string[]) {
  const before = world.journal().length;
  const code = await codeFor(endpoint, permissions);
  const types = world.journal().map(({ type }) => type);
  return { code, recorded: types.slice(before).filter((type) => type.endsWith(".refused")) };
}

test.each(rows)(
  "%s refuses whoever holds every permission but its own; only what is not a GET is recorded",
  async (_name, endpoint) => {
    const { code, recorded } = await asked(
      endpoint,
      ALL.filter((each) => each !== endpoint.permission),
    );
    const isVote = endpoint.path.startsWith("/approvals") || endpoint.path === "/rpc";
    const line = isVote ? "approval.refused" : "operator.refused";
    expect({ code, recorded }).toEqual({
      code: "PERMISSION_DENIED",
      recorded: endpoint.method === "GET" ? [] : [line],
    });
  },
);

test.each(rows.filter(([, { method }]) => method === "GET"))(
  "%s asks for no other permission",
  async (_name, endpoint) => {
    const { code, recorded } = await asked(endpoint, [endpoint.permission ?? ""]);
    expect(code).not.toBe("PERMISSION_DENIED");
    expect(recorded).toEqual([]);
  },
);
