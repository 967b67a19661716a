import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { manifestProblems } from "../../../src/cli/import/manifest-text.ts";
import { manifestOf } from "../../../src/cli/import/mcp.ts";
import type { ToolDraft } from "../../../src/core/target-kind.ts";
import { definitionOf } from "../../../src/targets/mcp/definitions.ts";
import { draftOf } from "../../../src/targets/mcp/drafts.ts";
import type { Loose } from "../../support/asking-service.ts";
import { runStc } from "../../support/stc.ts";
import { HostileWorld } from "../../targets/mcp/world.ts";

const SERVER = { address: { url: "https://x.example" }, tls: null, name: "x" };
const draft = (listed: Loose): ToolDraft =>
  draftOf(definitionOf({ inputSchema: { type: "object" }, ...listed }, SERVER));
const written = (listed: Loose): Loose => parse(manifestOf("tool", "x", draft(listed)));

describe("a manifest that is imported", () => {
  test("asks for approval, releases nothing, and is pinned", () => {
    const manifest = written({ name: "create_issue", description: "Creates an issue" });
    expect(manifest).toMatchObject({
      name: "tool",
      description: "Creates an issue",
      classification: "write",
      permissions: { required: ["x:write"] },
      target: { system: "x", mcp: { tool: "create_issue" } },
      input: { type: "object" },
      output: { type: "object", properties: { text: { type: "string" } } },
      outputPolicy: null,
    });
    expect(manifest.target.mcp.definitionSha256).toMatch(/^[0-9a-f]{64}$/);
    expect(manifest.target.mcp.definition.name).toBe("create_issue");
  });

  test.each([
    [{ readOnlyHint: true }, "write"],
    [{ destructiveHint: false }, "write"],
    [{ destructiveHint: true }, "destructive"],
    [{ readOnlyHint: true, destructiveHint: true }, "destructive"],
    ["nonsense", "write"],
  ])("annotations %o can only raise the classification", (annotations, classification) => {
    expect(written({ name: "a", annotations }).classification).toBe(classification);
  });

  test.each([
    ["x", undefined, "x:write"],
    ["x", { destructiveHint: true }, "x:delete"],
    ["audit", undefined, "audit-api:write"],
    ["tools", undefined, "tools-api:write"],
  ])(
    "of the system %s with annotations %o proposes a permission that is not an operator's",
    (system, annotations, expected) => {
      const manifest = parse(manifestOf("tool", system, draft({ name: "a", annotations })));
      expect(manifest.permissions).toEqual({ required: [expected] });
    },
  );

  test("suggests an action for each field by its name, in comments", () => {
    const properties = {
      email: { type: "string" },
      items: { type: "array", items: { type: "object", properties: { title: { type: "string" } } } },
      apiKey: { type: "string" },
    };
    const text = manifestOf("tool", "x", draft({ name: "a", outputSchema: { type: "object", properties } }));
    expect(text).toContain("  # email: mask # personal data, by its name\n");
    expect(text).toContain("  # items[].title: allow\n");
    expect(text).toContain("  # apiKey: redact # a secret, by its name\n");
  });

  test("has the suggestions as its policy when its author accepts them, but decides nothing about what may hold anything", () => {
    const properties = {
      email: { type: "string" },
      state: { type: "string" },
      active: { type: "boolean" },
      token: { type: "string" },
      extra: {},
      labels: { type: "object", additionalProperties: { type: "string" } },
    };
    const offered = draft({ name: "a", outputSchema: { type: "object", properties } });
    const text = manifestOf("tool", "x", { ...offered, accepted: true });
    expect(parse(text)).toMatchObject({
      outputPolicy: { email: "mask", state: "allow", active: "allow", token: "redact" },
      scan: { "*": "balanced" },
    });
    expect(text).toContain("  # extra: allow # may hold anything\n");
    expect(text).toContain("  # labels: allow # holds names and values that the schema does not list\n");
    expect(manifestProblems(text)).toEqual([]);
  });

  test("has one line for a part of a wide answer, and none that hides or opens another", () => {
    const wide = Object.fromEntries(Array.from({ length: 80 }, (_, index) => [`f${index}`, { type: "string" }]));
    const person = { type: "object", properties: { email: { type: "string" }, city: { type: "string" } } };
    const item = { type: "object", properties: { spec: { type: "object", properties: wide }, person, any: {} } };
    const outputSchema = { type: "object", properties: { items: { type: "array", items: item } } };
    const text = manifestOf("tool", "x", { ...draft({ name: "a", outputSchema }), accepted: true });
    expect(parse(text).outputPolicy).toEqual({
      "items[].spec": "allow",
      "items[].person.email": "mask",
      "items[].person.city": "allow",
    });
    expect(text).toContain("  items[].spec: allow # 80 fields below it\n");
    expect(text).toContain("  # items[].any: allow # may hold anything\n");
  });

  test("allows a value that is a text or an object without what has another suggestion in the object", () => {
    const owner = {
      type: "object",
      properties: {
        id: { type: "string" },
        email: { type: "string" },
        any: {},
        map: { type: "object", additionalProperties: {} },
      },
    };
    const outputSchema = { type: "object", properties: { owner: { anyOf: [{ type: "string" }, owner] } } };
    const text = manifestOf("tool", "x", { ...draft({ name: "a", outputSchema }), accepted: true });
    expect(manifestProblems(text)).toEqual([]);
    expect(parse(text).outputPolicy).toEqual({
      ...{ owner: "allow", "owner.id": "allow", "owner.email": "mask", "owner.any": "redact", "owner.map": "redact" },
    });
  });

  test("an argument that is an object of any form says so, since it would not load otherwise", () => {
    const any = { type: "object" };
    const inputSchema = { type: "object", properties: { args: any, list: { type: "array", items: any } } };
    const { input } = draft({ name: "a", inputSchema });
    const open = { type: "object", additionalProperties: true };
    expect(input).toEqual({ type: "object", properties: { args: open, list: { type: "array", items: open } } });
    expect(manifestProblems(manifestOf("tool", "x", draft({ name: "a", inputSchema })))).toEqual([]);
  });

  test("knows references of older drafts, and drops what only describes", () => {
    const inputSchema = {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      definitions: { who: { type: "string", title: "Who" } },
      properties: { who: { $ref: "#/definitions/who" }, default: { type: "number", default: 3 } },
      unknownKeyword: 1,
    };
    const { input, notes } = draft({ name: "a", inputSchema });
    expect(input).toEqual({
      type: "object",
      properties: { who: { type: "string" }, default: { type: "number" } },
    });
    expect(notes).toEqual(["input: the keyword unknownKeyword is left out"]);
  });

  test("thousands of unknown keywords are a few notes", () => {
    const inputSchema = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`k${index}`, 1]));
    expect(draft({ name: "a", inputSchema }).notes.length).toBe(20);
  });

  test.each<readonly [string, Loose]>([
    ["formats of Rust's generators", { properties: { n: { type: "integer", format: "uint32", minimum: 0 } } }],
    ["a path", { properties: { file: { type: "string", format: "path" } } }],
    [
      "recursion",
      { properties: { node: { $ref: "#/$defs/n" } }, $defs: { n: { properties: { n: { $ref: "#/$defs/n" } } } } },
    ],
    ["a reference to a property", { properties: { a: { type: "string" }, b: { $ref: "#/properties/a" } } }],
    ["a tuple of draft 7", { properties: { p: { type: "array", items: [{ type: "number" }, { type: "number" }] } } }],
    ["an exclusive bound of draft 4", { properties: { n: { type: "number", minimum: 0, exclusiveMinimum: true } } }],
    ["a bound beyond 2^53", { properties: { n: { type: "integer", maximum: 2 ** 64 } } }],
    ["a choice at its top", { anyOf: [{ required: ["a"] }, { required: ["b"] }], properties: { a: {}, b: {} } }],
    ["a pattern of another language", { properties: { a: { type: "string", pattern: "(?i)^x$" } } }],
    ["a name that YAML readers take for a merge key", { properties: { "<<": { type: "string" }, a: {} } }],
    ["no arguments that it names", { additionalProperties: true }],
  ])("loads with %s", (_, schema) => {
    const inputSchema = { type: "object", ...schema };
    const outputSchema = { type: "object", ...schema };
    expect(manifestProblems(manifestOf("tool", "x", draft({ name: "a", inputSchema, outputSchema })))).toEqual([]);
  });
});

