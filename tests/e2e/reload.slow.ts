import { afterEach, expect, test } from "bun:test";
import { readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { manifest, ReloadService, type Reply, SHORT_IMPORTS } from "../support/reload-service.ts";
import { makeSigningKey } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const running: ReloadService[] = [];
afterEach(async () => {
  for (const service of running.splice(0)) await service.end();
});

async function started(changes: Readonly<Record<string, unknown>> = {}): Promise<ReloadService> {
  const service = await new ReloadService(changes).start();
  running.push(service);
  return service;
}

test("a changed manifest is adopted as a whole, logged and journaled", async () => {
  const service = await started();
  expect(await service.says()).toBe("first");
  service.write("tools/hello.ts", manifest({ says: "second" }));
  expect(await service.says()).toBe("first");

  const { http, body } = await service.reload();

  expect(http).toBe(200);
  expect(body).toMatchObject({ status: "changed", generation: 2, hash: expect.stringMatching(/^[0-9a-f]{64}$/) });
  expect(await service.says()).toBe("second");
  const [line] = service.journal("configuration.changed");
  expect(line).toMatchObject({ generation: 2, sha256: body.hash, by: "https://people.test|olga" });
  expect(line?.["manifests"]).toEqual([{ source: "./tools", sha256: expect.stringMatching(/^[0-9a-f]{64}$/) }]);
  const ready = await service.send("GET", "/readyz", { token: await service.operator() });
  expect(ready.body.configuration).toMatchObject({ generation: 2, sha256: body.hash, lastRefused: null });
});

test("relative imports of a manifest are fresh too, and an unchanged file stays the same", async () => {
  const service = await started();
  service.write("tools/words.ts", 'import { end } from "./parts/end.js";\nexport const words = "one" + end;\n');
  service.write("tools/parts/end.ts", 'export const end = "!";\n');
  const before = 'import { words } from "./words.ts";';
  service.write("tools/hello.ts", manifest({ before, body: "return { said: words };" }));
  expect((await service.reload()).http).toBe(200);
  expect(await service.says()).toBe("one!");
  service.write("tools/parts/end.ts", 'export const end = "?";\n');
  await service.reload();
  expect(await service.says()).toBe("one?");
  service.write("tools/parts/end.ts", 'export const end = "!";\n');
  await service.reload();
  expect(await service.says()).toBe("one!");
});

const GOOD = manifest();
const mistakes: readonly (readonly [string, (service: ReloadService) => void, RegExp])[] = [
  ["broken YAML", ({ file }) => Bun.write(file, "server: [\n"), /stc\.yaml: /],
  ["no configuration at all", (service) => service.remove("stc.yaml"), /stc\.yaml: cannot be read \(ENOENT\)/],
  ["an unknown key", (service) => service.configure({ tolls: [] }), /tolls: is not a known key/],
  [
    "a missing key file",
    (s) => s.configure({ assertion: { issuer: "https://us", keyFile: "./gone" } }),
    /assertion\.keyFile: .*ENOENT/,
  ],
  ["a manifest that is no code", (s) => s.write("tools/hello.ts", "export const = ;"), /hello\.ts: cannot be loaded/],
  [
    "a manifest that contradicts itself",
    (s) => s.write("tools/hello.ts", GOOD.replace('["hello:say"]', "[]")),
    /hello\.ts: tool hello: permissions/,
  ],
  [
    "a manifest that throws",
    (s) => s.write("tools/hello.ts", `throw new Error("as it was told");\n${GOOD}`),
    /hello\.ts: cannot be loaded: as it was told/,
  ],
  [
    "a manifest that never ends loading",
    (s) => s.write("tools/hello.ts", manifest({ before: "await new Promise(() => {});" })),
    /hello\.ts: cannot be loaded: its loading did not end within 2000 ms/,
  ],
  [
    "an import that never ends loading",
    (s) => {
      s.write("tools/slow.ts", "await new Promise(() => {});\nexport const slow = 1;\n");
      s.write("tools/hello.ts", `import "./slow.ts";\n${GOOD}`);
    },
    /hello\.ts: cannot be loaded: its loading did not end within 2000 ms/,
  ],
  [
    "two tools of one name",
    (s) => s.write("tools/other.ts", GOOD),
    /tool hello: name: is already taken by tools\/hello\.ts/,
  ],
  [
    "a key that needs a restart",
    (s) => s.configure({ audit: { dir: "./elsewhere" } }),
    /^audit\.dir: needs a restart$/,
  ],
];

test.each(mistakes)(
  "%s is refused, and the former configuration stays; after the fix it is adopted",
  async (_title, make, problem) => {
    const service = await started({ reload: SHORT_IMPORTS });
    await make(service);

    const { http, body } = await service.reload();

    expect({ http, status: body.status }).toEqual({ http: 422, status: "refused" });
    expect(body.problems.find((line: string) => problem.test(line)) ?? body.problems).toMatch(problem);
    expect(await service.says()).toBe("first");
    const [line] = service.journal("configuration.refused");
    expect(line).toMatchObject({ problems: body.problems.length, by: "https://people.test|olga" });
    expect(JSON.stringify(line)).not.toContain("as it was told");
    expect(service.journal("configuration.changed")).toEqual([]);
    const token = await service.operator();
    const ready = await service.send("GET", "/readyz", { token });
    expect(ready.body.configuration).toMatchObject({ generation: 1, lastRefused: { problems: body.problems.length } });
    expect((await service.send("GET", "/metrics", { token })).body).toMatch(/^stc_configuration_last_refused [1-9]/m);

    service.configure({});
    service.write("tools/hello.ts", manifest({ says: "mended" }));
    service.write("tools/other.ts", manifest({ name: "other" }));
    service.write("tools/slow.ts", "export const slow = 2;\n");
    const mended = await service.reload();
    expect([mended.http, mended.body.problems]).toEqual([200, undefined]);
    expect(await service.says()).toBe("mended");
    const metrics = (await service.send("GET", "/metrics", { token })).body;
    expect(metrics).toMatch(/^stc_configuration_generation 2$/m);
    expect(metrics).toMatch(/^stc_configuration_last_refused 0$/m);
  },
);

test("an import without its extension is adopted only by a restart, and that is reported", async () => {
  const service = await started();
  service.write("tools/words.ts", 'export const words = "one";\n');
  const before = 'import { words } from "./words";';
  service.write("tools/hello.ts", manifest({ before, body: "return { said: words };" }));
  expect((await service.reload()).http).toBe(200);
  service.write("tools/words.ts", 'export const words = "two";\n');
  const { http, body } = await service.reload();
  expect(http).toBe(422);
  expect(body.problems).toEqual([
    'tools/hello.ts: cannot be loaded: hello.ts imports "./words", which has changed: write it with its extension, or restart',
  ]);
  expect(await service.says()).toBe("one");
});

test("a removed tool is unknown, a new required permission applies to the next call", async () => {
  const service = await started();
  service.write("tools/hello.ts", manifest({ permission: "hello:shout" }));
  service.write("tools/other.ts", manifest({ name: "other", says: "other" }));
  await service.reload();
  expect(await service.says()).toBe("PERMISSION_DENIED");
  expect(await service.says({ tool: "other" })).toBe("other");
  service.remove("tools/other.ts");
  await service.reload();
  expect(await service.says({ tool: "other" })).toBe("TOOL_NOT_FOUND");
});

test("a changed key ends the tokens of the old one, verified ones included", async () => {
  const service = await started();
  const token = await service.agent();
  expect(await service.says({}, token)).toBe("first");
  const [agents, operators] = service.issuers.profiles();
  const { jwk } = makeSigningKey("ES256", "agents-2");
  service.configure({ jwt: { issuers: [{ ...agents, jwks: { keys: [jwk] } }, operators] } });
  expect((await service.reload()).http).toBe(200);
  expect(await service.says({}, token)).toBe("UNAUTHENTICATED");
});

test("who may reload: operators with service:reload, and nobody else", async () => {
  const service = await started();
  const rows = [
    [await service.agent(["service:reload"]), 403],
    [await service.operator(["metrics:read"]), 403],
    ["nonsense", 401],
  ] as const;
  for (const [token, http] of rows) expect((await service.reload(token)).http).toBe(http);
  expect(service.journal("configuration.changed")).toEqual([]);
  expect(service.journal("approval.forged")).toMatchObject([{ reason: "agents_token" }]);
  expect(service.journal("operator.refused")).toMatchObject([
    { reason: "permission_missing", permission: "service:reload" },
  ]);
  service.write("tools/hello.ts", manifest({ permission: "service:reload" }));
  expect((await service.reload()).body.problems.join()).toContain("service:");
});

test("calls in progress finish with their own configuration, and none of several hundred is lost", async () => {
  const service = await started({ limits: { concurrentCallsPerCallerMax: 1_000 } });
  const slow = (says: string): string =>
    manifest({
      before: `const open = (globalThis[Symbol.for("${service.folder}")] ??= []);`,
      body: `await new Promise((resolve) => open.push(resolve)); return { said: "${says}" };`,
    });
  const held = (): (() => void)[] =>
    ((globalThis as Record<symbol, unknown>)[Symbol.for(service.folder)] ?? []) as (() => void)[];
  service.write("tools/hello.ts", slow("before"));
  await service.reload();
  const token = await service.agent();
  const before = Array.from({ length: 110 }, () => service.says({}, token));
  await until("the calls to run", () => (held().length === 110 ? true : undefined));
  service.write("tools/hello.ts", slow("after"));
  expect((await service.reload()).http).toBe(200);
  const after = Array.from({ length: 110 }, () => service.says({}, token));
  await until("the later calls to run", () => (held().length === 220 ? true : undefined));
  for (const release of held()) release();
  expect(new Set(await Promise.all(before))).toEqual(new Set(["before"]));
  expect(new Set(await Promise.all(after))).toEqual(new Set(["after"]));
});

test("continuous calls use one configuration or the other, and none is refused", async () => {
  const service = await started();
  const token = await service.agent();
  const seen = new Map<string, number>();
  let going = true;
  const callers = Array.from({ length: 8 }, async () => {
    while (going) {
      const said = await service.says({}, token);
      seen.set(said, (seen.get(said) ?? 0) + 1);
    }
  });
  for (let round = 0; round < 8; round += 1) {
    service.write("tools/hello.ts", manifest({ says: `round ${round}` }));
    expect((await service.reload()).http).toBe(200);
  }
  expect(await service.says({}, token)).toBe("round 7");
  going = false;
  await Promise.all(callers);
  expect([...seen.keys()].filter((said) => said !== "first" && !said.startsWith("round "))).toEqual([]);
});

test("two concurrent reloads: each sees the current files, one after the other", async () => {
  const service = await started();
  service.write("tools/hello.ts", manifest({ says: "second" }));
  const token = await service.operator();
  const answers = await Promise.all(Array.from({ length: 6 }, () => service.reload(token)));
  expect(answers.map(({ http }) => http)).toEqual(Array.from({ length: 6 }, () => 200));
  expect(service.journal("configuration.changed").length).toBeLessThan(6);
  expect(await service.says()).toBe("second");
});

test("over the limit a reload is refused before anything is read, with the time to wait", async () => {
  const service = await started({ reload: { perMinuteMax: 2 } });
  const token = await service.operator();
  const answers: Reply[] = [];
  for (let index = 0; index < 3; index += 1) answers.push(await service.reload(token));
  expect(answers.map(({ http }) => http)).toEqual([200, 200, 429]);
  expect(answers[2]?.body.error).toMatchObject({ code: "RATE_LIMITED", details: { limit: "reload" }, retryable: true });
  service.remove("stc.yaml");
  expect((await service.reload(token)).http).toBe(429);
  expect(service.journal("configuration.refused")).toEqual([]);
});

test("an approval of a call of the old manifest does not cover the new one", async () => {
  const service = await started({ approvals: { store: "sqlite://./approvals.sqlite" } });
  service.write("tools/hello.ts", manifest({ classification: "write" }));
  await service.reload();
  const asked = await service.call();
  expect(asked.http).toBe(202);
  const { id } = asked.body.approval;
  const operator = await service.operator();
  const decided = await service.send("POST", `/approvals/${id}/decisions`, {
    token: operator,
    body: { decision: "approve" },
  });
  expect(decided.http).toBe(200);
  service.write("tools/hello.ts", manifest({ classification: "write", says: "something else" }));
  expect((await service.reload()).http).toBe(200);
  expect(await service.says({ approval: { id } })).toBe("APPROVAL_MISMATCH");
  service.write("tools/hello.ts", manifest({ classification: "write" }));
  await service.reload();
  expect(await service.says({ approval: { id } })).toBe("first");
});

test("an approval for a session does not cover a changed manifest", async () => {
  const service = await started({ approvals: { store: "sqlite://./approvals.sqlite" } });
  service.write("tools/hello.ts", manifest({ classification: "write" }));
  await service.reload();
  const claims = { sid: "s-1" };
  const token = await service.issuers.token({ kind: "good", sub: "agent-7", permissions: ["hello:say"], claims });
  const { id } = (await service.call({}, token)).body.approval;
  const operator = await service.operator();
  const body = { decision: "approve", scope: "session" };
  expect((await service.send("POST", `/approvals/${id}/decisions`, { token: operator, body })).http).toBe(200);
  expect(await service.says({ approval: { id } }, token)).toBe("first");
  expect(await service.says({}, token)).toBe("first");
  service.write("tools/hello.ts", manifest({ classification: "write", says: "something else" }));
  await service.reload();
  expect((await service.call({}, token)).http).toBe(202);
});

test("a call that waits for its approval uses the manifest in use afterwards", async () => {
  const service = await started({ approvals: { store: "sqlite://./approvals.sqlite" } });
  service.write("tools/hello.ts", manifest({ classification: "write" }));
  await service.reload();
  const token = await service.agent();
  const waiting = fetch(`${service.running.url}/call`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", prefer: "wait=20" },
    body: JSON.stringify({ tool: "hello", args: {} }),
  });
  const operator = await service.operator();
  const id = await until("the question", async () => {
    const { body } = await service.send("GET", "/approvals?state=pending", { token: operator });
    return body.approvals?.[0]?.id as string | undefined;
  });
  service.write("tools/hello.ts", manifest({ classification: "write", says: "something else" }));
  expect((await service.reload()).http).toBe(200);
  await service.send("POST", `/approvals/${id}/decisions`, { token: operator, body: { decision: "approve" } });
  const body = (await (await waiting).json()) as { readonly error: { readonly code: string } };
  expect(body.error.code).toBe("APPROVAL_MISMATCH");
});

