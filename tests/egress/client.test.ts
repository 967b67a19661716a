import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { makeCertificates } from "../../src/cli/development/certificates.ts";
import { OPERATED_ADDRESSES } from "../../src/egress/addresses.ts";
import { EgressClient, type EgressOptions } from "../../src/egress/client.ts";
import { EgressError, type EgressRequest } from "../../src/egress/request.ts";
import { RawServer } from "../support/raw-server.ts";
import { until } from "../support/until.ts";

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

const BODY_BYTES_MAX = 10_000;

function clientOf(options: Partial<EgressOptions> = {}): EgressClient {
  return new EgressClient({ addresses: { classes: ["loopback"] }, resolve: async () => ["127.0.0.1"], ...options });
}

function requestOf(more: Partial<EgressRequest> = {}): EgressRequest {
  const url = new URL(`http://service.test:${server.port}/x?y=1`);
  return { method: "GET", url, bodyBytesMax: BODY_BYTES_MAX, isRepeatable: true, timeoutMs: 5_000, ...more };
}

async function failureOf(more: Partial<EgressRequest> = {}): Promise<EgressError> {
  const error: unknown = await client.send(requestOf(more)).catch((thrown: unknown) => thrown);
  if (error instanceof EgressError) return error;
  throw new Error(`expected a failure, got ${JSON.stringify(error)}`);
}

describe("an exchange", () => {
  test("sends method, path, headers and body, and returns status, headers and body", async () => {
    server.answer = () => "HTTP/1.1 418 No\r\nX-A: b\r\ncontent-length: 5\r\n\r\nhello";
    const answer = await client.send(requestOf({ method: "POST", body: "é", headers: { "x-b": "c" } }));
    expect([answer.status, answer.headers["x-a"], answer.body.toString()]).toEqual([418, "b", "hello"]);
    const [head = "", body] = (server.requests[0]?.text ?? "").split("\r\n\r\n");
    expect(head.split("\r\n")[0]).toBe("POST /x?y=1 HTTP/1.1");
    const lines = head.toLowerCase().split("\r\n").slice(1).sort();
    expect(lines).toEqual([
      "accept-encoding: identity",
      "connection: keep-alive",
      "content-length: 2",
      `host: service.test:${server.port}`,
      "user-agent: safe-tool-call",
      "x-b: c",
    ]);
    expect(Buffer.from(body ?? "", "latin1").toString()).toBe("é");
  });

  test("a chunked body, trailers and early hints", async () => {
    server.answer = () =>
      "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nx-t: evil\r\n\r\n";
    const answer = await client.send(requestOf());
    expect([answer.status, answer.body.toString(), answer.headers["x-t"], answer.headers["link"]]).toEqual([
      ...[200, "abc", undefined, undefined],
    ]);
  });

  test("a redirect is an answer", async () => {
    server.answer = () => "HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n";
    expect((await client.send(requestOf())).status).toBe(302);
    expect(server.requests).toHaveLength(1);
  });

  test("proxies named by the environment are ignored", async () => {
    const names = "HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY all_proxy NODE_USE_ENV_PROXY".split(" ");
    const before = names.map((name) => [name, process.env[name]] as const);
    try {
      for (const name of names) process.env[name] = name === "NODE_USE_ENV_PROXY" ? "1" : "http://127.0.0.1:1";
      expect((await client.send(requestOf())).status).toBe(200);
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    }
  });

  test("a stream hands out the body while it arrives", async () => {
    server.answer = ({ socket }) => {
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n");
    };
    const answer = await client.open(requestOf());
    const parts: string[] = [];
    for await (const chunk of answer.body) {
      parts.push(chunk.toString());
      if (parts.length === 1) server.requests[0]?.socket.write("3\r\ntwo\r\n0\r\n\r\n");
    }
    expect(parts).toEqual(["one", "two"]);
    const { whole } = await client.open(requestOf());
    server.requests[1]?.socket.write("3\r\ntwo\r\n0\r\n\r\n");
    expect((await whole(6)).toString()).toBe("onetwo");
    server.answer = () => "HTTP/1.1 204 No Content\r\n\r\n";
    await client.send(requestOf());
    expect(server.connections).toBe(1);
  });

  test("leaving a stream closes its connection", async () => {
    let isClosed = false;
    server.answer = ({ socket }) => {
      socket.on("close", () => {
        isClosed = true;
      });
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n");
    };
    const answer = await client.open(requestOf());
    for await (const _ of answer.body) break;
    await until("the connection is closed", () => isClosed || undefined);
  });
});

