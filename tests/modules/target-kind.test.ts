import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { assembleOffline } from "../../src/cli/authoring/offline.ts";
import { StartupError } from "../../src/core/errors.ts";
import { SafeToolCall } from "../../src/index.ts";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import type { Parts } from "../../src/runtime/composition/wiring.ts";
import { AskingService, type CallExtras, type Reply } from "../support/asking-service.ts";
import { assemble, readConfigFile } from "../support/build.ts";
import { temporaryDirectory } from "../targets/command/temporary-directory.ts";
import { counter } from "./toy-target-kind.ts";

const WITH_COUNTERS: BuildModules = {
  ...MODULES,
  targetKinds: [
    ...MODULES.targetKinds,
    counter, //
  ],
};

/** A manifest whose target is this text. */
const manifest = (target: string, name = "count_up"): string => `
  import { defineTool } from "safe-tool-call";
  import { z } from "zod";
  export const ${name} = defineTool({
    name: "${name}",
    description: "Adds to a counter",
    classification: "write",
    permissions: { required: ["deeds:do"] },
    input: z.strictObject({ by: z.int().min(1).max(5000), script: z.string().max(100).optional() }),
    target: ${target},
    output: z.strictObject({ value: z.number() }),
    outputPolicy: { value: "allow" },
    examples: { accepts: [{ by: 1 }], rejects: [{ by: 0 }] },
  });`;

const COUNT_UP = manifest('{ system: "tally", counter: { argument: "by", path: "/srv/counters" } }');
const TALLY = { tally: { startsAt: 3 } };

class CountingService extends AskingService {
  async start(): Promise<void> {
    mkdirSync(join(this.folder, "tools"));
    writeFileSync(join(this.folder, "tools/count-up.ts"), COUNT_UP);
    const approvals = { store: "sqlite://approvals.sqlite" };
    await this.run({ tools: ["tools"], systems: TALLY, approvals }, "", WITH_COUNTERS);
  }

  async call(args: unknown, { token, approval, headers = {} }: CallExtras = {}): Promise<Reply> {
    const body = { tool: "count_up", args, ...(approval && { approval }) };
    return this.send("POST", "/call", { token: token ?? (await this.agent()), headers, body });
  }

  async health(): Promise<Reply> {
    return this.send("GET", "/readyz", { token: await this.person({ permissions: ["metrics:read"] }) });
  }
}

test("a change of no kind has the category of reads, which runs without an approval", () => {
  for (const { key, category } of MODULES.targetKinds) expect([key, category(false)]).not.toEqual([key, "read"]);
});

