import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KNOWN_CUSTOMERS } from "../../../src/cli/development/customers.ts";
import { blockNamed } from "../../support/documented.ts";
import { type Ended, runStc } from "../../support/stc.ts";
import { hasTerminals, TerminalStc } from "../../support/terminal.ts";
import { openWorld, PROJECT } from "../../support/world.ts";

const folder = mkdtempSync(join(tmpdir(), "stc try "));
const config = join(folder, "stc.yaml");
const TOKEN = "credential-of-the-service-4711";
const api = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch(request) {
    const { pathname } = new URL(request.url);
    const sent = request.headers.get("authorization") ?? "";
    const headers = { "x-request-id": "r-1", "x-echo": sent };
    if (pathname.endsWith("/missing")) return Response.json({ why: "no such order", sent }, { status: 404, headers });
    if (pathname.endsWith("/large")) {
      const answer = `{"id":"8","total":9007199254740993,"sent":"${sent}"}`;
      return new Response(answer, { headers: { "content-type": "application/json" } });
    }
    return Response.json({ id: "7", secretNote: "not for agents", sent }, { headers });
  },
});

const MANIFESTS = `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
const base = { version: "1.0.0", classification: "read" as const, permissions: { required: ["a:read"] } };
const examples = { accepts: [{}], rejects: [] };
const text = { output: z.object({ text: z.string() }), outputPolicy: { text: "allow" } as const };
export const show = defineTool({ ...base, ...text, name: "show_file", description: "Show a file", category: "command",
  input: z.strictObject({ file: z.enum([${JSON.stringify(join(folder, "stc.yaml"))}, "/usr/missing"]) }),
  target: { system: "local", cli: { command: "cat", argsBuilder: ({ file }) => ["--", file], confinement: {} } },
  examples: { accepts: [{ file: "/usr/missing" }], rejects: [] } });
export const parsing = defineTool({ ...base, ...text, name: "parse_it", description: "Show a text", category: "command",
  input: z.strictObject({}),
  target: { system: "local", cli: { command: "echo", argsBuilder: () => ["plain"], parse: () => {
    throw new SyntaxError("line 1 has no number");
  } } }, examples });
function fails(): never {
  throw new TypeError("\\u001b[31mred\\u001b[0m \\u202e", { cause: new Error("the deeper cause") });
}
export const boom = defineTool({ ...base, ...text, name: "boom", description: "Throw an error", input: z.strictObject({}),
  target: { system: "local", handler: () => {
    const answer = fails();
    return answer;
  } }, examples });
export const wrong = defineTool({ ...base, name: "wrong", description: "Return a wrong answer", input: z.strictObject({}),
  output: z.object({ items: z.array(z.object({ n: z.number() })) }), outputPolicy: { "items[].n": "allow" },
  target: { system: "local", handler: () => ({ items: [{ n: "x" }] }) }, examples });
export const huge = defineTool({ ...base, ...text, name: "huge", description: "Return a huge answer", input: z.strictObject({}),
  target: { system: "local", handler: () => ({ text: "\\u001b[2J".repeat(100_000) }) }, examples });
export const change = defineTool({ ...base, ...text, name: "change", description: "Change something", classification: "write",
  category: "write", input: z.strictObject({ note: z.string().optional() }), target: { system: "local", handler: () => ({ text: "changed" }) }, examples });
`;
const GET_ORDER = `
name: get_order
description: Get one order by its number
classification: read
permissions: { required: [a:read] }
target: { system: api, http: { method: GET, path: "/orders/{order}" } }
input: { type: object, properties: { order: { type: string, maxLength: 40, pattern: "^[A-Za-z0-9-]+$" } }, required: [order] }
output: { type: object, properties: { id: { type: string }, secretNote: { type: string }, sent: { type: string } } }
outputPolicy: { id: allow }
examples: { accepts: [{ order: "7" }] }
`;

const SERVERS = join(PROJECT, "tests/targets/mcp");
const upstreamTool = (system: string): string => `
name: ${system}_echo
description: Return the text
classification: read
permissions: { required: [a:read] }
target: { system: ${system}, mcp: { tool: echo } }
input: { type: object, properties: { text: { type: string, maxLength: 40 } }, required: [text] }
output: { type: object, properties: { text: { type: string } } }
outputPolicy: { text: allow }
examples: { accepts: [{ text: a }] }
`;
const world = await openWorld();

