import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import { AGENTS_SERVERS } from "../http/agents-servers.ts";
import { head, Wire } from "../http/load-stand.ts";
import { callHeaders, type IdentityStand, issuers, startIdentityService } from "../support/identity-service.ts";
import { until } from "../support/until.ts";

/** Calls under way, each until it is let go. */
describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  const waiting: (() => void)[] = [];
  const held = defineTool({
    name: "held",
    description: "Answers when it is let go",
    classification: "read",
    permissions: { required: ["self:read"] },
    input: z.strictObject({}),
    handler: async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push(resolve);
      await promise;
      return { ok: true };
    },
    output: z.strictObject({ ok: z.boolean() }),
    outputPolicy: { ok: "allow" },
  });

  let stand: IdentityStand;
  let port: number;
  let authorization: string;

  beforeAll(async () => {
    stand = await startIdentityService({
      server: { http, allowedHosts: ["tools.example", "[2001:db8::1]"] },
      rest: { tools: [held] },
    });
    port = Number(new URL(stand.service.url).port);
    authorization = `Authorization: ${(await callHeaders())["authorization"]}`;
  });
  afterAll(() => stand.close());

  const NONE = '{"tool":"none","args":{}}';
  const HELD = '{"tool":"held","args":{}}';

  function callOf(body: string, lines: readonly string[] = []): string {
    return head([authorization, `Content-Length: ${body.length}`, ...lines]) + body;
  }

  function letGo(): Promise<void> {
    return until("a call under way", () => waiting.shift()).then((go) => go());
  }

  /** The name in the target counts before the one in `Host` (RFC 9112, 3.2.2); here both have to be ours. */
  test.each([
    ["another name in the target", "http://evil.example/call", "localhost", 403],
    ["another name in the target, with a port", "http://evil.example:8787/call", "localhost", 403],
    ["our name as a user's", "http://localhost@evil.example/call", "localhost", 403],
    ["a user at our name", "http://evil.example@localhost/call", "localhost", 403],
    ["a password at our name", "http://:x@localhost/call", "localhost", 403],
    ["our name in capitals, another behind it", "HTTP://LOCALHOST.evil.example/call", "localhost", 403],
    ["another name in Host", "http://localhost/call", "evil.example", 403],
    ["the same name in both", "http://localhost/call", "localhost", 404],
    ["two names of ours", "http://tools.example:8787/call?x=1", "localhost:8787", 404],
    ["our name in capitals", "HTTP://Tools.Example/call", "tools.example", 404],
    ["the scheme of a proxy in front", "https://tools.example/call", "tools.example", 404],
    ["an address of ours", "http://[2001:db8::1]:8787/call", "[2001:db8::1]:8787", 404],
    ["a path alone", "/call", "tools.example", 404],
  ])("a target of %s", async (_title, target, host, status) => {
    const lines = [`Host: ${host}`, "Content-Type: application/json", authorization, `Content-Length: ${NONE.length}`];
    const wire = new Wire(port).send(
      [`POST ${target} HTTP/1.1`, ...lines, "Connection: close", "", ""].join("\r\n") + NONE,
    );
    await wire.closed;
    expect(wire.statuses).toEqual([status]);
    expect(wire.received).toContain(status === 403 ? '"code":"HOST_NOT_ALLOWED"' : '"code":"TOOL_NOT_FOUND"');
  });

  /** Else it would be taken for the answer to the call that runs. */
  test.each([
    ["garbage", "GARBAGE\0\r\n\r\n"],
    ["two lengths of one body", head(["Content-Length: 3", "Transfer-Encoding: chunked"])],
    ["a header over its limit", head([`X: ${"a".repeat(40_000)}`])],
    ["a body in broken chunks", `${head(["Transfer-Encoding: chunked"])}zz\r\n`],
  ])("%s after a call in progress is answered after it", async (_title, behind) => {
    const wire = new Wire(port).send(callOf(HELD));
    const go = await until("the call under way", () => waiting.shift());
    wire.send(behind);
    await until("it to be met", async () => ((await malformed()) > 0 ? true : undefined));
    expect(wire.received).toBe("");
    go();
    await wire.closed;
    expect(wire.statuses[0]).toBe(200);
    expect(wire.statuses.slice(1)).not.toContain(200);
    expect(wire.statuses).toHaveLength(2);
  });

  test("garbage after a call in the same packet takes nothing from it", async () => {
    const wire = new Wire(port).send(`${callOf(HELD)}GARBAGE\0\r\n\r\n`);
    await letGo();
    await wire.closed;
    expect(wire.statuses).toEqual([200, 400]);
  });

  test("a request that breaks off in its own body is answered at once", async () => {
    const wire = new Wire(port).send(`${head([authorization, "Transfer-Encoding: chunked"])}zz\r\n`);
    await wire.closed;
    expect(wire.statuses).toEqual([400]);
  });

  // Concurrent: each connection lasts the ten seconds that the service grants such a body.
  test.concurrent.each([
    ["/nope", 404],
    ["/healthz", 405],
    ["/tools", 405],
    ["/approvals/x", 404],
  ])("an endless body at %s is not read on", async (path, status) => {
    const wire = new Wire(port).send(head(["Transfer-Encoding: chunked"], path));
    await until("the answer", () => wire.statuses[0]);
    await until("its end", () => {
      wire.send(`1000\r\n${"x".repeat(4_096)}\r\n`);
      return wire.isClosed ? true : undefined;
    });
    expect(wire.statuses).toEqual([status]);
  });

  test("a short unread body costs no connection, and its content is not a request", async () => {
    const inside = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const wire = new Wire(port);
    for (let made = 0; made < 3; made += 1)
      wire.send(`${head([`Content-Length: ${inside.length}`], "/nope")}${inside}`);
    wire.send(inside);
    await until("four answers", () => (wire.statuses.length === 4 ? true : undefined));
    expect(wire.statuses).toEqual([404, 404, 404, 200]);
    wire.end();
  });

  test.each([
    ["OPTIONS /call", "OPTIONS /call HTTP/1.1\r\nAccess-Control-Request-Method: POST", 405],
    ["TRACE /call", "TRACE /call HTTP/1.1", 405],
    ["GET /call", "GET /call HTTP/1.1\r\nX-HTTP-Method-Override: POST", 405],
    ["a path with a dot segment", "POST /x/../call HTTP/1.1", 404],
    ["a path with two slashes", "POST //call HTTP/1.1", 404],
    ["a broken escape", "GET /%zz HTTP/1.1", 404],
  ])("%s is not a route, gives pages no permission, and is counted", async (_title, text, status) => {
    const before = await metric("stc_unknown_routes_total");
    const lines = [authorization, "Host: localhost", "Origin: https://evil.example", "Connection: close"];
    const wire = new Wire(port).send(`${text}\r\n${lines.join("\r\n")}\r\n\r\n`);
    await wire.closed;
    expect(wire.statuses).toEqual([status]);
    expect(wire.received.toLowerCase()).not.toContain("access-control-");
    expect(wire.received).not.toContain("evil.example");
    expect(await metric("stc_unknown_routes_total")).toBe(before + 1);
  });

  let seen = 0;

  /** Connections that were ended for what came over them since the last look. */
  async function malformed(): Promise<number> {
    const total =
      (await metric('stc_connections_ended_total{reason="malformed"}')) +
      (await metric('stc_connections_ended_total{reason="headers_too_large"}'));
    const since = total - seen;
    seen = total;
    return since;
  }

  async function metric(name: string): Promise<number> {
    const token = await issuers.token({ kind: "operator", sub: "operator", permissions: ["metrics:read"] });
    const response = await fetch(`${stand.service.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    const line = (await response.text()).split("\n").find((text) => text.startsWith(`${name} `));
    return Number(line?.slice(name.length) ?? 0);
  }
});
