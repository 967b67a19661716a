import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { type TenantName, TenantTokens } from "../support/tenant-service.ts";

/** The manifests that two tenants, and the service itself, name by the same path. */

const tokens = new TenantTokens();
const TENANTS = { acme: { tools: ["./tools"] }, globex: { tools: ["./tools"] } };

let service: ReloadService;
beforeEach(() => {
  service = new ReloadService({ jwt: { issuers: tokens.profiles() }, tenants: TENANTS });
});
afterEach(() => service.end());

async function says(tenant: TenantName): Promise<string> {
  return service.says({}, await tokens.agentOf(tenant, ["hello:say"]));
}

/** Each caller's answers, one after the other: `calls` calls of acme, one of globex, one of the service itself. */
async function rounds(calls = 3): Promise<readonly string[]> {
  const answers: string[] = [];
  for (let call = 0; call < calls; call += 1) answers.push(await says("acme"));
  return [...answers, await says("globex"), await says(undefined)];
}

async function reload(by?: TenantName) {
  return service.reload(await tokens.operatorOf(by, ["service:reload"]));
}

const COUNTS = 'calls.push(""); return { said: [version, calls.length].join(" ") };';
const module = (version: string): string => `export const version = "${version}"; export const calls: string[] = [];\n`;

/** Places where a manifest may keep state, with the files that hold it. */
const PLACES: readonly (readonly [
  place: string,
  before: string,
  body: string,
  files: Readonly<Record<string, string>>,
])[] = [
  ["the manifest", module("one"), COUNTS, {}],
  [
    "a relative import",
    'import { calls, version } from "./shared/state.ts";',
    COUNTS,
    { "shared/state.ts": module("one") },
  ],
  [
    "a relative import of a relative import",
    'import { calls, version } from "./shared/by.ts";',
    COUNTS,
    { "shared/by.ts": 'export * from "./state.ts";\n', "shared/state.ts": module("one") },
  ],
  [
    "a module that is imported during the call",
    "",
    `const { calls, version } = await import("./shared/state.ts"); ${COUNTS}`,
    { "shared/state.ts": module("one") },
  ],
  [
    "a module whose name is computed",
    'const name = "state";',
    `const { calls, version } = await import(\`./shared/\${name}.ts\`); ${COUNTS}`,
    { "shared/state.ts": module("one") },
  ],
  [
    "a required module",
    "",
    `const { calls, version } = require("./shared/state.js"); ${COUNTS}`,
    { "shared/state.js": 'export const version = "one"; export const calls = [];\n' },
  ],
  [
    "imported JSON",
    'import state from "./shared/state.json"; const { calls, version } = state as { calls: string[]; version: string };',
    COUNTS,
    { "shared/state.json": '{ "version": "one", "calls": [] }\n' },
  ],
];

describe("a manifest of two tenants and the service itself", () => {
  for (const [place, before, body, files] of PLACES) {
    test(`has the state of ${place} for each of them, also after a reload`, async () => {
      const write = (version: string): void => {
        service.write("tools/hello.ts", manifest({ before: before.replace('"one"', version), body }));
        for (const [path, text] of Object.entries(files))
          service.write(`tools/${path}`, text.replace('"one"', version));
      };
      write('"one"');
      await service.start();
      expect(await rounds()).toEqual(["one 1", "one 2", "one 3", "one 1", "one 1"]);
      write('"two"');
      expect((await reload()).http).toBe(200);
      expect(await rounds(2)).toEqual(["two 1", "two 2", "two 1", "two 1"]);
    });
  }

  test("that one tenant reloads stays what it is for the others", async () => {
    const body = `const { calls, version } = await import("./state.ts"); ${COUNTS}`;
    service.write("tools/hello.ts", manifest({ body }));
    service.write("tools/state.ts", module("one"));
    await service.start();
    expect(await rounds(1)).toEqual(["one 1", "one 1", "one 1"]);
    service.write("tools/state.ts", module("two"));
    expect((await reload("acme")).http).toBe(200);
    expect(await rounds(2)).toEqual(["two 1", "two 2", "one 2", "one 2"]);
    expect((await reload()).http).toBe(200);
    expect(await rounds(1)).toEqual(["two 3", "two 1", "two 1"]);
  });

  test("is in the runtime's table once for each of them, however often it is reloaded", async () => {
    const inTable = () => Object.keys(require.cache).filter((name) => name.startsWith(service.folder));
    const write = (version: number): void => {
      service.write("tools/state.ts", module(`${version}`));
      service.write(
        "tools/hello.ts",
        manifest({ before: 'import { calls, version } from "./state.ts";', body: COUNTS }),
      );
    };
    write(0);
    await service.start();
    for (let version = 1; version <= 10; version += 1) {
      write(version);
      expect((await reload()).http).toBe(200);
    }
    expect(await rounds(1)).toEqual(["10 1", "10 1", "10 1"]);
    expect(inTable()).toHaveLength(6);
  });

  test("with invalid code is reported with its file and position, also after a reload", async () => {
    const why = "tools/hello.ts: cannot be loaded: words.ts:2:14: Expected identifier but found";
    const before = 'import { version } from "../words.ts";';
    const write = (version: string, code: string): void => {
      service.write("tools/hello.ts", manifest({ before, body: `return { said: version + "${version}" };` }));
      service.write("words.ts", `export const version = "one";\n${code}`);
    };
    write("", "export const = 1;");
    const problems = await service.start().then(
      () => [],
      (error: { readonly problems: readonly string[] }) => error.problems,
    );
    for (const where of ["", "tenants.acme: ", "tenants.globex: "]) {
      expect(problems.some((problem) => problem.startsWith(`${where}${why}`))).toBe(true);
    }
    write("", "");
    await service.start();
    write(" 2", "export const = 2;");
    const { http, body } = await reload();
    expect(http).toBe(422);
    expect(body.problems.some((problem: string) => problem.startsWith(`tenants.acme: ${why}`))).toBe(true);
    expect(await rounds(1)).toEqual(["one", "one", "one"]);
  });

  test.each([
    [
      "a file without its extension",
      'import { version } from "./state";',
      { "state.ts": module("one") },
      'hello.ts imports "./state": a manifest of a tenant writes it with its extension',
    ],
    [
      "CommonJS",
      'const { version } = require("../words/state.js");',
      { "../words/state.js": 'module.exports = { version: "one" };\n' },
      "state.js is CommonJS: a manifest of a tenant consists of modules with `export`",
    ],
  ])("is refused for the tenants when it imports %s", async (_what, before, files, why) => {
    service.write("tools/hello.ts", manifest({ before, body: "return { said: version };" }));
    for (const [path, text] of Object.entries(files)) service.write(`tools/${path}`, text);
    const problems = await service.start().then(
      () => [],
      (error: { readonly problems: readonly string[] }) => error.problems,
    );
    expect(problems).toEqual(
      ["acme", "globex"].map((name) => `tenants.${name}: tools/hello.ts: cannot be loaded: ${why}`),
    );
    service.configure({ tenants: undefined, jwt: { issuers: tokens.profiles().slice(0, 2) } });
    await service.start();
    expect(await says(undefined)).toBe("one");
  });
});
