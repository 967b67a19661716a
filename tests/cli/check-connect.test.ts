import { afterAll, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LiveIssuers } from "../support/live-tokens.ts";
import { runStc } from "../support/stc.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-connect-"));
const path = join(folder, "stc.yaml");
const issuers = new LiveIssuers();
/** What the server of keys and audit lines answers, by path. */
let answers: Readonly<Record<string, () => Response>> = {};
const received: string[] = [];
const server = Bun.serve({
  ...{ hostname: "127.0.0.1", port: 0 },
  async fetch(request) {
    const { pathname } = new URL(request.url);
    received.push(`${request.method} ${pathname} ${await request.text()}`);
    return answers[pathname]?.() ?? new Response("", { status: 404 });
  },
});
const url = `http://127.0.0.1:${server.port}`;

const WORKING = {
  "/keys": () => Response.json({ keys: [issuers.agents.jwk] }),
  "/otlp": () => Response.json({}),
  // As newer releases answer a request without streams.
  "/loki": () => new Response("at least one valid stream is required", { status: 422 }),
};

function write(changes: object = {}): void {
  const [agents] = issuers.profiles();
  const { jwks: _, ...issuer } = agents as { readonly jwks: unknown };
  const configuration = {
    tools: ["./a.tool.yaml"],
    audit: {
      dir: "./audit",
      export: [
        { type: "otlp", url: `${url}/otlp?key=hidden-in-query` },
        { type: "loki", url: `${url}/loki` },
      ],
    },
    jwt: { issuers: [{ ...issuer, jwksUri: `${url}/keys?key=hidden-in-query` }] },
    approvals: { store: "sqlite://./approvals.sqlite" },
    systems: { api: { http: { baseUrl: url, plaintext: true, addresses: ["loopback"] } } },
    ...changes,
  };
  writeFileSync(path, JSON.stringify(configuration));
}

const TOOL = `
name: read_note
description: Reads a note
classification: read
permissions: { required: ["notes:read"] }
input: { type: object, properties: {}, additionalProperties: false }
output: { type: object, properties: { text: { type: string } } }
outputPolicy: { text: allow }
target: { system: api, http: { method: GET, path: /note } }
`;

const check = (...more: readonly string[]) => runStc(["check", "--config", path, ...more]);

beforeEach(() => {
  answers = WORKING;
  received.length = 0;
  writeFileSync(join(folder, "a.tool.yaml"), TOOL);
  write();
});
afterAll(async () => {
  await server.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

test("stc check --connect names what it could connect to, and changes nothing", async () => {
  const { code, out, err } = await check("--connect");
  expect([code, err]).toEqual([0, ""]);
  expect(out).toContain(
    "ok: 1 tools\nconnected: jwt.issuers[0].jwksUri\nconnected: audit.export[0]\nconnected: audit.export[1]\n",
  );
  expect(received.map((request) => request.split(" ", 2).join(" ")).sort()).toEqual([
    ...["GET /keys", "POST /loki", "POST /otlp"],
  ]);
  const [lines] = received.filter((request) => request.startsWith("POST /otlp"));
  expect(lines).toContain('"logRecords":[]');
  expect([existsSync(join(folder, "approvals.sqlite")), existsSync(join(folder, "audit"))]).toEqual([false, false]);
});

test("stc check without --connect sends nothing", async () => {
  expect(await check()).toMatchObject({ code: 0, err: "" });
  expect(received).toEqual([]);
});

test.each([
  [
    "a page instead of keys",
    "/keys",
    () => new Response("<p>Sign in</p>"),
    /jwksUri: the keys of http:\S+\/keys cannot be used: /,
  ],
  ["a status", "/keys", () => new Response("", { status: 403 }), /jwksUri: .*: the JWKS URL answered with status 403/],
  [
    "keys of other algorithms",
    "/keys",
    () => Response.json({ keys: [issuers.rsa.jwk] }),
    /jwksUri: .*: no key fits ES256/,
  ],
  [
    "wrong credentials of a receiver",
    "/otlp",
    () => new Response("", { status: 401 }),
    /export\[0\]: .*otlp.*: status 401/,
  ],
  ["a receiver that fails", "/loki", () => new Response("", { status: 503 }), /export\[1\]: .*loki.*: status 503/],
] as const)("%s: the field and the reason", async (_, at, answer, problem) => {
  answers = { ...WORKING, [at]: answer };
  const { code, err } = await check("--connect");
  expect(code).toBe(78);
  expect(err).toMatch(problem);
  expect(err.match(/^ *- .*$/gm)).toHaveLength(1);
  expect(err).not.toContain("hidden-in-query");
});

test("an archive can be used when it is asked for an object; a bucket that is missing is named", async () => {
  writeFileSync(join(folder, "credentials"), "aws_access_key_id = AKID\naws_secret_access_key = hidden-secret\n");
  const archive = { type: "s3", endpoint: url, bucket: "audit-archive", credentialsFile: "./credentials" };
  write({ audit: { dir: "./audit", export: [archive] } });
  expect((await check("--connect")).out).toContain("connected: audit.export[0]\n");
  expect(received).toContain("GET /audit-archive/probe ");
  answers = {
    ...WORKING,
    "/audit-archive/probe": () => new Response("<Error><Code>NoSuchBucket</Code></Error>", { status: 404 }),
  };
  const { code, err } = await check("--connect");
  expect([code, err]).toEqual([78, expect.stringMatching(/export\[0\]: .*s3.*: status 404 NoSuchBucket/)]);
  expect(err).not.toContain("hidden-secret");
});

test("all problems of the configuration and its connections are reported at once", async () => {
  await using gone = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const nowhere = `http://127.0.0.1:${gone.port}`;
  await gone.stop(true);
  answers = { "/keys": () => Response.json({ keys: [] }) };
  write({ audit: { dir: "./audit", export: [{ type: "otlp", url: nowhere }] } });
  writeFileSync(
    join(folder, "a.tool.yaml"),
    TOOL.replace("outputPolicy: { text: allow }", "outputPolicy: { texts: allow }"),
  );
  const { code, out } = await check("--connect", "--json");
  expect(code).toBe(78);
  const { ok, connected, problems } = JSON.parse(out);
  expect([ok, connected]).toEqual([false, []]);
  expect(problems.join("\n")).toMatch(
    /outputPolicy.*\n(?:.*\n)*jwt\.issuers\[0\]\.jwksUri: .*no key fits.*\naudit\.export\[0\]: .*/,
  );
});
