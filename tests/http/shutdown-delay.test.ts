import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { auditEntries } from "../support/audit-files.ts";
import { openClient, type SendingClient, statusesIn } from "../support/sending-client.ts";
import { until } from "../support/until.ts";
import { AGENTS_SERVERS } from "./agents-servers.ts";
import { type Answer, CLIENTS, startDraining, WAYS } from "./drain-stand.ts";

/** `server.shutdownDelayMs`: a service that is shutting down still serves, until the test lets it drain. */
const DELAY = { shutdownDelayMs: 600_000 };
const CALLS = 100;

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-delay-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The `Connection` header of each answer in what came; undefined where there is none. */
function connectionsIn(received: string): readonly (string | undefined)[] {
  return received.split(/HTTP\/1\.1 (?=\d{3} )/).flatMap((answer, at) => {
    const [, value] = /^connection: *(\S+)\r$/im.exec(answer) ?? [];
    return at === 0 ? [] : [value?.toLowerCase()];
  });
}

const READINESS = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/** Everything that comes on a new connection until the service has closed it. */
async function sendOnce(url: string, text: string): Promise<string> {
  const client = await openClient(url);
  await client.send(text);
  return client.read();
}

/** Sends on a connection that the service has closed. */
async function sendLate(client: SendingClient, text: string): Promise<void> {
  await client.send(text).catch(() => {});
  client.socket.destroy();
}

describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  describe.each(WAYS)("over %s", (way) => {
    test("the next answer on a kept connection is served and ends it, and so is each on a new one", async () => {
      const { service, url, written, dir } = await startDraining({ folder, way, http, server: DELAY });
      const kept = await openClient(url);
      await kept.send(written("quick"));
      const received = kept.read();
      await until("the first answer", () => auditEntries(dir)[0]);
      const stopped = service.shutDown();
      await kept.send(written("quick"));
      expect(statusesIn(await received)).toEqual([200, 200]);
      expect(connectionsIn(await received)).toEqual(["keep-alive", "close"]);
      const onNew = await sendOnce(url, written("quick"));
      expect([statusesIn(onNew), connectionsIn(onNew)]).toEqual([[200], ["close"]]);
      const probed = await sendOnce(url, READINESS);
      expect([statusesIn(probed), connectionsIn(probed)]).toEqual([[503], ["close"]]);
      expect(probed).toContain('"reasons":["shutting_down"]');
      await service.drain();
      await stopped;
      expect(auditEntries(dir).map(({ decision }) => decision)).toEqual(["ALLOWED", "ALLOWED", "ALLOWED"]);
    });

    test("requests that were sent ahead are served before the answer that closes; what follows it does not run", async () => {
      const { service, url, written, started, finish, dir } = await startDraining({ folder, way, http, server: DELAY });
      const client = await openClient(url);
      const stopped = service.shutDown();
      await client.send(written("slow") + written("quick") + written("quick"));
      const received = client.read();
      await started;
      await until("the later answers", () => auditEntries(dir)[1]);
      finish();
      expect(statusesIn(await received)).toEqual([200, 200, 200]);
      expect(connectionsIn(await received).map((value) => value === "close")).toEqual([false, false, true]);
      await sendLate(client, written("quick"));
      await service.drain();
      await stopped;
      expect(auditEntries(dir)).toHaveLength(3);
    });

    test("clients that keep their connections and call without a pause see no refusal and no reset", async () => {
      const { service, call, started, finish, dir } = await startDraining({ folder, way, http, server: DELAY });
      const seen: (Answer | string)[] = [];
      let isOver = false;
      const clients = Array.from({ length: CLIENTS }, async () => {
        while (!isOver) seen.push(await call("quick"));
      });
      const more = async (calls: number): Promise<void> => {
        const before = seen.length;
        await until("calls", () => (seen.length >= before + calls ? true : undefined));
      };
      await more(CALLS);
      const stopped = service.shutDown();
      await more(CALLS);
      isOver = true;
      await Promise.all(clients);
      const underWay = call("slow");
      await started;
      void service.drain();
      finish();
      seen.push(await underWay);
      await stopped;
      expect(seen.filter((answer) => typeof answer === "string" || answer.status !== 200)).toEqual([]);
      expect(seen.at(-1)).toMatchObject({ connection: "close" });
      expect(auditEntries(dir)).toHaveLength(seen.length);
    });
  });
});

test("answers of the operators' and the console's listeners close their connections, too", async () => {
  const server = { ...DELAY, operator: { port: 0 }, console: { port: 0 } };
  const { service } = await startDraining({ folder, way: "TCP", http: "built-in", server });
  const { operatorUrl = "", consoleUrl = "" } = service;
  const answers = () =>
    Promise.all(
      [operatorUrl, consoleUrl].map(async (url) => {
        const { status, headers } = await fetch(`${url}/readyz`);
        return [status, headers.get("connection")];
      }),
    );
  expect(await answers()).toEqual([
    [200, "keep-alive"],
    [200, "keep-alive"],
  ]);
  const stopped = service.shutDown();
  expect(await answers()).toEqual([
    [503, "close"],
    [503, "close"],
  ]);
  await service.drain();
  await stopped;
});

test("a drain without a delay before it, and a delay of 0, refuse the next call at once", async () => {
  for (const end of ["drain", "shutDown"] as const) {
    const server = end === "drain" ? DELAY : {};
    const { service, call, started, finish } = await startDraining({ folder, way: "TCP", http: "built-in", server });
    const underWay = call("slow");
    await started;
    expect(await call("quick")).toMatchObject({ status: 200, connection: "keep-alive" });
    const ended = service[end]();
    expect(await call("quick")).toMatchObject({ status: 503, connection: "close" });
    finish();
    expect(await underWay).toMatchObject({ status: 200, connection: "close" });
    await ended;
  }
});