beforeAll(() => {
  mkdirSync(join(folder, "tools"));
  for (const system of ["upstream", "broken"])
    writeFileSync(join(folder, `tools/${system}.tool.yaml`), upstreamTool(system));
  writeFileSync(join(folder, "tools/tools.ts"), MANIFESTS);
  writeFileSync(join(folder, "tools/get-order.tool.yaml"), GET_ORDER);
  writeFileSync(join(folder, "token"), `${TOKEN}\n`);
  const issuer =
    "{ issuer: https://login.example.com/, audience: stc, algorithms: [ES256], jwksUri: https://login.example.com/jwks.json }";
  writeFileSync(
    config,
    [
      `tools: [./tools, ${JSON.stringify(join(PROJECT, "tools/customer-data"))}]`,
      "audit: { dir: ./audit }",
      'approvals: { store: "sqlite://./approvals.sqlite" }',
      `jwt: { issuers: [${issuer}] }`,
      "commands: { allowed: [cat, echo], confinement: prefer }",
      `systems: ${JSON.stringify({
        api: {
          http: { baseUrl: `http://127.0.0.1:${api.port}/v1`, addresses: ["loopback"], auth: { bearerFile: "token" } },
        },
        upstream: {
          mcp: {
            command: process.execPath,
            args: ["--no-env-file", "--config=/dev/null", "--no-install", join(SERVERS, "hostile-server.ts")],
            reads: [SERVERS],
          },
        },
        broken: { mcp: { command: process.execPath, args: ["--no-install", join(SERVERS, "missing.ts")] } },
        "customer-master-service": world.targets.systems["customer-master-service"],
      })}`,
    ].join("\n"),
  );
});
afterAll(async () => {
  await api.stop(true);
  await world.close();
  rmSync(folder, { recursive: true, force: true });
});

function tried(tool: string, args: object, ...options: readonly string[]): Promise<Ended> {
  return runStc(["try", tool, JSON.stringify(args), "--config", config, ...options]);
}

async function asJson(tool: string, args: object) {
  const { code, out } = await tried(tool, args, "--json");
  return { code, shown: JSON.parse(out) };
}

describe("a command that fails", () => {
  test("is shown with its stderr, exit code, and the file that the kernel refused", async () => {
    const { code, shown } = await asJson("show_file", { file: config });
    expect(code).toBe(1);
    const [run] = shown.observed;
    expect(run).toMatchObject({ what: "process", facts: { ended: "exit", code: 1, stdout: "" } });
    expect(run.facts.stderr).toContain("Permission denied");
    expect(shown.refusal).toMatchObject({ code: "TARGET_FAILED" });
    if (shown.plan.confinement.level !== "confined") return;
    expect(shown.denials).toEqual([
      {
        observed: expect.stringContaining("Permission denied"),
        path: config,
        inferred: expect.stringContaining(`confinement.reads: ["${config}"]`),
      },
    ]);
  });

  test("is not taken for one that the kernel refused", async () => {
    const { shown } = await asJson("show_file", { file: "/usr/missing" });
    expect(shown.observed[0].facts.stderr).toContain("No such file");
    expect(shown.denials).toEqual([]);
  });

  test("of which the manifest's parse throws is shown with the author's own line", async () => {
    const { shown } = await asJson("parse_it", {});
    const { facts } = shown.observed.find(({ what }: { what: string }) => what === "parse");
    expect(facts.error[0]).toMatchObject({ name: "SyntaxError", message: "line 1 has no number" });
    expect(facts.error[0].at[0]).toMatch(/tools\/tools\.ts:\d+:\d+/);
    expect(shown.refusal.code).toBe("INVALID_OUTPUT");
  });
});

describe("a function that throws", () => {
  test("is shown with its whole chain of causes, and no escape sequence reaches the terminal", async () => {
    const { code, out } = await tried("boom", {});
    expect(code).toBe(1);
    expect(out).toContain("TypeError: \\u001b[31mred\\u001b[0m \\u202e");
    expect(out).toMatch(/at \/.*tools\/tools\.ts:\d+:\d+/);
    expect(out).toContain("the deeper cause");
    expect(out).not.toMatch(/[\u001b\u202e]/);
  });
});

describe("an answer", () => {
  test("that the output schema refuses is shown with path and type", async () => {
    const { code, shown } = await asJson("wrong", {});
    expect(code).toBe(1);
    expect(shown.withheld).toEqual({
      code: "INVALID_OUTPUT",
      issues: [{ path: "items[0].n", message: "Invalid input: expected number, received string" }],
    });
    expect(shown.raw).toEqual({ items: [{ n: "x" }] });
  });

  test("of an HTTP API is shown raw and released, without the service's credential", async () => {
    const { code, shown } = await asJson("get_order", { order: "7" });
    expect(code).toBe(0);
    expect(shown.observed[0]).toMatchObject({
      what: "HTTP answer",
      facts: { status: 200, headers: { "x-request-id": "r-1", "x-echo": "Bearer [REDACTED]" } },
    });
    expect(shown.raw).toEqual({ id: "7", secretNote: "not for agents", sent: "Bearer [REDACTED]" });
    expect(shown.released.result).toEqual({ id: "7" });
    const { out } = await tried("get_order", { order: "7" });
    expect(out).toMatch(/secretNote +"not for agents" +stripped +no pattern/);
    expect(JSON.stringify(shown) + out).not.toContain(TOKEN);
  });

  test("with a number beyond 2^53 is shown with every digit", async () => {
    const { shown } = await asJson("get_order", { order: "large" });
    expect(shown.raw).toEqual({ id: "8", total: "9007199254740993", sent: "Bearer [REDACTED]" });
    expect((await tried("get_order", { order: "large" })).out).toMatch(/total +"9007199254740993" +not in the schema/);
  });

  test("with an error status is shown with its body", async () => {
    const { code, shown } = await asJson("get_order", { order: "missing" });
    expect(code).toBe(1);
    expect(shown.observed[0].facts).toMatchObject({ status: 404, body: expect.stringContaining("no such order") });
    expect(shown.refusal).toMatchObject({ code: "TARGET_REFUSED", details: { status: "NOT_FOUND" } });
  });

  test("of a gRPC service is shown with status and message, raw and released", async () => {
    const { code, shown } = await asJson("get_customer_status", { customerId: KNOWN_CUSTOMERS.johnSmith });
    expect(code).toBe(0);
    expect(shown.observed[0]).toMatchObject({ what: "gRPC answer" });
    expect(shown.raw.customer).toMatchObject({ fullName: "John Smith" });
    expect(Object.keys(shown.released.result.customer).sort()).toEqual(["customerId", "status", "updatedAt"]);
  });

  test("of a gRPC service that refuses is shown with status and text, which an agent does not get", async () => {
    const { code, shown } = await asJson("get_customer_status", { customerId: KNOWN_CUSTOMERS.leaksAsPrecondition });
    expect(code).toBe(1);
    expect(shown.observed[0]).toMatchObject({
      what: "gRPC status",
      facts: { status: "FAILED_PRECONDITION", details: expect.stringContaining("john.smith@example.com") },
    });
    expect(JSON.stringify(shown.refusal)).not.toContain("john.smith");
  });

  test("of an MCP server is shown raw and released", async () => {
    const { code, shown } = await asJson("upstream_echo", { text: "words" });
    expect(code).toBe(0);
    expect(shown.observed[0]).toMatchObject({
      what: "MCP result",
      facts: { result: { content: [{ type: "text", text: "words" }] } },
    });
    expect(shown.released.result).toEqual({ text: "words" });
  });

  test("of an MCP server that does not start is missing, with what the server wrote", async () => {
    const { code, shown } = await asJson("broken_echo", { text: "words" });
    expect(code).toBe(1);
    expect(shown.observed.slice(0, 2)).toMatchObject([
      { what: "MCP server", facts: { system: "broken", output: expect.stringContaining("Module not found") } },
      { what: "MCP server", facts: { failed: expect.stringContaining("exit 1") } },
    ]);
    expect(shown.refusal.code).toBe("TARGET_UNAVAILABLE");
  });

  test("that is huge is cut, and its control characters are visible", async () => {
    const { out } = await tried("huge", {});
    expect(out.length).toBeLessThan(400_000);
    expect(out).toContain("more characters");
    expect(out).not.toContain("\u001b");
  });
});

describe("a tool that can change something", () => {
  test("needs --yes without a terminal", async () => {
    const { code, err } = await tried("change", {});
    expect([code, err]).toEqual([64, expect.stringContaining("Give --yes to run it.")]);
  });

  test.skipIf(!hasTerminals)("is run by a person who types yes, and by nothing else", async () => {
    for (const [typed, code] of [
      ["yes", 0],
      ["y", 1],
      ["", 1],
    ] as const) {
      const terminal = new TerminalStc(["try", "change", "{}", "--config", config], { env: {} });
      expect(await terminal.shows("Type yes: ")).toContain("change is classified write: it runs on the real target");
      terminal.type(`${typed}\r`);
      expect(await terminal.ends()).toBe(code);
      expect(terminal.out.includes('"changed"')).toBe(code === 0);
      terminal.close();
    }
  });

  test("runs with --yes, names who would be asked, and writes nothing of the service", async () => {
    const { code, out } = await tried("change", {}, "--yes");
    expect(code).toBe(0);
    expect(out).toContain("would get: ask");
    expect(out).toContain('"text": "changed"');
    expect(readdirSync(folder).sort()).toEqual(["stc.yaml", "token", "tools"]);
  });
});

test("the documented command runs as it is", async () => {
  const { text } = blockNamed("docs/authoring.md: stc try");
  const [, tool = "", args = ""] = /^stc try (\S+) '(.*)' --config stc\.yaml$/.exec(text.trim()) ?? [];
  const { code, out } = await tried(tool, JSON.parse(args));
  expect([code, out]).toEqual([0, expect.stringContaining("get_order, read: answered")]);
});

test("arguments that the schema refuses are shown with field and type, and nothing runs", async () => {
  const { code, shown } = await asJson("show_file", { file: 7 });
  expect(code).toBe(1);
  expect(shown.issues).toEqual([
    { path: "file", message: expect.stringContaining("expected one of"), received: "number" },
  ]);
  expect(shown.observed).toEqual([]);
});

test("null for an optional argument means what it means for agents: the argument is absent", async () => {
  const { code, out } = await tried("change", { note: null }, "--yes", "--json");
  expect([code, JSON.parse(out).input]).toEqual([0, {}]);
});
