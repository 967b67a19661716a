import { afterEach, expect, test } from "bun:test";
import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { defineTool, mcpTool } from "../../src/index.ts";
import { pythonWith } from "../support/python.ts";
import { environmentOf } from "../support/stc.ts";
import { HostileWorld } from "../targets/mcp/world.ts";

const PROGRAM = join(import.meta.dir, "mcp_server.py");

const input = z.strictObject({ id: z.string().max(20) });
const common = { classification: "read", permissions: { required: ["deeds:do"] }, input } as const;
const TOOLS = [
  defineTool({
    ...{ name: "get_ticket", description: "Reads a ticket", ...common },
    output: z.object({ id: z.string(), state: z.string() }),
    outputPolicy: { id: "allow", state: "allow" },
    target: mcpTool("hostile", "get_ticket"),
  }),
  defineTool({
    ...{ name: "fails", description: "Reads a ticket, and fails", ...common },
    output: z.object({ text: z.string() }),
    outputPolicy: { text: "allow" },
    target: mcpTool("hostile", "fails", { result: "text" }),
  }),
];

let world: HostileWorld | undefined;
let child: Bun.Subprocess<"ignore", "pipe", "ignore"> | undefined;
afterEach(async () => {
  await world?.end();
  child?.kill();
  await child?.exited;
  child = undefined;
});

/** The entry of `systems` for each way to reach the server. */
const ENTRIES: Readonly<Record<string, (python: string) => Promise<Readonly<Record<string, unknown>>>>> = {
  async stdio(python) {
    // The program may be outside the directories that every confined program reads.
    const reads = [dirname(dirname(python)), dirname(dirname(realpathSync(python))), import.meta.dir];
    return {
      command: python,
      args: [PROGRAM, "stdio"],
      reads,
      env: { PYTHONDONTWRITEBYTECODE: "1" },
      startSeconds: 60,
    };
  },
  async http(python) {
    child = Bun.spawn([python, "-u", PROGRAM, "http"], {
      env: environmentOf({ PYTHONDONTWRITEBYTECODE: "1" }),
      ...{ stdin: "ignore", stdout: "pipe", stderr: "ignore" },
    });
    const { value } = await child.stdout.getReader().read();
    const port = Number(new TextDecoder().decode(value));
    return { url: `http://127.0.0.1:${port}/mcp`, plaintext: true, addresses: ["loopback"] };
  },
};

test.each(Object.keys(ENTRIES))("a server in Python over %s lists its tools and answers calls", async (transport) => {
  const entry = await ENTRIES[transport]?.(await pythonWith(join(import.meta.dir, "requirements.txt")));
  world = await new HostileWorld().startWith(TOOLS, entry ?? {});
  const token = await world.agent();
  const call = (tool: string) => world?.send("POST", "/call", { token, body: { tool, args: { id: "t-7" } } });
  expect((await world.health()).body.systems.hostile).toMatchObject({ quarantined: [] });
  expect((await call("get_ticket"))?.body.result).toEqual({ id: "t-7", state: "open" });
  const failed = await call("fails");
  expect(failed?.body.error).toMatchObject({ code: "TARGET_FAILED", retryable: false });
  expect(JSON.stringify(failed?.body)).not.toContain("/srv/tickets");
  expect((await world.health()).body.systems.hostile).toMatchObject({ state: "connected", sessions: 1 });
});
