import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Ended, RunningStc, type RunOptions, runStc } from "../support/stc.ts";
import { FIRST, question, SECOND, view } from "../support/terminal-approvals.ts";

/** What a terminal acts upon, line ends apart. */
const STEERING = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/u;
const HOSTILE = "\u001b]52;c;eA==\u0007\u001bP1q\u001b\\\u009b2J\u202e\u200b\u{e0041}\r\n\tapproved";
const NOT_UNDERSTOOD = "this version of stc does not understand the answer of the service\n";
const OTHER_VIEW = "the view does not match its digest: nothing is decided\n";

let folder: string;
let token: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "stc-service-"));
  token = join(folder, "token");
  writeFileSync(token, "operator.token.x\n");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Asked extends Ended {
  readonly requests: readonly string[];
  readonly url: string;
}

/** One command against whatever listens there. */
async function asked(
  args: readonly string[],
  answer: (request: Request) => Response | Promise<Response>,
  options: RunOptions = {},
): Promise<Asked> {
  const requests: string[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      requests.push(`${request.method} ${new URL(request.url).pathname}`);
      return answer(request);
    },
  });
  const url = `http://127.0.0.1:${server.port}`;
  const env = { STC_URL: url, STC_TOKEN_FILE: token, ...options.env };
  const ended = await runStc(args, { ...options, env });
  await server.stop(true);
  expect(ended.out + ended.err).not.toMatch(STEERING);
  expect(ended.err).not.toMatch(/\n\s+at /);
  return { ...ended, requests, url };
}

const html = (status = 200) => new Response("<html>", { status, headers: { "content-type": "text/html" } });
const json = (text: string, status = 200) => new Response(text, { status });
const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
/** A question whose view is this text, with the digest of the ordinary one. */
const withView = (text: string) =>
  json(`{"approval":${JSON.stringify({ ...question(), view: "@" }).replace('"@"', text)}}`);

describe.concurrent("an answer from something other than the service", () => {
  test.each([
    ["another service", () => html(), 2, "is not this service: 200, not JSON"],
    ["a gateway", () => html(502), 2, "is not this service: 502, not JSON"],
    ["somebody who never ends", () => new Response(endless()), 2, "is not this service: more than 67108864 bytes"],
    ["somebody who leads elsewhere", () => Response.redirect("http://127.0.0.1:9/x"), 2, "(UnexpectedRedirect)"],
    ["nothing at all", () => new Response(null), 1, NOT_UNDERSTOOD],
    ["a list of something else", () => json('{"approvals":[{"id":"../x"}]}'), 1, NOT_UNDERSTOOD],
    ["deep JSON", () => json(nested(200_000)), 1, NOT_UNDERSTOOD],
  ] as const)("%s", async (_, answer, code, says) => {
    const ended = await asked(["approvals", "list"], answer);
    expect({ code: ended.code, out: ended.out }).toEqual({ code, out: "" });
    expect(ended.err).toContain(says);
    expect(ended.err.split("\n")).toHaveLength(2);
  });

  test("an endless list is abandoned after as many pages as any service has", async () => {
    const { code, out, requests } = await asked(["approvals", "list"], () => json('{"approvals":[],"cursor":"x"}'));
    expect({ code, requests: requests.length }).toEqual({ code: 0, requests: 50 });
    expect(out).toContain("note: there are more");
  });

  test("a refusal's text cannot control the terminal, and the wrong part of the request is named", async () => {
    const issues = [{ path: "state", message: "not one of pending, approved" }, { path: HOSTILE, message: HOSTILE }, 7];
    const refusal = { status: "denied", error: { code: "MALFORMED_REQUEST", message: HOSTILE, details: { issues } } };
    const { code, err } = await asked(["approvals", "list"], () => Response.json(refusal, { status: 400 }));
    expect(code).toBe(1);
    expect(err).toContain("(state: not one of pending, approved; \\u{1b}]52");
    expect(err.split("\n")).toHaveLength(2);
  });
});

function endless(): ReadableStream<Uint8Array> {
  return new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1_048_576).fill(0x20)) });
}

