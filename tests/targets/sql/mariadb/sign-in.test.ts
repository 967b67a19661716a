import { afterEach, describe, expect, test } from "bun:test";
import { createServer, type Server } from "node:net";
import { MariaDbConnection } from "../../../../src/targets/sql/mariadb/connection.ts";

const servers: Server[] = [];

function packet(sequence: number, ...parts: readonly (string | readonly number[])[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part as string)));
  return Buffer.concat([Buffer.from([body.length, 0, 0, sequence]), body]);
}

const SALT = "12345678123456789012\0";

/** A server that asks for the password in another way, and keeps what it is sent afterwards. */
async function strange(plugin: string): Promise<{ readonly port: number; readonly sent: Buffer[] }> {
  const sent: Buffer[] = [];
  const server = createServer((socket) => {
    const [flags, status] = [
      [0xff, 0xf7, 45, 2, 0],
      [0xff, 0x81, 21, ...Array<number>(10).fill(0)],
    ];
    socket.on("error", () => {});
    socket.write(packet(0, [10], "10.11.0-MariaDB\0", [1, 0, 0, 0], "12345678\0", flags, status, SALT.slice(8), "x\0"));
    socket.once("data", () => {
      socket.on("data", (data) => sent.push(Buffer.from(data)));
      socket.write(packet(2, [0xfe], `${plugin}\0`, SALT));
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as { readonly port: number }).port, sent };
}

describe("without TLS, a server", () => {
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  const ways = ["mysql_clear_password", "caching_sha2_password", "sha256_password", "unknown"];
  test.each(ways)("that asks for the password by %s gets nothing", async (plugin) => {
    const { port, sent } = await strange(plugin);
    const address = { host: "127.0.0.1", port, database: "shop", user: "reader", password: "secret", tls: undefined };
    await expect(MariaDbConnection.open(address)).rejects.toThrow();
    expect(sent).toEqual([]);
  });
});
