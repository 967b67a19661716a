import { expect, test } from "bun:test";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { makeCertificates } from "../../src/cli/development/certificates.ts";
import { EgressClient } from "../../src/egress/client.ts";
import { EgressError } from "../../src/egress/request.ts";
import { RawServer } from "../support/raw-server.ts";
import { until } from "../support/until.ts";
import { randomOf } from "./hostile-answers.ts";

const REQUESTS = 600;
const CONNECTIONS_MAX = 8;
/** Longer than what a stream holds unread. */
const LARGE_BYTES = 200_000;

type Behaviour = (socket: Socket, id: string) => unknown;

const turn = (): Promise<void> => new Promise(setImmediate);
const bodyOf = (id: string): string => (Number(id) % 7 === 0 ? id.padEnd(LARGE_BYTES, "x") : id);
const answerOf = (id: string, more = ""): string =>
  `HTTP/1.1 200 OK\r\n${more}content-length: ${bodyOf(id).length}\r\n\r\n${bodyOf(id)}`;

/** What a server does with a request. The first seven answer it. */
const BEHAVIOURS: readonly Behaviour[] = [
  (socket, id) => socket.write(answerOf(id)),
  (socket, id) => socket.write(answerOf(id, "connection: close\r\n")),
  (socket, id) => socket.end(answerOf(id)),
  async (socket, id) => {
    const text = answerOf(id);
    for (const part of [text.slice(0, 10), text.slice(10, 40), text.slice(40)]) {
      socket.write(part);
      await turn();
    }
  },
  async (socket, id) => {
    socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    const body = bodyOf(id);
    socket.write(`${body.length.toString(16)}\r\n${body}\r\n`);
    await turn();
    socket.write("0\r\n\r\n");
  },
  (socket, id) => socket.write(`HTTP/1.1 103 Hints\r\n\r\n${answerOf(id)}`),
  (socket, id) => socket.write(`${answerOf(id)}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`),
  (socket) => socket.destroy(),
  (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nevil"),
  (socket) => socket.write("evil\r\n\r\n"),
  (socket) => (socket instanceof TLSSocket ? socket.destroy() : socket.resetAndDestroy()),
];
const ANSWERING = 7;

const validity = { notBefore: new Date(0), notAfter: new Date("2099-01-01T00:00:00Z") };

test.each([
  ["http", 1],
  ["http", 2],
  ["https", 3],
] as const)(
  "many requests at a server that misbehaves get their own answers or fail: %s, seed %d",
  async (scheme, seed) => {
    const random = randomOf(seed);
    const { rootCert, server: own } = await makeCertificates(validity);
    const server = await RawServer.start(scheme === "https" ? { ...own } : undefined);
    const client = new EgressClient({
      addresses: { classes: ["loopback"] },
      connectionsMax: CONNECTIONS_MAX,
      tls: { rootCert: Buffer.from(rootCert), serverName: "localhost" },
    });
    let most = 0;
    server.answer = ({ socket, text }) => {
      most = Math.max(most, client.connections);
      const [, id = "", behaviour = ""] = /^POST \/(\d+)\/(\d+) /.exec(text) ?? [];
      return BEHAVIOURS[Number(behaviour)]?.(socket, id);
    };
    const announced: string[] = [];
    const ends: string[] = [];
    const send = async (id: number): Promise<void> => {
      const behaviour = random() % 3 > 0 ? random() % ANSWERING : random() % BEHAVIOURS.length;
      const aborts = random() % 10 === 0;
      const controller = new AbortController();
      const request = {
        method: "POST",
        url: new URL(`${scheme}://127.0.0.1:${server.port}/${id}/${behaviour}`),
        body: "x".repeat(random() % 2_000),
        bodyBytesMax: LARGE_BYTES,
        isRepeatable: random() % 2 === 0,
        signal: controller.signal,
        timeoutMs: 60_000,
        onSend: () => void announced.push(String(id)),
      };
      const isStreamed = random() % 2 === 0;
      const turns = random() % 5;
      const sending = isStreamed
        ? client.open(request).then(async ({ body }) => {
            let text = "";
            for await (const chunk of body) {
              text += chunk.toString();
              if (random() % 4 === 0) await turn();
            }
            return text;
          })
        : client.send(request).then(({ body }) => body.toString());
      if (aborts) for (let left = turns; left > 0; left -= 1) await turn();
      if (aborts) controller.abort();
      try {
        expect(await sending).toBe(bodyOf(String(id)));
        expect(aborts || behaviour < ANSWERING).toBe(true);
        ends.push("answered");
      } catch (error) {
        if (!(error instanceof EgressError)) throw error;
        expect(error.sent).toBe(announced.includes(String(id)));
        ends.push(error.failure);
      }
    };
    await Promise.all(Array.from({ length: REQUESTS }, (_, id) => send(id)));
    expect(ends).toHaveLength(REQUESTS);
    expect(ends.filter((end) => end === "answered").length).toBeGreaterThan(REQUESTS / 2);
    // Each was sent at most once.
    expect(new Set(announced).size).toBe(announced.length);
    expect(server.requests.length).toBeLessThanOrEqual(announced.length);
    // Each of the two kinds of requests has connections of its own.
    expect(most).toBeLessThanOrEqual(2 * CONNECTIONS_MAX);
    client.close();
    await until("all connections are closed", () => client.connections === 0 || undefined);
    server.close();
  },
);
