import { afterEach, describe, expect, test } from "bun:test";
import { until } from "../../support/until.ts";
import { bodyOf, LIMITS, openFront, RawClient, text } from "./front-stand.ts";

const HOST = "Host: localhost\r\n";
const get = (path: string, lines = ""): string => `GET ${path} HTTP/1.1\r\n${HOST}${lines}\r\n`;
const post = (path: string, body: string, lines = ""): string =>
  `POST ${path} HTTP/1.1\r\n${HOST}${lines}Content-Length: ${body.length}\r\n\r\n${body}`;

const closings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(closings.splice(0).map((close) => close()));
});

async function stand(...parts: Parameters<typeof openFront>) {
  const opened = await openFront(...parts);
  const clients: RawClient[] = [];
  closings.push(() => {
    for (const { socket } of clients) socket.destroy();
    return opened.front.close();
  });
  const client = (options?: { readonly reads?: boolean }): RawClient => {
    const one = new RawClient(opened.port, options);
    clients.push(one);
    return one;
  };
  return { ...opened, client };
}

describe("the order of answers", () => {
  test("requests that are sent at once are answered at the same time, and in their order", async () => {
    const first = Promise.withResolvers<void>();
    const asked: string[] = [];
    const { client } = await stand({
      "/slow": async () => {
        asked.push("slow");
        await first.promise;
        return text("slow");
      },
      "/quick": () => {
        asked.push("quick");
        return text("quick");
      },
    });
    const one = client().send(get("/slow") + get("/quick") + get("/quick"));
    await until("all requests", () => (asked.length === 3 ? true : undefined));
    expect(one.received).toBe("");
    first.resolve();
    await until("all answers", () => (one.statuses.length === 3 ? true : undefined));
    expect(one.received.replace(/HTTP[\s\S]*?\r\n\r\n/g, "|")).toBe("|slow|quick|quick");
  });

  test("at most 64 requests of a connection are answered at the same time; all get their answer", async () => {
    const hold = Promise.withResolvers<void>();
    let asked = 0;
    const { client } = await stand({
      "/held": async () => {
        asked += 1;
        await hold.promise;
        return text("ok");
      },
    });
    const one = client().send(get("/held").repeat(100));
    await until("64 requests", () => (asked === 64 ? true : undefined));
    expect((await client().send(get("/none")).has("404")) && asked).toBe(64);
    hold.resolve();
    await until("all answers", () => (one.statuses.length === 100 ? true : undefined));
  });

  test("what is not a request is answered after the requests before it", async () => {
    const first = Promise.withResolvers<void>();
    const { client, front } = await stand({
      "/slow": async () => {
        await first.promise;
        return text("slow");
      },
    });
    expect(front.isClosing).toBe(false);
    const one = client().send(`${get("/slow")}GARBAGE\r\n\r\n`);
    expect(await client().send(get("/none")).has("404")).toBe(true);
    expect(one.received).toBe("");
    first.resolve();
    await one.ended();
    expect(one.statuses).toEqual([200, 400]);
  });

  test("what follows a request that asks to close is ignored", async () => {
    const { client } = await stand({ "/": () => text("ok") });
    const one = client().send(`${get("/", "Connection: close\r\n") + get("/")}GARBAGE\r\n\r\n`);
    await one.ended();
    expect(one.statuses).toEqual([200]);
  });
});

describe("bodies", () => {
  test("a body is passed on as it arrives, with a length and in chunks", async () => {
    const { client } = await stand({ "/echo": async (exchange) => text(await bodyOf(exchange)) });
    const one = client().send(`POST /echo HTTP/1.1\r\n${HOST}Content-Length: 6\r\n\r\nab`);
    one.send("cd");
    one.send("ef");
    await one.has("abcdef");
    one.send(`POST /echo HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n3\r\nghi\r\n`);
    one.send("2\r\njk\r\n0\r\n\r\n");
    await one.has("ghijk");
    expect(one.statuses).toEqual([200, 200]);
  });

  test("a body that nobody reads is not kept in memory: its client waits", async () => {
    const go = Promise.withResolvers<void>();
    const { client } = await stand({
      "/later": async (exchange) => {
        await go.promise;
        return text(String((await bodyOf(exchange)).length));
      },
    });
    const size = 64 * 1_048_576;
    const one = client();
    one.socket.write(`POST /later HTTP/1.1\r\n${HOST}Content-Length: ${size}\r\n\r\n`);
    one.socket.write(Buffer.alloc(size));
    expect(await client().send(get("/none")).has("404")).toBe(true);
    // Far more than the buffers of both systems hold is still with the client.
    expect(one.socket.writableLength).toBeGreaterThan(0);
    go.resolve();
    await one.has(String(size));
  });

  test("a body that the endpoint does not read is dropped, and the next request is answered", async () => {
    const { client } = await stand({ "/ignore": () => text("ignored"), "/": () => text("next") });
    const one = client().send(post("/ignore", "x".repeat(60_000)) + get("/"));
    await one.has("next");
    expect(one.statuses).toEqual([200, 200]);
  });
});

