import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { z } from "zod";
import { defineTool } from "../../../src/index.ts";
import { assemble, readConfig } from "../../support/build.ts";
import { LiveIssuers } from "../../support/live-tokens.ts";

const issuers = new LiveIssuers();
const folder = mkdtempSync(join(tmpdir(), "stc-identity-"));

const inline = (name: string, system: string, description = "Does it") => ({
  ...({ name, description, classification: "write", category: "write" } as const),
  ...{ permissions: { required: ["deeds:do"] }, input: z.strictObject({ what: z.string().max(9) }) },
  ...{ output: z.object({ done: z.boolean() }), outputPolicy: { done: "allow" } as const },
  target: { system, handler: () => ({ done: true }) },
});

const yaml = (name: string, policy: string) => `name: ${name}
description: Get one thing
classification: read
permissions: { required: ["deeds:do"] }
target: { system: ${name}_api, http: { method: GET, path: "/${name}" } }
input: { type: object, properties: {} }
output: { type: object, properties: { id: { type: string }, more: { type: string } } }
outputPolicy: { ${policy} }
`;

/** An argument of a function in a manifest: its text is a part of the manifest. */
const code = (name: string, says: string) => `
import { z } from "zod";
import { defineTool } from "safe-tool-call";
import { WORD } from "./words/${name}.ts";
export const ${name} = defineTool({
  name: "${name}", description: "Says " + WORD, classification: "write", category: "write",
  permissions: { required: ["deeds:do"] }, input: z.strictObject({}), output: z.object({ done: z.boolean() }),
  outputPolicy: { done: "allow" }, handler: () => ({ done: "${says}" !== "" }),
});
`;

const COMMAND = `
import { z } from "zod";
import { defineTool } from "safe-tool-call";
export const listing = defineTool({
  name: "listing", description: "List", classification: "write", permissions: { required: ["deeds:do"] },
  input: z.strictObject({}), output: z.object({ output: z.string() }), outputPolicy: { output: "allow" },
  target: { system: "shell", cli: { command: "true", options: [], argsBuilder: () => [], parse: () => ({ output: "" }) } },
});
`;

interface Written {
  tools: unknown[];
  systems: Record<string, Record<string, unknown>>;
  approvals: { deployment: string; rules: Record<string, unknown>[]; policies: Record<string, unknown>[] } & Record<
    string,
    unknown
  >;
  [section: string]: unknown;
}

const base = (): Written => ({
  tools: [
    join(folder, "tools"),
    defineTool(inline("deed", "desk")),
    defineTool((config) => inline("told", "desk2", `Tells ${config.setting("words", "greeting")}`)),
  ],
  systems: {
    first_api: { http: { baseUrl: "https://first.test", addresses: ["private"] } },
    second_api: { http: { baseUrl: "https://second.test", addresses: ["private"] } },
    words: { greeting: "hello", farewell: "bye" },
    desk: { colour: "red" },
    shell: { colour: "red" },
  },
  approvals: {
    deployment: "here",
    store: "sqlite://./approvals.sqlite",
    rules: [
      { name: "deeds", when: { tool: "deed" }, verdict: "ask" },
      { name: "seconds", when: { system: "second_api" }, verdict: "ask" },
    ],
    policies: [{ name: "desks", when: { systems: ["desk"] }, require: { count: 1 } }],
  },
  commands: { allowed: ["true"], confinement: "off" },
  jwt: { issuers: issuers.profiles() },
  audit: { dir: "./audit" },
});

const ALL = ["first", "second", "deed", "told", "coded", "shared", "listing"] as const;

interface Edit {
  readonly title: string;
  readonly concerns: readonly (typeof ALL)[number][];
  readonly apply: (config: Written) => unknown;
}

const http = (name: string, change: object) => (config: Written) => {
  const entry = config.systems[name] ?? {};
  entry["http"] = { ...(entry["http"] as object), ...change };
};
const file = (path: string, text: () => string) => () => writeFileSync(join(folder, "tools", path), text());

