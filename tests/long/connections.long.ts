import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { KINDS } from "../http/front/stream-runs.ts";
import { head, Wire, wholeCall } from "../http/load-stand.ts";
import { auditEntries } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import type { HostOrder, HostReport } from "../support/service-host.ts";
import { Authority } from "../support/tls-files.ts";
import { until } from "../support/until.ts";

/** Long: many connections of each hostile kind against a service in a process of its own, whose memory stays bounded. */

const MEGABYTE = 1_048_576;
/** Grown memory of the process after an attack is over, whatever was sent. */
const GROWN_BYTES_MAX = 300 * MEGABYTE;
/** Memory during an attack that fills every buffer of the service up to its limits. */
const PEAK_BYTES_MAX = 600 * MEGABYTE;
const HEADERS_TIMEOUT_MS = 1_500;
const PER_SOURCE_MAX = 12_000;
/** Few enough that all are open well before the first of them has been idle for too long. */
const FEW_PER_SOURCE_MAX = 4_000;
const OTHER = "127.0.0.2";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-connections-")));
const issuers = new LiveIssuers();
let token: string;
let authority: Authority;

beforeAll(async () => {
  authority = await Authority.create("servers");
  const { cert, key } = await authority.issue("server");
  writeFileSync(join(folder, "server.pem"), cert);
  writeFileSync(join(folder, "server-key.pem"), key, { mode: 0o600 });
  mkdirSync(join(folder, "tools"));
  writeFileSync(join(folder, "tools/text.ts"), TEXT_TOOL);
});
afterEach(() => service?.kill());
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Answers with as many characters as it is asked for. */
const TEXT_TOOL = `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const text = defineTool({
  name: "text", description: "Answer with a text", classification: "read",
  permissions: { required: ["load:run"] },
  input: z.strictObject({ characters: z.int().min(0).max(1_000_000) }),
  output: z.strictObject({ text: z.string() }), outputPolicy: { text: "allow" },
  limits: { outputBytesMax: 4_000_000, concurrentCallsMax: 2_000 },
  handler: ({ characters }) => ({ text: "x".repeat(characters) }),
});
`;

const callOf = (characters: number): string => wholeCall(token, { tool: "text", args: { characters } });
const HEALTHY = '{"status":"ok"}';
const HEALTH = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/** A service in a process of its own. */
class ServiceProcess {
  readonly #child: Bun.Subprocess;
  readonly url: URL;
  readonly dir: string;

  private constructor(child: Bun.Subprocess, url: URL, dir: string) {
    this.#child = child;
    this.url = url;
    this.dir = dir;
  }

  static async start(server: Readonly<Record<string, unknown>>, perSourceMax: number): Promise<ServiceProcess> {
    const dir = join(folder, crypto.randomUUID());
    const configuration = {
      server: { port: 0, headersTimeoutMs: HEADERS_TIMEOUT_MS, requestTimeoutMs: 2_000, ...server },
      tools: ["./tools"],
      audit: { dir, durability: "write" },
      jwt: { issuers: issuers.profiles() },
      limits: {
        ...{ connectionsPerSourceMax: perSourceMax, answerTimeoutMs: 2_000, strangerLinesPerMinute: 100_000 },
        concurrentCallsPerCallerMax: 1_000,
      },
      log: { level: "silent" },
    };
    const { promise, resolve } = Promise.withResolvers<HostReport>();
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "../support/service-host.ts")], {
      stdio: ["ignore", "inherit", "inherit"],
      ipc: resolve,
      onExit: (_child, code) => resolve({ failed: `the host ended with ${code}` }),
    });
    child.send({ start: { service: configuration }, folder } satisfies HostOrder);
    const report = await promise;
    if ("failed" in report) throw new Error(report.failed);
    return new ServiceProcess(child, new URL(report.urls["service"] ?? ""), dir);
  }

  get port(): number {
    return Number(this.url.port);
  }

  get rssBytes(): number {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${this.#child.pid}/status`, "utf8"))?.[1]) * 1024;
  }

  async metric(name: string): Promise<number> {
    const operator = await issuers.token({ kind: "operator", sub: "operator", permissions: ["metrics:read"] });
    const init = { headers: { authorization: `Bearer ${operator}` }, keepalive: false, tls: { ca: authority.pem } };
    const text = await (await fetch(new URL("/metrics", this.url), init)).text();
    const line = text.split("\n").find((one) => one.startsWith(`${name} `));
    return Number(line?.slice(name.length) ?? 0);
  }

  async call(): Promise<number> {
    const init = { method: "POST", keepalive: false, tls: { ca: authority.pem } };
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const body = JSON.stringify({ tool: "text", args: { characters: 1 } });
    return (await fetch(new URL("/call", this.url), { ...init, headers, body })).status;
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}

let service: ServiceProcess | undefined;

/** Starts a service and warms it up: what it needs once is not what an attack costs. */
async function start(
  server: Readonly<Record<string, unknown>>,
  perSourceMax = PER_SOURCE_MAX,
): Promise<ServiceProcess> {
  service = await ServiceProcess.start(server, perSourceMax);
  token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["load:run"] });
  for (let made = 0; made < 50; made += 1) expect(await service.call()).toBe(200);
  return service;
}

