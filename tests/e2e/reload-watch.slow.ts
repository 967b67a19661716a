import { afterEach, expect, test } from "bun:test";
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { until } from "../support/until.ts";

const WATCH = { reload: { trigger: "watch", perMinuteMax: 6_000 } };
const running: ReloadService[] = [];
afterEach(async () => {
  for (const service of running.splice(0)) await service.end();
});

async function started(service: ReloadService): Promise<ReloadService> {
  running.push(service);
  return service.start();
}

async function saying(
  service: ReloadService,
  wanted: string,
  more: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const token = await service.agent();
  await until(`the answer ${wanted}`, async () => ((await service.says(more, token)) === wanted ? true : undefined));
}

async function refused(service: ReloadService): Promise<readonly unknown[]> {
  return until("the refusal", () => {
    const lines = service.journal("configuration.refused");
    return lines.length > 0 ? lines : undefined;
  });
}

test("a file that is written, replaced, added below or removed is adopted automatically", async () => {
  const service = await started(new ReloadService(WATCH));
  service.write("tools/hello.ts", manifest({ says: "written" }));
  await saying(service, "written");
  service.write("new", manifest({ says: "replaced" }));
  renameSync(join(service.folder, "new"), join(service.folder, "tools/hello.ts"));
  await saying(service, "replaced");
  mkdirSync(join(service.folder, "tools/below/far"), { recursive: true });
  // Taken together, so that the new folders have been seen when a file is put into one of them.
  service.write("tools/hello.ts", manifest({ says: "with folders" }));
  await saying(service, "with folders");
  service.write("tools/below/far/other.ts", manifest({ name: "other", says: "added" }));
  await saying(service, "added", { tool: "other" });
  service.remove("tools/below/far/other.ts");
  await saying(service, "TOOL_NOT_FOUND", { tool: "other" });
  expect(service.journal("configuration.changed").map(({ by }) => by)).not.toContain("signal");
  expect(service.journal("configuration.refused")).toEqual([]);
});

test("of many changes in a row the last one counts, and partial states are never read", async () => {
  const service = await started(new ReloadService(WATCH));
  const whole = manifest({ says: "whole" });
  for (let part = 1; part <= 20; part += 1) {
    service.write("tools/hello.ts", whole.slice(0, Math.floor((whole.length * part) / 20)));
    await Bun.sleep(10);
  }
  await saying(service, "whole");
  expect(service.journal("configuration.refused")).toEqual([]);
  expect(service.journal("configuration.changed")).toHaveLength(1);
});

test("Kubernetes' exchange of a mounted folder is noticed", async () => {
  const service = new ReloadService({ ...WATCH, tools: ["./mounted"] });
  const mounted = join(service.folder, "mounted");
  const put = (version: string, says: string): void => {
    mkdirSync(join(mounted, version), { recursive: true });
    const words = `export const says = "${says}";\n`;
    writeFileSync(join(mounted, version, "words.ts"), words);
    const before = 'import { says } from "./words.ts";';
    writeFileSync(join(mounted, version, "hello.ts"), manifest({ before, body: "return { said: says };" }));
    symlinkSync(version, join(mounted, "..data_tmp"));
    renameSync(join(mounted, "..data_tmp"), join(mounted, "..data"));
  };
  put("..2026_01", "one");
  for (const name of ["hello.ts", "words.ts"]) symlinkSync(join("..data", name), join(mounted, name));
  await started(service);
  await saying(service, "one");
  put("..2026_02", "two");
  rmSync(join(mounted, "..2026_01"), { recursive: true });
  await saying(service, "two");
  put("..2026_03", "three");
  await saying(service, "three");
  expect(service.journal("configuration.refused")).toEqual([]);
});

test("a refusal is logged once, and checked again when a file changes that it names", async () => {
  const service = await started(new ReloadService(WATCH));
  const [agents, operators] = service.issuers.profiles();
  const { jwks, ...profile } = agents as { readonly jwks: unknown };
  service.configure({ jwt: { issuers: [{ ...profile, jwksFile: "./keys/agents.json" }, operators] } });
  await refused(service);
  expect(await service.says()).toBe("first");
  mkdirSync(join(service.folder, "keys"));
  service.write("keys/agents.json", JSON.stringify(jwks));
  await until("the configuration", () => (service.journal("configuration.changed").length > 0 ? true : undefined));
  expect(await service.says()).toBe("first");
  expect(service.journal("configuration.refused")).toHaveLength(1);
  service.write("keys/agents.json", JSON.stringify({ keys: [] }));
  await until("the second refusal", () => (service.journal("configuration.refused").length === 2 ? true : undefined));
  service.write("keys/agents.json", JSON.stringify(jwks));
  const token = await service.operator();
  await until("that all is well", async () => {
    const { body } = await service.send("GET", "/readyz", { token });
    return body.configuration.lastRefused === null ? true : undefined;
  });
  expect(service.journal("configuration.changed")).toHaveLength(1);
});

test("a file that an OpenAPI document refers to is watched, and manifests are checked against its new content", async () => {
  const item = (name: string): string =>
    `get: { responses: {}, parameters: [{ name: ${name}, in: query, schema: { type: string } }] }\n`;
  const systems = { pets: { http: { baseUrl: "https://pets.test", openapi: "./apis/pets.yaml" } } };
  const service = new ReloadService({ ...WATCH, systems });
  service.write("apis/pets.yaml", "openapi: 3.1.0\npaths: { /pets: { $ref: parts/list.yaml } }\n");
  service.write("apis/parts/list.yaml", item("kind"));
  const tool = `
    name: list_pets
    description: List pets
    classification: read
    permissions: { required: ["pets:read"] }
    target: { system: pets, http: { method: GET, path: /pets, query: { kind: "{kind}" } } }
    input: { type: object, properties: { kind: { type: string } } }
    output: { type: object, additionalProperties: true }
    outputPolicy: {}
  `;
  service.write("tools/list-pets.tool.yaml", tool);
  await started(service);
  service.write("apis/parts/list.yaml", item("sort"));
  const [refusal] = await refused(service);
  expect(refusal).toMatchObject({ problems: 1, by: "watch" });
  service.write("apis/parts/list.yaml", `${item("kind")}x-note: new\n`);
  await until("the new document", () => (service.journal("configuration.changed").length > 0 ? true : undefined));
});
