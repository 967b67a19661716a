import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { connect, createServer, type Server, type Socket } from "node:net";
import { makeCertificates } from "../../src/cli/development/certificates.ts";
import { EgressClient, type EgressOptions } from "../../src/egress/client.ts";
import { inTurn } from "../../src/egress/dial.ts";
import { EgressError, type EgressRequest } from "../../src/egress/request.ts";
import { RawServer } from "../support/raw-server.ts";
import { until } from "../support/until.ts";

const OK = "HTTP/1.1 200 OK\r\n";
const EMPTY = `${OK}content-length: 0\r\n\r\n`;

let server: RawServer;
let client: EgressClient;
beforeEach(async () => {
  server = await RawServer.start();
  client = clientOf();
});
afterEach(() => {
  client.close();
  server.close();
});

function clientOf(options: Partial<EgressOptions> = {}): EgressClient {
  return new EgressClient({ addresses: { classes: ["loopback"] }, resolve: async () => ["127.0.0.1"], ...options });
}

function requestOf(more: Partial<EgressRequest> = {}): EgressRequest {
  const url = new URL(`http://service.test:${server.port}/x`);
  return { method: "GET", url, bodyBytesMax: 100_000_000, isRepeatable: true, timeoutMs: 20_000, ...more };
}

async function failureOf(sending: Promise<unknown>): Promise<EgressError> {
  const error: unknown = await sending.catch((thrown: unknown) => thrown);
  if (error instanceof EgressError) return error;
  throw new Error(`expected a failure, got ${String(error)}`);
}

/** A server that reads and answers as a test says, on a loopback port. */
async function serverOf(accept: (socket: Socket) => void): Promise<Server & { readonly port: number }> {
  const raw = createServer((socket) => accept(socket.on("error", () => {})));
  await new Promise<void>((resolve) => raw.listen(0, "127.0.0.1", resolve));
  const address = raw.address();
  return Object.assign(raw, { port: typeof address === "object" && address !== null ? address.port : 0 });
}

describe("addresses of a name", () => {
  test("the next one is tried when nothing listens at one", async () => {
    client = clientOf({ resolve: async () => ["127.0.0.3", "127.0.0.2", "127.0.0.1"] });
    expect((await client.send(requestOf())).status).toBe(200);
    expect([server.connections, client.connections]).toEqual([1, 1]);
  });

  test.each([
    [
      ["1.1.1.1", "1.1.1.2", "::1", "::2", "::3"],
      ["1.1.1.1", "::1", "1.1.1.2", "::2", "::3"],
    ],
    [
      ["::1", "::2", "::3", "1.1.1.1"],
      ["::1", "1.1.1.1", "::2", "::3"],
    ],
    [
      ["1.1.1.1", "1.1.1.2"],
      ["1.1.1.1", "1.1.1.2"],
    ],
    [["::1"], ["::1"]],
    [[], []],
  ])("of both families are tried in turn: %j", (addresses, order) => {
    expect(inTurn(addresses)).toEqual(order);
  });

  test("the failure is the first one's when none accepts", async () => {
    client = clientOf({ resolve: async () => ["127.0.0.3", "127.0.0.2"] });
    expect(await failureOf(client.send(requestOf()))).toMatchObject({
      ...{ failure: "unreachable", sent: false, message: "no connection (ECONNREFUSED)" },
    });
    expect(client.connections).toBe(0);
  });
});

