import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { type ReplayReport, replay } from "../../src/runtime/replay/replay.ts";
import { AskingService, type Loose } from "../support/asking-service.ts";
import { assemble, readConfig } from "../support/build.ts";
import { PROJECT } from "../support/world.ts";

const EXAMPLE = join(PROJECT, "docs/examples/policy-changes");

/** The example's service; its API is on this machine, and its issuer has keys for tests. */
class ExampleService extends AskingService {
  readonly #api = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => Response.json({ state: "paid" }) });

  sections(file: string): Loose {
    const { audit: _, jwt, systems, ...rest } = parse(readFileSync(join(EXAMPLE, file), "utf8"));
    const [agents, operators] = this.issuers.profiles();
    const { subjectPermissions } = jwt.issuers[0];
    systems.orders.http = { baseUrl: `http://127.0.0.1:${this.#api.port}`, addresses: ["loopback"] };
    return {
      ...rest,
      systems,
      jwt: { issuers: [{ ...agents, subjectPermissions }, operators] },
      commands: { launchers: 0 },
    };
  }

  async start(): Promise<void> {
    cpSync(join(EXAMPLE, "tools"), join(this.folder, "tools"), { recursive: true });
    await this.run(this.sections("stc.yaml"));
  }

  async call(sub: string, tool: string, args: Loose): Promise<Loose> {
    const token = await this.agent({ sub, permissions: [] });
    return (await this.send("POST", "/call", { token, body: { tool, args } })).body;
  }

  async replay(file: string): Promise<ReplayReport> {
    const written = { ...this.sections(file), audit: { dir: "audit" } };
    const config = readConfig(written, { folder: this.folder, environment: {}, origin: file });
    const parts = await assemble(config);
    try {
      return await replay({ parts, config, dir: join(this.folder, "audit"), filter: {}, asksExternal: false });
    } finally {
      await parts.close();
    }
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#api.stop(true);
  }
}

const service = new ExampleService();
beforeAll(async () => {
  await service.start();
  for (const cause of ["late", "goodwill", "goodwill"])
    expect((await service.call("support-agent", "refund_order", { order: "A-7", cause })).status).toBe("success");
  expect((await service.call("report-agent", "get_order", { order: "A-7" })).status).toBe("success");
  expect((await service.call("report-agent", "refund_order", { order: "A-7", cause: "late" })).status).toBe("denied");
});
afterAll(() => service.end());

test("the configuration in use changes nothing", async () => {
  expect(await service.replay("stc.yaml")).toMatchObject({ calls: 5, unchanged: 5, changed: 0, notJudged: {} });
});

test("the candidate asks about goodwill and takes a permission away, although the audit has no order numbers", async () => {
  const report = await service.replay("candidate.yaml");
  expect(report).toMatchObject({ calls: 5, unchanged: 2, changed: 3, notJudged: {} });
  expect(report.changes).toMatchObject([
    { tool: "refund_order", sub: "support-agent", then: "allow", now: "ask", calls: 2 },
    { tool: "get_order", sub: "report-agent", then: "allow", now: "PERMISSION_DENIED", calls: 1 },
  ]);
});
