import { afterEach, describe, expect, test } from "bun:test";
import { z } from "zod";
import { Refusal } from "../../src/core/errors.ts";
import type { HubAnswer, HubClient, HubMethod, PushSource } from "../../src/hub/contract.ts";
import { HubRefusal, HubUnavailable } from "../../src/hub/errors.ts";
import { Authority, hence } from "../support/tls-files.ts";
import { until } from "../support/until.ts";
import { openConnection, openHub, openMember, slowMethod } from "./world.ts";

const closings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closings.splice(0).reverse()) await close();
});

async function hubOf(...options: Parameters<typeof openHub>) {
  const hub = await openHub(...options);
  closings.push(() => hub.listener.close());
  return hub;
}

function memberOf(...options: Parameters<typeof openMember>): HubClient {
  const client = openMember(...options);
  closings.push(() => client.close());
  return client;
}

/** Waits until it is true. */
const becomes = (isTrue: () => boolean) => until(String(isTrue), () => isTrue() || undefined);

const echo: HubMethod<{ readonly text: string }> = {
  name: "echo",
  input: z.strictObject({ text: z.string() }),
  handle: async ({ text }, { member, id }) => ({
    value: { text, member: member.name, instance: member.instance, id },
    now: 5,
  }),
};

const tokens = {
  verify: async (authorization: string | undefined) => {
    if (authorization !== "Bearer good")
      throw new Refusal("UNAUTHENTICATED", "no", { cause: new Error("aud: our audience is not in it") });
    return { caller: { issuer: "https://k8s.test", subject: "agent-1", expiresAt: Date.now() / 1_000 + 60 } } as never;
  },
};
const rules = [{ subject: "agent-*" }];

