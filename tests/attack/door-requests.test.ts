import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { AGENTS_SERVERS } from "../http/agents-servers.ts";
import { head, type LoadStand, openLoadStand, Wire, wholeCall } from "../http/load-stand.ts";
import { until } from "../support/until.ts";

describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  let stand: LoadStand;
  let token: string;

  beforeAll(async () => {
    stand = await openLoadStand({ server: { http }, limits: { concurrentCallsMax: 16 }, approvals: true });
    token = await stand.token();
  });
  afterAll(() => stand.close());

  async function exchange(text: string): Promise<Wire> {
    const wire = new Wire(stand.port).send(text);
    await wire.closed;
    return wire;
  }

  function request(line: string, lines: readonly string[] = []): string {
    return [`${line} HTTP/1.1`, "Host: localhost", `Authorization: Bearer ${token}`, ...lines, "", ""].join("\r\n");
  }

  const CLOSE = "Connection: close";

  test.each([
    ["GET /call", "POST"],
    ["QUERY /call", "POST"],
    ["GET /%63all", "POST"],
    ["GET http://localhost/call?x=1", "POST"],
    ["DELETE /tools", "GET"],
    ["POST /tools/load_echo", "GET"],
    ["POST /healthz", "GET, HEAD"],
    ["OPTIONS /openapi.json", "GET, HEAD"],
    ["PATCH /approvals/x", "DELETE, GET"],
    ["GET /approvals/x/decisions", "POST"],
    ["GET /rpc", "POST"],
    ["POST /sessions/x/mode", "PUT"],
    ["PUT /sessions", "GET, POST"],
  ])("%s: another method than the route's gets the allowed ones", async (line, allow) => {
    const { received, statuses } = await exchange(request(line, [CLOSE]));
    expect(statuses).toEqual([405]);
    expect(received).toContain(`\r\nallow: ${allow}\r\n`);
    const error = { code: "METHOD_NOT_ALLOWED", stage: "REQUEST", message: `This route takes ${allow}.` };
    expect(JSON.parse(received.slice(received.indexOf("{")))).toEqual({
      status: "denied",
      error: { ...error, retryable: false },
    });
  });

  test.each([
    "GET /call/",
    "GET //call",
    "GET /CALL",
    "GET /x/../call",
    "GET /%zz",
    "GET /call%2f",
    "GET /approvals/x/y",
  ])("%s is not a route, for any method", async (line) => {
    const { received, statuses } = await exchange(request(line, [CLOSE]));
    expect(statuses).toEqual([404]);
    expect(received).toContain('"code":"ROUTE_NOT_FOUND"');
    expect(received).not.toContain("allow:");
  });

  test.each([
    ["QUERY /nope", [], 404],
    ["QUERY /call", [], 405],
    ["POST /nope", ["Content-Type: /"], 404],
    ["POST /tools", ["Content-Type: x", "Content-Length: 0"], 405],
  ] as const)("%s with the headers %j is decided by the route alone", async (line, lines, status) => {
    const { statuses } = await exchange(request(line, [...lines, CLOSE]));
    expect(statuses).toEqual([status]);
  });

  /** The runtime would answer each with an empty page, and the audit would not know of it. */
  test.each([
    ["no Host", (call: string) => call.replace("Host: localhost\r\n", "")],
    ["an expectation that there is none of", (call: string) => call.replace("\r\n\r\n", "\r\nExpect: 200-ok\r\n\r\n")],
  ])("a call with %s is refused with a message and an audit entry", async (_title, spoil) => {
    const before = stand.audited().length;
    const { received, statuses } = await exchange(spoil(wholeCall(token)));
    expect(statuses).toEqual([400]);
    const answer = JSON.parse(received.slice(received.indexOf("{")));
    expect(answer).toMatchObject({ status: "denied", error: { code: "MALFORMED_REQUEST", stage: "REQUEST" } });
    expect(stand.audited().slice(before)).toMatchObject([{ traceId: answer.traceId, decision: "DENIED" }]);
  });

  test("a client that uses the service as a proxy is refused, after the answers owed before", async () => {
    const { received, statuses } = await exchange(
      `${wholeCall(token)}CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n`,
    );
    expect(statuses).toEqual([200, 405]);
    expect(received).toContain('"code":"METHOD_NOT_ALLOWED"');
  });

  test.each(["/openapi.json", "/healthz", "/tools", "/nope", "/approvals"])(
    "no browser guesses the content type of %s",
    async (path) => {
      const { received } = await exchange(request(`GET ${path}`, [CLOSE]));
      expect(received).toContain("\r\nx-content-type-options: nosniff\r\n");
    },
  );

  /** Of one address, sixteen at once: whoever sends at once is behind the same proxy as whoever does not. */
  test("endless bodies do not block complete ones", async () => {
    const slow = Array.from({ length: 24 }, () =>
      new Wire(stand.port).send(`${head([`Authorization: Bearer ${token}`, "Content-Length: 50"])}{`),
    );
    const refused = () => slow.filter(({ statuses }) => statuses[0] === 429).length;
    await until("the place is full", () => (refused() > 0 ? true : undefined));
    for (let at = 0; at < 5; at += 1) {
      const wire = new Wire(stand.port).send(wholeCall(token));
      expect(await until("an answer", () => wire.statuses[0])).toBe(200);
      wire.end();
    }
    expect(refused()).toBe(8);
    for (const wire of slow) wire.end();
  });
});