/** The service answers as before, has no connection left but the one that asks, and keeps no memory. */
async function expectUnharmed(attacked: ServiceProcess, rssBefore: number): Promise<void> {
  expect(await attacked.call()).toBe(200);
  await until("no connection to be left", async () =>
    (await attacked.metric("stc_connections")) <= 1 ? true : undefined,
  );
  expect(attacked.rssBytes - rssBefore).toBeLessThan(GROWN_BYTES_MAX);
}

/** Fewer than any system's queue of connections that a program has not accepted yet. */
const OPENED_AT_ONCE = 100;
/** Idle time after which a client's system asks the other side whether it still has the connection. */
const KEEP_ALIVE_AFTER_MS = 1_000;

/**
 * Opens connections, each hundred when the service has accepted the ones before. A full queue makes the system answer with SYN
 * cookies and drop the client's last packet: the service never has that connection, and a client that sends nothing would wait
 * forever. The keep-alive tells such a client; a connection that the service has stays open with it.
 */
async function openMany(count: number, open: (at: number) => Wire): Promise<readonly Wire[]> {
  const wires: Wire[] = [];
  while (wires.length < count) {
    const length = Math.min(OPENED_AT_ONCE, count - wires.length);
    const some = Array.from({ length }, (_, at) => open(wires.length + at));
    await Promise.all(some.map(({ opened }) => opened));
    for (const { socket } of some) socket.setKeepAlive(true, KEEP_ALIVE_AFTER_MS);
    wires.push(...some);
    await until("the connections to be accepted", () => (notAccepted(service?.port) === 0 ? true : undefined));
  }
  return wires;
}

/** Columns of a listening socket in `/proc/net/tcp`, which lists these first: local address, `0A`, length of its queue. */
const LISTENING = /^ *\d+: [0-9A-F]{8}:([0-9A-F]{4}) [0-9A-F:]+ 0A [0-9A-F]+:([0-9A-F]+) /gm;
/** Enough for all listening sockets of a machine: the list of its connections is long. */
const LISTENING_BYTES = 65_536;

/** Returns how many connections wait in the system until the listener at the port accepts them. */
function notAccepted(port: number | undefined): number {
  for (const [, local = "", waiting = ""] of startOf("/proc/net/tcp", LISTENING_BYTES).matchAll(LISTENING)) {
    if (Number.parseInt(local, 16) === port) return Number.parseInt(waiting, 16);
  }
  throw new Error(`nothing listens at port ${port}`);
}

/** Returns at most so many bytes of a file that the system makes while it is read, a page at a time. */
function startOf(path: string, bytesMax: number): string {
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(bytesMax);
    let length = 0;
    while (length < bytesMax) {
      const read = readSync(file, bytes, length, bytesMax - length, null);
      if (read === 0) break;
      length += read;
    }
    return bytes.toString("latin1", 0, length);
  } finally {
    closeSync(file);
  }
}

const allClosed = (wires: readonly Wire[]): Promise<unknown> => Promise.all(wires.map(({ closed }) => closed));

