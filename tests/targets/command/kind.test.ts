import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { StartupError } from "../../../src/core/errors.ts";
import { defineTool } from "../../../src/index.ts";
import { assemble, readConfig } from "../../support/build.ts";
import { missing } from "./confinement/stand.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const folder = temporaryDirectory();
for (const name of ["audit", "audit/inner", "reports", "keys"]) mkdirSync(join(folder, name));
writeFileSync(join(folder, "keys/assertion.pem"), "");

function reader(reads: readonly string[]) {
  return defineTool({
    name: "reader",
    description: "Reads",
    classification: "read",
    permissions: { required: ["test:read"] },
    input: z.strictObject({}),
    target: { system: "test", cli: { command: "true", argsBuilder: () => [], confinement: { reads } } },
    output: z.strictObject({ text: z.string() }),
    outputPolicy: { text: "allow" },
    examples: { accepts: [{}], rejects: [{ x: 1 }] },
  });
}

type Sections = Readonly<Record<string, unknown>>;

async function start(reads: readonly string[], commands: Sections = {}, sections: Sections = {}) {
  const written = {
    ...sections,
    tools: [reader(reads)],
    audit: { dir: "audit" },
    jwt: { issuers: [{ issuer: "https://x", jwksUri: "https://x/jwks" }] },
    commands: { allowed: ["true"], ...commands },
  };
  const environment = { PATH: process.env["PATH"] };
  const parts = await assemble(readConfig(written, { folder, environment, origin: "config" }));
  await parts.close();
  return { ...parts, confinement: parts.targets.confinement() };
}

async function problems(reads: readonly string[], sections?: Sections): Promise<readonly string[]> {
  const error: unknown = await start(reads, {}, sections).catch((cause: unknown) => cause);
  return error instanceof StartupError ? error.problems : [];
}

describe.skipIf(missing !== undefined)(`folders a command may access (${missing ?? "held"})`, () => {
  test.each([
    ["the audit itself", "audit", "audit"],
    ["a folder that holds the audit", ".", "audit"],
    ["a folder in the audit", "audit/inner", "audit"],
  ])("%s is refused, with both paths", async (_title, granted, own) => {
    const [problem, ...others] = await problems([join(folder, granted)]);
    expect(problem).toContain(join(folder, granted));
    expect(problem).toContain(`audit.dir: ${join(folder, own)}`);
    // A folder that holds the audit holds its key, too.
    expect(others.length).toBe(granted === "." ? 1 : 0);
    for (const other of others) expect(other).toContain(`audit.checkpointKeyFile: ${join(folder, "audit.key")}`);
  });

  test("a folder with a file that an OpenAPI document refers to is refused", async () => {
    writeFileSync(
      join(folder, "pets.json"),
      '{ "openapi": "3.1.0", "info": {}, "paths": { "/pets": { "$ref": "reports/pets.json" } } }',
    );
    writeFileSync(join(folder, "reports/pets.json"), "{}");
    const systems = { pets: { http: { baseUrl: "https://pets.test", openapi: "pets.json" } } };
    const granted = join(folder, "reports");
    expect(await problems([granted], { systems })).toEqual([
      `tool reader: may use ${granted}, and systems.pets.http.openapi: ${granted}/pets.json is inside it or contains it`,
    ]);
  });

  test("a folder of its own is accepted, and the plan says how it is confined", async () => {
    const { registry, confinement } = await start([join(folder, "reports")]);
    expect(confinement).toEqual({ mode: "prefer", tools: { reader: "confined" }, faults: {} });
    const plan = await registry.list()[0]?.binding.plan({}, { signal: new AbortController().signal });
    expect(plan?.["confinement"]).toMatchObject({ level: "confined", reads: [join(folder, "reports")], network: null });
  });

  test.each([
    ["require", [], { reader: expect.stringContaining("cannot be opened") }],
    ["prefer", ["reader"], { reader: expect.stringContaining("cannot be opened") }],
    ["off", ["reader"], {}],
  ] as const)("%s: a tool that cannot be confined", async (mode, registered, faults) => {
    const { registry, loaded, confinement } = await start([join(folder, "gone")], { confinement: mode });
    expect(registry.list().map(({ tool }) => tool.name)).toEqual([...registered]);
    expect(loaded.notRegistered.length).toBe(1 - registered.length);
    expect(confinement?.faults).toEqual(faults);
    expect(confinement?.tools).toEqual(registered.length === 0 ? {} : { reader: "none" });
  });
});
