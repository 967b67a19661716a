import { writeFileSync } from "node:fs";
import { Agent as PlainAgent, request as requestPlain } from "node:http";
import { request as requestTls, Agent as TlsAgent } from "node:https";
import { join } from "node:path";
import { z } from "zod";
import { startService } from "../../src/cli/service.ts";
import { defineTool } from "../../src/index.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { Authority } from "../support/tls-files.ts";
import type { AgentsServer } from "./agents-servers.ts";

/** How clients reach the agents' listener. */
export const WAYS = ["TCP", "TLS", "socket"] as const;
export const CLIENTS = 16;

const issuers = new LiveIssuers();

export interface Answer {
  readonly status: number;
  readonly connection: string | undefined;
  readonly body: string;
}

interface DrainStandOptions {
  readonly folder: string;
  readonly way: (typeof WAYS)[number];
  readonly http: AgentsServer;
  readonly server?: Readonly<Record<string, unknown>>;
}

/** A service with a tool that answers when the test says so, and a client of it that keeps its connections. */
export async function startDraining({ folder, way, http, server = {} }: DrainStandOptions) {
  const started = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const tool = (name: string, handler: () => Promise<Record<string, never>>) =>
    defineTool({
      ...({ name, description: "Does nothing", classification: "read" } as const),
      permissions: { required: ["drain:test"] },
      input: z.strictObject({}),
      output: z.object({}),
      outputPolicy: {},
      handler,
    });
  const slow = tool("slow", async () => {
    started.resolve();
    await finish.promise;
    return {};
  });
  const id = Bun.randomUUIDv7().slice(-8);
  const dir = join(folder, id);
  const socketPath = join(folder, `${id}.sock`);
  const config = {
    // Longer than a test: a connection that does not end by itself fails it.
    server: {
      ...{ port: 0, http, drainTimeoutMs: 600_000 },
      ...(way === "socket" && { socket: socketPath }),
      ...(way === "TLS" && { tls: await certificateIn(folder) }),
      ...server,
    },
    ...{
      tools: [slow, tool("quick", async () => ({}))],
      audit: { dir, durability: "write" },
      log: { level: "silent" },
    },
    jwt: { issuers: issuers.profiles() },
  };
  const service = await startService(readConfig(config, { folder, environment: {}, origin: "test" }));
  const authorization = await issuers.authorization({ kind: "good", sub: "agent-7", permissions: ["drain:test"] });
  const [Agent, request] = way === "TLS" ? [TlsAgent, requestTls] : [PlainAgent, requestPlain];
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
  const { hostname, port } = new URL(service.url);
  const where = way === "socket" ? { socketPath } : { hostname, port, rejectUnauthorized: false };
  const call = (name: string): Promise<Answer | string> =>
    new Promise((resolve) => {
      const headers = { host: "localhost", "content-type": "application/json", authorization: authorization ?? "" };
      const sent = request({ ...where, path: "/call", method: "POST", agent, headers }, (response) => {
        let body = "";
        response.on("data", (bytes) => {
          body += bytes;
        });
        const { statusCode: status = 0, headers } = response;
        response.on("end", () => resolve({ status, connection: headers.connection, body }));
        response.on("error", (error) => resolve(`answer cut: ${String(error)}`));
      });
      sent.on("error", (error) => resolve("code" in error ? String(error.code) : String(error)));
      sent.end(JSON.stringify({ tool: name, args: {} }));
    });
  const url = way === "socket" ? `unix:${socketPath}` : service.url;
  const written = (name: string): string => {
    const body = JSON.stringify({ tool: name, args: {} });
    const type = `Content-Type: application/json\r\nContent-Length: ${body.length}`;
    return `POST /call HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n${type}\r\n\r\n${body}`;
  };
  return { service, call, url, written, authorization, started: started.promise, finish: () => finish.resolve(), dir };
}

async function certificateIn(folder: string) {
  const { cert, key } = await (await Authority.create("servers")).issue("server-1");
  const [certFile, keyFile] = [join(folder, "server.pem"), join(folder, "server-key.pem")];
  writeFileSync(certFile, cert);
  writeFileSync(keyFile, key);
  return { certFile, keyFile };
}
