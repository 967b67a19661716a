import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { AGENTS_SERVERS } from "../http/agents-servers.ts";
import {
  CALL,
  callHeaders,
  emptyFolder,
  type IdentityStand,
  issuers,
  startIdentityService,
} from "../support/identity-service.ts";
import { Authority } from "../support/tls-files.ts";
import { until } from "../support/until.ts";

const MAX = 5;
describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  let stand: IdentityStand;
  let roots: Authority;

  beforeAll(async () => {
    const folder = emptyFolder();
    roots = await Authority.create("roots");
    const { cert, key } = await roots.issue("server");
    writeFileSync(join(folder, "tls.crt"), cert);
    writeFileSync(join(folder, "tls.key"), key);
    stand = await startIdentityService({
      folder,
      server: { http, tls: { certFile: "./tls.crt", keyFile: "./tls.key" } },
      rest: { limits: { connectionsPerSourceMax: MAX } },
    });
  });
  afterAll(() => stand.close());

  const opened: Client[] = [];

  /** Connects and says nothing. */
  class Client {
    readonly socket: Socket;
    isClosed = false;

    constructor(localAddress: string) {
      this.socket = connect({ port: Number(new URL(stand.service.url).port), host: "127.0.0.1", localAddress });
      this.socket.on("error", () => {}).on("close", () => (this.isClosed = true));
      opened.push(this);
    }
  }

  async function status(): Promise<number | string> {
    const init = { method: "POST", headers: await callHeaders(), body: CALL, keepalive: false, tls: { ca: roots.pem } };
    return fetch(`${stand.service.url}/call`, init).then(
      ({ status }) => status,
      () => "no connection",
    );
  }

  async function ended(reason: string): Promise<number> {
    const token = await issuers.token({ kind: "operator", sub: "operator", permissions: ["metrics:read"] });
    const init = { headers: { authorization: `Bearer ${token}` }, keepalive: false, tls: { ca: roots.pem } };
    const text = await (await fetch(`${stand.service.url}/metrics`, init)).text();
    return Number(new RegExp(`^stc_connections_ended_total\\{reason="${reason}"\\} (\\d+)$`, "m").exec(text)?.[1] ?? 0);
  }

  test("a client that begins handshakes and never ends them uses only its own slots; closing frees them", async () => {
    const many = Array.from({ length: 3 * MAX }, () => new Client("127.0.0.2"));
    await until("those over the limit to be closed", () =>
      many.filter(({ isClosed }) => isClosed).length === 2 * MAX ? true : undefined,
    );
    expect(await status()).toBe(200);
    expect(await ended("source")).toBe(2 * MAX);
    const next = new Client("127.0.0.2");
    await until("the next to be closed", () => (next.isClosed ? true : undefined));
    for (const { socket } of many) socket.destroy();
    await until("room", async () => {
      const client = new Client("127.0.0.2");
      // What is refused is closed before the answer to a call that came after it.
      expect(await status()).toBe(200);
      return client.isClosed ? undefined : true;
    });
  });

  test("completed handshakes no longer count as handshakes", async () => {
    for (let made = 0; made < 3 * MAX; made += 1) expect(await status()).toBe(200);
    for (const { socket } of opened) socket.destroy();
  });
});