describe("a kind of target that one line adds to the build", () => {
  const service = new CountingService();
  beforeAll(() => service.start());
  afterAll(() => service.end());

  test("is planned, shown to a person, run once approved, and audited", async () => {
    const asked = await service.call({ by: 4 });
    expect(asked).toMatchObject({ http: 202, body: { status: "pending" } });
    const { id } = asked.body.approval;

    const shown = await service.send("GET", `/approvals/${id}`, { token: await service.person() });
    expect(shown.body.approval.view).toMatchObject({
      category: "write",
      target: { system: "tally", kind: "counter", from: 3, to: 7 },
      notes: ["The counter goes from 3 to 7."],
      arguments: { by: 4 },
      confinement: "not applicable",
    });
    expect(await service.decide(id, "approve")).toMatchObject({ http: 200 });

    const done = await service.call({ by: 4 }, { approval: { id } });
    expect(done).toMatchObject({ http: 200, body: { status: "success", result: { value: 7 } } });
    expect(service.entry(done.body.traceId)).toMatchObject({
      decision: "ALLOWED",
      tool: { name: "count_up", classification: "write", targetSystem: "tally" },
      approval: { id, by: expect.stringContaining("alice") },
      plan: { digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
      request: { args: { by: 4 } },
    });
  });

  test("an approval does not run once its plan has changed", async () => {
    const first = await service.call({ by: 1 });
    const second = await service.call({ by: 2 });
    await service.decide(first.body.approval.id, "approve");
    await service.decide(second.body.approval.id, "approve");
    expect(await service.call({ by: 1 }, { approval: { id: first.body.approval.id } })).toMatchObject({ http: 200 });
    const moved = await service.call({ by: 2 }, { approval: { id: second.body.approval.id } });
    expect(moved.body).toMatchObject({ status: "denied", error: { code: "APPROVAL_MISMATCH" } });
  });

  test("refuses like any other target", async () => {
    const refused = await service.call({ by: 5000 });
    expect(refused.body).toMatchObject({
      status: "error",
      error: { code: "TARGET_REFUSED", details: { status: "OUT_OF_RANGE" } },
    });
  });

  test("the risk rules for shells judge its scripts", async () => {
    const denied = await service.call({ by: 1, script: "rm -rf /" });
    expect(denied.body).toMatchObject({ status: "denied", error: { code: "POLICY_DENIED", stage: "PERMISSION" } });
    expect(service.entry(denied.body.traceId)).toMatchObject({ decision: "DENIED", error: { code: "POLICY_DENIED" } });
    expect(await service.call({ by: 1, script: "ls" })).toMatchObject({ http: 202, body: { status: "pending" } });
  });

  test("its tool's target is shown to operators as a request, whose texts with slashes are not paths of files", async () => {
    const token = await service.person({ permissions: ["tools:read"] });
    const { http, body } = await service.send("GET", "/catalog/count_up", { token });
    expect(http).toBe(200);
    expect(body).toMatchObject({ kind: "counter", target: { counter: { argument: "by", path: "/srv/counters" } } });
  });

  test("is among the systems of /readyz", async () => {
    const { http, body } = await service.health();
    expect(http).toBe(200);
    expect(body.systems).toEqual({ tally: { state: "OPEN", value: expect.any(Number) } });
  });
});

describe("what `stc check` assembles", () => {
  async function check(
    files: Readonly<Record<string, string>>,
    systems: unknown = TALLY,
    modules = WITH_COUNTERS,
    sections: object = {},
  ): Promise<{ readonly parts?: Parts; readonly problems: readonly string[] }> {
    const folder = temporaryDirectory();
    mkdirSync(join(folder, "tools"));
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, "tools", name), text);
    const jwt = { issuers: [{ issuer: "https://x", jwksUri: "https://x/jwks" }] };
    const file = join(folder, "stc.yaml");
    writeFileSync(file, JSON.stringify({ tools: ["tools"], audit: { dir: "audit" }, jwt, systems, ...sections }));
    try {
      const parts = await assemble(readConfigFile(file, {}, modules), {}, modules);
      await parts.close();
      return { parts, problems: [] };
    } catch (error) {
      if (!(error instanceof StartupError)) throw error;
      return { problems: error.problems.map((problem) => problem.replace(`${file}: `, "stc.yaml: ")) };
    }
  }

  test("a sound manifest and entry: the tool with its kind's category and notes", async () => {
    const { parts, problems } = await check({ "count-up.ts": COUNT_UP });
    expect(problems).toEqual([]);
    expect(parts?.registry.list().map(({ tool }) => [tool.name, tool.category])).toEqual([["count_up", "write"]]);
    expect(parts?.report.notes).toEqual(["counters: count_up"]);
    expect(parts?.loaded.notRegistered).toEqual([]);
  });

  test("what the kind says decides the tool's identity: its sections of the configuration, and the rules for shells", async () => {
    const identityWith = async (modules: BuildModules, sections: object): Promise<string | undefined> => {
      const { parts } = await check({ "count-up.ts": COUNT_UP }, TALLY, modules, sections);
      return parts?.registry.list()[0]?.identity;
    };
    const workspace = { workspace: { runId: "r-1" } };
    const { startsShells: _, sections: __, ...withoutBoth } = counter;
    const plain = { ...WITH_COUNTERS, targetKinds: [...MODULES.targetKinds, withoutBoth] };
    const before = await identityWith(WITH_COUNTERS, {});
    expect(before).toMatch(/^[0-9a-f]{64}$/);
    expect(await identityWith(WITH_COUNTERS, { limits: {} })).toBe(before);
    expect(await identityWith(WITH_COUNTERS, workspace)).not.toBe(before);
    expect(await identityWith(plain, workspace)).toBe(await identityWith(plain, {}));
    const shellRules = { none: [] };
    expect(await identityWith({ ...WITH_COUNTERS, shellRules }, {})).not.toBe(before);
    expect(await identityWith({ ...plain, shellRules }, {})).toBe(await identityWith(plain, {}));
  });

  test("`stc test` plans with the kind, without its system", async () => {
    const folder = temporaryDirectory();
    writeFileSync(join(folder, "count-up.ts"), COUNT_UP);
    const jwt = { issuers: [{ issuer: "https://x", jwksUri: "https://x/jwks" }] };
    const file = join(folder, "stc.yaml");
    writeFileSync(file, JSON.stringify({ tools: ["count-up.ts"], audit: { dir: "audit" }, jwt, systems: TALLY }));
    const parts = await assembleOffline(readConfigFile(file, {}, WITH_COUNTERS), WITH_COUNTERS);
    try {
      const { registered } = parts.registry.find("count_up");
      const plan = await registered?.binding.plan({ by: 2 }, { signal: AbortSignal.timeout(1_000) });
      expect(plan).toEqual({ kind: "counter", system: "tally", by: { by: 2 } });
    } finally {
      await parts.close();
    }
  });

  test("a manifest that asks the configuration is made with the build's kinds, too", async () => {
    const asking = COUNT_UP.replace("defineTool({", "defineTool((config) => ({")
      .replace('"Adds to a counter"', '"Adds to " + config.setting("names", "what")')
      .replace(/\}\);\s*$/, "}));");
    const { parts } = await check({ "count-up.ts": asking }, { ...TALLY, names: { what: "a counter" } });
    expect(parts?.registry.list().map(({ tool }) => tool.description)).toEqual(["Adds to a counter"]);
  });

  test("everything wrong in targets is reported at once, with file and field", async () => {
    const { problems } = await check({
      "kind.ts": manifest('{ system: "tally", submarine: {} }', "dive"),
      "none.ts": manifest('{ system: "tally", counter: {}, timeoutMs: 1 }', "count_none"),
      "two.ts": manifest('{ system: "tally", counter: { argument: "by" }, grpc: {} }', "count_two"),
      "key.ts": manifest('{ system: "tally", counter: { argument: "by", step: 2 } }', "count_key"),
    });
    const kinds = "grpc, http, cli, fs, mcp, sql, handler, counter";
    expect([...problems].sort()).toEqual([
      "tools/key.ts: tool count_key: target.counter.step: is unknown",
      `tools/kind.ts: tool dive: target.submarine: is unknown: a target is one of ${kinds}`,
      "tools/none.ts: tool count_none: target.counter.argument: must name an argument",
      `tools/none.ts: tool count_none: target.timeoutMs: is unknown: a target is one of ${kinds}`,
      `tools/two.ts: tool count_two: target: must have exactly one of ${kinds}`,
    ]);
  });

  test("a system that is not configured is reported with file and field", async () => {
    const { problems } = await check({ "count-up.ts": COUNT_UP }, {});
    expect(problems).toEqual(["tools/count-up.ts: tool count_up: target.system: no counter tally is configured"]);
  });

  test.each([
    ["a wrong value", { startsAt: -1 }, "systems.tally.startsAt: must be at least 0"],
    [
      "a misspelt key",
      { startsAt: 1, valueMx: 2 },
      "systems.tally.valueMx: is not a known key; did you mean valueMax? (kind counter)",
    ],
    [
      "keys of two kinds",
      { startsAt: 1, endpoint: "a:1" },
      "systems.tally: has keys of the kinds grpc and counter: a system is of one kind",
    ],
  ])("an entry with %s is reported with its file and field", async (_title, tally, want) => {
    const { problems } = await check({ "count-up.ts": COUNT_UP }, { tally });
    expect(problems).toEqual([`stc.yaml: ${want}`]);
  });

  test("an entry with a key of no kind names the kinds and their keys", async () => {
    const { problems } = await check({ "count-up.ts": COUNT_UP }, { tally: { beginsAt: 1 } });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toStartWith("stc.yaml: systems.tally.beginsAt: must be text, true or false, a list of names");
    expect(problems[0]).toEndWith("counter (startsAt)");
    expect(problems[0]).toContain("grpc (");
  });

  test("a build without the kind refuses the manifest and the entry", async () => {
    const manifests = { "count-up.ts": COUNT_UP };
    expect((await check(manifests, {}, MODULES)).problems).toEqual([
      "tools/count-up.ts: tool count_up: target.counter: is unknown: a target is one of grpc, http, cli, fs, mcp, sql, handler",
    ]);
    expect((await check(manifests, TALLY, MODULES)).problems).toHaveLength(1);
  });
});

test("the library takes a build's kinds as well", async () => {
  const folder = temporaryDirectory();
  writeFileSync(join(folder, "count-up.ts"), COUNT_UP);
  const stc = SafeToolCall.create(
    {
      folder,
      tools: ["count-up.ts"],
      systems: TALLY,
      audit: { dir: "audit" },
      jwt: { issuer: "https://x", jwksUri: "https://x/jwks" },
    },
    WITH_COUNTERS,
  );
  await stc.ready();
  const listed = z.array(z.looseObject({ name: z.string() })).parse(stc.listTools({ format: "json" }));
  expect(listed.map(({ name }) => name)).toEqual(["count_up"]);
  expect(await stc.reload()).toMatchObject({ outcome: "changed" });
  await stc.close();
});
