import { defineTool, mcpTool } from "safe-tool-call";
import { z } from "zod";

/** The tool of the bench's MCP server, governed. */
export const upstreamEcho = defineTool({
  name: "bench_upstream",
  description: "Answer what was asked",
  classification: "read",
  permissions: { required: ["bench:run"] },
  input: z.strictObject({ text: z.string().max(200) }),
  output: z.strictObject({ text: z.string() }),
  outputPolicy: { text: "allow" },
  target: mcpTool("bench", "echo"),
});

/** The MCP server, as the service's configuration names it. */
export function upstreamSystem(port: number | string) {
  return { bench: { mcp: { url: `http://127.0.0.1:${port}/mcp`, plaintext: true, addresses: ["loopback"] } } };
}