describe("a request", () => {
  test.each(["a\r\nx: y", "a\nb", "a\0b", "\u0100"])("with the header value %j is not sent", async (value) => {
    const sending = client.send(requestOf({ headers: { "x-a": value } }));
    await expect(sending).rejects.toThrow(TypeError);
    expect(server.connections).toBe(0);
  });

  test.each(["a b", "a:", "a\r\n", ""])("with the header name %j is not sent", async (name) => {
    await expect(client.send(requestOf({ headers: { [name]: "x" } }))).rejects.toThrow(TypeError);
    expect(server.connections).toBe(0);
  });

  test("with bytes beyond ASCII in a header is sent as it is", async () => {
    await client.send(requestOf({ headers: { "x-a": "é ÿ\t," } }));
    expect(server.requests[0]?.text).toContain("x-a: é ÿ\t,\r\n");
  });

  test("cannot replace the headers that the client sets", async () => {
    const headers = { Host: "evil.test", "content-length": "9", connection: "x", "transfer-encoding": "chunked" };
    await client.send(requestOf({ method: "POST", body: "ab", headers }));
    const [, ...lines] = (server.requests[0]?.text ?? "").split("\r\n\r\n")[0]?.toLowerCase().split("\r\n") ?? [];
    expect(lines.sort()).toEqual([
      "accept-encoding: identity",
      "connection: keep-alive",
      "content-length: 2",
      `host: service.test:${server.port}`,
      "user-agent: safe-tool-call",
    ]);
  });

  test("is announced once, when it is about to be written", async () => {
    const seen: number[] = [];
    const onSend = (): void => void seen.push(server.requests.length);
    for (let count = 0; count < 3; count += 1) await client.send(requestOf({ onSend }));
    expect([seen, server.connections]).toEqual([[0, 1, 2], 1]);
  });

  test.each(["new", "used"])("whose announcement fails on a %s connection is not sent", async (connection) => {
    if (connection === "used") await client.send(requestOf());
    const before = server.requests.length;
    const reason = new Error("not now");
    const onSend = (): void => {
      throw reason;
    };
    const failure = await failureOf(client.send(requestOf({ onSend })));
    expect(failure).toMatchObject({ failure: "aborted", sent: false, cause: reason });
    expect((await client.send(requestOf())).status).toBe(200);
    expect(server.requests).toHaveLength(before + 1);
  });

  test("with a large body arrives whole at a server that reads slowly", async () => {
    const body = Buffer.alloc(12_000_000, "0123456789");
    const slow = await serverOf((socket) => {
      const parts: Buffer[] = [];
      let length = 0;
      socket.on("data", (part) => {
        parts.push(Buffer.from(part));
        length += part.length;
        socket.pause();
        setImmediate(() => socket.resume());
        const all = length > body.length ? Buffer.concat(parts) : undefined;
        const start = (all?.indexOf("\r\n\r\n") ?? 0) + 4;
        if (all === undefined || all.length < start + body.length) return;
        const same = all.subarray(start).equals(body);
        socket.write(`${OK}content-length: 4\r\n\r\n${same ? "same" : "else"}`);
      });
    });
    const url = new URL(`http://service.test:${slow.port}/`);
    const answer = await client.send(requestOf({ method: "POST", url, body }));
    expect([answer.body.toString(), client.connections]).toEqual(["same", 1]);
    slow.close();
  });

  test("is answered before it is whole, and its connection is not used again", async () => {
    let connections = 0;
    const early = await serverOf((socket) => {
      connections += 1;
      socket.once("data", () => {
        socket.pause();
        socket.write("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno");
      });
    });
    const url = new URL(`http://service.test:${early.port}/`);
    for (const count of [1, 2]) {
      const answer = await client.send(requestOf({ method: "POST", url, body: Buffer.alloc(20_000_000) }));
      expect([answer.status, answer.body.toString(), connections]).toEqual([413, "no", count]);
      expect(client.connections).toBe(0);
    }
    early.close();
  });
});

