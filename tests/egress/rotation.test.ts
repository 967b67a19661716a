import { afterEach, beforeEach, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { z } from "zod";
import { DEVELOPMENT_SERVER_NAME, type PemPair } from "../../src/cli/development/certificates.ts";
import { defineTool, httpRequest, mcpTool } from "../../src/index.ts";
import { AskingService } from "../support/asking-service.ts";
import { type RawRequest, RawServer } from "../support/raw-server.ts";
import { until } from "../support/until.ts";
import { type Authority, makeAuthority } from "../targets/grpc/support/authority.ts";
import { answer, json } from "../targets/http/support.ts";

const fingerprintOf = ({ cert }: PemPair): string => new X509Certificate(cert).fingerprint256;

/** A service whose API and MCP server accept clients with a certificate of one authority. */
class MutualService extends AskingService {
  /** Fingerprints of the client's certificate: one for each request. */
  readonly seen: (string | undefined)[] = [];
  #far: RawServer | undefined;

  async start(authority: Authority, own: PemPair): Promise<void> {
    const { cert, key } = await authority.server();
    const tls = { cert, key, ca: authority.rootCert, requestCert: true, rejectUnauthorized: true };
    this.#far = await RawServer.start(tls);
    this.#far.answer = (request) => this.#answer(request);
    writeFileSync(join(this.folder, "root.pem"), authority.rootCert);
    this.write(own);
    const url = `https://localhost:${this.#far.port}`;
    const files = { rootCert: "root.pem", clientCert: "client.pem", clientKey: "client-key.pem" };
    const shared = { addresses: ["loopback"], tls: { ...files, serverName: DEVELOPMENT_SERVER_NAME } };
    const common = {
      classification: "read",
      permissions: { required: ["deeds:do"] },
      input: z.strictObject({}),
    } as const;
    const output = { output: z.object({ text: z.string() }), outputPolicy: { text: "allow" } } as const;
    const read = { description: "Reads a ticket", ...common, ...output };
    const tools = [
      defineTool({ name: "http_read", ...read, target: httpRequest("http", { method: "GET", path: "/ticket" }) }),
      defineTool({ name: "mcp_read", ...read, target: mcpTool("mcp", "read") }),
    ];
    const systems = { http: { http: { baseUrl: url, ...shared } }, mcp: { mcp: { url: `${url}/mcp`, ...shared } } };
    await this.run({ tools, systems });
  }

  write({ cert, key }: PemPair): void {
    writeFileSync(join(this.folder, "client.pem"), cert);
    writeFileSync(join(this.folder, "client-key.pem"), key);
  }

  /** Calls a tool and returns the certificates of its requests. */
  async read(kind: string): Promise<readonly (string | undefined)[]> {
    this.seen.length = 0;
    const reply = await this.send("POST", "/call", {
      token: await this.agent(),
      body: { tool: `${kind}_read`, args: {} },
    });
    expect(reply.body.result).toEqual({ text: "a ticket" });
    return [...new Set(this.seen)];
  }

  /** The events of a type, by system. */
  events(type: string): readonly unknown[] {
    return this.journal()
      .filter((line) => line.type === type)
      .map((line) => (line as { readonly system?: unknown }).system);
  }

  override async end(): Promise<void> {
    await super.end();
    this.#far?.close();
  }

  #answer({ text, socket }: RawRequest): string {
    this.seen.push((socket as TLSSocket).getPeerCertificate().fingerprint256);
    const [head = "", body = ""] = text.split("\r\n\r\n");
    if (head.startsWith("GET /ticket")) return json({ text: "a ticket" });
    const { id, method, params } = body === "" ? { id: undefined, method: undefined, params: {} } : JSON.parse(body);
    if (id === undefined) return answer(head.startsWith("POST") ? 202 : 405);
    const introduction = { capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } };
    const results: Readonly<Record<string, unknown>> = {
      initialize: { ...introduction, protocolVersion: params.protocolVersion },
      "tools/list": { tools: [{ name: "read", inputSchema: { type: "object" } }] },
      "tools/call": { content: [{ type: "text", text: "a ticket" }] },
    };
    return json({ jsonrpc: "2.0", id, result: results[method] ?? {} });
  }
}

let service: MutualService;
beforeEach(() => {
  service = new MutualService();
});
afterEach(() => service.end());

test("a new client certificate is used by APIs and MCP servers without a restart; one that cannot connect is not", async () => {
  const [authority, strange] = await Promise.all([makeAuthority("own"), makeAuthority("strange")]);
  const [first, second, useless] = await Promise.all([authority.client(), authority.client(), strange.client()]);
  await service.start(authority, first);
  for (const kind of ["http", "mcp"]) expect(await service.read(kind)).toEqual([fingerprintOf(first)]);

  service.write(second);
  await until("the new certificate", () => service.events("certificates.changed").length === 2 || undefined);
  expect(service.events("certificates.changed").toSorted()).toEqual(["http", "mcp"]);
  for (const kind of ["http", "mcp"]) expect(await service.read(kind)).toEqual([fingerprintOf(second)]);

  service.write(useless);
  await until("the refusals", () => service.events("certificates.refused").length === 2 || undefined);
  for (const kind of ["http", "mcp"]) expect(await service.read(kind)).toEqual([fingerprintOf(second)]);

  service.write({ ...first, key: second.key });
  await until("the second refusals", () => service.events("certificates.refused").length === 4 || undefined);
  for (const kind of ["http", "mcp"]) expect(await service.read(kind)).toEqual([fingerprintOf(second)]);
});
