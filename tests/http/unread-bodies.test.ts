import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { defineTool } from "../../src/index.ts";
import { auditEntries } from "../support/audit-files.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { openClient, statusesIn } from "../support/sending-client.ts";
import { Authority } from "../support/tls-files.ts";
import { AGENTS_SERVERS } from "./agents-servers.ts";

/** More than the buffers of a connection hold. */
const BODY = Buffer.alloc(16_000_000, "a");
const CHUNK = Buffer.concat([Buffer.from("200000\r\n"), Buffer.alloc(0x20_00_00, "a"), Buffer.from("\r\n")]);

const hello = defineTool({
  ...({ name: "hello", description: "Says nothing", classification: "read" } as const),
  permissions: { required: ["hello:say"] },
  input: z.strictObject({}),
  output: z.object({}),
  outputPolicy: {},
  handler: () => ({}),
});

describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  let folder: string;
  const running: RunningService[] = [];
  const urls: Record<string, string> = {};
  let authorization: string;

  beforeAll(async () => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-unread-")));
    const issuers = new LiveIssuers();
    authorization = (await issuers.authorization({ kind: "good", sub: "agent-7", permissions: ["hello:say"] })) ?? "";
    const { cert, key } = await (await Authority.create("servers")).issue("server");
    writeFileSync(join(folder, "server.pem"), cert);
    writeFileSync(join(folder, "server-key.pem"), key, { mode: 0o600 });
    const start = async (name: string, server: Record<string, unknown>, concurrentCallsMax = 64): Promise<string> => {
      const written = {
        limits: { concurrentCallsMax },
        ...{
          server: { port: 0, http, ...server },
          tools: [hello],
          audit: { dir: `./${name}` },
          log: { level: "silent" },
        },
        jwt: { issuers: issuers.profiles() },
      };
      const service = await startService(readConfig(written, { folder, environment: {}, origin: "test" }));
      running.push(service);
      return service.url;
    };
    urls["TCP"] = await start("tcp", {});
    const tls = { certFile: "./server.pem", keyFile: "./server-key.pem" };
    urls["TLS"] = await start("tls", { tls, socket: "./s.sock" });
    // Two requests are at the door at most.
    urls["a narrow door"] = await start("narrow", {}, 1);
    urls["the Unix socket"] = `unix:${join(folder, "s.sock")}`;
  });

  afterAll(async () => {
    await Promise.all(running.map((service) => service.drain()));
    rmSync(folder, { recursive: true, force: true });
  });

  const head = (...lines: readonly string[]): string =>
    ["POST /call HTTP/1.1", "Host: localhost", "Content-Type: application/json", ...lines, "", ""].join("\r\n");
  const call = (tool: string): string => {
    const body = JSON.stringify({ tool, args: {} });
    return `${head(`Authorization: ${authorization}`, `Content-Length: ${body.length}`)}${body}`;
  };

  describe.each(["TCP", "TLS", "the Unix socket"])("over %s", (way) => {
    const open = () => openClient(urls[way] ?? "");

    test("a body over the limit is read and discarded, so that its sender gets the refusal", async () => {
      const client = await open();
      await client.send(head(`Authorization: ${authorization}`, `Content-Length: ${BODY.length}`));
      await client.send(BODY);
      const answer = await client.read();
      expect(statusesIn(answer)).toEqual([413]);
      expect(answer.toLowerCase()).toContain("connection: close");
      expect(answer).toContain('"code":"PAYLOAD_TOO_LARGE"');
      expect(answer).toContain("The body is over 1048576 bytes.");
      const entries = auditEntries(join(folder, way === "TCP" ? "tcp" : "tls"));
      expect(entries.at(-1)).toMatchObject({
        decision: "DENIED",
        denial: { stage: "REQUEST" },
        error: { code: "PAYLOAD_TOO_LARGE" },
        caller: { sub: "agent-7" },
      });
    });

    test("in chunks as well", async () => {
      const client = await open();
      await client.send(head("Transfer-Encoding: chunked"));
      for (let chunk = 0; chunk < 8; chunk += 1) await client.send(CHUNK);
      await client.send("0\r\n\r\n");
      expect(statusesIn(await client.read())).toEqual([413]);
    });

    test("nothing after a discarded body runs", async () => {
      const client = await open();
      await client.send(head(`Content-Length: ${BODY.length}`));
      await client.send(Buffer.concat([BODY, Buffer.from(call(`after_${way.length}`))])).catch(() => {});
      expect(statusesIn(await client.read().catch(() => "HTTP/1.1 413 "))).toEqual([413]);
      const asked = auditEntries(join(folder, way === "TCP" ? "tcp" : "tls")).map(({ tool }) => tool.name);
      expect(asked).not.toContain(`after_${way.length}`);
    });

    test("nothing that arrives together with a request whose body is refused unread runs", async () => {
      const client = await open();
      const refused = `${head("Content-Encoding: gzip", "Content-Length: 2")}{}`;
      await client.send(`${refused}${call(`with_${way.length}`)}`);
      expect(statusesIn(await client.read())).toEqual([415]);
      const asked = auditEntries(join(folder, way === "TCP" ? "tcp" : "tls")).map(({ tool }) => tool.name);
      expect(asked).not.toContain(`with_${way.length}`);
    });

    test("a body that ends in garbage gets one answer", async () => {
      const client = await open();
      await client.send(head("Transfer-Encoding: chunked"));
      await client.send(CHUNK);
      await client.send("nonsense\r\n").catch(() => {});
      // Which of the two is seen first is a matter of time.
      expect(["413", "400"]).toContain(statusesIn(await client.read()).join());
    });

    test("a complete refused body keeps its connection: the next call on it runs", async () => {
      const client = await open();
      await client.send(`${head("Content-Length: 3")}{,}`);
      await client.send(call("hello").replace("\r\n", "\r\nConnection: close\r\n"));
      expect(statusesIn(await client.read())).toEqual([400, 200]);
    });
  });

  test("other routes answer an unwanted body too", async () => {
    const client = await openClient(urls["TCP"] ?? "");
    await client.send(head(`Content-Length: ${BODY.length}`).replace("/call", "/nothing"));
    await client.send(BODY);
    expect(statusesIn(await client.read())).toEqual([404]);
  });

  test("refused bodies that are still arriving block nobody", async () => {
    const url = urls["a narrow door"] ?? "";
    const refused = await Promise.all([1, 2, 3].map(() => openClient(url)));
    const heads = refused.map(async ({ socket, send }) => {
      await send(head(`Content-Length: ${BODY.length}`));
      return new Promise<string>((resolve) =>
        socket.once("data", (bytes) => resolve(bytes.toString("latin1"))).resume(),
      );
    });
    for (const answer of await Promise.all(heads)) expect(["413", "503"]).toContain(statusesIn(answer).join());
    const client = await openClient(url);
    await client.send(call("hello").replace("\r\n", "\r\nConnection: close\r\n"));
    expect(statusesIn(await client.read())).toEqual([200]);
    for (const { socket } of refused) socket.destroy();
  });
});
