import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { defineTool } from "../../src/index.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers, type TokenKind } from "../support/live-tokens.ts";

const permissions = { required: ["load:run"] };
const output = z.strictObject({ text: z.string() });

/** Answers what it is asked, as often as it is asked. */
const echo = defineTool({
  name: "load_echo",
  description: "Answer a text",
  classification: "read",
  permissions,
  input: z.strictObject({ text: z.string().max(1_000_000).default(""), times: z.int().min(1).max(1_000).default(1) }),
  handler: ({ text, times }) => ({ text: text.repeat(times) }),
  output,
  outputPolicy: { text: "allow" },
  limits: { outputBytesMax: 4_000_000, concurrentCallsMax: 2_000 },
});

/** Nobody may call it. */
const secret = defineTool({
  name: "load_secret",
  description: "Nobody may call it",
  classification: "read",
  permissions: { required: ["load:nobody"] },
  input: z.strictObject({}),
  handler: () => ({ text: "" }),
  output,
  outputPolicy: { text: "allow" },
});

export interface LoadStand {
  readonly service: RunningService;
  readonly port: number;
  token(sub?: string, kind?: TokenKind): Promise<string>;
  call(token: string, body?: object): Promise<Called>;
  /** Every line of the audit so far. */
  audited(): readonly Record<string, unknown>[];
  metrics(): Promise<string>;
  close(): Promise<void>;
}

export interface Called {
  readonly status: number;
  readonly headers: Headers;
  readonly json: Readonly<Record<string, unknown>>;
  readonly error: Readonly<Record<string, unknown>>;
}

interface Written {
  readonly limits?: object;
  readonly server?: object;
  readonly approvals?: boolean;
}

/** A service with tools that do next to nothing. */
export async function openLoadStand({ limits = {}, server = {}, approvals = false }: Written = {}): Promise<LoadStand> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-load-")));
  const issuers = new LiveIssuers();
  const written = {
    server: { port: 0, ...server },
    tools: [echo, secret],
    audit: { dir: "./audit", durability: "write" },
    jwt: { issuers: issuers.profiles() },
    ...(approvals && { approvals: { store: "sqlite://./approvals.sqlite" } }),
    limits,
    log: { level: "silent" },
  };
  const service = await (async () =>
    startService(readConfig(written, { folder, environment: {}, origin: "test" })))().catch((error: unknown) => {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  });
  const token = (sub = "agent-7", kind: TokenKind = "good"): Promise<string> =>
    issuers.token({ kind, sub, permissions: kind === "operator" ? ["metrics:read"] : ["load:run"] });
  return {
    service,
    port: Number(new URL(service.url).port),
    token,
    call: (bearer, body = { tool: "load_echo", args: {} }) => post(service.url, bearer, body),
    audited: () => linesIn(join(folder, "audit")),
    async metrics() {
      const authorization = `Bearer ${await token("operator", "operator")}`;
      return (await fetch(`${service.url}/metrics`, { headers: { authorization } })).text();
    },
    async close() {
      await service.drain();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function post(url: string, bearer: string, body: object): Promise<Called> {
  const response = await fetch(`${url}/call`, {
    method: "POST",
    headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const json = (await response.json()) as Called["json"];
  return { status: response.status, headers: response.headers, json, error: (json["error"] ?? {}) as Called["error"] };
}

function linesIn(dir: string): readonly Record<string, unknown>[] {
  return readdirSync(dir)
    .filter((name) => name.endsWith(".jsonl"))
    .flatMap((name) => readFileSync(join(dir, name), "utf8").split("\n").filter(Boolean))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** One connection, whose bytes are the test's own. */
export class Wire {
  readonly socket: Socket;
  /** What came so far, as Latin-1. */
  received = "";
  isClosed = false;
  /** Connected, or closed without it. */
  readonly opened: Promise<void>;
  readonly closed: Promise<void>;

  constructor(port: number, options: { readonly reads?: boolean; readonly localAddress?: string } = {}) {
    const { reads = true, ...from } = options;
    this.socket = connect({ port, host: "127.0.0.1", ...from });
    this.socket.on("error", () => {});
    if (reads) this.socket.on("data", (bytes) => (this.received += bytes.toString("latin1")));
    else this.socket.pause();
    this.opened = new Promise((resolve) => {
      this.socket.once("connect", resolve).once("close", () => resolve());
    });
    this.closed = new Promise((resolve) => {
      this.socket.once("close", () => {
        this.isClosed = true;
        resolve();
      });
    });
  }

  send(bytes: string | Uint8Array): this {
    this.socket.write(bytes);
    return this;
  }

  get statuses(): readonly number[] {
    return [...this.received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  }

  end(): void {
    this.socket.destroy();
  }
}

/** The head of a `POST /call`. */
export function head(lines: readonly string[], path = "/call"): string {
  return [`POST ${path} HTTP/1.1`, "Host: localhost", "Content-Type: application/json", ...lines, "", ""].join("\r\n");
}

export function wholeCall(token: string, body: object = { tool: "load_echo", args: {} }): string {
  const text = JSON.stringify(body);
  return `${head([`Authorization: Bearer ${token}`, `Content-Length: ${Buffer.byteLength(text)}`])}${text}`;
}
