import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { defineTool, type McpTarget, mcpTool } from "../../../src/index.ts";
import { AskingService, type Loose, type Reply } from "../../support/asking-service.ts";
import { PROJECT } from "../../support/world.ts";

const NODE = Bun.which("node");
const PACKAGES = join(PROJECT, "node_modules");

function everythingTool(tool: string, input: z.ZodObject, options: Partial<McpTarget["mcp"]> = {}) {
  return defineTool({
    name: tool.replaceAll("-", "_"),
    description: "Reaches a tool of the server that has everything",
    classification: "read",
    category: "read",
    permissions: { required: ["deeds:do"] },
    input,
    output: z.record(z.string(), z.unknown()),
    outputPolicy: { text: "allow", conditions: "allow" },
    target: mcpTool("everything", tool, options),
  });
}

class EverythingService extends AskingService {
  async start(): Promise<void> {
    const none = z.strictObject({});
    const tools = [
      everythingTool("echo", z.strictObject({ message: z.string().max(100) })),
      everythingTool("get-sum", z.strictObject({ a: z.number(), b: z.number() })),
      everythingTool("get-structured-content", z.strictObject({ location: z.enum(["New York", "Chicago"]) })),
      everythingTool("get-tiny-image", none),
      everythingTool("get-env", none),
      everythingTool("get-resource-links", none),
    ];
    const args = [join(PACKAGES, "@modelcontextprotocol/server-everything/dist/index.js"), "stdio"];
    const mcp = { command: NODE ?? "node", args, reads: [PACKAGES] };
    await this.run({ tools, systems: { everything: { mcp } }, commands: { launchers: 0 } });
  }

  async call(tool: string, args: Loose = {}): Promise<Reply> {
    return this.send("POST", "/call", { token: await this.agent(), body: { tool, args } });
  }
}

describe.skipIf(NODE === null)("the official server that has everything, as a confined process", () => {
  const service = new EverythingService();
  beforeAll(() => service.start());
  afterAll(() => service.end());

  test("its texts are results", async () => {
    expect((await service.call("echo", { message: "hello" })).body.result).toEqual({ text: "Echo: hello" });
    expect((await service.call("get_sum", { a: 2, b: 3 })).body.result.text).toContain("5");
  });

  test("its structured content goes through the output policy", async () => {
    const reply = await service.call("get_structured_content", { location: "Chicago" });
    expect(reply.body.result).toEqual({ conditions: "Light rain / drizzle" });
  });

  test("its images and links are described", async () => {
    const { text } = (await service.call("get_tiny_image")).body.result;
    expect(text).toMatch(/\[omitted: image, image\/png, \d+ bytes\]/);
    expect((await service.call("get_resource_links")).body.result.text).toContain("[omitted: link to a resource");
  });

  test("its environment has nothing of the service's", async () => {
    const { text } = (await service.call("get_env")).body.result;
    const names = [...String(text).matchAll(/^ {2}"(\w+)":/gm)].map(([, name]) => name);
    expect(names.toSorted()).toEqual(["HOME", "LANG", "LC_ALL", "PATH", "STC_CALL_ID", "TMPDIR", "TZ"]);
  });
});
