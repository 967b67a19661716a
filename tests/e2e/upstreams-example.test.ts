import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "yaml";
import { makeCertificates } from "../../src/cli/development/certificates.ts";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { readConfigFile } from "../support/build.ts";
import { PROJECT } from "../support/world.ts";

const EXAMPLE = join(PROJECT, "docs/examples/upstreams");
const NODE = Bun.which("node");

const ORDER = {
  ...{ number: "A-7", state: "paid", totalCents: 1250, internalNote: "x" },
  customer: { email: "ann@example.com", address: "7 Station Road" },
};

/** The example's service; its API and its MCP server are on this machine. */
class ExampleService extends AskingService {
  readonly notes = join(realpathSync(this.folder), "notes");
  readonly targets: string[] = [];
  #api: Bun.Server<undefined> | undefined;

  async start(): Promise<void> {
    const certificates = await makeCertificates({ notBefore: new Date(0), notAfter: new Date("2099-01-01") });
    this.#api = Bun.serve({
      ...{ hostname: "127.0.0.1", port: 0, tls: certificates.server },
      fetch: ({ url, headers }) => {
        const { pathname, search } = new URL(url);
        this.targets.push(`${pathname}${search} ${headers.get("authorization") ?? ""}`);
        if (pathname.endsWith("/GONE")) return new Response(null, { status: 410 });
        const lines = search === "?lines=true" ? { lines: [{ article: "tea", count: 2, cost: 3 }] } : {};
        return Response.json({ ...ORDER, ...lines });
      },
    });
    for (const folder of ["tools", "certs", "secrets", "notes"]) mkdirSync(join(this.folder, folder));
    writeFileSync(join(this.folder, "certs/internal-ca.pem"), certificates.rootCert);
    writeFileSync(join(this.folder, "secrets/orders-token"), "the-token\n");
    writeFileSync(join(this.notes, "plan.md"), "Call Ann: ann@example.com\nBuy tea\n");
    for (const name of readdirSync(join(EXAMPLE, "tools"))) {
      const text = readFileSync(join(EXAMPLE, "tools", name), "utf8");
      writeFileSync(join(this.folder, "tools", name), this.#placed(text));
    }
    const { tools, approvals, systems } = parse(this.#placed(readFileSync(join(EXAMPLE, "stc.yaml"), "utf8")));
    systems.orders.http.baseUrl = `https://localhost:${this.#api.port}/api`;
    systems.orders.http.addresses = ["loopback"];
    await this.run({ tools, approvals, systems, commands: { launchers: 0 } }, dirname(NODE ?? "/"));
  }

  #placed(text: string): string {
    return text.replaceAll("/opt/mcp/node_modules", join(PROJECT, "node_modules")).replaceAll("/srv/notes", this.notes);
  }

  async call(tool: string, args: Loose): Promise<Reply> {
    const token = await this.agent({ permissions: ["orders:read", "notes:read"] });
    return this.send("POST", "/call", { token, body: { tool, args } });
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#api?.stop(true);
  }
}

test("the configuration of the example is valid", () => {
  const { systems } = readConfigFile(join(EXAMPLE, "stc.yaml"), {});
  expect(Object.keys(systems)).toEqual(["orders", "notes"]);
});

describe.skipIf(NODE === null)("the example with an HTTP API and an MCP server", () => {
  const service = new ExampleService();
  beforeAll(() => service.start());
  afterAll(() => service.end());

  test("get_order sends the request that its file says, and releases what its policy says", async () => {
    const { http, body } = await service.call("get_order", { order: "A-7", withLines: true });
    expect(service.targets.at(-1)).toBe("/api/orders/A-7?lines=true Bearer the-token");
    expect([http, body.result.lines, body.result.totalCents]).toEqual([200, [{ article: "tea", count: 2 }], 1250]);
    expect(JSON.stringify(body)).not.toMatch(/ann@example|Station|internalNote/);
    await service.call("get_order", { order: "A-7" });
    expect(service.targets.at(-1)).toBe("/api/orders/A-7 Bearer the-token");
  });

  test("a status means what the file says", async () => {
    const { body } = await service.call("get_order", { order: "GONE" });
    expect(body.error).toMatchObject({ code: "TARGET_REFUSED", details: { status: "NOT_FOUND", httpStatus: 410 } });
  });

  test("read_note returns a note without personal data, and no other file", async () => {
    const { http, body } = await service.call("read_note", { path: join(service.notes, "plan.md"), head: 1 });
    expect([http, body.result]).toEqual([200, { content: "Call Ann: [REDACTED:EMAIL]" }]);
    const elsewhere = await service.call("read_note", { path: "/etc/passwd" });
    expect(elsewhere.body.error.code).toBe("INVALID_INPUT");
  });
});