test("files that keep changing while they are read are not adopted", async () => {
  const service = await started();
  const before = `import { appendFileSync } from "node:fs";
appendFileSync(${JSON.stringify(join(service.folder, "tools/hello.ts"))}, "// again\\n");`;
  service.write("tools/hello.ts", manifest({ before, says: "restless" }));
  const { http, body } = await service.reload();
  expect([http, body.problems]).toEqual([422, ["reload: files keep changing while they are read"]]);
  expect(await service.says()).toBe("first");
});

test("an unreadable file is a problem like any other", async () => {
  const service = await started();
  service.remove("tools/hello.ts");
  symlinkSync("hello.ts", join(service.folder, "tools/hello.ts"));
  const { http, body } = await service.reload();
  expect([http, body.problems.length]).toEqual([422, 1]);
  expect(body.problems[0]).toStartWith("tools[0]: ");
  expect(await service.says()).toBe("first");
});

test("during the drain nothing is adopted", async () => {
  const service = await started();
  const { reload } = service.running;
  const draining = service.running.drain();
  service.write("tools/hello.ts", manifest({ says: "too late" }));
  expect(await reload?.("signal")).toMatchObject({ outcome: "busy", reason: "closing" });
  await draining;
  expect(service.journal("configuration.changed")).toEqual([]);
  expect(readFileSync(join(service.folder, "tools/hello.ts"), "utf8")).toContain("too late");
});