describe("requests of members", () => {
  test("a member with a workload token is answered under its own name", async () => {
    const hub = await hubOf({ methods: [echo], tokens, rules });
    const member = memberOf({ port: hub.port, token: () => "good" });
    const { value, now } = await member.call("echo", { text: "hello" });
    expect(value).toMatchObject({ text: "hello", member: "agent-1@https://k8s.test", instance: "log-1" });
    expect(now).toBe(5);
    expect(hub.connected.list()).toMatchObject([
      { name: "agent-1@https://k8s.test", version: "0.0.0", policyVersion: "abc" },
    ]);
    expect(hub.observed).toContain("echo answered");
  });

  test.each([
    ["another token", "bad", "the workload token is refused: aud: our audience is not in it"],
    ["no token", undefined, "there is neither a client certificate nor a workload token"],
  ])("%s is refused with a reason, which the journal has once", async (_title, token, reason) => {
    const hub = await hubOf({ methods: [echo], tokens, rules });
    const member = memberOf({ port: hub.port, ...(token !== undefined && { token: () => token }) });
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const error = await member.call("echo", { text: "" }).catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(HubRefusal);
      expect(error).toMatchObject({ status: 401, code: "UNAUTHENTICATED", message: reason });
    }
    expect(hub.lines).toEqual([{ type: "hub.refused", source: "127.0.0.1", reason }]);
  });

  test("a subject that hub.members does not have is refused", async () => {
    const hub = await hubOf({ methods: [echo], tokens, rules: [{ subject: "agent-2" }] });
    const member = memberOf({ port: hub.port, token: () => "good" });
    await expect(member.call("echo", { text: "" })).rejects.toThrow(
      "hub.members does not have the token's subject agent-1",
    );
  });

  test.each([
    ["a method that members are not offered", "approvals.decide", {}, 403, "METHOD_NOT_OFFERED"],
    ["another input", "echo", { text: 1 }, 400, "MALFORMED_REQUEST"],
    ["further members of the input", "echo", { text: "", more: 1 }, 400, "MALFORMED_REQUEST"],
  ])("%s is refused", async (_title, method, input, status, code) => {
    const hub = await hubOf({ methods: [echo], tokens, rules });
    const member = memberOf({ port: hub.port, token: () => "good" });
    const error = await member.call(method, input).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ name: "HubRefusal", status, code });
  });

  test("a request whose answer is lost is repeated with the same id", async () => {
    const ids: string[] = [];
    const flaky: HubMethod<unknown> = {
      name: "flaky",
      input: z.unknown(),
      async handle(_input, { id }) {
        ids.push(id);
        if (ids.length < 3) throw new Error("the database restarts");
        return { value: ids.length, now: 1 };
      },
    };
    const hub = await hubOf({ methods: [flaky], tokens, rules });
    const member = memberOf({ port: hub.port, token: () => "good", requestMs: 10_000 });
    expect((await member.call("flaky", {})).value).toBe(3);
    expect(new Set(ids).size).toBe(1);
  });

  test("a request that got no answer in time is repeated with the same id, and its late answer is reported", async () => {
    const ids: string[] = [];
    let isAway = true;
    const away: HubMethod<unknown> = {
      name: "away",
      input: z.unknown(),
      async handle(_input, { id }) {
        ids.push(id);
        if (isAway) throw new Error("the database restarts");
        return { value: "done", now: 1 };
      },
    };
    const hub = await hubOf({ methods: [away], tokens, rules });
    const member = memberOf({ port: hub.port, token: () => "good" });
    const { promise, resolve: late } = Promise.withResolvers<HubAnswer>();
    await expect(member.call("away", {}, { timeoutMs: 100, late })).rejects.toBeInstanceOf(HubUnavailable);
    const inTime = ids.length;
    isAway = false;
    expect((await promise).value).toBe("done");
    expect(ids.length).toBeGreaterThan(inTime);
    expect(new Set(ids).size).toBe(1);
  });

  test("without a hub, a call rejects with HubUnavailable at its time limit", async () => {
    const { listener, port } = await openHub();
    await listener.close();
    const member = memberOf({ port, token: () => "good" });
    await expect(member.call("echo", { text: "" }, { timeoutMs: 300 })).rejects.toBeInstanceOf(HubUnavailable);
  });

  test("a member that has too many requests open is told to come again; others are answered", async () => {
    const slow = slowMethod();
    const others = {
      verify: async (authorization: string | undefined) =>
        ({
          caller: { issuer: "i", subject: `agent-${authorization?.slice(-1)}`, expiresAt: Date.now() / 1_000 + 60 },
        }) as never,
    };
    const hub = await hubOf({ methods: [slow.method, echo], tokens: others, rules, perMemberMax: 2 });
    // Its time is over when it was told.
    const monotonic = (): number => performance.now() + (hub.observed.includes("echo busy") ? 60_000 : 0);
    const noisy = memberOf({ port: hub.port, token: () => "1", requestMs: 60_000, monotonic });
    const running2 = [noisy.call("slow", {}), noisy.call("slow", {})];
    await becomes(() => slow.running() === 2);
    const refused = await noisy.call("echo", { text: "" }).catch((caught: unknown) => caught);
    expect(refused).toBeInstanceOf(HubUnavailable);
    expect(String(refused)).toContain("too many requests open at once");
    const quiet = memberOf({ port: hub.port, token: () => "2", instance: "log-2", requestMs: 60_000 });
    expect((await quiet.call("echo", { text: "ok" })).value).toMatchObject({ text: "ok" });
    slow.open();
    await Promise.all(running2);
    expect((await noisy.call("echo", { text: "ok" })).value).toMatchObject({ text: "ok" });
  });
});

describe("members with certificates", () => {
  test("a certificate names the member; foreign, expired and untrusted ones are refused with a reason", async () => {
    const authority = await Authority.create("hub authority");
    const server = await authority.issue("hub");
    const tls = {
      read: () => ({ cert: server.cert, key: server.key, clientCa: authority.pem }),
      watch: () => ({ close() {} }),
      requireCertificates: false,
    };
    const hub = await hubOf({ methods: [echo], tls, rules: [{ certificate: "spiffe://acme.test/agents/*" }] });
    const named = (value: string) => [{ type: "url" as const, value }];
    const own = await authority.issue("a", { names: named("spiffe://acme.test/agents/a") });
    const foreign = await authority.issue("b", { names: named("spiffe://acme.test/agents/b/c") });
    const expired = await authority.issue("c", {
      names: named("spiffe://acme.test/agents/c"),
      notAfter: hence(-1_000),
    });
    const other = await (await Authority.create("other")).issue("d", { names: named("spiffe://acme.test/agents/a") });
    const ask = (pair: { readonly cert: string; readonly key: string }) => {
      const tlsOfMember = {
        rootCert: Buffer.from(authority.pem),
        clientCert: Buffer.from(pair.cert),
        clientKey: Buffer.from(pair.key),
      };
      return memberOf({ port: hub.port, scheme: "https", tls: tlsOfMember, requestMs: 5_000 }).call("echo", {
        text: "",
      });
    };
    expect((await ask(own)).value).toMatchObject({ member: "spiffe://acme.test/agents/a" });
    await expect(ask(foreign)).rejects.toThrow("none of the certificate's names: spiffe://acme.test/agents/b/c");
    await expect(ask(expired)).rejects.toThrow("the client certificate is not trusted: CERT_HAS_EXPIRED");
    await expect(ask(other)).rejects.toThrow("the client certificate is not trusted: ");
    expect(hub.lines.map(({ type }) => type)).toEqual(["hub.refused", "hub.refused", "hub.refused"]);
  });

  test("a member does not send its token to a hub whose certificate another authority has signed", async () => {
    const authority = await Authority.create("hub authority");
    const server = await authority.issue("hub");
    const tls = {
      read: () => ({ cert: server.cert, key: server.key, clientCa: undefined }),
      watch: () => ({ close() {} }),
      requireCertificates: false,
    };
    const hub = await hubOf({ methods: [echo], tls, tokens, rules });
    const rootCert = Buffer.from((await Authority.create("other")).pem);
    const connection = openConnection({ port: hub.port, scheme: "https", tls: { rootCert }, token: () => "good" });
    closings.push(async () => connection.close());
    await expect(connection.post("echo", "{}", { timeoutMs: 30_000 })).rejects.toThrow(/CERT|SIGNATURE|ISSUER/);
    expect(hub.observed).toEqual([]);
  });
});

