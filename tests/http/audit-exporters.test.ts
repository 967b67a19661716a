import { afterAll, beforeAll, expect, test } from "bun:test";
import type { z } from "zod";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { until } from "../support/until.ts";
import { ENDPOINTS } from "./server-parts.ts";

const stand = new ReloadService();
let status = 200;
const receiver = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("", { status }) });
let reader = "";

beforeAll(async () => {
  stand.write("tools/hello.ts", manifest({ says: "hello" }));
  stand.configure({ audit: { dir: "audit", export: [{ type: "loki", name: "archive", url: receiver.url.origin }] } });
  await stand.start();
  reader = await stand.operator(["audit:read"]);
});
afterAll(async () => {
  await stand.end();
  await receiver.stop(true);
});

interface Exporter {
  readonly stream: string;
  readonly lastAcceptedAt: string | null;
  readonly failingSince: string | null;
  readonly bytesBehind: number;
  readonly failures: number;
}

async function exporters(): Promise<readonly Exporter[]> {
  return (await stand.send("GET", "/audit/exporters", { token: reader })).body.exporters;
}
const journalOnes = async (): Promise<Exporter | undefined> =>
  (await exporters()).find(({ stream }) => stream === "journal");

test("the exporters are for operators who may read the audit, and who read them is recorded", async () => {
  const [agent, other] = [await stand.agent(["audit:read"]), await stand.operator(["metrics:read"])];
  const as = async (token: string) => (await stand.send("GET", "/audit/exporters", { token })).body.error.code;
  expect([await as(agent), await as(other)]).toEqual(["UNAUTHENTICATED", "PERMISSION_DENIED"]);
  await exporters();
  expect(stand.journal("audit.queried").at(-1)).toMatchObject({ route: "exporters", sub: "olga" });
});

test("each stream of each exporter says how far it is, as the schema in /openapi.json describes it", async () => {
  const { body } = await stand.send("GET", "/audit/exporters", { token: reader });
  const schema = ENDPOINTS.find(({ path }) => path === "/audit/exporters")?.responses?.[200]?.schema as z.ZodType;
  expect(schema.parse(body)).toEqual(body);
  expect(body.exporters).toMatchObject([
    { exporter: "archive", stream: "calls", lastAcceptedAt: null, bytesBehind: 0, deadLines: 0 },
    { exporter: "archive", stream: "journal" },
    { exporter: "archive", stream: "checkpoints" },
  ]);
  expect(JSON.stringify(body)).not.toContain(receiver.url.host);
});

test("a receiver that fails and recovers is seen to", async () => {
  await until("accepted lines", async () => ((await journalOnes())?.lastAcceptedAt ? true : undefined));
  status = 503;
  const failing = await until("a failure", async () => {
    const read = await journalOnes();
    return read?.failingSince ? read : undefined;
  });
  expect(failing.bytesBehind).toBeGreaterThan(0);
  status = 200;
  await until("the recovery", async () => ((await journalOnes())?.failingSince === null ? true : undefined));
});
