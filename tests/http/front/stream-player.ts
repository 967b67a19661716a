import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { z } from "zod";
import { startService } from "../../../src/cli/service.ts";
import { defineTool } from "../../../src/index.ts";
import { auditEntries } from "../../support/audit-files.ts";
import { readConfig } from "../../support/build.ts";
import { LiveIssuers } from "../../support/live-tokens.ts";
import { Authority } from "../../support/tls-files.ts";
import { ID, type RawStream, TOKEN_CHARACTERS, withToken } from "./stream-grammar.ts";

/** A body above it is refused; what ends a stream is longer, so that it also ends a body that a reader still waits for. */
const BODY_BYTES_MAX = 2_048;
const HEADER_BYTES_MAX = 4_096;
const PROBE = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
/** Invalid wherever it is read as more than content. */
const GARBAGE = "\0".repeat(BODY_BYTES_MAX + HEADER_BYTES_MAX);
/** Only what never happens takes this long. */
const HANG_MS = 20_000;

/** What one connection got. */
export interface Played {
  /** Status and code of each answer, in order, without the two that end a stream. */
  readonly answers: readonly string[];
  /** Names of the headers of each of these answers, sorted, and the value of `Connection`. */
  readonly heads: readonly string[];
  /** Number of `100 Continue`. */
  readonly interims: number;
  /** True when the request behind the stream was answered on the same connection. */
  readonly isOpen: boolean;
  readonly isHung: boolean;
}

/** All that a stream did. */
export interface Outcome extends Played {
  /** Marks of the calls whose handler ran, sorted. */
  readonly ran: readonly string[];
  /** Decision, tool, code and stage of each audit entry, sorted. */
  readonly entries: readonly string[];
}

export interface PlayOptions {
  /** Sends the bytes before it first, and the rest once they were read. */
  readonly splitAt?: number;
}

export interface StreamStand {
  /** Plays a stream under a name of its own, six characters. */
  play(name: string, stream: RawStream, options?: PlayOptions): Promise<void>;
  /** Ends the service; everything that each stream did. */
  close(): Promise<ReadonlyMap<string, Outcome>>;
}

export type Transport = "TCP" | "TLS" | "Unix socket";

export interface ServerKind {
  /** Section `server` of the configuration: which HTTP server. */
  readonly server: Readonly<Record<string, unknown>>;
  readonly over?: Transport;
}

/** A service with one tool, its audit on disk. */
export async function openStreamStand({ server, over = "TCP" }: ServerKind): Promise<StreamStand> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-streams-")));
  if (over === "TLS") await writeCertificate(folder);
  const issuers = new LiveIssuers();
  const ran: string[] = [];
  const written = {
    server: { ...LIMITS.server, ...TRANSPORTS[over], ...server },
    tools: [markTool(ran)],
    audit: { dir: "./audit", durability: "write" },
    jwt: { issuers: issuers.profiles() },
    limits: LIMITS.limits,
    log: { level: "silent" },
  };
  const service = await startService(readConfig(written, { folder, environment: {}, origin: "test" }));
  const port = Number(new URL(service.url).port);
  const dial: Dial = () => DIALS[over](port, folder);
  const fence = new Fence(dial());
  const played = new Map<string, Played>();
  return {
    async play(name, stream, { splitAt } = {}) {
      const token = await issuers.token({ kind: "good", sub: name, permissions: ["mark"] });
      if (token.length !== TOKEN_CHARACTERS) throw new Error(`a token of ${token.length} characters`);
      const sent = (text: string): string => withToken(text, token).replaceAll(ID, name);
      const text = sent(stream.text);
      const at = splitAt === undefined ? text.length : sent(stream.text.slice(0, splitAt)).length;
      played.set(name, await exchange(dial, { text, at, end: stream.end, fence }));
    },
    async close() {
      fence.end();
      await service.drain();
      const outcomes = collect(played, ran, join(folder, "audit"));
      rmSync(folder, { recursive: true, force: true });
      return outcomes;
    },
  };
}

const LIMITS = {
  server: {
    ...{ port: 0, bodyBytesMax: BODY_BYTES_MAX, headerBytesMax: HEADER_BYTES_MAX },
    ...{ headersTimeoutMs: 120_000, requestTimeoutMs: 600_000 },
  },
  limits: {
    ...{ rates: { service: "off" }, wrongTokensPerMinuteMax: 10_000_000, loopDelayMsMax: 60_000 },
    ...{ strangerLinesPerMinute: 100_000, cancellationsPerMinuteMax: 100_000 },
  },
};

const TRANSPORTS: Readonly<Record<Transport, object>> = {
  TCP: {},
  TLS: { tls: { certFile: "./server.pem", keyFile: "./server-key.pem" } },
  "Unix socket": { socket: "./stc.sock" },
};

type Dial = () => Socket;

const DIALS: Readonly<Record<Transport, (port: number, folder: string) => Socket>> = {
  TCP: (port) => connect({ port, host: "127.0.0.1", ...CLIENT }),
  TLS: (port) => connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false, ...CLIENT }),
  "Unix socket": (_port, folder) => connect({ path: join(folder, "stc.sock"), ...CLIENT }),
};

const CLIENT = { allowHalfOpen: true, noDelay: true };

