import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import type { Loose } from "../../support/asking-service.ts";
import { definition } from "./http-server.ts";

const META = { "io.modelcontextprotocol/subscriptionId": 0 };

/** The official server, for 2026-07-28 only, whose streams the test may replace. */
export class ModernServer {
  description = "Does echo";
  listChanged = true;
  /** Answers `subscriptions/listen`; undefined: the official server does. */
  listen: ((message: Loose) => Response) | undefined;
  readonly methods: string[] = [];
  readonly #handler = createMcpHandler(
    () => {
      const official = new Server(
        { name: "official", version: "1" },
        { capabilities: { tools: { listChanged: this.listChanged } } },
      );
      official.setRequestHandler("tools/list", () => ({
        tools: [{ ...definition("echo"), description: this.description }],
      }));
      official.setRequestHandler("tools/call", () => ({ content: [{ type: "text", text: "called" }] }));
      return official;
    },
    { legacy: "reject" },
  );
  readonly #http = Bun.serve({
    ...{ hostname: "127.0.0.1", port: 0, idleTimeout: 0 },
    fetch: async (request) => {
      const message = (await request.clone().json()) as Loose;
      this.methods.push(message.method);
      if (message.method === "subscriptions/listen" && this.listen !== undefined) return this.listen(message);
      return this.#handler.fetch(request);
    },
  });

  get entry(): Readonly<Record<string, unknown>> {
    return { url: `http://127.0.0.1:${this.#http.port}/mcp`, plaintext: true, addresses: ["loopback"] };
  }

  change(description: string): void {
    this.description = description;
    this.#handler.notify.toolsChanged();
  }

  count(method: string): number {
    return this.methods.filter((each) => each === method).length;
  }

  async subscribed(count = 1): Promise<void> {
    while (this.count("subscriptions/listen") < count) await Bun.sleep(10);
  }

  async close(): Promise<void> {
    await this.#handler.close();
    await this.#http.stop(true);
  }
}

export function events(...messages: readonly object[]): Response {
  const text = messages.map((message) => `data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`).join("");
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}

export const acknowledged = (id: number) => ({
  method: "notifications/subscriptions/acknowledged",
  params: {
    notifications: { toolsListChanged: true },
    _meta: { ...META, "io.modelcontextprotocol/subscriptionId": id },
  },
});
export const changed = { method: "notifications/tools/list_changed", params: { _meta: META } };