describe.concurrent("the shown view is the one that is decided", () => {
  test.each([
    ["another question", () => Response.json({ approval: question({ id: SECOND }) }), NOT_UNDERSTOOD],
    [
      "a digest of something else",
      () => Response.json({ approval: question({ viewDigest: "ab".repeat(32) }) }),
      OTHER_VIEW,
    ],
    ["a view without its plan", () => Response.json({ approval: question({ planDigest: undefined }) }), OTHER_VIEW],
    ["a prototype in the view", () => withView('{"command":["ls"],"__proto__":{"command":["rm"]}}'), OTHER_VIEW],
    ["a key twice in the view", () => withView(JSON.stringify(view()).replace("{", '{"command":["ls"],')), undefined],
    ["a line end in the digest", () => Response.json({ approval: question({ viewDigest: HOSTILE }) }), NOT_UNDERSTOOD],
    ["a view deeper than the stack", () => withView(`{"arguments":${nested(100_000)}}`), NOT_UNDERSTOOD],
  ] as const)("%s", async (_, answer, says) => {
    const ended = await asked(["approvals", "approve", FIRST], answer);
    if (says === undefined) return expect(ended.out).toContain('[0] "/usr/bin/ledger"');
    expect(ended).toMatchObject({ code: 1, out: "", err: says, requests: [`GET /approvals/${FIRST}`] });
  });

  test("a view with any key order, unusual letters and numbers works as well", async () => {
    const odd = view({ zeta: { b: 1e21, a: -0.5, "10": "é\u0000", "9": [null, true] }, alpha: HOSTILE });
    const approval = question({ view: odd });
    const { code, out } = await asked(["approvals", "approve", FIRST], () => Response.json({ approval }));
    expect(code).toBe(0);
    expect(out).toContain("zeta:\n");
  });
});

describe.concurrent("a change is reported as done only after it was done", () => {
  test.each([
    ["deny", ["approvals", "deny", FIRST], { approval: question({ id: SECOND, state: "denied" }) }],
    ["revoke", ["approvals", "revoke", FIRST, "--json"], { approval: question({ id: SECOND }) }],
    ["grants revoke", ["grants", "revoke", "g1"], { grant: { id: "g2", revoked: true } }],
    ["grants revoke, of nobody", ["grants", "revoke", "g1"], null],
    ["mode set", ["mode", "set", "s1", "yolo", "--for", "1h"], {}],
    ["mode end", ["mode", "end", "s1", "--json"], { session: { id: "s2" } }],
  ] as const)("%s: the answer is about something else", async (_, args, body) => {
    expect(await asked(args, () => Response.json(body))).toMatchObject({ code: 1, out: "", err: NOT_UNDERSTOOD });
  });

  test.each([
    ["grants revoke", ["grants", "revoke", "g1"], { grant: { id: "g1", revoked: true } }, "revoked: g1\n"],
    ["mode set", ["mode", "set", "s1", "yolo", "--for", "1h"], { session: { id: "s1" } }, "yolo for 3600 s: s1\n"],
    ["mode end", ["mode", "end", `sid:${"a".repeat(128)}`], undefined, `ended: sid:${"a".repeat(128)}\n`],
  ] as const)("%s: the answer is about the request", async (_, args, body, out) => {
    const answer = (request: Request) =>
      Response.json(body ?? { session: { id: decodeURIComponent(new URL(request.url).pathname.split("/")[2] ?? "") } });
    expect(await asked(args, answer)).toMatchObject({ code: 0, out, err: "" });
  });

  test.each([
    ["without a body", () => new Response(null), NOT_UNDERSTOOD],
    ["as a success of status 500", () => json('{"status":"success"}', 500), ""],
  ] as const)("a call that is answered %s has not succeeded", async (_, answer, err) => {
    expect(await asked(["call", "x"], answer)).toMatchObject({ code: 1, err });
  });

  test("a change with a lost answer may have happened; a query with a lost answer is only unanswered", async () => {
    const lost = await asked(["approvals", "deny", FIRST], () => html(504));
    expect(lost).toMatchObject({ code: 2, out: "" });
    expect(lost.err).toEndWith(": the request may or may not have taken effect\n");
    const unread = await asked(["approvals", "list"], () => html(504));
    expect(unread.err).not.toContain("may be done");
    const env = { STC_URL: "http://127.0.0.1:1", STC_TOKEN_FILE: token };
    const refused = await runStc(["approvals", "deny", FIRST], { env });
    expect(refused).toEqual({ code: 2, out: "", err: "no answer from http://127.0.0.1:1 (ECONNREFUSED)\n" });
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("%s while the service works", async (signal, code) => {
    const come = Promise.withResolvers<void>();
    const never = Promise.withResolvers<Response>();
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch() {
        come.resolve();
        return never.promise;
      },
    });
    const env = { STC_URL: `http://127.0.0.1:${server.port}`, STC_TOKEN_FILE: token };
    const stc = new RunningStc(["approvals", "deny", FIRST], { env });
    await come.promise;
    expect(await stc.end(signal)).toBe(code);
    never.resolve(new Response());
    await server.stop(true);
    expect(stc.err).toBe(`${signal}: the request may or may not have taken effect\n`);
  });
});