describe("the stream of a member", () => {
  const sourceOf = () => {
    let value: unknown = { halts: [] };
    let changed = (): void => {};
    const source: PushSource = {
      name: "halts.list",
      current: async () => ({ value, now: Date.now() }),
      watch(notify) {
        changed = notify;
        const timer = setInterval(notify, 100);
        return () => clearInterval(timer);
      },
    };
    const set = (next: unknown): void => {
      value = next;
      changed();
    };
    return { source, set };
  };

  test("what changes is pushed, and stays known while the hub says so", async () => {
    const { source, set } = sourceOf();
    const hub = await hubOf({ sources: [source], tokens, rules });
    const member = memberOf({ port: hub.port, token: () => "good" });
    let calls = 0;
    member.watch(() => {
      calls += 1;
    });
    await becomes(() => member.pushed("halts.list") !== undefined);
    expect(member.pushed("halts.list")?.value).toEqual({ halts: [] });
    expect(member.pushed("other")).toBeUndefined();
    set({ halts: ["all"], bytes: new Uint8Array([1]) });
    await becomes(() => JSON.stringify(member.pushed("halts.list")?.value).includes("all"));
    expect(member.pushed("halts.list")?.value).toEqual({ halts: ["all"], bytes: new Uint8Array([1]) });
    expect(calls).toBeGreaterThan(1);
    expect(hub.connected.connected).toBe(1);
    expect(hub.connected.list()).toMatchObject([{ isConnected: true, inFlight: 0 }]);
  });

  test("a member that may not connect any more loses its stream", async () => {
    const allowed = [{ subject: "agent-*" }];
    const hub = await hubOf({ sources: [sourceOf().source], tokens, rules: allowed });
    const member = memberOf({ port: hub.port, token: () => "good" });
    await becomes(() => hub.connected.connected === 1);
    allowed.length = 0;
    hub.streams.endAll();
    await becomes(() => hub.lines.length === 1);
    expect(hub.connected.connected).toBe(0);
    await expect(member.call("echo", { text: "" })).rejects.toThrow("hub.members does not have the token's subject");
  });

  test("a hub that is away makes what was pushed unknown, and the member connects to the next one", async () => {
    const first = await openHub({ sources: [sourceOf().source], tokens, rules });
    let passedMs = 0;
    const monotonic = (): number => performance.now() + passedMs;
    const member = memberOf({ port: first.port, token: () => "good", monotonic });
    await becomes(() => member.pushed("halts.list") !== undefined);
    await first.listener.close();
    let calls = 0;
    member.watch(() => {
      calls += 1;
    });
    passedMs = 2_001;
    expect(member.pushed("halts.list")).toBeUndefined();
    await becomes(() => calls > 0);
    const { source, set } = sourceOf();
    set({ halts: ["second"] });
    await hubOf({ sources: [source], tokens, rules, port: first.port });
    await becomes(() => member.pushed("halts.list") !== undefined);
    expect(member.pushed("halts.list")?.value).toEqual({ halts: ["second"] });
  });
});
