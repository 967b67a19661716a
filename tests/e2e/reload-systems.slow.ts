import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { ReloadService } from "../support/reload-service.ts";
import { until } from "../support/until.ts";
import { LAB_PROTO_FOLDER, type Lab, startLab } from "../targets/grpc/support/lab.ts";

const MANIFEST = `
import { defineTool, grpcMethod } from "safe-tool-call";
import { z } from "zod";
export const inspect = defineTool({
  name: "hello", description: "Inspect", classification: "read", permissions: { required: ["hello:say"] },
  input: z.strictObject({}),
  target: grpcMethod("lab", "lab.v1.Lab", "Inspect"),
  output: z.object({ headers: z.record(z.string(), z.string()) }), outputPolicy: { headers: "allow" }, scan: { headers: "off" },
});
`;

const labs: Lab[] = [];
let service: ReloadService;

function systems({ port }: Lab): Record<string, unknown> {
  return { systems: { lab: { endpoint: `127.0.0.1:${port}`, plaintext: true, proto: LAB_PROTO_FOLDER } } };
}

beforeAll(async () => {
  labs.push(await startLab(), await startLab());
  service = new ReloadService(labs[0] && systems(labs[0]));
  service.write("tools/hello.ts", MANIFEST);
  await service.start();
});
afterAll(async () => {
  await service.end();
  for (const lab of labs) lab.close();
});

test("a system moves while calls run: none is lost, and the old address is no longer used", async () => {
  const [former, next] = labs as [Lab, Lab];
  const token = await service.agent();
  const endings = new Map<string, number>();
  let going = true;
  const callers = Array.from({ length: 16 }, async () => {
    while (going) {
      const { body } = await service.call({}, token);
      const ending = body.error?.code ?? body.status;
      endings.set(ending, (endings.get(ending) ?? 0) + 1);
    }
  });
  await until("some calls", () => ((endings.get("success") ?? 0) > 20 ? true : undefined));
  service.configure(systems(next));
  expect((await service.reload()).http).toBe(200);
  const operator = await service.operator();
  await until("the old channels to be closed", async () => {
    const { body } = await service.send("GET", "/metrics", { token: operator });
    const open = [...(body as string).matchAll(/^stc_grpc_channels\{.*\} (\d+)$/gm)].map(([, count]) => Number(count));
    return open.reduce((sum, count) => sum + count, 0) <= 1 ? true : undefined;
  });
  former.close();
  const before = endings.get("success") ?? 0;
  await until("calls at the new address", () => ((endings.get("success") ?? 0) > before + 40 ? true : undefined));
  going = false;
  await Promise.all(callers);
  expect([...endings.keys()]).toEqual(["success"]);
});

test("twenty reloads leave no descriptor open", async () => {
  const open = (): number => readdirSync("/proc/self/fd").length;
  await service.reload();
  await service.says();
  const before = open();
  for (let round = 0; round < 20; round += 1) {
    service.write("tools/hello.ts", `${MANIFEST}// ${round}\n`);
    expect((await service.reload()).http).toBe(200);
    expect((await service.call()).body.status).toBe("success");
  }
  await until("the descriptors to be closed", () => (open() <= before + 4 ? true : undefined));
});

const NAP = `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const nap = defineTool(() => ({
  name: "nap", description: "Nap", classification: "read", permissions: { required: ["hello:say"] },
  input: z.strictObject({}),
  target: { system: "beds", cli: { command: "sleep", argsBuilder: () => ["1"], confinement: { runs: "command" } } },
  output: z.object({ text: z.string() }), outputPolicy: { text: "allow" },
}));
`;

test("a command in progress ends as usual, though its configuration was replaced", async () => {
  const world = new ReloadService({ commands: { allowed: ["sleep"] } });
  world.write("tools/nap.ts", NAP);
  await world.start();
  try {
    const token = await world.agent();
    const operator = await world.operator(["metrics:read", "service:reload"]);
    const naps = Array.from({ length: 3 }, () => world.call({ tool: "nap" }, token));
    await until("the naps", async () => {
      const { body } = await world.send("GET", "/metrics", { token: operator });
      return (body as string).includes("stc_calls_in_flight 3") ? true : undefined;
    });
    world.remove("tools/nap.ts");
    expect((await world.reload(operator)).http).toBe(200);
    expect((await world.call({ tool: "nap" }, token)).body.error.code).toBe("TOOL_NOT_FOUND");
    expect((await Promise.all(naps)).map(({ body }) => body.error?.code ?? body.status)).toEqual(
      Array.from({ length: 3 }, () => "success"),
    );
  } finally {
    await world.end();
  }
});
