import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Fetch, SafeToolCallClient, unwrap } from "../../clients/typescript/src/client.ts";
import { ClientService } from "../support/client-service.ts";
import { startServiceChild } from "../support/service-child-process.ts";
import { until } from "../support/until.ts";

/** How the client meets the real service when calls fail, answers are lost, and the service goes and comes back. */
const services: ClientService[] = [];
const processes: Bun.Subprocess[] = [];
afterEach(async () => {
  for (const each of processes.splice(0)) {
    each.kill("SIGKILL");
    await each.exited;
  }
  for (const service of services.splice(0)) await service.end();
});

async function started(sections: Readonly<Record<string, unknown>> = {}): Promise<ClientService> {
  const service = await new ClientService().start(sections);
  services.push(service);
  return service;
}

function agentOf(service: ClientService, options: object = {}): SafeToolCallClient {
  return new SafeToolCallClient({ url: service.url, token: () => service.token(), ...options });
}

/** A `fetch` that loses the first answers: the service has handled those requests. */
function losing(count: number): Fetch {
  let left = count;
  return async (url, init) => {
    const response = await fetch(url, init);
    left -= 1;
    if (left < 0) return response;
    await response.text();
    throw new TypeError("the connection was lost");
  };
}

describe("a change whose answer is lost", () => {
  test("is made once, and its answer still comes", async () => {
    const service = await started();
    const agent = agentOf(service, { fetch: losing(2) });
    expect(await agent.call("save_note", { title: "once" })).toMatchObject({ result: { done: "saved once" } });
    expect(service.deeds).toEqual(["saved once"]);
  });

  test("after an approval is made once, and nobody is asked again", async () => {
    const service = await started();
    let asked = 0;
    let lossy = false;
    const lose = losing(1);
    const send: Fetch = (url, init) => (lossy && init.method === "POST" ? lose(url, init) : fetch(url, init));
    const result = await agentOf(service, { fetch: send }).run(
      "send_note",
      { to: "ada", note: "hello" },
      {
        onPending: async ({ approval }) => {
          asked += 1;
          await service.approve(approval.id);
          lossy = true;
        },
      },
    );
    expect(result).toMatchObject({ status: "success", result: { done: "sent to ada" } });
    expect([asked, service.deeds]).toEqual([1, ["sent to ada"]]);
  });

  test("is not sent again to a service that keeps no answers: it may have run", async () => {
    const service = await started({ approvals: false });
    const agent = agentOf(service);
    expect(await agent.call("read_note", { title: "first" })).toMatchObject({ status: "success" });
    expect(await agent.run("read_note", { title: "second" })).toMatchObject({ status: "success" });
    const send = losing(1);
    const unkeyed: Fetch = (url, init) =>
      new Headers(init.headers).has("idempotency-key") ? fetch(url, init) : send(url, init);
    const work = agentOf(service, { fetch: unkeyed }).call("save_note", { title: "once" });
    const failure = await work.catch((error: unknown) => error);
    expect(failure).toMatchObject({ name: "ConnectionError", mayHaveRun: true });
    expect(service.deeds.filter((deed) => deed === "saved once")).toHaveLength(1);
  });

  test("is run by nobody a second time after a kill -9 in the middle: its outcome is unknown", async () => {
    const folder = mkdtempSync(join(tmpdir(), "stc-client-"));
    const first = await startChild(folder, 0);
    let token = first.token;
    const agent = new SafeToolCallClient({ url: first.url, token: () => token, retries: 20 });
    const work = agent.call("save_note", { title: "once", waitMs: 10_000 });
    const deeds = join(folder, "deeds.txt");
    await until("the call to run", () => (existsSync(deeds) && readFileSync(deeds, "utf8") !== "") || undefined);
    first.process.kill("SIGKILL");
    await first.process.exited;
    const second = await startChild(folder, Number(new URL(first.url).port));
    token = second.token;
    expect(await work).toMatchObject({ status: "error", error: { code: "OUTCOME_UNKNOWN", retryable: false } });
    expect(readFileSync(deeds, "utf8")).toBe("saved once\n");
    second.process.kill("SIGKILL");
    await second.process.exited;
    rmSync(folder, { recursive: true, force: true });
  });
});

