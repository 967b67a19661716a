import type { Loose } from "../../support/asking-service.ts";

const INPUT = {
  type: "object" as const,
  properties: { text: { type: "string" } },
  required: ["text"],
  maxProperties: 2 ** 64,
};
export const definition = (name: string) => ({ name, description: `Does ${name}`, inputSchema: INPUT });

interface Seen {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly message: Loose;
}

/** A server over HTTP whose answer to a call is given by the test. */
export class HttpServer {
  readonly seen: Seen[] = [];
  tools = ["echo"].map(definition);
  sessionId: string | undefined = "session-1";
  /** Answers a call; the other methods are answered as they should be. */
  call: (id: number, message: Loose, signal: AbortSignal) => Response | Promise<Response> = (id, { params }) =>
    this.json({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: params.arguments.text }] } });
  list: (id: number) => Response = (id) => this.json({ jsonrpc: "2.0", id, result: { tools: this.tools } });
  listen: () => Response = () => new Response(null, { status: 405 });
  /** Answers a request of a session that does not exist. */
  gone: (id: number) => Response = () => new Response(null, { status: 404 });
  readonly #server: Bun.Server<undefined>;

  constructor(tls?: Bun.TLSOptions) {
    const fetch = (request: Request) => this.#answer(request);
    this.#server = Bun.serve({ hostname: "127.0.0.1", port: 0, idleTimeout: 0, fetch, ...(tls && { tls }) });
  }

  get url(): string {
    return `${this.#server.protocol}://127.0.0.1:${this.#server.port}/mcp`;
  }

  json(body: unknown, init: ResponseInit = {}): Response {
    return Response.json(body, init);
  }

  events(...messages: readonly unknown[]): Response {
    const text = messages.map((message) => `event: message\ndata: ${JSON.stringify(message)}\n\n`).join("");
    return new Response(text, { headers: { "content-type": "text/event-stream" } });
  }

  async close(): Promise<void> {
    await this.#server.stop(true);
  }

  of(method: string): readonly Seen[] {
    return this.seen.filter(({ message, method: verb }) => (message?.method ?? verb) === method);
  }

  async #answer(request: Request): Promise<Response> {
    const text = await request.text();
    const message = text === "" ? undefined : JSON.parse(text);
    this.seen.push({ method: request.method, headers: Object.fromEntries(request.headers), message });
    if (request.method === "GET") return this.listen();
    if (request.method === "DELETE") return new Response(null, { status: 200 });
    const { id, method, params } = message;
    if (method === "initialize") {
      const serverInfo = { name: "hostile", version: "1" };
      const result = { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo };
      const headers = this.sessionId === undefined ? {} : { "mcp-session-id": this.sessionId };
      return this.json({ jsonrpc: "2.0", id, result }, { headers });
    }
    if (id === undefined || method === undefined) return new Response(null, { status: 202 });
    if (this.sessionId !== undefined && request.headers.get("mcp-session-id") !== this.sessionId) {
      return this.gone(id);
    }
    if (method === "tools/list") return this.list(id);
    if (method === "tools/call") return this.call(id, message, request.signal);
    return this.json({ jsonrpc: "2.0", id, result: {} });
  }
}