describe("a connection", () => {
  test("is used again, and resolved once", async () => {
    let lookups = 0;
    const resolve = async (): Promise<readonly string[]> => {
      lookups += 1;
      return ["127.0.0.1"];
    };
    client = clientOf({ resolve });
    for (let count = 0; count < 5; count += 1) await client.send(requestOf());
    expect([server.connections, lookups, client.connections]).toEqual([1, 1, 1]);
  });

  test("that was not recently in use is not used for a request that must not be lost", async () => {
    await client.send(requestOf());
    await client.send(requestOf({ method: "POST", isRepeatable: false }));
    expect(server.connections).toBe(2);
  });

  test("that the server closes with the next request loses that request, which is not repeated", async () => {
    await client.send(requestOf());
    server.answer = ({ socket }) => void socket.destroy();
    expect(await failureOf()).toMatchObject({ failure: "lost", sent: true, status: undefined });
    expect(server.requests).toHaveLength(2);
  });

  test("ends with an answer that something follows", async () => {
    server.answer = () =>
      "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\naHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    expect((await client.send(requestOf())).body.toString()).toBe("a");
    server.answer = () => "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb";
    expect((await client.send(requestOf())).body.toString()).toBe("b");
    expect(server.connections).toBe(2);
  });
});

describe("addresses", () => {
  test.each([
    ["a private address among others", ["127.0.0.1", "10.0.0.1"], "private"],
    ["a metadata address", ["169.254.169.254"], "metadata"],
    ["a mapped loopback address", ["::ffff:127.0.0.1"], "embedded"],
    ["NAT64", ["64:ff9b::7f00:1"], "embedded"],
    ["an answer that is no address", ["0x7f.1"], "invalid"],
  ])("%s among the answers refuses them all", async (_title, addresses, name) => {
    client = clientOf({ resolve: async () => addresses });
    const error = await failureOf();
    expect(error).toMatchObject({ failure: "address", sent: false });
    expect(error.message).toBe(`the host has a ${name} address, which is not allowed`);
    expect(server.connections).toBe(0);
  });

  test("answers that change are checked for every connection", async () => {
    const answers = [["127.0.0.1"], ["10.0.0.1"]];
    client = clientOf({ resolve: async () => answers.shift() ?? [] });
    server.answer = () => "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    expect((await client.send(requestOf())).status).toBe(200);
    expect(await failureOf()).toMatchObject({ failure: "address", sent: false });
    expect(await failureOf()).toMatchObject({ failure: "unreachable", sent: false });
    expect(server.connections).toBe(1);
  });

  test.each([
    "127.0.0.1",
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::1]",
  ])("the host %s cannot get around the rules", async (host) => {
    client = clientOf({ addresses: { classes: ["public"] } });
    const error = await failureOf({ url: new URL(`http://${host}:${server.port}/`) });
    expect(error).toMatchObject({ failure: "address", sent: false });
    expect(server.connections).toBe(0);
  });

  test("a client judges each host of its requests", async () => {
    const urlOf = (host: string): URL => new URL(`http://${host}:${server.port}/`);
    for (const allowed of ["127.0.0.1", "127.0.0.1", "service.test"]) {
      expect(await client.send(requestOf({ url: urlOf(allowed) }))).toMatchObject({ status: 200 });
      for (const refused of ["10.0.0.1", "10.0.0.1", "[::ffff:127.0.0.1]"]) {
        expect(await failureOf({ url: urlOf(refused) })).toMatchObject({ failure: "address", sent: false });
      }
    }
  });
});

