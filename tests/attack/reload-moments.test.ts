import { afterEach, expect, test } from "bun:test";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { until } from "../support/until.ts";

const running: ReloadService[] = [];
afterEach(async () => {
  for (const service of running.splice(0)) await service.end();
});

const STORE = { store: "sqlite://./approvals.sqlite" };
const deciding = (count: number) => ({
  approvals: { ...STORE, policies: [{ name: "people", when: { tools: ["hello"] }, require: { count } }] },
});

async function started(changes: Readonly<Record<string, unknown>>): Promise<ReloadService> {
  const service = new ReloadService(changes);
  service.write("tools/hello.ts", manifest({ classification: "write" }));
  running.push(service);
  return service.start();
}

async function vote(service: ReloadService, sub: string, id: string): Promise<number> {
  const token = await service.issuers.token({ kind: "operator", sub, permissions: ["approvals:decide"] });
  return (await service.send("POST", `/approvals/${id}/decisions`, { token, body: { decision: "approve" } })).http;
}

test("a policy that changes while votes are collected: no approval under one counts under another", async () => {
  const service = await started(deciding(2));
  const { id } = (await service.call()).body.approval;
  expect(await vote(service, "olga", id)).toBe(200);
  for (const count of [1, 3]) {
    service.configure(deciding(count));
    expect((await service.reload()).http).toBe(200);
    expect(await service.says({ approval: { id } })).toBe("APPROVAL_MISMATCH");
  }
  expect(await vote(service, "pavel", id)).toBe(200);
  expect(await service.says({ approval: { id } })).toBe("APPROVAL_MISMATCH");
  service.configure({ approvals: { ...STORE, policies: [] } });
  expect((await service.reload()).http).toBe(200);
  expect(await service.says({ approval: { id } })).toBe("APPROVAL_MISMATCH");
  service.configure(deciding(2));
  expect((await service.reload()).http).toBe(200);
  expect(await service.says({ approval: { id } })).toBe("first");
});

test("a call that waits for its approval while its issuer is removed does not run", async () => {
  const service = await started({ approvals: STORE });
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
  const [agents, operators] = service.issuers.profiles();
  service.configure({ approvals: STORE, jwt: { issuers: [{ ...agents, issuer: "https://other.test" }, operators] } });
  expect((await service.reload()).http).toBe(200);
  expect(await vote(service, "olga", id)).toBe(200);
  expect(await (await waiting).json()).toMatchObject({ error: { code: "UNAUTHENTICATED", stage: "AUTH" } });
  expect(await service.says({}, token)).toBe("UNAUTHENTICATED");
});

test("slots belong to the tool, not to its manifest: a reload frees none while calls are in progress", async () => {
  const service = await started({});
  const held = (): (() => void)[] => (Reflect.get(globalThis, Symbol.for(service.folder)) ?? []) as (() => void)[];
  const slow = (says: string): string =>
    manifest({
      before: `const open = (globalThis[Symbol.for("${service.folder}")] ??= []);`,
      body: `await new Promise((resolve) => open.push(resolve)); return { said: "${says}" };`,
    }).replace("concurrentCallsMax: 1_000", "concurrentCallsMax: 2");
  service.write("tools/hello.ts", slow("before"));
  expect((await service.reload()).http).toBe(200);
  const token = await service.agent();
  const calls = [service.says({}, token), service.says({}, token)];
  await until("the calls to run", () => (held().length === 2 ? true : undefined));
  service.write("tools/hello.ts", slow("after"));
  expect((await service.reload()).http).toBe(200);
  expect(await service.says({}, token)).toBe("OVERLOADED");
  for (const release of held()) release();
  expect(await Promise.all(calls)).toEqual(["before", "before"]);
});
