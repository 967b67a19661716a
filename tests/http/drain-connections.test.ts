import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { auditEntries, journalEntries } from "../support/audit-files.ts";
import { openClient, statusesIn } from "../support/sending-client.ts";
import { until } from "../support/until.ts";
import { AGENTS_SERVERS } from "./agents-servers.ts";
import { type Answer, CLIENTS, startDraining, WAYS } from "./drain-stand.ts";

const ROUNDS_BEFORE = 200;

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-drain-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  describe.each(WAYS)("over %s", (way) => {
    test("a drain answers calls in progress, and requests on open connections", async () => {
      const { service, call, started, finish, dir } = await startDraining({ folder, way, http });
      const underWay = call("slow");
      await started;
      expect(await call("quick")).toMatchObject({ status: 200, connection: "keep-alive" });
      const drained = service.drain();
      const late = await call("quick");
      expect(late).toMatchObject({ status: 503, connection: "close" });
      expect(JSON.parse((late as Answer).body).error).toMatchObject({
        ...{ code: "SHUTTING_DOWN", message: "The service is shutting down.", retryable: true },
      });
      finish();
      expect(await underWay).toMatchObject({ status: 200, connection: "close" });
      await drained;
      expect(auditEntries(dir).map(({ error }) => error?.code)).toEqual([undefined, "SHUTTING_DOWN", undefined]);
    });

    test("a connection with reordered requests does not delay the drain", async () => {
      const { service, url, written, started, finish, dir } = await startDraining({ folder, way, http });
      const client = await openClient(url);
      await client.send(written("slow") + written("quick"));
      const answers = client.read();
      await started;
      await until("the second answer", () => auditEntries(dir)[0]);
      const drained = service.drain();
      // Longer than idle connections stay.
      await Bun.sleep(600);
      finish();
      await drained;
      expect(statusesIn(await answers)).toEqual([200, 200]);
    });

    test.each([
      ["/call", "Content-Length: 100"],
      ["/call", "Content-Length: 100000"],
      ["/call", "Transfer-Encoding: chunked"],
      ["/halts", "Content-Length: 100"],
    ])("a drain refuses a request to %s whose body has not arrived (%s)", async (path, framing) => {
      const { service, url, authorization, dir } = await startDraining({ folder, way, http });
      const { socket, send } = await openClient(url);
      let received = "";
      const receives = (text: string): Promise<void> =>
        new Promise((resolve) => {
          socket.on("data", () => received.includes(text) && resolve());
        });
      socket.on("data", (bytes) => {
        received += bytes.toString("latin1");
      });
      const asked = receives("HTTP/1.1 100 ");
      const refused = receives("SHUTTING_DOWN");
      socket.resume();
      const host = `Host: localhost\r\nAuthorization: ${authorization}\r\nContent-Type: application/json`;
      await send(`POST ${path} HTTP/1.1\r\n${host}\r\nExpect: 100-continue\r\n${framing}\r\n\r\n`);
      await asked;
      const drained = service.drain();
      await Promise.race([refused, drained]);
      expect(statusesIn(received)).toEqual([100, 503]);
      expect(received.toLowerCase()).toContain("\r\nconnection: close\r\n");
      socket.end();
      await drained;
      const codes = auditEntries(dir).map(({ error }) => error?.code);
      expect(codes).toEqual(path === "/call" ? ["SHUTTING_DOWN"] : []);
    });

    test.each([
      ["before the drain", 1],
      ["while others are idle", 3],
    ])("a drain does not wait for the rest of a body whose request was answered %s", async (_when, count) => {
      const { service, url } = await startDraining({ folder, way, http, server: { requestTimeoutMs: 600_000 } });
      const clients = await Promise.all(Array.from({ length: count }, () => openClient(url)));
      const answers = clients.map(async (client, at) => {
        // The last one has sent its whole body.
        const body = count > 1 && at === count - 1 ? "a".repeat(100) : "{";
        await client.send(`POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n${body}`);
        const answer = client.read();
        await new Promise((resolve) => client.socket.once("data", resolve));
        return { answer };
      });
      const begun = await Promise.all(answers);
      await service.drain();
      for (const { answer } of begun) expect(statusesIn(await answer)).toEqual([404]);
    });

    test("no call is made once the audit is closed", async () => {
      const { service, url, written, dir } = await startDraining({ folder, way, http, server: { drainTimeoutMs: 1 } });
      const client = await openClient(url);
      await client.send(written("quick"));
      await until("the first answer", () => auditEntries(dir)[0]);
      const drained = service.drain();
      await until("the end of the audit", () => journalEntries(dir).find(({ type }) => type === "service.stopped"));
      // The connection has ended, or is reset.
      const answers = client.read().catch(() => "");
      await client.send(written("quick")).catch(() => {});
      expect(statusesIn(await answers)).not.toContain(503);
      await drained;
    });

    test("clients that keep their connections and call without a pause see answers, and no reset", async () => {
      const { service, call } = await startDraining({ folder, way, http });
      const seen = new Map<string, number>();
      let rounds = 0;
      const client = async (): Promise<void> => {
        for (let last = ""; last !== "ECONNREFUSED" && last !== "ENOENT"; rounds += 1) {
          const answer = await call("quick");
          last = typeof answer === "string" ? answer : `${answer.status} ${answer.connection}`;
          seen.set(last, (seen.get(last) ?? 0) + 1);
          if (last === "503 close") return;
        }
      };
      const clients = Array.from({ length: CLIENTS }, client);
      await until("calls", () => (rounds >= ROUNDS_BEFORE ? true : undefined));
      await service.drain();
      await Promise.all(clients);
      const others = [...seen.keys()].filter((answer) => !/^(200|503) /.test(answer));
      expect(others).toEqual([]);
      expect(seen.get("503 close") ?? 0).toBeGreaterThan(0);
    });
  });
});
