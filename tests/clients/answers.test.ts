import { afterAll, describe, expect, spyOn, test } from "bun:test";
import fc from "fast-check";
import {
  ConnectionError,
  ProtocolError,
  RefusedError,
  SafeToolCallClient,
} from "../../clients/typescript/src/client.ts";

/** Servers that are not the service, or answer in part. */
const servers: { stop(closes?: boolean): unknown }[] = [];
afterAll(() => Promise.all(servers.map((server) => server.stop(true))));

const TOKEN = "eyJhbGciOi.secret.token";

function answering(answer: (request: Request) => Response | Promise<Response>, options: object = {}) {
  const requests: { readonly headers: Headers; readonly path: string }[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      requests.push({ headers: request.headers, path: new URL(request.url).pathname });
      return answer(request);
    },
  });
  servers.push(server);
  const client = new SafeToolCallClient({
    url: `http://127.0.0.1:${server.port}`,
    token: TOKEN,
    retries: 1,
    ...options,
  });
  return { client, requests, url: `http://127.0.0.1:${server.port}` };
}

async function failureOf(work: Promise<unknown>): Promise<ConnectionError> {
  const failure = await work.then(
    (value) => new Error(`no error: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
  if (!(failure instanceof ConnectionError)) throw failure;
  for (const shown of [failure.message, failure.stack ?? "", Bun.inspect(failure), JSON.stringify(failure)]) {
    expect(shown).not.toContain("secret");
  }
  return failure;
}

const success = {
  ...{ status: "success", tool: "a", untrusted: true, result: 1, filteredFields: [], traceId: "t", durationMs: 1 },
};

function refusal(http: number, code: string, more: object = {}, stage = "LIMIT"): Response {
  const error = { code, stage, message: "no", retryable: true, ...more };
  return Response.json({ status: "denied", error, traceId: "t" }, { status: http });
}

describe("an answer that is not the service's", () => {
  test("the error of a source of tokens keeps its class and its stack", async () => {
    class TokenServerDown extends ConnectionError {}
    const token = () => Promise.reject(new TokenServerDown("no answer", { mayHaveRun: false, code: "ECONNREFUSED" }));
    const { client, requests } = answering(() => Response.json(success), { token, retries: 0 });
    const failure = await failureOf(client.call("a"));
    expect(failure).toBeInstanceOf(TokenServerDown);
    expect(failure).toMatchObject({ mayHaveRun: false, code: "ECONNREFUSED" });
    expect(failure.stack).toContain("answers.test.ts");
    expect(requests).toEqual([]);
  });

  test("a redirect is not followed, and nobody else gets the token", async () => {
    const elsewhere = answering(() => Response.json(success));
    const { client, requests } = answering(() => Response.redirect(`${elsewhere.url}/call`, 307));
    const failure = await failureOf(client.call("a"));
    expect(failure).toBeInstanceOf(ProtocolError);
    expect(failure).toMatchObject({ status: 307, mayHaveRun: true });
    expect([requests.length, elsewhere.requests.length]).toEqual([1, 0]);
  });

  test("a proxy's HTML for 502 is repeated under one key; then its status is named", async () => {
    const { client, requests } = answering(() => new Response("<h1>Bad Gateway</h1>", { status: 502 }));
    const failure = await failureOf(client.call("a"));
    expect(failure).toBeInstanceOf(ProtocolError);
    expect(failure).toMatchObject({ status: 502, mayHaveRun: true });
    const keys = requests.map(({ headers }) => headers.get("idempotency-key"));
    expect(keys).toHaveLength(2);
    expect(keys[0]).toBe(keys[1] ?? "");
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  });

  test("HTML for 404 is not repeated", async () => {
    const { client, requests } = answering(() => new Response("<h1>Not Found</h1>", { status: 404 }));
    expect(await failureOf(client.call("a"))).toMatchObject({ name: "ProtocolError", status: 404 });
    expect(requests).toHaveLength(1);
  });

  test("more bytes than an answer can have are not read", async () => {
    const chunk = new Uint8Array(1_048_576).fill(32);
    let sent = 0;
    const body = () =>
      new ReadableStream({
        pull(controller) {
          sent += 1;
          if (sent > 400) controller.close();
          else controller.enqueue(chunk);
        },
      });
    const { client } = answering(() => new Response(body()), { retries: 0 });
    expect(await failureOf(client.call("a"))).toMatchObject({ name: "ProtocolError", status: 200 });
    expect(sent).toBeLessThan(400);
  });

  test("a list of tools or an approval request of another form is an error of the same kind", async () => {
    const { client } = answering(() => Response.json({ tools: 7, approval: [] }));
    expect(await failureOf(client.tools())).toMatchObject({ name: "ProtocolError", mayHaveRun: false });
    expect(await failureOf(client.approval("id-1"))).toMatchObject({ name: "ProtocolError", mayHaveRun: false });
    expect(await failureOf(client.call("a"))).toMatchObject({ name: "ProtocolError", mayHaveRun: true });
  });

  test("an endless answer is read once", async () => {
    const chunk = new Uint8Array(16_777_216).fill(32);
    let requests = 0;
    const fetch = async () => {
      requests += 1;
      return new Response(new ReadableStream({ pull: (controller) => controller.enqueue(chunk) }));
    };
    const client = new SafeToolCallClient({ url: "https://x.test", token: TOKEN, retries: 3, fetch });
    expect(await failureOf(client.waitForApproval("id-1"))).toMatchObject({ name: "ProtocolError", status: 200 });
    expect(requests).toBe(1);
  });

  test("an approval request that is approved and asked for again, over and over, ends the run", async () => {
    const approval = { id: "ap_1", message: "Wait", state: "approved" };
    const { client, requests } = answering(({ method }) =>
      Response.json(method === "GET" ? { approval } : { status: "pending", approval, traceId: "t" }),
    );
    expect(await client.run("a")).toMatchObject({ status: "pending" });
    expect(requests.length).toBeLessThan(30);
  });

  test("an approval request whose id would be another path is no result of a call", async () => {
    const approval = { id: "../call", message: "Wait" };
    const { client, requests } = answering(() => Response.json({ status: "pending", approval, traceId: "t" }));
    expect(await failureOf(client.run("a"))).toMatchObject({ name: "ProtocolError", mayHaveRun: true });
    expect(requests).toHaveLength(1);
  });

  test("whatever bytes come, only the documented errors are thrown", async () => {
    let next = new Response();
    const client = new SafeToolCallClient({ url: "https://x.test", token: TOKEN, retries: 0, fetch: async () => next });
    const json = fc.oneof(
      fc.json(),
      fc.json().map((text) => `{"status":"denied","error":${text}}`),
    );
    const bytes = fc.oneof(fc.uint8Array({ maxLength: 200 }), json, fc.constant("[".repeat(100_000)));
    const status = fc.constantFrom(200, 202, 204, 302, 400, 401, 409, 429, 500, 503);
    await fc.assert(
      fc.asyncProperty(
        bytes,
        status,
        fc.option(fc.string({ unit: "grapheme-ascii" })),
        async (body, status, header) => {
          const headers = header === null ? {} : { "retry-after": header };
          for (const work of [() => client.call("a"), () => client.tools(), () => client.cancelApproval("b")]) {
            next = new Response(status === 204 ? null : (body as string), { status, headers });
            try {
              await work();
            } catch (error) {
              if (!(error instanceof RefusedError)) await failureOf(Promise.reject(error));
            }
          }
        },
      ),
      { seed: Number(process.env["STC_TEST_SEED"] ?? 1) },
    );
  });
});

describe("a lost answer", () => {
  test("cut off in the middle: the same call again, under the same key", async () => {
    let calls = 0;
    const { client, requests } = answering(() => {
      calls += 1;
      return calls === 1 ? new Response('{"status":"success","tool":"a","res') : Response.json(success);
    });
    expect(await client.call("a")).toMatchObject({ status: "success" });
    expect(new Set(requests.map(({ headers }) => headers.get("idempotency-key"))).size).toBe(1);
  });

  test("then a refusal that comes before the service's record: the call may have run, and the error says so", async () => {
    let calls = 0;
    const { client } = answering(() => {
      calls += 1;
      return calls === 1 ? new Response("<p>timeout</p>", { status: 504 }) : refusal(429, "RATE_LIMITED");
    });
    expect(await failureOf(client.call("a"))).toMatchObject({ mayHaveRun: true, code: "RATE_LIMITED", status: 429 });
  });

  test("then the service's own word: it is the answer", async () => {
    let calls = 0;
    const { client } = answering(() => {
      calls += 1;
      if (calls === 1) return new Response("<p>timeout</p>", { status: 504 });
      return refusal(502, "OUTCOME_UNKNOWN", { retryable: false }, "EXECUTION");
    });
    expect(await client.call("a")).toMatchObject({ status: "denied", error: { code: "OUTCOME_UNKNOWN" } });
  });

  test("while the call still runs: CALL_IN_PROGRESS is waited for", async () => {
    let calls = 0;
    const { client } = answering(() => {
      calls += 1;
      return calls < 5 ? refusal(409, "CALL_IN_PROGRESS", { retryAfterMs: 1 }) : Response.json(success);
    });
    expect(await client.call("a")).toMatchObject({ status: "success" });
    expect(calls).toBe(5);
  });

  test("where nothing listens, the call has not run", async () => {
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
    const url = `http://127.0.0.1:${server.port}`;
    await server.stop(true);
    const client = new SafeToolCallClient({ url, token: TOKEN, retries: 1 });
    expect(await failureOf(client.call("a"))).toMatchObject({ mayHaveRun: false, status: undefined });
  });

  test("a service that is silent ends the request in time, even if fetch does not watch the signal", async () => {
    const options = { url: "https://x.test", token: TOKEN, retries: 0, timeoutMs: 20 };
    const client = new SafeToolCallClient({ ...options, fetch: () => new Promise(() => {}) });
    expect(await failureOf(client.call("a"))).toMatchObject({ mayHaveRun: true });
  });
});

