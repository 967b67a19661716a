import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import type { AuditEntry } from "../../src/audit/entry.ts";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";

export const MODERN = "2026-07-28";

const order = { order: z.string().regex(/^ord_\d+$/) };

/** A read with a masked and a stripped field, changes that ask, and results of every size. */
export const TOOLS = [
  defineTool({
    name: "orders_find",
    title: "Find an order by its id",
    description: "Finds an order",
    classification: "read",
    permissions: { required: ["orders:read"] },
    input: z.strictObject(order),
    output: z.object({ order: z.string(), email: z.email(), note: z.string(), total: z.number() }),
    outputPolicy: { order: "allow", email: "mask", total: "allow" },
    handler: ({ order: id }) => ({ order: id, email: "ann@customers.example", note: "internal", total: 12.5 }),
  }),
  defineTool({
    name: "orders_refund",
    description: "Refunds an order",
    classification: "destructive",
    category: "write",
    permissions: {
      required: ["orders:refund"],
      elevatedIf: { when: ({ cents }: { readonly cents: number }) => cents > 1_000, required: ["orders:refund-large"] },
    },
    input: z.strictObject({ ...order, cents: z.int().min(1).max(100_000) }),
    output: z.object({ refunded: z.int() }),
    outputPolicy: { refunded: "allow" },
    inputPolicy: { order: "allow" },
    handler: ({ cents }) => ({ refunded: cents }),
  }),
  defineTool({
    name: "reports_read",
    description: "Reads a report of the given length",
    classification: "read",
    permissions: { required: ["orders:read"] },
    input: z.strictObject({ characters: z.int().min(0).max(1_000_000), lines: z.int().min(0).max(100_000).default(0) }),
    output: z.object({ text: z.string().min(1), lines: z.array(z.string()).optional() }),
    outputPolicy: { text: "allow", "lines[]": "allow" },
    limits: { outputBytesMax: 2_000_000 },
    handler: ({ characters, lines }) => ({
      text: "x".repeat(characters),
      ...(lines > 0 && { lines: Array.from({ length: lines }, (_, index) => `line ${index}`) }),
    }),
  }),
];

export const PERMISSIONS = ["orders:read", "orders:refund"];

interface Posted {
  readonly token?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** The real service with MCP, clients of the official package, and requests by hand. */
export class McpWorld extends AskingService {
  readonly #clients: Client[] = [];

  async start(sections: Readonly<Record<string, unknown>> = {}): Promise<this> {
    await this.run({ tools: TOOLS, approvals: { store: "sqlite://./approvals.sqlite" }, ...sections });
    return this;
  }

  caller(more: Parameters<AskingService["agent"]>[0] = {}): Promise<string> {
    return this.agent({ permissions: PERMISSIONS, ...more });
  }

  /** A connected client of the official package. */
  async client(version: string, token?: string, capabilities: Loose = {}): Promise<Client> {
    const client = new Client(
      { name: "test-client", version: "1.2.3" },
      {
        capabilities,
        versionNegotiation: version === MODERN ? { mode: { pin: MODERN } } : { mode: "legacy" },
        ...(version !== MODERN && { supportedProtocolVersions: [version] }),
      },
    );
    const authorization = `Bearer ${token ?? (await this.caller())}`;
    const transport = new StreamableHTTPClientTransport(new URL(`${this.url}/mcp`), {
      requestInit: { headers: { authorization } },
    });
    await client.connect(transport);
    this.#clients.push(client);
    return client;
  }

  override async stop(): Promise<void> {
    for (const client of this.#clients.splice(0)) await client.close();
    await super.stop();
  }

  /** Sends a body as it is. */
  async post(body: unknown, { token, headers = {}, signal }: Posted = {}): Promise<Reply> {
    const given = token ?? (await this.caller());
    return this.send("POST", "/mcp", { token: given, body, headers, ...(signal && { signal }) });
  }

  /** A request of 2026-07-28 with everything that its version asks for. */
  modern(method: string, params: Loose = {}, posted: Posted = {}): Promise<Reply> {
    const headers = {
      "mcp-protocol-version": MODERN,
      "mcp-method": method,
      ...(params.name && { "mcp-name": params.name }),
    };
    const body = { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: { ...ENVELOPE, ...params._meta } } };
    return this.post(body, { ...posted, headers: { ...headers, ...posted.headers } });
  }

  call(name: string, args: unknown, { _meta, ...posted }: Posted & { readonly _meta?: object } = {}): Promise<Reply> {
    return this.modern("tools/call", { name, arguments: args, ...(_meta && { _meta }) }, posted);
  }

  /** The entry of the last call. */
  last(): AuditEntry | undefined {
    return this.entries().at(-1);
  }
}

export const ENVELOPE = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "hand", version: "1" },
};