async function writeCertificate(folder: string): Promise<void> {
  const { cert, key } = await (await Authority.create("servers")).issue("server");
  writeFileSync(join(folder, "server.pem"), cert);
  writeFileSync(join(folder, "server-key.pem"), key, { mode: 0o600 });
}

function markTool(ran: string[]) {
  return defineTool({
    ...({ name: "mark", description: "Marks that it ran", classification: "read" } as const),
    permissions: { required: ["mark"] },
    input: z.strictObject({ mark: z.string().max(20) }),
    handler: ({ mark }) => {
      ran.push(mark);
      return {};
    },
    output: z.strictObject({}),
    outputPolicy: {},
  });
}

/** Another connection whose answer shows that the service has read everything that was sent before. */
class Fence {
  readonly #socket: Socket;
  #answered: (() => void)[] = [];

  constructor(socket: Socket) {
    this.#socket = socket;
    this.#socket.on("data", (bytes) => {
      const count = bytes.toString("latin1").split("HTTP/1.1 200").length - 1;
      for (const answered of this.#answered.splice(0, count)) answered();
    });
  }

  pass(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#answered.push(resolve);
    this.#socket.write(PROBE);
    return promise;
  }

  end(): void {
    this.#socket.destroy();
  }
}

interface Sending {
  readonly text: string;
  readonly at: number;
  readonly end: RawStream["end"];
  readonly fence: Fence;
}

function exchange(dial: Dial, { text, at, end, fence }: Sending): Promise<Played> {
  const socket = dial();
  const whole = end === "probe" ? text + PROBE + GARBAGE : text;
  let received = "";
  return new Promise((resolve) => {
    const finish = (isHung: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ ...playedOf(received), isHung });
    };
    const timer = setTimeout(() => finish(true), HANG_MS);
    socket.on("error", () => {});
    socket.on("close", () => finish(false));
    socket.on("end", () => socket.end());
    socket.on("data", (bytes) => {
      received += bytes.toString("latin1");
      // An answer that ends the connection may wait for the rest of its request.
      if (/\r\nconnection: close\r\n/i.test(received)) socket.end();
    });
    socket.on("encrypted" in socket ? "secureConnect" : "connect", async () => {
      if (at < whole.length && at < text.length) {
        socket.write(Buffer.from(whole.slice(0, at), "latin1"));
        await fence.pass();
      }
      const rest = Buffer.from(whole.slice(at < text.length ? at : 0), "latin1");
      if (end === "half-close") socket.end(rest);
      else socket.write(rest);
    });
  });
}

/** Begins what is no answer. */
export const UNREADABLE = "unreadable";

const ANSWER = /HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/y;

function playedOf(received: string): Omit<Played, "isHung"> {
  const answers: string[] = [];
  const heads: string[] = [];
  let interims = 0;
  let at = 0;
  while (at < received.length) {
    ANSWER.lastIndex = at;
    const [head = "", status = "", lines = ""] = ANSWER.exec(received) ?? [];
    if (head === "") {
      answers.push(`${UNREADABLE}: ${received.slice(at, at + 80)}`);
      break;
    }
    at += head.length;
    if (status === "100") {
      interims += 1;
      continue;
    }
    const length = Number(/^content-length: (\d+)\r$/im.exec(lines)?.[1] ?? 0);
    heads.push(namesIn(lines));
    // An answer to HEAD has a length and no body.
    const hasBody = !received.startsWith("HTTP/1.1 ", at) && at + length <= received.length;
    const body = hasBody ? received.slice(at, at + length) : "";
    at += body.length;
    answers.push(`${status} ${/"code":"(\w+)"/.exec(body)?.[1] ?? /"status":"(\w+)"/.exec(body)?.[1] ?? ""}`.trim());
  }
  // What ends a stream: the probe's answer, and the one to the garbage after it.
  const isOpen = answers.at(-2) === PROBE_ANSWER && answers.at(-1) === "400 MALFORMED_REQUEST";
  return {
    answers: isOpen ? answers.slice(0, -2) : answers,
    heads: heads.slice(0, answers.length - (isOpen ? 2 : 0)),
    interims,
    isOpen,
  };
}

/** Left out: they say nothing about the request. */
const NO_FACTS = /^(?:date|keep-alive):/;

function namesIn(lines: string): string {
  const all = lines.toLowerCase().split("\r\n").slice(0, -1);
  const facts = all.filter((line) => !NO_FACTS.test(line));
  return facts
    .map((line) => (line.startsWith("connection:") ? line : line.split(":")[0]))
    .sort()
    .join(" ");
}

const PROBE_ANSWER = "200 ready";

function collect(played: ReadonlyMap<string, Played>, ran: readonly string[], dir: string) {
  const marks = Map.groupBy(ran, (mark) => mark.slice(0, 6));
  const entries = Map.groupBy(auditEntries(dir), ({ caller }) => caller.sub);
  const outcomes = new Map<string, Outcome>();
  for (const [name, one] of played) {
    const lines = (entries.get(name) ?? []).map(({ decision, tool, error, denial }) =>
      [decision, tool.name, error?.code, denial?.stage].filter(Boolean).join(" "),
    );
    const own = (marks.get(name) ?? []).map((mark) => mark.slice(6));
    outcomes.set(name, { ...one, ran: own.sort(), entries: lines.sort() });
  }
  return outcomes;
}