describe("waits", () => {
  test("Retry-After of a proxy is waited for", async () => {
    let calls = 0;
    const times: number[] = [];
    const { client } = answering(() => {
      calls += 1;
      times.push(performance.now());
      return calls === 1 ? new Response("", { status: 503, headers: { "retry-after": "1" } }) : Response.json(success);
    });
    expect(await client.call("a")).toMatchObject({ status: "success" });
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(990);
  });

  test("a wait longer than a request may take is left to the caller: the refusal is the result", async () => {
    const { client, requests } = answering(() => refusal(429, "QUOTA_EXCEEDED", { retryAfterMs: 3_600_000 }));
    expect(await client.call("a")).toMatchObject({ error: { code: "QUOTA_EXCEEDED", retryAfterMs: 3_600_000 } });
    expect(requests).toHaveLength(1);
  });

  test("what is not retryable is not repeated, whatever its status", async () => {
    for (const code of ["OUTCOME_UNKNOWN", "AUDIT_UNAVAILABLE", "HALTED", "IDEMPOTENCY_CONFLICT", "TARGET_FAILED"]) {
      const { client, requests } = answering(() => refusal(503, code, { retryable: false, retryAfterMs: 1 }));
      expect(await client.call("a")).toMatchObject({ error: { code } });
      expect([code, requests.length]).toEqual([code, 1]);
    }
  });

  test("an abort ends a wait at once, with the signal's own reason", async () => {
    const { client } = answering(() => refusal(503, "OVERLOADED", { retryAfterMs: 50_000 }));
    const ending = new AbortController();
    const work = client.call("a", {}, { signal: ending.signal });
    setTimeout(() => ending.abort(new RangeError("enough")), 20);
    expect(await work.catch((error: unknown) => error)).toBeInstanceOf(RangeError);
    const aborted = client.waitForApproval("id-1", { signal: AbortSignal.abort() });
    expect(await aborted.catch((error: Error) => error.name)).toBe("AbortError");
  });
});

