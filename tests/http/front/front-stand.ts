import { connect, type Socket } from "node:net";
import type { Endpoint, EndpointAnswer, Exchange } from "../../../src/http/endpoint.ts";
import { Front } from "../../../src/http/front/front.ts";
import type { ServerOptions } from "../../../src/http/server-options.ts";
import { parserFactory } from "../../../src/http1/parser.ts";
import { createCallerVerifier } from "../../../src/pipeline/caller-context.ts";
import { until } from "../../support/until.ts";
import { serverParts } from "../server-parts.ts";

export const LIMITS: NonNullable<ServerOptions["limits"]> = {
  ...{ connectionsMax: 100, connectionsPerSourceMax: 50, answerTimeoutMs: 60_000 },
  ...{ loopDelayMsMax: 60_000, wrongTokensPerMinuteMax: 1_000, rates: { requests: "off" } },
};

type Answering = (exchange: Exchange) => Promise<EndpointAnswer> | EndpointAnswer;

/** A front whose endpoints are given by path: each takes GET and POST. */
export async function openFront(
  answers: Readonly<Record<string, Answering>>,
  options: Partial<ServerOptions> = {},
): Promise<{ readonly front: Front; readonly port: number; readonly errors: unknown[] }> {
  const errors: unknown[] = [];
  const clock = (): number => 0;
  const parts = serverParts({
    ...{ callers: createCallerVerifier({ issuers: [], clock }), clock, journal: async () => {}, limits: LIMITS },
    logError: (error) => void errors.push(error),
    ...options,
  });
  const endpoints = Object.entries(answers).flatMap(([path, receive]) =>
    (["GET", "POST"] as const).map(
      (method): Endpoint => ({
        ...{ method, path, summary: "", audience: "agents", audited: "no" },
        receive: async (exchange) => receive(exchange),
      }),
    ),
  );
  const front = new Front(await parserFactory(), parts, endpoints);
  return { front, port: await front.listen({ host: "127.0.0.1", port: 0 }), errors };
}

export const text = (body: string, headers: Readonly<Record<string, string>> = {}): EndpointAnswer => ({
  ...{ status: 200, headers, body },
});

/** Reads the whole body. */
export function bodyOf({ raw }: Exchange): Promise<string> {
  const pieces: Buffer[] = [];
  return new Promise((resolve) => {
    raw.on("data", (piece) => void pieces.push(piece));
    raw.on("end", () => resolve(Buffer.concat(pieces).toString("latin1")));
  });
}

/** A client that writes what it is told and keeps what it gets. */
export class RawClient {
  received = "";
  hasEnded = false;
  isClosed = false;
  error: string | undefined;
  readonly socket: Socket;

  constructor(port: number, { reads = true }: { readonly reads?: boolean } = {}) {
    this.socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
    this.socket.setNoDelay(true);
    if (reads) this.read();
    this.socket.on("error", (error) => {
      this.error = "code" in error ? String(error.code) : error.message;
    });
    this.socket.on("end", () => {
      this.hasEnded = true;
    });
    this.socket.on("close", () => {
      this.isClosed = true;
    });
  }

  read(): void {
    this.socket.on("data", (bytes: Buffer) => {
      this.received += bytes.toString("latin1");
    });
  }

  send(data: string): this {
    this.socket.write(data, "latin1");
    return this;
  }

  get statuses(): readonly number[] {
    return [...this.received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  }

  has(part: string): Promise<true> {
    return until(`"${part}"`, () => (this.received.includes(part) ? true : undefined));
  }

  ended(): Promise<true> {
    return until("the end", () => (this.hasEnded || this.isClosed ? true : undefined));
  }
}