describe("a limited number of connections", () => {
  test("is not exceeded, and further requests wait in order", async () => {
    client = clientOf({ connectionsMax: 2 });
    server.answer = async ({ socket }) => {
      await new Promise(setImmediate);
      socket.write(EMPTY);
    };
    const ended: number[] = [];
    const all = Array.from({ length: 9 }, (_, index) => client.send(requestOf()).then(() => void ended.push(index)));
    await Promise.all(all);
    expect(ended).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    expect([server.connections, client.connections]).toEqual([2, 2]);
  });

  test("holds when connections end, and a request that has stopped waiting is not sent", async () => {
    client = clientOf({ connectionsMax: 1 });
    server.answer = ({ socket }) => void socket.end(`${OK}connection: close\r\ncontent-length: 0\r\n\r\n`);
    const controller = new AbortController();
    const first = client.send(requestOf());
    const stopped = failureOf(client.send(requestOf({ signal: controller.signal })));
    const last = client.send(requestOf());
    controller.abort(new Error("stop"));
    expect(await stopped).toMatchObject({ failure: "aborted", sent: false });
    expect([(await first).status, (await last).status]).toEqual([200, 200]);
    expect([server.requests.length, server.connections]).toEqual([2, 2]);
  });

  test("a waiting request is not sent on a connection that ends with the answer before", async () => {
    client = clientOf({ connectionsMax: 1 });
    server.answer = ({ socket }) => void socket.end(EMPTY);
    const all = await Promise.all(Array.from({ length: 20 }, () => client.send(requestOf({ isRepeatable: false }))));
    expect(all.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect([server.requests.length, server.connections]).toEqual([20, 20]);
  });

  test("waiting requests are sent after one that finds no server", async () => {
    const answers = [["127.0.0.2"], ["127.0.0.1"]];
    client = clientOf({ connectionsMax: 1, resolve: async () => answers.shift() ?? [] });
    const [first, second] = [failureOf(client.send(requestOf())), client.send(requestOf())];
    expect(await first).toMatchObject({ failure: "unreachable" });
    expect((await second).status).toBe(200);
  });

  test("attempts that nobody waits for are bounded", async () => {
    let isHanging = true;
    client = clientOf({ resolve: () => (isHanging ? new Promise(() => {}) : Promise.resolve(["127.0.0.1"])) });
    for (let count = 0; count < 256; count += 1) {
      const controller = new AbortController();
      const failure = failureOf(client.send(requestOf({ signal: controller.signal })));
      controller.abort();
      await failure;
    }
    isHanging = false;
    expect(await failureOf(client.send(requestOf()))).toMatchObject({
      ...{ failure: "unreachable", sent: false, message: "no connection (ETIMEDOUT)" },
    });
    // Those of another server are not affected.
    const url = new URL(`http://other.test:${server.port}/`);
    expect((await client.send(requestOf({ url }))).status).toBe(200);
  });
});

describe("a connection that is being made when its request is given up", () => {
  /** A server and a relay before it, which passes nothing on until it is opened. */
  const closedRelay = async () => {
    const { rootCert, server: own } = await makeCertificates({
      ...{ notBefore: new Date(0), notAfter: new Date("2099-01-01T00:00:00Z") },
    });
    const secured = await RawServer.start({ ...own });
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    let connections = 0;
    const relay = await serverOf(async (socket) => {
      connections += 1;
      await opened;
      const onward = connect(secured.port, "127.0.0.1").on("error", () => {});
      socket.pipe(onward).pipe(socket);
    });
    const url = new URL(`https://localhost:${relay.port}/`);
    const giveUp = async (): Promise<void> => {
      const controller = new AbortController();
      const sending = failureOf(client.send(requestOf({ url, signal: controller.signal })));
      await until("the connection", () => connections > 0 || undefined);
      controller.abort();
      expect(await sending).toMatchObject({ failure: "aborted", sent: false });
    };
    const close = (): void => {
      client.close();
      secured.close();
      relay.close();
    };
    return { tls: { rootCert: Buffer.from(rootCert) }, url, giveUp, open, close, connections: () => connections };
  };

  test("serves the next request, and those that wait", async () => {
    const { tls, url, giveUp, open, close, connections } = await closedRelay();
    client = clientOf({ tls, keepsUnfinished: true, connectionsMax: 1 });
    await giveUp();
    const controller = new AbortController();
    const next = failureOf(client.send(requestOf({ url, signal: controller.signal })));
    const waiting = client.send(requestOf({ url }));
    controller.abort();
    expect(await next).toMatchObject({ failure: "aborted", sent: false });
    open();
    expect((await waiting).status).toBe(200);
    expect([connections(), client.connections]).toEqual([1, 1]);
    close();
  });

  test("is kept unused, and closed with the client", async () => {
    const { tls, url, giveUp, open, close, connections } = await closedRelay();
    client = clientOf({ tls, keepsUnfinished: true });
    await giveUp();
    expect(client.connections).toBe(1);
    open();
    expect((await client.send(requestOf({ url }))).status).toBe(200);
    expect(connections()).toBe(1);
    client.close();
    expect(client.connections).toBe(0);
    close();
  });

  test("is closed without keepsUnfinished", async () => {
    const { tls, giveUp, close } = await closedRelay();
    client = clientOf({ tls });
    await giveUp();
    expect(client.connections).toBe(0);
    close();
  });
});

describe("an unused connection", () => {
  test.each([
    ["an answer that nobody asked for", `${OK}content-length: 4\r\n\r\nevil`],
    ["a part of one", "H"],
    ["an empty line", "\r\n"],
  ])("ends when the server sends %s", async (_title, bytes) => {
    await client.send(requestOf());
    server.requests[0]?.socket.write(bytes);
    await until("the connection is closed", () => client.connections === 0 || undefined);
    expect((await client.send(requestOf())).body.toString()).toBe("ok");
    expect(server.connections).toBe(2);
  });

  test.each(["waits", "is sent at once"])("a second answer does not answer the next request, which %s", async (how) => {
    client = clientOf(how === "waits" ? { connectionsMax: 1 } : {});
    const evil = (): unknown => server.requests[0]?.socket.write(`${OK}content-length: 4\r\n\r\nevil`);
    const first = client.send(requestOf()).then(evil);
    if (how === "is sent at once") await first;
    const next = await client.send(requestOf({ isRepeatable: true }));
    expect(next.body.toString()).toBe("ok");
    expect([server.requests.length, server.connections]).toEqual([2, 2]);
  });

  test("ends when the server ends it", async () => {
    await client.send(requestOf());
    server.requests[0]?.socket.end();
    await until("the connection is closed", () => client.connections === 0 || undefined);
    expect((await client.send(requestOf())).status).toBe(200);
  });

  test.each([
    ["timeout=0", 2],
    ["timeout=1", 2],
    ["timeout=5", 1],
    ["timeout=5, max=100", 1],
    ["max=100", 1],
    ["timeout=999999999999", 1],
  ])("is used as long as the server keeps it: %s", async (hint, connections) => {
    server.answer = () => `${OK}keep-alive: ${hint}\r\ncontent-length: 0\r\n\r\n`;
    for (let count = 0; count < 2; count += 1) await client.send(requestOf());
    expect(server.connections).toBe(connections);
  });

  test.each([
    ["HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", 2],
    ["HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", 2],
    ["HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n", 1],
    ["HTTP/1.1 204 No\r\n\r\n", 1],
    ["HTTP/1.1 304 No\r\ncontent-length: 7\r\n\r\n", 1],
  ])("is left by %j", async (answer, connections) => {
    server.answer = () => answer;
    for (let count = 0; count < 2; count += 1) await client.send(requestOf());
    expect(server.connections).toBe(connections);
  });

  test("of changes ends within a second or so, and of other requests later", async () => {
    await client.send(requestOf());
    await client.send(requestOf({ method: "POST", isRepeatable: false }));
    expect(client.connections).toBe(2);
    await until("one connection is closed", () => client.connections === 1 || undefined);
    await client.send(requestOf());
    expect(server.connections).toBe(2);
    await client.send(requestOf({ method: "POST", isRepeatable: false }));
    expect(server.connections).toBe(3);
  });

  test("is left by the answer to HEAD", async () => {
    server.answer = () => `${OK}content-length: 1000\r\n\r\n`;
    for (let count = 0; count < 2; count += 1) {
      const { headers, body } = await client.send(requestOf({ method: "HEAD" }));
      expect([headers["content-length"], body.length]).toEqual(["1000", 0]);
    }
    expect(server.connections).toBe(1);
  });
});

describe("a client", () => {
  test("that retires closes unused connections now, and others after their answers", async () => {
    await client.send(requestOf());
    server.answer = () => {};
    const used = client.send(requestOf());
    await until("the request", () => server.requests[1]);
    client.retire();
    expect(client.connections).toBe(1);
    server.requests[1]?.socket.write(EMPTY);
    expect((await used).status).toBe(200);
    expect(client.connections).toBe(0);
  });

  test("that closes sends none of the requests that wait for a connection", async () => {
    client = clientOf({ connectionsMax: 1 });
    server.answer = () => {};
    const lost = failureOf(client.send(requestOf({ isRepeatable: false })));
    const waiting = failureOf(client.send(requestOf({ isRepeatable: false })));
    await until("the request", () => server.requests[0]);
    client.close();
    expect(await waiting).toMatchObject({ failure: "unreachable", sent: false });
    expect(await lost).toMatchObject({ failure: "lost", sent: true });
    server.answer = () => EMPTY;
    expect((await client.send(requestOf({ isRepeatable: false }))).status).toBe(200);
    expect([server.requests.length, client.connections]).toEqual([2, 0]);
  });

  test("that closes loses the requests that are under way, and can still send others", async () => {
    server.answer = () => {};
    const lost = failureOf(client.send(requestOf()));
    await until("the request", () => server.requests[0]);
    client.close();
    expect(await lost).toMatchObject({ failure: "lost", sent: true, message: "the connection ended (ECONNRESET)" });
    server.answer = () => EMPTY;
    expect((await client.send(requestOf())).status).toBe(200);
    expect(client.connections).toBe(0);
  });
});

describe("a server that never ends", () => {
  const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;

  test.each([
    ["the empty lines before its answer", "", "\r\n"],
    ["its reason", "HTTP/1.1 200 ", "a"],
    ["its headers", OK, "x: y\r\n"],
    ["the name of a header", OK, "x"],
    ["the value of a header", `${OK}x: `, "y"],
    ["the spaces of a header", `${OK}x: `, " "],
    ["the size of a chunk", CHUNKED, "0"],
    ["the extension of a chunk", `${CHUNKED}1;`, "a"],
    ["extensions of small chunks", CHUNKED, `1;${"a".repeat(1_000)}\r\nx\r\n`],
    ["its trailers", `${CHUNKED}0\r\n`, "x: y\r\n"],
    ["the value of a trailer", `${CHUNKED}0\r\nx: `, "y"],
  ])("%s is left soon", async (_title, start, more) => {
    let written = 0;
    server.answer = ({ socket }) => {
      const block = more.repeat(Math.ceil(4_096 / more.length));
      const go = (): void => {
        while (!socket.destroyed && socket.write(block)) written += block.length;
      };
      socket.on("drain", go);
      socket.write(start);
      go();
    };
    const failure = await failureOf(client.send(requestOf({ timeoutMs: 60_000 })));
    expect(failure).toMatchObject({ failure: "malformed", sent: true });
    expect(client.connections).toBe(0);
    expect(written).toBeLessThan(20_000_000);
  });
});

describe("a stream", () => {
  const PART = 65_536;
  const PARTS = 1_024;

  test("that nobody reads stops the server, and arrives whole when it is read", async () => {
    let written = 0;
    const fast = await serverOf((socket) => {
      const more = (): void => {
        while (written < PARTS) {
          written += 1;
          if (!socket.write(Buffer.alloc(PART, written))) return;
        }
      };
      socket.once("data", () => {
        socket.write(`${OK}content-length: ${PART * PARTS}\r\n\r\n`);
        socket.on("drain", more);
        more();
      });
    });
    const url = new URL(`http://service.test:${fast.port}/`);
    const { body } = await client.open(requestOf({ url }));
    // Time enough for the whole body, if the client went on reading.
    for (let turns = 0; turns < 2_000; turns += 1) await new Promise(setImmediate);
    expect(written).toBeLessThan(PARTS / 2);
    let read = 0;
    for await (const chunk of body) {
      const expected = Math.floor(read / PART) + 1;
      expect(chunk[0]).toBe(expected % 256);
      read += chunk.length;
    }
    expect(read).toBe(PART * PARTS);
    fast.close();
  });

  test("that ends early hands out what has arrived, then its failure", async () => {
    server.answer = ({ socket }) => void socket.end(`${OK}content-length: 9\r\n\r\nabc`);
    const { body } = await client.open(requestOf());
    await until("the connection is closed", () => client.connections === 0 || undefined);
    const read: string[] = [];
    const reading = (async () => {
      for await (const chunk of body) read.push(chunk.toString());
    })();
    expect(await failureOf(reading)).toMatchObject({ failure: "lost", sent: true, status: 200 });
    expect(read).toEqual(["abc"]);
  });

  test("that is closed while it is read ends", async () => {
    server.answer = ({ socket }) => void socket.write(`${OK}content-length: 9\r\n\r\nabc`);
    const { body, close } = await client.open(requestOf());
    const read: string[] = [];
    for await (const chunk of body) {
      read.push(chunk.toString());
      setImmediate(close);
    }
    expect([read.join(""), client.connections]).toEqual(["abc", 0]);
    const other = await client.open(requestOf());
    const reading = failureOf(other.whole(9));
    other.close();
    expect(await reading).toMatchObject({ failure: "aborted", sent: true, status: 200 });
  });

  test("that has arrived whole is bounded when it is read", async () => {
    server.answer = () => `${OK}content-length: 3\r\n\r\nabc`;
    const { whole } = await client.open(requestOf());
    expect(await failureOf(whole(2))).toMatchObject({ failure: "too-large" });
    const { body } = await client.open(requestOf({ bodyBytesMax: 2 }));
    const reading = (async () => {
      for await (const _ of body);
    })();
    expect(await failureOf(reading)).toMatchObject({ failure: "too-large", status: 200 });
    const ok = await client.open(requestOf({ bodyBytesMax: 3 }));
    expect((await ok.whole(3)).toString()).toBe("abc");
    expect(server.connections).toBe(1);
  });

  test("that is aborted hands out nothing more", async () => {
    const controller = new AbortController();
    server.answer = ({ socket }) => void socket.write(`${OK}content-length: 9\r\n\r\nabc`);
    const { body } = await client.open(requestOf({ signal: controller.signal }));
    const reason = new Error("enough");
    controller.abort(reason);
    const read: string[] = [];
    const reading = (async () => {
      for await (const chunk of body) read.push(chunk.toString());
    })();
    expect(await failureOf(reading)).toMatchObject({ failure: "aborted", cause: reason });
    expect([read, client.connections]).toEqual([[], 0]);
  });
});

describe("TLS", () => {
  const validity = { notBefore: new Date(0), notAfter: new Date("2099-01-01T00:00:00Z") };

  test("names the error of an untrusted certificate, and says nothing to the server", async () => {
    const { rootCert, server: own } = await makeCertificates(validity);
    const secured = await RawServer.start({ ...own });
    const url = new URL(`https://service.test:${secured.port}/`);
    const root = Buffer.from(rootCert);
    const messages: string[] = [];
    for (const tls of [{ rootCert: root }, { rootCert: root, serverName: "other.example" }, {}]) {
      client = clientOf({ tls });
      const failure = await failureOf(client.send(requestOf({ url })));
      expect(failure).toMatchObject({ failure: "unreachable", sent: false });
      messages.push(failure.message);
      expect(await client.canConnect(url, 5_000)).toBe(false);
      expect(client.connections).toBe(0);
    }
    const [other, same, untrusted = ""] = messages;
    expect([other, same]).toEqual(Array(2).fill("no connection (ERR_TLS_CERT_ALTNAME_INVALID)"));
    expect(untrusted).toMatch(/^no connection \((?:SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE)\)$/);
    expect(secured.requests).toHaveLength(0);
    secured.close();
  });

  test.each([
    ["has expired", { notBefore: new Date(0), notAfter: new Date("2020-01-01T00:00:00Z") }, "CERT_HAS_EXPIRED"],
    [
      "is not yet valid",
      { notBefore: new Date("2090-01-01T00:00:00Z"), notAfter: validity.notAfter },
      "CERT_NOT_YET_VALID",
    ],
  ])("a certificate that %s is not trusted", async (_title, dates, code) => {
    const { rootCert, server: own } = await makeCertificates(dates);
    const secured = await RawServer.start({ ...own });
    client = clientOf({ tls: { rootCert: Buffer.from(rootCert) } });
    const url = new URL(`https://localhost:${secured.port}/`);
    expect((await failureOf(client.send(requestOf({ url })))).message).toBe(`no connection (${code})`);
    secured.close();
  });

  test("a certificate and a key of its own that do not fit together are not presented", async () => {
    const { rootCert, server: own, client: identity } = await makeCertificates(validity);
    const other = await makeCertificates(validity);
    const secured = await RawServer.start({ ...own });
    const [cert, key] = [Buffer.from(identity.cert), Buffer.from(other.client.key)];
    client = clientOf({ tls: { rootCert: Buffer.from(rootCert), clientCert: cert, clientKey: key } });
    const url = new URL(`https://localhost:${secured.port}/`);
    expect(await failureOf(client.send(requestOf({ url })))).toMatchObject({ failure: "unreachable", sent: false });
    expect(secured.connections).toBe(0);
    secured.close();
  });

  test("sends the name of the certificate, and none for an address", async () => {
    const hellos: string[] = [];
    const plain = await serverOf((socket) => {
      socket.once("data", (bytes) => {
        hellos.push(bytes.toString("latin1"));
        socket.destroy();
      });
    });
    const requests = [
      [`https://service.test:${plain.port}/`, undefined],
      [`https://service.test:${plain.port}/`, { serverName: "inner.test" }],
      [`https://127.0.0.1:${plain.port}/`, undefined],
      [`https://127.0.0.1:${plain.port}/`, { serverName: "inner.test" }],
    ] as const;
    for (const [url, tls] of requests) {
      client = clientOf({ tls });
      expect(await failureOf(client.send(requestOf({ url: new URL(url) })))).toMatchObject({ failure: "unreachable" });
    }
    const names = ["service.test", "inner.test", "127.0.0.1"];
    expect(hellos.map((hello) => names.filter((name) => hello.includes(name)))).toEqual([
      ...[["service.test"], ["inner.test"], [], ["inner.test"]],
    ]);
    plain.close();
  });

  test("a server without TLS is not reached, and one that is silent is given up", async () => {
    const ssh = await serverOf((socket) => void socket.write("SSH-2.0-OpenSSH_9.6\r\n"));
    const silent = await serverOf(() => {});
    const sent = async (port: number, timeoutMs: number): Promise<EgressError> =>
      await failureOf(client.send(requestOf({ url: new URL(`https://service.test:${port}/`), timeoutMs })));
    expect(await sent(ssh.port, 20_000)).toMatchObject({
      ...{ failure: "unreachable", sent: false, message: "no connection (ERR_SSL_WRONG_VERSION_NUMBER)" },
    });
    expect(await sent(silent.port, 100)).toMatchObject({ failure: "aborted", sent: false });
    expect(client.connections).toBe(0);
    ssh.close();
    silent.close();
  });

  test("a connection is used again, and a large body arrives whole", async () => {
    const { rootCert, server: own } = await makeCertificates(validity);
    const secured = await RawServer.start({ ...own });
    client = clientOf({ tls: { rootCert: Buffer.from(rootCert), serverName: "localhost" } });
    const url = new URL(`https://service.test:${secured.port}/`);
    const body = "x".repeat(3_000_000);
    secured.answer = ({ text }) => `${OK}content-length: 7\r\n\r\n${text.split("\r\n\r\n")[1]?.length}`;
    for (let count = 0; count < 3; count += 1) {
      expect((await client.send(requestOf({ url, method: "POST", body }))).body.toString()).toBe("3000000");
    }
    expect(secured.connections).toBe(1);
    expect(await client.canConnect(url, 5_000)).toBe(true);
    secured.close();
  });
});