describe("a hostile server", () => {
  const OK = "HTTP/1.1 200 OK\r\n";
  const zeros = Buffer.alloc(5_000_000);
  const packed = (encoding: string, bytes: Buffer): string =>
    `${OK}content-encoding: ${encoding}\r\ncontent-length: ${bytes.length}\r\n\r\n${bytes.toString("latin1")}`;

  test.each([
    ["a body that is too large", `${OK}content-length: 10001\r\n\r\n${"a".repeat(10_001)}`, "too-large"],
    [
      "an endless chunked body",
      `${OK}transfer-encoding: chunked\r\n\r\n${"5\r\nabcde\r\n".repeat(3_000)}`,
      "too-large",
    ],
    ["a gzip bomb", packed("gzip", gzipSync(zeros)), "too-large"],
    ["a brotli bomb", packed("br", brotliCompressSync(zeros)), "too-large"],
    ["a deflate bomb", packed("deflate", deflateSync(zeros)), "too-large"],
    ["two layers of compression", packed("gzip, gzip", gzipSync(gzipSync("a"))), "encoding"],
    ["an unknown compression", packed("zstd", Buffer.from("a")), "encoding"],
    ["a broken compression", packed("gzip", Buffer.from("a")), "encoding"],
    ["a body without a length", `${OK}\r\nabc`, "unbounded"],
    ["another transfer encoding", `${OK}transfer-encoding: gzip\r\n\r\nabc`, "encoding"],
    ["length and chunks", `${OK}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`, "malformed"],
    ["two lengths", `${OK}content-length: 3\r\ncontent-length: 2\r\n\r\nabc`, "malformed"],
    ["a head that is too large", `${OK}x: ${"a".repeat(40_000)}\r\n\r\n`, "malformed"],
    ["another protocol", "SSH-2.0-OpenSSH_9.6\r\n", "malformed"],
    ["a switch of protocols", "HTTP/1.1 101 Switching\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n", "upgrade"],
    ["interim answers without end", "HTTP/1.1 102 Processing\r\n\r\n".repeat(50), "interim"],
  ] as const)("%s", async (_title, text, failure) => {
    server.answer = () => text;
    expect(await failureOf()).toMatchObject({ failure, sent: true });
    // A body that only decompression shows to be unusable has been read as a whole.
    if (!text.includes("content-encoding")) {
      await until("the connection is closed", () => client.connections === 0 || undefined);
    }
  });

  test.each([
    ["within the head", `${OK}content-length`],
    ["within the body", `${OK}content-length: 10\r\n\r\nabc`],
    ["within the chunks", `${OK}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`],
    ["before the answer", ""],
  ])("a connection that ends %s", async (_title, text) => {
    server.answer = ({ socket }) => void socket.end(text);
    expect(await failureOf()).toMatchObject({ failure: "lost", sent: true });
    if (!text.includes("\r\n\r\n")) return;
    const { body } = await client.open(requestOf());
    const read = async (): Promise<void> => {
      for await (const _ of body);
    };
    expect(await read().catch((error: unknown) => error)).toMatchObject({ failure: "lost" });
    const { whole } = await client.open(requestOf());
    expect(await whole(100).catch((error: unknown) => error)).toMatchObject({ failure: "lost", sent: true });
  });

  test.each(["", OK, `${OK}content-length: 10\r\n\r\n`])(
    "one that is silent after %j is given up in time",
    async (text) => {
      server.answer = () => text;
      const error = await failureOf({ timeoutMs: 500 });
      expect(error).toMatchObject({ failure: "aborted", sent: true, cause: { name: "TimeoutError" } });
    },
  );

  test("a stream is bounded in size and time", async () => {
    server.answer = () => `${OK}transfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n`;
    const read = async (more: Partial<EgressRequest>): Promise<void> => {
      for await (const _ of (await client.open(requestOf(more))).body);
    };
    expect(await read({ bodyBytesMax: 4 }).catch((error: unknown) => error)).toMatchObject({ failure: "too-large" });
    expect(await read({ timeoutMs: 50 }).catch((error: unknown) => error)).toMatchObject({ failure: "aborted" });
    const readWhole = async (bytesMax: number, more: Partial<EgressRequest>): Promise<Buffer> =>
      await (await client.open(requestOf(more))).whole(bytesMax);
    expect(await readWhole(4, {}).catch((error: unknown) => error)).toMatchObject({ failure: "too-large" });
    expect(await readWhole(5, { timeoutMs: 50 }).catch((error: unknown) => error)).toMatchObject({
      failure: "aborted",
    });
  });
});