async function startChild(folder: string, port: number) {
  const child = await startServiceChild(folder, port);
  processes.push(child.process);
  return child;
}

describe("an approval", () => {
  test("is awaited while the service restarts", async () => {
    const service = await started();
    const agent = agentOf(service);
    const port = Number(new URL(service.url).port);
    const asked = Promise.withResolvers<string>();
    const args = { to: "ada", note: "hello" };
    const work = agent.run("send_note", args, { onPending: ({ approval }) => asked.resolve(approval.id) });
    const id = await asked.promise;
    await service.restart(port);
    await service.approve(id);
    expect(unwrap(await work)).toEqual({ done: "sent to ada" });
  });

  test("that expires, is revoked or cancelled ends the run with the service's own code", async () => {
    const service = await started({ approvals: { decideBySeconds: 1, sweepEverySeconds: 1 } });
    const args = { to: "ada", note: "hello" };
    expect(await agentOf(service).run("send_note", args)).toMatchObject({ error: { code: "APPROVAL_EXPIRED" } });
    const other = await started();
    const agent = agentOf(other);
    const cancelled = await agent.run("send_note", args, {
      onPending: ({ approval }) => agent.cancelApproval(approval.id),
    });
    expect(cancelled).toMatchObject({ status: "denied", error: { code: "APPROVAL_CANCELLED" } });
    const revoked = await agent.run("send_note", args, {
      onPending: async ({ approval: { id } }) => {
        await other.approve(id);
        await other.send("POST", `/approvals/${id}/revoke`, { token: await other.person() });
      },
    });
    expect(revoked).toMatchObject({ status: "denied", error: { code: "APPROVAL_REVOKED" } });
    expect(other.deeds).toEqual([]);
  });

  test("is for exactly the arguments that the person saw", async () => {
    const service = await started();
    const agent = agentOf(service);
    const asked = await agent.call("send_note", { to: "ada", note: "hello" });
    if (asked.status !== "pending") throw new Error(JSON.stringify(asked));
    const { id: approvalId } = asked.approval;
    await service.approve(approvalId);
    const changed = await agent.call("send_note", { to: "eve", note: "hello" }, { approvalId });
    expect(changed).toMatchObject({ status: "denied", error: { code: "APPROVAL_MISMATCH" } });
    expect(await agent.call("send_note", { to: "ada", note: "hello" }, { approvalId })).toMatchObject({
      status: "success",
    });
    const again = await agent.call("send_note", { to: "ada", note: "hello" }, { approvalId });
    expect(again).toMatchObject({ status: "denied", error: { code: "APPROVAL_CONSUMED" } });
  });

  test("is left to the program when it says so, or when its time is over", async () => {
    const agent = agentOf(await started());
    const args = { to: "ada", note: "hello" };
    expect(await agent.run("send_note", args, { onPending: () => "return" })).toMatchObject({ status: "pending" });
    expect(await agent.run("send_note", args, { approvalTimeoutMs: 1 })).toMatchObject({ status: "pending" });
    expect(await agent.approval("0".repeat(36)).catch((error: unknown) => error)).toMatchObject({
      name: "RefusedError",
      code: "APPROVAL_NOT_FOUND",
    });
  });

  test("can be awaited by the service itself: the first call returns the result", async () => {
    const service = await started();
    const work = agentOf(service).call("send_note", { to: "ada", note: "hello" }, { waitSeconds: 50 });
    const open = await until("an approval request", async () => (await service.open())[0]);
    await service.approve(open.id);
    expect(unwrap(await work)).toEqual({ done: "sent to ada" });
  });
});