describe.each(Object.entries(KINDS))("%s", (_name, { server }) => {
  test("thousands of heads that never end are cut off in time; calls are answered meanwhile", async () => {
    const attacked = await start(server);
    const rssBefore = attacked.rssBytes;
    const begun = ["", "P", "POST /call HTTP/1.1\r\n", `${head([`X-Long: ${"a".repeat(8_000)}`]).slice(0, -2)}X`];
    const wires = await openMany(4_000, (at) =>
      new Wire(attacked.port, { localAddress: OTHER }).send(begun[at % begun.length] ?? ""),
    );
    expect(await attacked.call()).toBe(200);
    await allClosed(wires);
    expect(new Set(wires.map(({ statuses }) => statuses.join()))).toEqual(new Set(["408"]));
    await expectUnharmed(attacked, rssBefore);
  });

  test("bodies that never end are cut off in time, each refusal audited; calls are answered meanwhile", async () => {
    const attacked = await start(server);
    const rssBefore = attacked.rssBytes;
    const body = " ".repeat(60_000);
    const sizes = ["Content-Length: 1000000", "Transfer-Encoding: chunked"];
    const wires = await openMany(1_000, (at) => {
      const lines = [`Authorization: Bearer ${token}`, sizes[at % 2] ?? ""];
      const localAddress = `127.0.1.${1 + (at % 100)}`;
      const begun = at % 2 === 0 ? body : `${body.length.toString(16)}\r\n${body}\r\n`;
      return new Wire(attacked.port, { localAddress }).send(head(lines) + begun);
    });
    expect(await attacked.call()).toBe(200);
    expect(attacked.rssBytes - rssBefore).toBeLessThan(PEAK_BYTES_MAX);
    await allClosed(wires);
    expect(new Set(wires.map(({ statuses }) => statuses.join()))).toEqual(new Set(["408"]));
    await expectUnharmed(attacked, rssBefore);
    const refused = auditEntries(attacked.dir).filter(({ error }) => error?.code === "REQUEST_TIMEOUT");
    expect(refused).toHaveLength(wires.length);
  });

  test("ten thousand connections that never send anything are closed, and take little memory while they are open", async () => {
    const attacked = await start(server);
    const rssBefore = attacked.rssBytes;
    const wires = await openMany(10_000, () => new Wire(attacked.port, { localAddress: OTHER }));
    expect(await attacked.call()).toBe(200);
    expect(attacked.rssBytes - rssBefore).toBeLessThan(PEAK_BYTES_MAX);
    await allClosed(wires);
    await expectUnharmed(attacked, rssBefore);
  });

  test("one source takes its own connections only: sixty others are served at once", async () => {
    const attacked = await start(server, FEW_PER_SOURCE_MAX);
    const rssBefore = attacked.rssBytes;
    const taken = await openMany(FEW_PER_SOURCE_MAX, () =>
      new Wire(attacked.port, { localAddress: OTHER }).send(HEALTH),
    );
    for (const wire of taken) await until("an answer", () => wire.statuses[0]);
    const more = await openMany(500, () => new Wire(attacked.port, { localAddress: OTHER }).send(HEALTH));
    await allClosed(more);
    for (const { statuses } of more) expect(statuses).toEqual([503]);
    const others = await openMany(60, (at) =>
      new Wire(attacked.port, { localAddress: `127.0.2.${at + 1}` }).send(callOf(1)),
    );
    for (const wire of others) expect(await until("an answer", () => wire.statuses[0])).toBe(200);
    for (const wire of [...taken, ...others]) wire.end();
    await expectUnharmed(attacked, rssBefore);
  });

  test("resets at every byte of two calls leave nothing behind, and only whole calls run", async () => {
    const attacked = await start(server);
    const rssBefore = attacked.rssBytes;
    const before = auditEntries(attacked.dir).length;
    const text = `${callOf(100)}${callOf(100)}`;
    const first = callOf(100).length;
    for (const ending of ["reset", "close", "half-close"] as const) {
      for (let from = 1; from <= text.length; from += 100) {
        const wires = await openMany(Math.min(100, text.length - from + 1), (at) =>
          new Wire(attacked.port, { localAddress: OTHER }).send(text.slice(0, from + at)),
        );
        for (const { socket } of wires) {
          if (ending === "reset") socket.resetAndDestroy();
          else if (ending === "close") socket.destroy();
          else socket.end();
        }
        await allClosed(wires);
      }
    }
    await expectUnharmed(attacked, rssBefore);
    const ran = auditEntries(attacked.dir)
      .slice(before)
      .filter(({ decision }) => decision === "ALLOWED").length;
    // One call in each prefix from the end of the first one on, and another in the whole text, each three times.
    expect(ran).toBeLessThanOrEqual(3 * (text.length - first + 1 + 1) + 100);
  });

  test("bodies in chunks of one byte are refused, with bounded memory", async () => {
    const attacked = await start(server);
    const rssBefore = attacked.rssBytes;
    const body = `${"1\r\n \r\n".repeat(400_000)}0\r\n\r\n`;
    const text = head([`Authorization: Bearer ${token}`, "Transfer-Encoding: chunked"]) + body;
    const wires = await openMany(30, () => new Wire(attacked.port, { localAddress: OTHER }).send(text));
    expect(await attacked.call()).toBe(200);
    for (const wire of wires) await until("an answer", () => wire.statuses[0] ?? (wire.isClosed ? 0 : undefined));
    expect(attacked.rssBytes - rssBefore).toBeLessThan(PEAK_BYTES_MAX);
    for (const wire of wires) {
      expect([400, 408, 413]).toContain(wire.statuses[0] ?? 0);
      wire.end();
    }
    await expectUnharmed(attacked, rssBefore);
  });

  test("readers that never read are ended, with bounded memory", async () => {
    const attacked = await start(server);
    const rssBefore = attacked.rssBytes;
    // More than the buffers of the system hold for one connection.
    const wires = await openMany(10, () =>
      new Wire(attacked.port, { reads: false, localAddress: OTHER }).send(callOf(1_000_000).repeat(20)),
    );
    await until("them to be ended", async () =>
      (await attacked.metric('stc_connections_ended_total{reason="slow_reader"}')) >= wires.length ? true : undefined,
    );
    expect(attacked.rssBytes - rssBefore).toBeLessThan(PEAK_BYTES_MAX);
    for (const wire of wires) wire.end();
    expect(await attacked.call()).toBe(200);
  });

  test("floods of pipelined requests are answered in order or ended; they take bounded memory and nobody's turn", async () => {
    const attacked = await start(server);
    const rssBefore = attacked.rssBytes;
    const requests = 5_000;
    const reading = new Wire(attacked.port).send(HEALTH.repeat(requests));
    const calling = new Wire(attacked.port).send(callOf(1).repeat(requests));
    const deaf = await openMany(20, () => new Wire(attacked.port, { reads: false }).send(HEALTH.repeat(requests)));
    expect(await attacked.call()).toBe(200);
    for (const wire of [reading, calling]) {
      await until("its answers", () => (wire.statuses.length === requests || wire.isClosed ? true : undefined));
      expect(new Set(wire.statuses.slice(0, -1))).toEqual(new Set([200]));
    }
    expect(attacked.rssBytes - rssBefore).toBeLessThan(PEAK_BYTES_MAX);
    for (const wire of [reading, calling, ...deaf]) wire.end();
    await expectUnharmed(attacked, rssBefore);
  });

  test("on a TLS port plain HTTP, garbage and broken-off handshakes are closed, and TLS clients are served", async () => {
    const attacked = await start({ ...server, tls: TLS_FILES });
    const rssBefore = attacked.rssBytes;
    const before = auditEntries(attacked.dir).length;
    const hello = await clientHello(attacked.port);
    const begun = [
      callOf(1),
      HEALTH,
      "\0".repeat(100),
      "\x16\x03\x01\xff\xff",
      hello,
      hello.subarray(0, 60),
      "\x80\x2e\x01",
    ];
    const wires = await openMany(1_400, (at) =>
      new Wire(attacked.port, { localAddress: OTHER }).send(begun[at % begun.length] ?? ""),
    );
    expect(await attacked.call()).toBe(200);
    await allClosed(wires);
    for (const { received } of wires) expect(received).not.toContain("HTTP/1.1 200");
    await expectUnharmed(attacked, rssBefore);
    // Its own calls only.
    expect(auditEntries(attacked.dir).length - before).toBe(2);
  });

  test.skipIf(Bun.which("openssl") === null)("a client that asks to renegotiate TLS 1.2 is refused", async () => {
    const attacked = await start({ ...server, tls: TLS_FILES });
    const rssBefore = attacked.rssBytes;
    const shown = await Promise.all(Array.from({ length: 20 }, () => renegotiate(attacked.port)));
    for (const one of shown) expect(one).toContain("RENEGOTIATING\n");
    for (const one of shown) expect(one).toContain("no renegotiation");
    await expectUnharmed(attacked, rssBefore);
  });
});

const TLS_FILES = { certFile: "./server.pem", keyFile: "./server-key.pem" };

/** The first bytes of a handshake, as a real client sends them. */
function clientHello(port: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const relay = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket, bytes) {
          relay.stop(true);
          socket.end();
          resolve(Buffer.from(bytes));
        },
      },
    });
    connectTls({ host: "127.0.0.1", port: relay.port, servername: `port-${port}.test` }).on("error", () => {});
    setTimeout(() => reject(new Error("no handshake")), 60_000).unref();
  });
}

/** What `openssl` reports when it asks for another handshake after its first answer. */
async function renegotiate(port: number): Promise<string> {
  const client = Bun.spawn(["openssl", "s_client", "-tls1_2", "-crlf", "-connect", `127.0.0.1:${port}`], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  const reported = new Response(client.stderr).text();
  client.stdin.write(HEALTH.replaceAll("\r", ""));
  let received = "";
  for await (const text of client.stdout.pipeThrough(new TextDecoderStream())) {
    const isAsked = received.includes(HEALTHY);
    received += text;
    // Only a line of its own is the command.
    if (!isAsked && received.includes(HEALTHY)) client.stdin.write("R\n");
  }
  await client.exited;
  return reported;
}
