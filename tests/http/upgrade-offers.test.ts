import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { emptyFolder, type IdentityStand, startIdentityService } from "../support/identity-service.ts";
import { openClient, statusesIn } from "../support/sending-client.ts";
import { Authority } from "../support/tls-files.ts";
import { AGENTS_SERVERS } from "./agents-servers.ts";

const folder = emptyFolder();

beforeAll(async () => {
  const { cert, key } = await (await Authority.create("servers")).issue("service");
  writeFileSync(join(folder, "cert.pem"), cert);
  writeFileSync(join(folder, "key.pem"), key);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const get = (offer = "", connection = "keep-alive"): string =>
  `GET /healthz HTTP/1.1\r\nHost: localhost\r\n${offer}Connection: ${connection}\r\n\r\n`;

describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  let stand: IdentityStand;
  beforeAll(async () => {
    const socket = `./${http}.sock`;
    const tls = { certFile: "./cert.pem", keyFile: "./key.pem" };
    const audit = { dir: `./${http}`, durability: "write" };
    stand = await startIdentityService({ folder, server: { http, socket, tls }, rest: { audit } });
  });
  afterAll(() => stand.service.drain());

  describe.each(["TLS", "the Unix socket"])("over %s", (way) => {
    const connect = () => openClient(way === "TLS" ? stand.service.url : `unix:${join(folder, `${http}.sock`)}`);

    test.each([
      ["h2c", "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", "Upgrade, HTTP2-Settings"],
      ["TLS", "Upgrade: TLS/1.2\r\n", "Upgrade"],
    ])(
      "a request that comes along with an offer of %s is answered, or the connection ends",
      async (_title, offer, connection) => {
        const client = await connect();
        const received = client.read();
        await client.send(get(offer, connection) + get("", "close"));
        // Neither server leaves the client waiting: it reads until the end of the connection.
        const text = await received;
        expect(statusesIn(text)).toEqual(http === "built-in" ? [200, 200] : [200]);
        expect(text.match(/^connection: close\r$/gim)).toHaveLength(1);
      },
    );

    test("requests without an offer keep their connection", async () => {
      const client = await connect();
      const received = client.read();
      await client.send(get() + get("X-Upgrade: h2c\r\n") + get("", "close"));
      expect(statusesIn(await received)).toEqual([200, 200, 200]);
    });
  });
});