describe("limits", () => {
  test("RATE_LIMITED is waited for", async () => {
    const service = await started({ limits: { rates: { caller: { calls: 1, seconds: 1 } } } });
    const agent = agentOf(service);
    const results = [];
    for (const title of ["a", "b"]) results.push((await agent.call("read_note", { title })).status);
    expect(results).toEqual(["success", "success"]);
    expect(JSON.stringify(service.entries())).toContain("RATE_LIMITED");
  });

  test("QUOTA_EXCEEDED for the day, HALTED and a key of other arguments are results at once", async () => {
    const quotas = [{ name: "daily", per: ["caller"], calls: 2, window: "day" }];
    const service = await started({ limits: { quotas } });
    const agent = agentOf(service);
    const keyed = { idempotencyKey: "of-my-own" };
    expect(await agent.call("read_note", { title: "a" }, keyed)).toMatchObject({ status: "success" });
    const other = await agent.call("read_note", { title: "b" }, keyed);
    expect(other).toMatchObject({ status: "denied", error: { code: "IDEMPOTENCY_CONFLICT" } });
    await agent.call("read_note", { title: "b" });
    const over = await agent.call("read_note", { title: "c" });
    expect(over).toMatchObject({ status: "denied", error: { code: "QUOTA_EXCEEDED", retryable: true } });
    const token = await service.person({ permissions: ["halts:write"] });
    await service.send("POST", "/halts", { token, body: { kind: "all", reason: "drill" } });
    const halted = await agent.call("read_note", { title: "d" });
    expect(halted).toMatchObject({ status: "denied", error: { code: "HALTED", retryable: false } });
  });

  test("a service that shuts down is called again once it is back", async () => {
    const service = await started();
    const port = Number(new URL(service.url).port);
    const agent = agentOf(service, { retries: 20 });
    const stopping = service.stop();
    const work = agent.call("read_note", { title: "after" });
    await stopping;
    await service.restart(port);
    expect(await work).toMatchObject({ status: "success" });
    expect(service.deeds).toEqual(["read after"]);
  });
});

describe("the list of tools", () => {
  test("is awaited while nothing listens", async () => {
    const service = await started();
    const token = await service.token();
    const url = new URL(service.url);
    await service.stop();
    let requests = 0;
    const agent = new SafeToolCallClient({
      ...{ url, retries: 1 },
      // Asked before each request: the service is back after more failures than the retries of one request.
      token: async () => {
        requests += 1;
        if (requests === 4) await service.restart(Number(url.port));
        return token;
      },
    });
    expect((await agent.tools()).map(({ name }) => name)).toContain("read_note");
    expect(requests).toBe(4);
  });
});

test("a dry run says what would happen, and nothing does", async () => {
  const service = await started();
  const agent = agentOf(service);
  const asks = await agent.call("send_note", { to: "ada", note: "hello" }, { dryRun: true });
  expect(asks).toMatchObject({ status: "dryRun", verdict: "ask" });
  expect([service.deeds, await service.open()]).toEqual([[], []]);
});

test("a token that has expired is asked for once more", async () => {
  const service = await started();
  const tokens = [await service.issuers.token({ kind: "expired", sub: "agent-7", permissions: ["notes:use"] })];
  const token = () => tokens.pop() ?? service.token();
  expect(await agentOf(service, { token }).call("read_note", { title: "a" })).toMatchObject({ status: "success" });
});

test("a client over a Unix socket: the runtime's own option of fetch", async () => {
  const service = await started({ server: { socket: "./agents.sock" } });
  const unix = join(service.folder, "agents.sock");
  const agent = new SafeToolCallClient({
    url: "http://localhost",
    token: await service.token(),
    fetch: (url, init) => fetch(url, { ...init, unix }),
  });
  expect(await agent.call("read_note", { title: "a" })).toMatchObject({ status: "success" });
});