const EDITS: readonly Edit[] = (
  [
    ["another deployment", ALL, (config) => (config.approvals.deployment = "there")],
    ["another address of a system", ["first"], http("first_api", { baseUrl: "https://elsewhere.test" })],
    ["headers of a system", ["second"], http("second_api", { headers: { "x-team": "a" } })],
    [
      "a setting that a manifest reads",
      ["told"],
      (config) => (config.systems["words"] = { greeting: "hi", farewell: "bye" }),
    ],
    ["a setting that no manifest reads", [], (config) => ((config.systems["words"] ?? {})["farewell"] = "so long")],
    ["a system that no tool has", [], (config) => (config.systems["spare"] = { colour: "blue" })],
    ["the system of a function", ["deed"], (config) => (config.systems["desk"] = { colour: "blue" })],
    ["the system of a command", ["listing"], (config) => (config.systems["shell"] = { colour: "blue" })],
    [
      "a rule about one tool",
      ["coded"],
      (config) => config.approvals.rules.push({ name: "coding", when: { tool: "coded" }, verdict: "ask" }),
    ],
    [
      "a rule about a system",
      ["first"],
      (config) => config.approvals.rules.push({ name: "firsts", when: { system: "first_api" }, verdict: "deny" }),
    ],
    [
      "a rule about a category",
      ["deed", "told", "coded", "shared"],
      (config) => config.approvals.rules.push({ name: "writes", when: { category: "write" }, verdict: "ask" }),
    ],
    [
      "a rule about shells",
      ["listing"],
      (config) =>
        config.approvals.rules.push({ name: "helm", when: { shell: { programs: ["helm"] } }, verdict: "ask" }),
    ],
    ["examples of a rule", [], (config) => ((config.approvals.rules[0] ?? {})["examples"] = { matches: [{}] })],
    ["another order of the rules", [], (config) => config.approvals.rules.reverse()],
    [
      "the risk of a rule",
      ["second"],
      ({ approvals }) => Object.assign(approvals.rules.find(({ name }) => name === "seconds") ?? {}, { risk: "high" }),
    ],
    [
      "a policy about one tool",
      ["shared"],
      (config) =>
        config.approvals.policies.push({ name: "sharing", when: { tools: ["shar*"] }, require: { count: 1 } }),
    ],
    [
      "a policy of a system",
      ["deed"],
      (config) => Object.assign(config.approvals.policies[0] ?? {}, { scopes: ["once"] }),
    ],
    [
      "the mode and the deadlines",
      [],
      (config) => Object.assign(config.approvals, { mode: "autoEdit", decideBySeconds: 60, attach: "off" }),
    ],
    [
      "logs and traces",
      [],
      (config) => Object.assign(config, { log: { level: "silent" }, telemetry: { serviceName: "other" } }),
    ],
    [
      "the output policy of one tool",
      ["second"],
      file("second.tool.yaml", () => yaml("second", "id: allow, more: mask")),
    ],
    [
      "whether one tool only adds",
      ["deed"],
      (config) => (config.tools[1] = defineTool({ ...inline("deed", "desk"), additive: true })),
    ],
    ["the code of one tool", ["coded"], file("coded.ts", () => code("coded", "other"))],
    ["a module that one tool imports", ["shared"], file("words/shared.ts", () => 'export const WORD = "other";\n')],
    [
      "a further tool",
      [],
      file("third.tool.yaml", () => yaml("first", "id: allow").replaceAll("name: first", "name: third")),
    ],
  ] satisfies readonly (readonly [string, readonly (typeof ALL)[number][], (config: Written) => unknown])[]
).map(([title, concerns, apply]) => ({ title, concerns, apply }));

const pristine = mkdtempSync(join(tmpdir(), "stc-identity-base-"));
const FILES: readonly (readonly [string, string])[] = [
  ["first.tool.yaml", yaml("first", "id: allow")],
  ["second.tool.yaml", yaml("second", "id: allow")],
  ["coded.ts", code("coded", "one")],
  ["shared.ts", code("shared", "one")],
  ["words/coded.ts", 'export const WORD = "one";\n'],
  ["words/shared.ts", 'export const WORD = "one";\n'],
  ["listing.ts", COMMAND],
];

beforeAll(() => {
  for (const [path, text] of FILES) {
    mkdirSync(join(pristine, path, ".."), { recursive: true });
    writeFileSync(join(pristine, path), text);
  }
});
afterAll(() => {
  for (const path of [folder, pristine]) rmSync(path, { recursive: true, force: true });
});

/** Returns the identity of each tool in the configuration with these edits. */
async function identitiesWith(edits: readonly Edit[]): Promise<Readonly<Record<string, string>>> {
  rmSync(join(folder, "tools"), { recursive: true, force: true });
  cpSync(pristine, join(folder, "tools"), { recursive: true });
  const written = base();
  for (const { apply } of edits) apply(written);
  const environment = { PATH: process.env["PATH"] ?? "" };
  const parts = await assemble(readConfig(written, { folder, environment, origin: "test" }));
  try {
    return Object.fromEntries(parts.registry.list().map(({ tool, identity }) => [tool.name, identity]));
  } finally {
    await parts.close();
  }
}

const concernsOf = (edits: readonly Edit[], tool: string): string =>
  edits
    .filter(({ concerns }) => concerns.some((name) => name === tool))
    .map(({ title }) => title)
    .sort()
    .join();

describe("an approval of a tool", () => {
  test("has an identity that the same configuration gives again", async () => {
    const [one, other] = [await identitiesWith([]), await identitiesWith([])];
    expect(Object.keys(one).sort()).toEqual([...ALL].sort());
    expect(one).toEqual(other);
    expect(new Set(Object.values(one)).size).toBe(ALL.length);
  });

  test.each(EDITS.map((edit) => [edit.title, edit] as const))("ends or survives: %s", async (_title, edit) => {
    const [before, after] = [await identitiesWith([]), await identitiesWith([edit])];
    expect(ALL.filter((tool) => before[tool] !== after[tool])).toEqual(
      ALL.filter((tool) => edit.concerns.includes(tool)),
    );
  });

  test("survives exactly the pairs of configurations that differ in nothing that concerns it", async () => {
    const some = fc.subarray([...EDITS]);
    await fc.assert(
      fc.asyncProperty(some, some, async (before, after) => {
        const [one, other] = [await identitiesWith(before), await identitiesWith(after)];
        const changed = ALL.filter((tool) => one[tool] !== other[tool]);
        expect(changed).toEqual(ALL.filter((tool) => concernsOf(before, tool) !== concernsOf(after, tool)));
      }),
      { numRuns: 40, seed: 19 },
    );
  });
});
