import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import type { OpenedApprovals } from "../../src/approvals/approvals.ts";
import { send } from "../../src/approvals/notify/sender.ts";
import { readKeys, signMessage, verifyMessage } from "../../src/approvals/notify/signature.ts";
import { Webhook } from "../../src/approvals/notify/webhook.ts";
import { Receiver } from "../approvals/notify/receiver.ts";
import { type ApprovalWorld, askFor, createApprovalWorld, OPERATOR } from "../support/approvals.ts";
import { until } from "../support/until.ts";

const SECRET = `whsec_${Buffer.alloc(32, 3).toString("base64")}`;
const NOW_MS = 1_700_000_000_000;
const MEBIBYTE = 1_048_576;

let world: ApprovalWorld;
let receiver: Receiver;
const running: Webhook[] = [];
beforeEach(() => {
  world = createApprovalWorld();
  receiver = new Receiver();
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((webhook) => webhook.stop()));
  await receiver.close();
  await world.end();
});

function sendTo(url: string, timeoutMs = 2_000) {
  const headers = { "webhook-id": "msg_1", "webhook-timestamp": "1", "webhook-signature": "v1,x" };
  return send("{}", { url, headers, nowMs: 0, timeoutMs, signal: new AbortController().signal });
}

async function started(approvals: OpenedApprovals): Promise<Webhook> {
  await approvals.outbox.register("chat");
  const target = { name: "chat", deployment: "test", detail: "summary", publicUrl: undefined } as const;
  const events = ["approval.requested", "approval.denied"] as const;
  const parts = { approvals, clock: () => world.now, random: () => 0.5, owner: "owner", report: () => {} };
  const webhook = new Webhook(
    { ...target, events, url: receiver.url, keys: readKeys(SECRET, "sign") },
    { ...parts, pollMs: 5 },
  );
  running.push(webhook);
  return webhook;
}

describe("the address of a message", () => {
  test("an environment variable does not send it elsewhere", async () => {
    const proxy = new Receiver();
    const names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    const before = new Map(names.map((name) => [name, process.env[name]]));
    try {
      for (const name of names) process.env[name] = proxy.url;
      expect(await sendTo(receiver.url)).toEqual({ kind: "accepted" });
      expect(await sendTo(receiver.url.replace("127.0.0.1", "localhost"))).toEqual({ kind: "accepted" });
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
      await proxy.close();
    }
    expect([receiver.arrived.length, proxy.arrived.length]).toEqual([2, 0]);
  });

  test.each(["https://[::ffff:169.254.169.254]/", "https://[2002:a9fe:a9fe::1]/", "https://0251.0376.0251.0376/"])(
    "%s is not a usable address",
    async (url) => {
      expect(await sendTo(url)).toMatchObject({ kind: "later", reason: "ForbiddenAddress" });
    },
  );

  test("a redirect is not followed, wherever it leads", async () => {
    const elsewhere = new Receiver();
    receiver.answer = () => Response.redirect(elsewhere.url, 308);
    expect(await sendTo(receiver.url)).toMatchObject({ kind: "later", reason: "status 308" });
    expect(elsewhere.arrived).toHaveLength(0);
    await elsewhere.close();
  });
});

describe("a malicious receiver", () => {
  test("an endless answer is not read and costs no memory", async () => {
    let given = 0;
    const pull = (controller: ReadableStreamDefaultController): void => {
      given += 1;
      controller.enqueue(new Uint8Array(MEBIBYTE));
    };
    receiver.answer = () => new Response(new ReadableStream({ pull }));
    for (let count = 0; count < 5; count += 1) expect(await sendTo(receiver.url)).toEqual({ kind: "accepted" });
    expect(given).toBeLessThan(200);
  });

  test.each([
    ["never answers", ""],
    ["never ends its headers", `HTTP/1.1 200 OK\r\n${"x-a: b\r\n".repeat(10)}`],
    ["never ends its status", "HTTP/1.1 2"],
  ])("one that %s is given up in time", async (_, text) => {
    const server = Bun.listen({
      ...{ hostname: "127.0.0.1", port: 0 },
      socket: { data: (socket) => void socket.write(text) },
    });
    const ended = await sendTo(`http://127.0.0.1:${server.port}/`, 100);
    expect(ended).toMatchObject({ kind: "later", reason: "TimeoutError" });
    server.stop(true);
  });

  test.each(["HTTP/1.1 999 x\r\n\r\n", "garbage\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"])(
    "%j is not an approval",
    async (text) => {
      const server = Bun.listen({
        ...{ hostname: "127.0.0.1", port: 0 },
        socket: { data: (socket) => void socket.end(text) },
      });
      expect(await sendTo(`http://127.0.0.1:${server.port}/`, 500)).toMatchObject({ kind: "later" });
      server.stop(true);
    },
  );
});