describe("clients that leave", () => {
  test("a client that half-closes its connection gets its answer, and its end is noticed", async () => {
    const go = Promise.withResolvers<void>();
    let noticed = false;
    const { client } = await stand({
      "/slow": async (exchange) => {
        exchange.listen(() => {
          noticed = true;
        });
        await go.promise;
        return text("late");
      },
    });
    const one = client();
    one.socket.end(get("/slow"));
    await until("the end to be noticed", () => noticed || undefined);
    go.resolve();
    await one.ended();
    expect(one.received).toContain("late");
  });

  test("a client that disconnects is noticed once, and its request's body is given up", async () => {
    const seen: string[] = [];
    const { client } = await stand({
      "/held": (exchange) => {
        exchange.listen(() => seen.push(exchange.disconnected ? "disconnected" : "still there"));
        return new Promise(() => {});
      },
      "/body": (exchange) => {
        exchange.raw.on("close", () => seen.push("body given up"));
        return new Promise(() => {});
      },
    });
    const one = client().send(get("/held"));
    const two = client().send(`POST /body HTTP/1.1\r\n${HOST}Content-Length: 9\r\n\r\nabc`);
    expect(await client().send(get("/none")).has("404")).toBe(true);
    one.socket.destroy();
    two.socket.resetAndDestroy();
    await until("both", () => (seen.length === 2 ? true : undefined));
    expect(seen.sort()).toEqual(["body given up", "disconnected"]);
  });

  test("a request that is cut off is refused", async () => {
    const { client } = await stand({ "/": () => text("ok") });
    for (const part of ["GET / HT", `POST / HTTP/1.1\r\n${HOST}Content-Length: 9\r\n\r\nabc`]) {
      const one = client();
      one.socket.end(part);
      await one.ended();
      expect(one.statuses.at(-1)).toBe(part.startsWith("GET") ? 400 : 200);
    }
  });
});

describe("answers", () => {
  test("an answer larger than the system takes at once arrives whole", async () => {
    const body = "0123456789".repeat(3_000_000);
    const { client } = await stand({
      "/text": () => text(body),
      "/bytes": () => ({ ...text(""), body: Buffer.from(body) }),
    });
    for (const path of ["/text", "/bytes"]) {
      const one = client({ reads: false }).send(get(path, "Connection: close\r\n"));
      expect(await client().send(get("/none")).has("404")).toBe(true);
      one.read();
      await one.ended();
      const [head = "", received] = one.received.split("\r\n\r\n");
      expect(head).toContain(`content-length: ${body.length}`);
      expect(received === body).toBe(true);
    }
  });

  test("characters beyond ASCII are UTF-8 in the body and Latin-1 in the head", async () => {
    const { client } = await stand({ "/": () => text("für 日本", { "x-name": "für" }) });
    const one = client().send(get("/", "Connection: close\r\n"));
    await one.ended();
    expect(one.received).toContain("x-name: f\u00fcr\r\n");
    expect(Buffer.from(one.received.split("\r\n\r\n")[1] ?? "", "latin1").toString()).toBe("für 日本");
  });

  test("HEAD has the head of GET and no body", async () => {
    const { client } = await stand({ "/": () => text("ok") });
    const one = client().send(`HEAD / HTTP/1.1\r\n${HOST}\r\n${get("/none")}`);
    await one.has("404");
    expect(one.received).toMatch(/content-length: \d+\r\n[\s\S]*\r\n\r\nHTTP\/1\.1 404/);
  });

  test("a header that cannot be sent is an error of the service, never a second header", async () => {
    const { client, errors } = await stand({ "/": () => text("ok", { "x-name": "a\r\nset-cookie: b" }) });
    const one = client().send(get("/", "Connection: close\r\n"));
    await one.ended();
    expect(one.statuses).toEqual([500]);
    expect(one.received).not.toContain("set-cookie");
    expect(errors).toHaveLength(1);
  });

  test("a stream is sent in chunks, and as it is to a client of HTTP/1.0", async () => {
    const stream = async (client: { write(part: string): boolean; end(): void }): Promise<void> => {
      client.write("one ");
      client.write("two");
      client.end();
    };
    const { client } = await stand({ "/": () => ({ status: 200, headers: {}, stream }) });
    const modern = client().send(get("/"));
    await modern.ended();
    expect(modern.received).toEndWith("\r\n\r\n4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n");
    const old = client().send(`GET / HTTP/1.0\r\n${HOST}\r\n`);
    await old.ended();
    expect(old.received).toEndWith("\r\n\r\none two");
    expect(old.received).not.toContain("chunked");
  });
});