/** Texts that try to be more than a text. */
const ESCAPES = [
  'x"\nhandler: !!js/function "evil()"\n#',
  "x: {a: 1}\n- b",
  "*alias",
  "&anchor x",
  "!!binary x",
  "<<",
  "__proto__",
  "constructor",
  "# comment",
  "x #comment\noutputPolicy:\n  '*': allow",
  "\u2028outputPolicy: {'*': allow}",
  "\u0085outputPolicy: 1",
  `$${"{process.exit(1)}"}`,
  "`rm -rf /`",
  "---\nname: other",
  "...\n%YAML 1.1",
  "\u202eevil\u0000\u001b[2J",
  "yes",
  "0x1f",
  "~",
  "\ud800",
];

describe("texts of a server", () => {
  test("a name __proto__ is refused, and stays a text elsewhere", () => {
    const properties = JSON.parse('{"__proto__":{"type":"string"}}');
    expect(() => draft({ name: "a", inputSchema: { type: "object", properties } })).toThrow("a key __proto__");
    expect(written({ name: "__proto__", description: "__proto__" })["target"].mcp.tool).toBe("__proto__");
  });

  test.each(ESCAPES.filter((text) => text !== "__proto__"))("%j stays a text, wherever it is", (text) => {
    const schema = {
      type: "object",
      properties: { [text]: { type: "string", enum: [text], pattern: text, description: text } },
      required: [text],
    };
    const hostile = draft({ name: text, description: text, inputSchema: schema, outputSchema: schema, "x-a": text });
    const source = manifestOf("tool", "x", hostile);
    const manifest = parse(source, { version: "1.2", uniqueKeys: true });
    const wellFormed = text.toWellFormed();
    expect(Object.keys(manifest)).toEqual([
      ...["name", "description", "classification", "permissions", "target", "input", "output", "outputPolicy"],
      ...("scan" in manifest ? ["scan"] : []),
    ]);
    expect(manifest.outputPolicy ?? {}).toEqual({});
    expect(manifest.target.mcp.tool).toBe(wellFormed);
    const [[name, property] = []] = Object.entries<Loose>(manifest.input.properties);
    // A name that no manifest can have is left out.
    if (name === undefined) {
      expect(hostile.notes.join("\n")).toContain("a member whose name a manifest cannot have is left out");
    } else {
      expect(name).toBe(text);
      expect(property.enum).toEqual([text]);
      expect(manifest.input.required).toEqual([text]);
    }
    if (!/[^\n\P{C}]|[\u2028\u2029]/u.test(text)) expect(manifestProblems(source)).toEqual([]);
    expect(source).toMatch(/^[\n\x20-\x7e\p{L}]*$/u);
    const [head, ...lines] = source.split("\n");
    expect(head).toBe("# yaml-language-server: $schema=tool.schema.json");
    const comments = lines.filter((line) => line.trimStart().startsWith("#"));
    for (const comment of comments) expect(comment).toMatch(/^ *#[ A-Za-z0-9.,:;'#()[\]"_-]*$/);
  });
});

describe("stc import mcp", () => {
  const world = new HostileWorld();
  afterAll(() => world.end());

  test("writes a file for each tool that is asked for, never over another", async () => {
    mkdirSync(join(world.folder, "tools"));
    const config = {
      tools: ["tools"],
      audit: { dir: "audit" },
      jwt: { issuers: world.issuers.profiles() },
      systems: { hostile: { mcp: world.serverEntry() } },
    };
    writeFileSync(join(world.folder, "stc.yaml"), stringify(config));
    const out = join(world.folder, "tools");
    const words = ["import", "mcp", "hostile", "--config", join(world.folder, "stc.yaml"), "--out", out];
    const first = await runStc([...words, "--tool", "echo", "--tool", "structured"]);
    expect(first).toMatchObject({ code: 0, err: "" });
    expect(first.out).toBe(
      `wrote ${join(out, "echo.tool.yaml")}\nwrote ${join(out, "structured.tool.yaml")}\n2 of 2 tools imported\n`,
    );
    expect(readdirSync(out).sort()).toEqual(["echo.tool.yaml", "structured.tool.yaml"]);
    const manifest = parse(readFileSync(join(out, "echo.tool.yaml"), "utf8"));
    expect(manifest.input.properties).toEqual({ text: { type: "string" } });
    const judged = join(world.folder, "judged");
    const read = [...words.slice(0, -1), judged, "--tool", "echo", "--read", "echo", "--accept", "--json"];
    expect((await runStc(read)).code).toBe(0);
    expect(parse(readFileSync(join(judged, "hostile_echo.tool.yaml"), "utf8"))).toMatchObject({
      ...{ classification: "read", permissions: { required: ["hostile:read"] } },
      ...{ outputPolicy: { text: "allow" }, scan: { "*": "balanced" } },
    });
    // The names of tools that exist are taken.
    const renamed = await runStc([...words, "--tool", "echo"]);
    expect(renamed.out).toContain("hostile_echo.tool.yaml\n1 of 1 tools imported\n");
    const own = join(world.folder, "own");
    const named = await runStc([...words.slice(0, -1), own, "--tool", "who", "--rename", "who=whoami"]);
    expect([named.code, readdirSync(own)]).toEqual([0, ["whoami.tool.yaml"]]);
    const elsewhere = join(world.folder, "elsewhere");
    mkdirSync(elsewhere);
    writeFileSync(join(elsewhere, "who.tool.yaml"), "mine");
    const again = await runStc([...words.slice(0, -1), elsewhere, "--tool", "who"]);
    expect(again.code).toBe(1);
    expect(again.err).toContain("who.tool.yaml exists and is left as it is");
    expect(readFileSync(join(elsewhere, "who.tool.yaml"), "utf8")).toBe("mine");
    const checked = await runStc(["check", "--config", join(world.folder, "stc.yaml")]);
    expect(checked.out).toStartWith("ok: 3 tools");
    expect(checked.out).toContain("tool echo: outputPolicy: releases nothing");
    expect(checked.out).not.toContain("target.mcp");
    // What cannot be stated is left out, and what cannot be pinned is named.
    world.tell("changes.json", {
      who: { inputSchema: { type: "object", properties: { a: { $ref: "file:///x" } } } },
      echo: { description: "x".repeat(600_000) },
    });
    const wide = join(world.folder, "wide");
    const widened = await runStc([...words.slice(0, -1), wide, "--tool", "who", "--tool", "echo"]);
    expect(widened.code).toBe(1);
    expect(widened.out).toContain("note: input.a: has a reference that names no part of the schema, and is any JSON");
    expect(widened.err).toMatch(/^echo: its definition cannot be used: /);
    expect(readdirSync(wide)).toEqual(["who.tool.yaml"]);
    world.untell("changes.json");
    const unknown = await runStc([...words, "--tool", "nothing"]);
    expect(unknown.code).toBe(64);
    expect(unknown.err).toContain("hostile offers no tool nothing; it offers echo");
  });

  test("says why a server cannot be used, with the last lines that it wrote", async () => {
    const configured = (command: string, args: readonly string[]) => ({
      ...{ tools: ["tools"], audit: { dir: "audit" }, jwt: { issuers: world.issuers.profiles() } },
      systems: { hostile: { mcp: { command, args, reads: [join(world.folder, "programs")] } } },
    });
    const file = join(world.folder, "broken.yaml");
    mkdirSync(join(world.folder, "programs"));
    const script = join(world.folder, "programs", "script");
    writeFileSync(script, "#!/nowhere/interpreter\n", { mode: 0o755 });
    const imported = async (command: string, ...args: readonly string[]) => {
      writeFileSync(file, stringify(configured(command, args)));
      return runStc(["import", "mcp", "hostile", "--config", file, "--out", join(world.folder, "none")]);
    };
    const failing = await imported("/bin/sh", "-c", "echo the key is missing >&2; exit 3");
    expect(failing.code).toBe(2);
    expect(failing.err).toContain("exit 3; the last lines that it wrote: stderr: the key is missing");
    expect((await imported("no-such-program")).err).toContain("no program no-such-program was found");
    expect((await imported(script)).err).toContain("command is the interpreter that its first line names");
  });
});