describe.concurrent("the service's address, and what is sent to it", () => {
  const list = () => json('{"approvals":[]}');

  test("a path in its address is a gateway's", async () => {
    const reached: string[] = [];
    const answer = ({ url }: Request): Response => {
      reached.push(new URL(url).pathname);
      return list();
    };
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: answer });
    const env = { STC_URL: "", STC_TOKEN_FILE: token };
    const gateway = new URL("/stc/", server.url).href;
    expect(await runStc(["approvals", "list", "--url", gateway], { env })).toMatchObject({ code: 0 });
    expect(await runStc(["health", "--url", gateway], { env })).toMatchObject({ code: 0 });
    await server.stop(true);
    expect(reached).toEqual(["/stc/approvals", "/stc/healthz"]);
  });

  test.each([
    "http://anna:geheim@127.0.0.1:9/",
    "http://geheim@127.0.0.1:9/",
    "http://127.0.0.1:9/?x=1",
    "http://127.0.0.1:9/#x",
    "ftp://127.0.0.1:9/",
    "unix:",
    "127.0.0.1:9",
    "",
  ])("%p is not an address", async (url) => {
    for (const args of [["approvals", "list"], ["health"]]) {
      const env = { STC_TOKEN_FILE: token };
      const { code, out, err } = await runStc([...args, "--url", url], { env });
      expect({ code, out }).toEqual({ code: 64, out: "" });
      expect(err).toMatch(/address/);
      expect(err).not.toContain("geheim");
    }
  });

  test("an empty address counts as not set", async () => {
    const { code, err } = await runStc(["approvals", "list"], { env: { STC_URL: "", STC_TOKEN_FILE: "/dev/null" } });
    expect({ code, err }).toEqual({ code: 64, err: "no token: /dev/null is empty or cannot be read\n" });
  });

  test.each([
    ["two words", "a b"],
    ["a header", "Bearer a.b.c"],
    ["two lines", "a.b.c\nd.e.f"],
    ["more than a token", "a".repeat(70_000)],
    ["letters of no token", "ä.b.c"],
  ])("a file that contains %s contains no token", async (_, text) => {
    const file = join(folder, `token-${text.length}`);
    writeFileSync(file, text);
    const { code, err, requests } = await asked(["approvals", "list", "--token-file", file], list);
    expect({ code, requests: [...requests] }).toEqual({ code: 64, requests: [] });
    expect(err).toBe(`no token: ${file} must contain one word, without "Bearer"\n`);
  });

  test("an endless device is not read to its end", async () => {
    const { code } = await asked(["approvals", "list", "--token-file", "/dev/zero"], list);
    expect(code).toBe(64);
  });

  test("a token from standard input, and one surrounded by whitespace", async () => {
    const spaced = join(folder, "spaced");
    writeFileSync(spaced, "\ufeff  a.b.c \r\n\n");
    const shown: (string | null)[] = [];
    const answer = (request: Request): Response => {
      shown.push(request.headers.get("authorization"));
      return list();
    };
    await asked(["approvals", "list", "--token-file", "-"], answer, { stdin: "a.b.c\n" });
    await asked(["approvals", "list", "--token-file", spaced], answer);
    expect(shown).toEqual(["Bearer a.b.c", "Bearer a.b.c"]);
  });

  test("no proxy of the environment gets a token without TLS, or local requests", async () => {
    const taken: string[] = [];
    const proxy = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(request) {
        taken.push(request.url);
        return list();
      },
    });
    const names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"];
    const env = Object.fromEntries(names.map((name) => [name, proxy.url.origin]));
    expect(await asked(["approvals", "list"], list, { env })).toMatchObject({ code: 0, requests: ["GET /approvals"] });
    expect(await asked(["health"], list, { env })).toMatchObject({ code: 0, requests: ["GET /healthz"] });
    const away = { ...env, STC_TOKEN_FILE: token };
    for (const url of ["http://stc.invalid:1", "https://127.0.0.1:1", "unix:/nowhere/stc.sock"]) {
      expect((await runStc(["approvals", "list", "--url", url], { env: away })).code).toBe(2);
    }
    await proxy.stop(true);
    expect(taken).toEqual([]);
  });
});