describe("the list of tools", () => {
  const unavailable = () => new Response("<p>starting</p>", { status: 503 });

  test("is awaited while a proxy says 503, and the service refuses because it stops", async () => {
    const answers = [unavailable(), unavailable(), refusal(503, "OVERLOADED"), refusal(503, "OVERLOADED")];
    const { client, requests } = answering(() => answers.shift() ?? Response.json({ tools: [{ name: "a" }] }));
    expect(await client.tools()).toMatchObject([{ name: "a" }]);
    expect(requests).toHaveLength(5);
  });

  test("fails after 30 s of an outage, and an approval's wait after 300 s", async () => {
    const clock = spyOn(performance, "now");
    try {
      for (const [seconds, ask] of [
        [30, (client: SafeToolCallClient) => client.tools()],
        [300, (client: SafeToolCallClient) => client.waitForApproval("a")],
      ] as const) {
        let nowMs = 0;
        clock.mockImplementation(() => nowMs);
        const { client } = answering(() => {
          nowMs += (seconds * 1_000) / 4;
          return unavailable();
        });
        expect(await failureOf(ask(client))).toMatchObject({ status: 503 });
        expect(nowMs).toBe(seconds * 1_000);
      }
    } finally {
      clock.mockRestore();
    }
  });

  test("fails at once when waiting would not help, or nothing is to be repeated", async () => {
    for (const [answer, options] of [
      [unavailable, { retries: 0 }],
      [() => new Response("<p>no</p>", { status: 404 }), {}],
      [() => refusal(403, "HALTED", { retryable: false }, "PERMISSION"), {}],
      [() => refusal(429, "RATE_LIMITED", { retryAfterMs: 3_600_000 }), {}],
    ] as const) {
      const { client, requests } = answering(answer, options);
      expect(await client.tools().catch((error: unknown) => error)).toBeInstanceOf(Error);
      expect(requests).toHaveLength(1);
    }
  });

  test("is no longer awaited after an abort", async () => {
    const ending = new AbortController();
    const { client, requests } = answering(() => {
      if (requests.length === 3) ending.abort(new RangeError("enough"));
      return unavailable();
    });
    const failure = await client.tools("json", { signal: ending.signal }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(RangeError);
    expect(requests).toHaveLength(3);
  });
});

describe("the token", () => {
  test("is asked for once more after a 401, and no further", async () => {
    let asked = 0;
    const token = () => {
      asked += 1;
      return `token-${asked}`;
    };
    const { client, requests } = answering(() => refusal(401, "UNAUTHENTICATED", { retryable: false }, "AUTH"), {
      token,
    });
    expect(await client.call("a")).toMatchObject({ error: { code: "UNAUTHENTICATED" } });
    expect(requests.map(({ headers }) => headers.get("authorization"))).toEqual(["Bearer token-1", "Bearer token-2"]);
  });

  test("that no header can carry is named without showing it", async () => {
    for (const token of ["", "secret token", "secret\ntoken", "Bearer secret", 7 as unknown as string]) {
      const { client, requests } = answering(() => Response.json(success), { token });
      const failure = await client.call("a").catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(TypeError);
      expect(String(failure)).not.toContain("secret");
      expect(requests).toHaveLength(0);
    }
  });

  test("is not shown when fetch shows it in its own error", async () => {
    const fetch = () => Promise.reject(new Error(`invalid header: Bearer ${TOKEN}`));
    const client = new SafeToolCallClient({ url: "https://x.test", token: TOKEN, retries: 0, fetch });
    expect((await failureOf(client.call("a"))).message).toContain("[token]");
  });
});

describe("the URL of a service", () => {
  const created =
    (url: string, more: object = {}) =>
    () =>
      new SafeToolCallClient({ url, token: TOKEN, ...more });

  test("must not send the token in plain text to another machine, unless that is said", () => {
    for (const url of [
      "http://tools.example",
      "http://10.0.0.7:8787",
      "http://127.0.0.1.evil.example",
      "http://localhost.evil.example",
    ]) {
      expect(created(url)).toThrow("plain text");
      expect(created(url, { allowInsecure: true })).not.toThrow();
    }
    for (const url of ["https://tools.example", "http://localhost:8787", "http://127.0.0.1", "http://[::1]:1"]) {
      expect(created(url)).not.toThrow();
    }
  });

  test("holds nothing but where the service is", () => {
    for (const url of [
      "",
      "tools.example",
      "ftp://x.test",
      "https://a:secret@x.test",
      "https://x.test/?a=1",
      "https://x.test/#a",
    ]) {
      expect(created(url)).toThrow(TypeError);
    }
  });

  test("may have a path, to which the service's own are added", async () => {
    const { url, requests } = answering(() => Response.json({ tools: [] }));
    for (const path of ["/stc", "/stc/"]) await new SafeToolCallClient({ url: `${url}${path}`, token: TOKEN }).tools();
    expect(requests.map(({ path }) => path)).toEqual(["/stc/tools", "/stc/tools"]);
  });
});