test("an approval request that cannot be read does not block others", async () => {
  const store = await world.open();
  await store.outbox.register("chat");
  const spoilt = await askFor(store, { planDigest: "1".repeat(64), grantKey: undefined });
  const denied = await askFor(store, { planDigest: "2".repeat(64), grantKey: undefined });
  await store.decide({ id: denied.id, by: OPERATOR, decision: "deny" });
  const file = new Database(world.path);
  file.run("UPDATE approvals SET view = '{' WHERE id = ?", [spoilt.id]);
  file.close();
  const webhook = await started(store);
  await until("the one after it", () => {
    world.now += 60_000;
    return receiver.types.includes("approval.denied") ? true : undefined;
  });
  expect(webhook.state().isDisabled).toBe(false);
});

describe("APR-57: signatures", () => {
  const ID = "msg_1";
  const BODY = '{"a":1}';
  const seconds = NOW_MS / 1_000;
  const good = signMessage({ id: ID, body: BODY }, { keys: readKeys(SECRET, "sign"), nowMs: NOW_MS })[
    "webhook-signature"
  ];
  const [, code = ""] = good.split(",");
  const foreign = `v1,${Buffer.alloc(32, 9).toString("base64")}`;
  const verdict = (signature: unknown, timestamp: unknown = String(seconds)): string => {
    const sent = { id: ID, timestamp, signature, body: Buffer.from(BODY) };
    const verified = verifyMessage(sent, { keys: readKeys(SECRET, "verify"), nowMs: NOW_MS });
    return "problem" in verified ? verified.problem : "good";
  };

  test.each([
    ["as it was signed", good, "good"],
    ["among others", `${foreign} v1a,AAAA ${good}`, "good"],
    ["behind more than are looked at", `${`${foreign} `.repeat(8)}${good}`, "signature"],
    ["of the other scheme", `v1a,${code}`, "signature"],
    ["of a scheme that is in capitals", `V1,${code}`, "signature"],
    ["of no scheme", code, "signature"],
    ["without padding", good.replace(/=+$/, ""), "signature"],
    ["in the other base64", good.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, ""), "signature"],
    ["with a blank behind the comma", `v1, ${code}`, "signature"],
    ["with a line end", `${good}\n`, "signature"],
    ["in part", good.slice(0, -5), "signature"],
    ["in hexadecimal", `v1,${Buffer.from(code, "base64").toString("hex")}`, "signature"],
    ["of nothing", "v1,", "signature"],
    ["too long", `${good} ${"x".repeat(3_000)}`, "unsigned"],
    ["that are two headers", [good], "unsigned"],
  ])("a signature %s", (_, signature, want) => {
    expect(verdict(signature)).toBe(want);
  });

  const at = (timestamp: string): string => {
    const hmac = new Bun.CryptoHasher("sha256", Buffer.alloc(32, 3)).update(`${ID}.${timestamp}.${BODY}`);
    return verdict(`v1,${hmac.digest("base64")}`, timestamp);
  };

  test.each([
    [String(seconds - 300), "good"],
    [String(seconds + 300), "good"],
    [String(seconds - 301), "late"],
    [String(seconds + 301), "late"],
    [`${seconds}.0`, "unsigned"],
    [`+${seconds}`, "unsigned"],
    [` ${seconds}`, "unsigned"],
    [`${seconds}e0`, "unsigned"],
    ["0x6553f100", "unsigned"],
    ["-1", "unsigned"],
    [String(NOW_MS), "unsigned"],
    ["9".repeat(12), "late"],
    ["", "unsigned"],
    ["NaN", "unsigned"],
  ])("the time %j, signed", (timestamp, want) => {
    expect(at(timestamp)).toBe(want);
  });

  test("both halves of a key pair are one key, so our own signatures verify nothing that comes in", () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const raw = (member: "d" | "x") => Buffer.from(privateKey.export({ format: "jwk" })[member] ?? "", "base64url");
    const seed = raw("d");
    const half = Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url");
    const prints = [
      readKeys(`whsk_${seed.toString("base64")}`, "sign"),
      readKeys(`whsk_${Buffer.concat([seed, half]).toString("base64")}`, "sign"),
      readKeys(`whpk_${half.toString("base64")}`, "verify"),
    ].map(([key]) => key?.fingerprint);
    expect(new Set(prints).size).toBe(1);
  });
});
