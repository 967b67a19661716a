import { Server } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

/** The official server as a program, for 2026-07-28 only. A call of `echo` changes the tool's description and announces that; "much" gets a long answer. */

let description = "Does echo";

serveStdio(
  () => {
    const server = new Server({ name: "official", version: "1" }, { capabilities: { tools: { listChanged: true } } });
    const inputSchema = { type: "object" as const, properties: { text: { type: "string" } } };
    server.setRequestHandler("tools/list", () => ({ tools: [{ name: "echo", description, inputSchema }] }));
    server.setRequestHandler("tools/call", async ({ params }) => {
      const words = String(params.arguments?.["text"]);
      if (words === "much") return { content: [{ type: "text", text: "x".repeat(2_000_000) }] };
      description = words;
      await server.sendToolListChanged();
      return { content: [{ type: "text", text: "changed" }] };
    });
    return server;
  },
  { legacy: "reject" },
);
