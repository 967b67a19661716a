import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { SafeToolCallClient } from "../../clients/typescript/src/client.ts";
import { ClientService } from "../support/client-service.ts";
import { CLIENTS, LANGUAGES, namedSchemas } from "./schema-types.ts";

const service = new ClientService();
let document: { readonly components: { readonly schemas: Readonly<Record<string, object>> } };

beforeAll(async () => {
  await service.start();
  document = (await (await fetch(`${service.url}/openapi.json`)).json()) as typeof document;
});
afterAll(() => service.end());

test("the clients' types are those of the running service: bun run clients:types", () => {
  const schemas = namedSchemas(document);
  for (const { file, write } of LANGUAGES) {
    expect([file, formatted(file, write(schemas))]).toEqual([file, readFileSync(join(CLIENTS, file), "utf8")]);
  }
});

test("the service's answers are what the document says", async () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: "openapi", ...document });
  const isA = (name: string, value: unknown): void => {
    const validate = ajv.getSchema(`openapi#/components/schemas/${name}`);
    expect([name, validate?.(value), validate?.errors ?? null]).toEqual([name, true, null]);
  };
  const token = await service.token();
  const agent = new SafeToolCallClient({ url: service.url, token });
  isA("Success", await agent.call("read_note", { title: "a" }));
  isA("Refusal", await agent.call("read_note", { title: 7 }));
  isA("Refusal", (await service.send("GET", "/nowhere", { token })).body);
  isA("DryRun", await agent.call("send_note", { to: "ada", note: "hello" }, { dryRun: true }));
  const pending = await agent.call("send_note", { to: "ada", note: "hello" });
  isA("Pending", pending);
  isA("ToolList", (await service.send("GET", "/tools", { token })).body);
  isA("ToolList", (await service.send("GET", "/tools?format=openai", { token })).body);
  isA("Tool", (await service.send("GET", "/tools/read_note", { token })).body);
  isA("SessionAnswer", (await service.send("POST", "/sessions", { token })).body);
  const [open] = await service.open();
  await service.approve(open?.id ?? "");
  isA("ApprovalAnswer", (await service.send("GET", `/approvals/${open?.id}`, { token })).body);
  isA("ApprovalList", (await service.send("GET", "/approvals?state=all", { token })).body);
  isA("ApprovalList", (await service.send("GET", "/approvals?state=all", { token: await service.person() })).body);
});

function formatted(file: string, text: string): string {
  if (!file.endsWith(".ts")) return text;
  const root = resolve(import.meta.dir, "../..");
  const biome = join(root, "node_modules/@biomejs/biome/bin/biome");
  const { stdout } = Bun.spawnSync([process.execPath, biome, "format", `--stdin-file-path=clients/${file}`], {
    cwd: root,
    stdin: Buffer.from(text),
  });
  return stdout.toString();
}