describe("limits", () => {
  test("a connection too many is told so when it sends a request, and only that one", async () => {
    const { client } = await stand({ "/": () => text("ok") });
    const clients = Array.from({ length: LIMITS.connectionsPerSourceMax }, () => client().send(get("/")));
    await Promise.all(clients.map((one) => one.has("200 OK")));
    const late = client().send(get("/"));
    await late.ended();
    expect(late.statuses).toEqual([503]);
    expect(late.received).toContain("Too many connections from your address.");
    expect(late.received).toContain("retry-after: 1");
    clients[0]?.socket.destroy();
    await until("room", async () => {
      const next = client().send(get("/"));
      await until("an answer", () => (next.statuses.length > 0 ? true : undefined));
      return next.statuses[0] === 200 ? true : undefined;
    });
  });

  test.each([
    ["too many headers", get("/", "X: a\r\n".repeat(300)), 431],
    ["a head over the limit", get("/", `X: ${"a".repeat(20_000)}\r\n`), 431],
    ["white space that never ends", `GET / HTTP/1.1\r\nX:${" ".repeat(30_000)}`, 431],
    ["a target over the limit", get(`/${"a".repeat(20_000)}`), 431],
    ["two spaces before the target", get("/").replace(" /", "  /"), 400],
    ["two spaces before the version", get("/").replace(" HTTP", "  HTTP"), 400],
    ["the asterisk", get("*"), 400],
    ["a target without a slash", get("call"), 400],
    ["HTTP/0.9", "GET /\r\n\r\n", 400],
    ["HTTP/1.2", get("/").replace("1.1", "1.2"), 400],
    ["RTSP", "DESCRIBE / RTSP/1.0\r\n\r\n", 400],
    ["a TLS greeting", "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003", 400],
    ["CONNECT", "CONNECT a:1 HTTP/1.1\r\n\r\n", 405],
    ["chunks over HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400],
  ] as const)("%s is refused and the connection ends", async (_name, bytes, status) => {
    const { client } = await stand({ "/": () => text("ok") });
    const one = client().send(bytes);
    await one.ended();
    expect(one.statuses).toEqual([status]);
    expect(one.received).toContain("connection: close");
  });

  test.each([
    ["many headers", get("/", "X: a\r\n".repeat(150))],
    ["a head just below the limit", get("/", `X: ${"a".repeat(16_000)}\r\n`)],
    ["an empty line before the request", `\r\n${get("/")}`],
    ["an empty header", get("/", "X:\r\n")],
    ["a whole URL of this host", get("http://localhost/")],
    [
      "an offer of HTTP/2",
      get("/", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
    ],
    ["a query", get("/?a=b&c=%20")],
  ] as const)("%s is answered", async (_name, bytes) => {
    const { client } = await stand({ "/": () => text("ok") });
    const one = client().send(bytes).send(get("/"));
    await until("both answers", () => (one.statuses.length === 2 ? true : undefined));
    expect(one.statuses).toEqual([200, 200]);
  });

  test("an endpoint that throws costs its own request a 500", async () => {
    const { client, errors } = await stand({
      "/": () => {
        throw new Error("broken");
      },
    });
    const one = client().send(get("/") + get("/none"));
    await one.has("404");
    expect(one.statuses).toEqual([500, 404]);
    expect(errors).toHaveLength(1);
  });
});

test("an escaped slash separates no segments", async () => {
  const { client } = await stand({ "/a/b": () => text("found"), "/c": () => text("found") });
  for (const [path, found] of [
    ["/a/b", true],
    ["/%61/%62", true],
    ["/a%2Fb", false],
    ["/a%2fb", false],
    ["http://localhost/a%2Fb", false],
    ["/%2Fc", false],
  ] as const) {
    const one = client().send(get(path, "Connection: close\r\n"));
    await one.ended();
    expect([path, one.received.includes("found")]).toEqual([path, found]);
  }
});

test("routes are found by decoded segments; an invalid escape or an overlong parameter is an unknown route", async () => {
  const { client } = await stand({ "/a/:id": ({ params, query }) => text(JSON.stringify([params, query])) });
  const answer = async (path: string): Promise<string> => {
    const one = client().send(get(path, "Connection: close\r\n"));
    await one.ended();
    return one.received.split("\r\n\r\n")[1] ?? "";
  };
  expect(await answer("/a/b%2Fc?x=1&x=2&y=%41+b")).toBe('[{"id":"b/c"},{"x":["1","2"],"y":"A b"}]');
  expect(await answer("/%61/b#c")).toBe('[{"id":"b"},{}]');
  expect(await answer(`/a/${"b".repeat(160)}`)).toContain("bbb");
  for (const path of ["/a/%zz", `/a/${"b".repeat(161)}`, "/a/b/c", "/A/b"]) {
    expect(await answer(path)).toContain("ROUTE_NOT_FOUND");
  }
});
