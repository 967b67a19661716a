import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { readConfigFile } from "../support/build.ts";
import { PROJECT } from "../support/world.ts";

const EXAMPLE = join(PROJECT, "docs/examples/decision-points");

/** The example's service; its API and its decision point are on this machine. */
class ExampleService extends AskingService {
  readonly evaluations: Loose[] = [];
  /** What the decision point answers. */
  answer: (evaluation: Loose) => object = () => ({ decision: true });
  #servers: Bun.Server<undefined>[] = [];

  async start(): Promise<void> {
    const serve = (fetch: (request: Request) => Promise<Response>): number => {
      const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch });
      this.#servers.push(server);
      return server.port ?? 0;
    };
    const orders = serve(async ({ method }) =>
      Response.json(method === "POST" ? { state: "refunded" } : { number: "A-7", state: "paid", totalCents: 1250 }),
    );
    const pdp = serve(async (request) => {
      const evaluation = await request.json();
      this.evaluations.push({
        path: new URL(request.url).pathname,
        token: request.headers.get("authorization"),
        evaluation,
      });
      return Response.json(this.answer(evaluation));
    });
    for (const part of ["tools", "policies"]) cpSync(join(EXAMPLE, part), join(this.folder, part), { recursive: true });
    mkdirSync(join(this.folder, "secrets"));
    for (const name of ["orders-token", "pdp-token"])
      writeFileSync(join(this.folder, "secrets", name), `the-${name}\n`);
    const written = parse(readFileSync(join(EXAMPLE, "stc.yaml"), "utf8"));
    const { tools, approvals, systems, decisionPoints } = written;
    Object.assign(systems.orders.http, { baseUrl: `http://127.0.0.1:${orders}/api`, addresses: ["loopback"] });
    Object.assign(decisionPoints[1].authzen, { url: `http://127.0.0.1:${pdp}`, addresses: ["loopback"] });
    await this.run({ tools, approvals: { ...approvals, mode: "yolo" }, systems, decisionPoints });
  }

  async call(tool: string, args: Loose, { sub = "ann", claims = {}, ...more }: Loose = {}): Promise<Reply> {
    const token = await this.agent({ permissions: ["orders:read", "orders:refund"], sub, claims });
    return this.send("POST", "/call", { token, body: { tool, args, ...more } });
  }

  override async end(): Promise<void> {
    await super.end();
    await Promise.all(this.#servers.map((server) => server.stop(true)));
  }
}

const service = new ExampleService();
beforeAll(() => service.start());
afterAll(() => service.end());

test("the configuration of the example is valid", () => {
  const { decisionPoints } = readConfigFile(join(EXAMPLE, "stc.yaml"), {});
  expect(decisionPoints.map(({ name }) => name)).toEqual(["house-rules", "company"]);
});

test("a read is decided by the policies alone", async () => {
  expect((await service.call("get_order", { order: "A-7" })).http).toBe(200);
  expect(service.evaluations).toEqual([]);
});

test.each<readonly [string, Loose, number, string | undefined]>([
  ["the team refunds small amounts", {}, 10_000, undefined],
  ["but not large ones", {}, 10_001, "no policy permits the call"],
  ["others do not", { sub: "bob" }, 500, "no policy permits the call"],
  ["unless the department may", { sub: "bob", claims: { department: "sales" } }, 90_000, undefined],
  [
    "and no agent for somebody else",
    { claims: { act: { sub: "bot" } } },
    500,
    "forbidden by policy no-delegated-refunds",
  ],
])("%s", async (_title, who, cents, reason) => {
  const { http, body } = await service.call("refund_order", { order: "A-7", cents }, who);
  expect(http).toBe(reason === undefined ? 200 : 403);
  const expected = reason && [{ point: "house-rules", verdict: "deny", reason }];
  expect(service.entry(body.traceId)?.decisionReasons).toEqual(expected as never);
});

test("the company's engine is asked about a refund, and may let a person decide", async () => {
  service.answer = ({ context }) =>
    context.approval === undefined && context.arguments.cents > 5_000
      ? { decision: false, context: { access_request: { template: "manager" } } }
      : { decision: true };
  const args = { order: "A-7", cents: 6_000 };
  const asked = await service.call("refund_order", args);
  expect([asked.http, asked.body.status]).toEqual([202, "pending"]);
  const { id } = asked.body.approval;
  await service.decide(id, "approve");
  expect((await service.call("refund_order", args, { approval: { id } })).http).toBe(200);
  const { path, token, evaluation } = service.evaluations.at(-1) ?? {};
  expect([path, token, evaluation.context.approval.id]).toEqual(["/access/v1/evaluation", "Bearer the-pdp-token", id]);
});