describe("a request that ends before it is sent", () => {
  test("no server", async () => {
    const { port } = server;
    server.close();
    expect(await failureOf({ url: new URL(`http://service.test:${port}/`) })).toMatchObject({
      ...{ failure: "unreachable", sent: false, message: "no connection (ECONNREFUSED)" },
    });
  });

  test("a name without addresses", async () => {
    client = clientOf({ resolve: () => Promise.reject(Object.assign(new Error("x"), { code: "ENOTFOUND" })) });
    expect(await failureOf()).toMatchObject({
      failure: "unreachable",
      sent: false,
      message: "no connection (ENOTFOUND)",
    });
  });

  test("a signal that has fired, or fires during the lookup", async () => {
    const reason = new DOMException("late", "TimeoutError");
    expect(await failureOf({ signal: AbortSignal.abort(reason) })).toMatchObject({ failure: "aborted", sent: false });
    const controller = new AbortController();
    client = clientOf({
      resolve: () => {
        controller.abort(reason);
        return new Promise(() => {});
      },
    });
    expect(await failureOf({ signal: controller.signal })).toMatchObject({
      ...{ failure: "aborted", sent: false, cause: reason },
    });
    expect(server.connections).toBe(0);
  });
});

describe("TLS", () => {
  const validity = { notBefore: new Date(0), notAfter: new Date("2099-01-01T00:00:00Z") };

  test("trusts the given roots, checks the name, and presents its own certificate", async () => {
    const { rootCert, server: own, client: identity } = await makeCertificates(validity);
    const secured = await RawServer.start({ ...own, ca: rootCert, requestCert: true, rejectUnauthorized: true });
    const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    try {
      const clientCert = Buffer.from(identity.cert);
      const tls = {
        rootCert: Buffer.from(rootCert),
        clientCert,
        clientKey: Buffer.from(identity.key),
        serverName: "localhost",
      };
      const url = new URL(`https://service.test:${secured.port}/`);
      client = clientOf({ tls });
      expect((await client.send(requestOf({ url }))).status).toBe(200);
      client.close();
      const refused = [
        { ...tls, serverName: undefined },
        { ...tls, serverName: "other.example" },
        { ...tls, rootCert: undefined },
        { rootCert: Buffer.from((await makeCertificates(validity)).rootCert), serverName: "localhost" },
      ];
      for (const each of refused) {
        client = clientOf({ tls: each });
        expect(await failureOf({ url })).toMatchObject({ failure: "unreachable", sent: false });
        client.close();
      }
      // TLS 1.3 reports a missing client certificate after the handshake.
      client = clientOf({ tls: { rootCert: tls.rootCert, serverName: "localhost" } });
      expect(["unreachable", "lost"]).toContain((await failureOf({ url })).failure);
      expect(secured.requests).toHaveLength(1);
    } finally {
      if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
      else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
      secured.close();
    }
  });
});

test("servers of the operator are reached at loopback addresses", async () => {
  client = clientOf({ addresses: OPERATED_ADDRESSES });
  expect((await client.send(requestOf())).status).toBe(200);
});
