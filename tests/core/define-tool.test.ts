import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { isTool, isToolFactory } from "../../src/core/define-tool.ts";
import { type Fault, ManifestError } from "../../src/core/errors.ts";
import { OPERATOR_PERMISSIONS } from "../../src/core/operator-permissions.ts";
import { freeText } from "../../src/core/schema/bounds.ts";
import type { Tool, ToolConfig } from "../../src/core/types.ts";
import { cliCommand, defineTool, grpcMethod, sqlStatement } from "../../src/index.ts";

const SOUND = {
  name: "look_up",
  description: "Look something up",
  classification: "read",
  permissions: { required: ["things:read"] },
  input: z.strictObject({ id: z.uuid(), kind: z.enum(["a", "b"]).optional() }),
  handler: () => ({ id: "x", owner: { name: "n", email: "e" }, tags: [] }),
  output: z.object({
    id: z.string(),
    owner: z.object({ name: z.string(), email: z.string() }),
    tags: z.array(z.string()),
  }),
  outputPolicy: { id: "allow", "owner.name": "mask" },
} as const;

const ID = "3f0c9a52-6b1e-4c77-9d3a-000000000001";
const CLI = { system: "git", cli: { command: "git", options: ["--no-pager"], argsBuilder: () => ["log"] } };

/** Defines any value, as hand-written JavaScript can, without the type checker. */
function define(changes: Record<string, unknown>): Tool {
  return defineTool({ ...SOUND, ...changes } as never) as unknown as Tool;
}

function faultList(changes: Record<string, unknown>): readonly Fault[] {
  try {
    define(changes);
  } catch (error) {
    expect(error).toBeInstanceOf(ManifestError);
    return (error as ManifestError).faults;
  }
  return [];
}

function faultsOf(changes: Record<string, unknown>): readonly string[] {
  return faultList(changes).map(({ field }) => field);
}

const cli = (part: Record<string, unknown>, rest: Record<string, unknown> = {}) => ({
  handler: undefined,
  target: { system: "git", cli: { ...CLI.cli, ...part } },
  output: z.object({ text: z.string() }),
  outputPolicy: { text: "allow" },
  ...rest,
});

const ofDatabase = (statement: string, rest: Record<string, unknown>) => ({
  handler: undefined,
  target: sqlStatement("shop", { statement, parameters: ["{id}", "{kind}"] }),
  output: z.object({ rows: z.array(z.object({ id: z.string() })), changed: z.int().optional() }),
  outputPolicy: { "rows[].id": "allow" },
  ...rest,
});

test.each([
  ["exmples", { exmples: {} }, "is not a field of a manifest; did you mean examples?"],
  ["colour", { colour: "red" }, "is not a field of a manifest"],
  ["permissions.requierd", { permissions: { requierd: ["a"] } }, "is unknown; did you mean required?"],
])("an unknown field gets a suggestion: %s", (field, changes, message) => {
  expect(faultList(changes)).toContainEqual({ field, message });
});

describe("a manifest that contradicts itself does not load", () => {
  const rows: readonly (readonly [string, Record<string, unknown>, string])[] = [
    ["no name", { name: undefined }, "name"],
    ["a name with a dot", { name: "fs.read" }, "name"],
    ["a name with capitals", { name: "LookUp" }, "name"],
    ["a name of 65 characters", { name: "a".repeat(65) }, "name"],
    ["no description", { description: "  " }, "description"],
    ["a title that is a number", { title: 7 }, "title"],
    ["an empty title", { title: " " }, "title"],
    ["a title of 129 characters", { title: "x".repeat(129) }, "title"],
    ["a title of two lines", { title: "Look up\nand more" }, "title"],
    ["a title with an escape sequence", { title: "Look \u001b[31mup" }, "title"],
    ["a title that runs the other way", { title: "Look \u202epu" }, "title"],
    ["a title with half a character", { title: "Look \ud83d" }, "title"],
    ["a result over MCP of no bytes", { limits: { resultBytesMax: 0 } }, "limits.resultBytesMax"],
    ["a result over MCP of 17 MB", { limits: { resultBytesMax: 17_000_000 } }, "limits.resultBytesMax"],
    [
      "a result over MCP that is larger than any result",
      { limits: { resultBytesMax: 2_000, outputBytesMax: 1_000 } },
      "limits.resultBytesMax",
    ],
    [
      "a result over MCP above the default of results",
      { limits: { resultBytesMax: 1_048_577 } },
      "limits.resultBytesMax",
    ],
    ["no classification", { classification: undefined }, "classification"],
    ["an unknown classification", { classification: "safe" }, "classification"],
    ["an unknown field", { permission: ["x"] }, "permission"],
    [
      "personal data by its name, allowed without a reason",
      { outputPolicy: { id: "allow", "owner.email": "allow" } },
      "outputPolicy",
    ],
    ["personal data that a glob lets out", { outputPolicy: { "*": "allow" } }, "outputPolicy"],
    [
      "a glob over what no schema describes",
      { output: z.looseObject({ id: z.string() }), outputPolicy: { "*": "allow" } },
      "outputPolicy",
    ],
    [
      "a reason of nine characters",
      { outputPolicy: { "owner.email": { action: "allow", reason: "it is so." } } },
      'outputPolicy["owner.email"].reason',
    ],
    [
      "a reason of two lines",
      { outputPolicy: { "owner.email": { action: "allow", reason: "because it\nmust leave" } } },
      'outputPolicy["owner.email"].reason',
    ],
    [
      "a reason to mask",
      { outputPolicy: { "owner.email": { action: "mask", reason: "because it must" } } },
      'outputPolicy["owner.email"].action',
    ],
    [
      "a reason in the input's policy",
      { inputPolicy: { id: { action: "allow", reason: "because it must" } } },
      'inputPolicy["id"]',
    ],
    ["words of a function that fails", { errors: "filtered" }, "errors"],
    ["errors that are something else", { errors: "all" }, "errors"],
    ["an unknown category", { category: "safe" }, "category"],
    ["a category softer than the classification", { classification: "write", category: "read" }, "category"],
    ["an inline tool that changes and declares no category", { classification: "write" }, "category"],
    ["no permissions", { permissions: undefined }, "permissions"],
    ["empty permissions", { permissions: { required: [] } }, "permissions.required"],
    ["a permission as a string", { permissions: { required: "things:read" } }, "permissions.required"],
    ["a permission with a space", { permissions: { required: ["a b"] } }, "permissions.required[0]"],
    ...[
      ...Object.keys(OPERATOR_PERMISSIONS),
      ...["approvals:payments", "audit:", "data-flow:x", "halts:x", "modes:set", "grants:list", "metrics:x"],
      ...["policy:x", "quotas:x", "service:restart"],
    ].map(
      (name) =>
        [`the operators' ${name}`, { permissions: { required: ["x:y", name] } }, "permissions.required[1]"] as const,
    ),
    [
      "an operators' permission for some arguments",
      { permissions: { required: ["a:b"], elevatedIf: { when: () => true, required: ["tools:read"] } } },
      "permissions.elevatedIf.required[0]",
    ],
    [
      "elevatedIf without a condition",
      { permissions: { required: ["a:b"], elevatedIf: { required: ["c:d"] } } },
      "permissions.elevatedIf",
    ],
    [
      "elevatedIf without permissions",
      { permissions: { required: ["a:b"], elevatedIf: { when: () => true, required: [] } } },
      "permissions.elevatedIf.required",
    ],
    ["a misspelt elevatedIf", { permissions: { required: ["a:b"], elevateIf: {} } }, "permissions.elevateIf"],
    ["an input that is no schema", { input: {} }, "input"],
    ["an input that is no object", { input: z.string() }, "input"],
    ["a loose input", { input: z.looseObject({ id: z.string() }) }, "input"],
    ["an input with a catchall", { input: z.object({}).catchall(z.string()) }, "input"],
    ["an input that no JSON Schema can say", { input: z.strictObject({ at: z.date() }) }, "input.at"],
    ["an output that is no schema", { output: { id: "string" } }, "output"],
    [
      "an output that no JSON Schema can say",
      { output: z.object({ id: z.bigint() }), outputPolicy: { id: "allow" } },
      "output.id",
    ],
    ["no output policy", { outputPolicy: undefined }, "outputPolicy"],
    ["an unknown action", { outputPolicy: { id: "show" } }, 'outputPolicy["id"]'],
    ["a policy path that matches no field", { outputPolicy: { id: "allow", emial: "redact" } }, "outputPolicy"],
    ["a policy path that forgets the list", { outputPolicy: { "tags.x": "allow" } }, "outputPolicy"],
    ["a malformed policy path", { outputPolicy: { "owner..name": "allow" } }, "outputPolicy"],
    ["an input policy for no field", { inputPolicy: { ids: "allow" } }, "inputPolicy"],
    ["neither target nor handler", { handler: undefined }, "target"],
    ["a handler that is no function", { handler: "x" }, "handler"],
    [
      "two targets",
      { handler: undefined, target: { ...CLI, grpc: { package: "p", service: "s", method: "m" } } },
      "target",
    ],
    ["a target without a system", { handler: undefined, target: { cli: CLI.cli } }, "target.system"],
    [
      "a gRPC target without a method",
      { handler: undefined, target: { system: "x", grpc: { package: "p", service: "s" } } },
      "target.grpc.method",
    ],
    ["a command with a path", cli({ command: "/usr/bin/git" }), "target.cli.command"],
    ...["sh", "bash", "python3", "node", "env", "xargs", "sudo", "perl5.36", "awk", "busybox"].map(
      (command) => [`the interpreter ${command}`, cli({ command }), "target.cli.command"] as const,
    ),
    ["no argsBuilder", cli({ argsBuilder: undefined }), "target.cli.argsBuilder"],
    ["a shell line", cli({ argsBuilder: "log --all" }), "target.cli.argsBuilder"],
    ["an option that is none", cli({ options: ["log"] }), "target.cli.options"],
    ["a lookup that is no function", cli({ lookups: { id: "rev-parse" } }), "target.cli.lookups"],
    ["a relative working directory", cli({ cwd: "src" }), "target.cli.cwd"],
    ["an empty working directory", cli({ cwd: "" }), "target.cli.cwd"],
    ["a working directory with NUL", cli({ cwd: "/a\0b" }), "target.cli.cwd"],
    ["an async working directory", cli({ cwd: async () => "/a" }), "target.cli.cwd"],
    ["a working directory that is a number", cli({ cwd: 7 }), "target.cli.cwd"],
    ["an unknown parser", cli({ parse: "yaml" }), "target.cli.parse"],
    ["an unknown cli field", cli({ shell: true }), "target.cli.shell"],
    ["an unbounded string in a command", cli({}, { input: z.strictObject({ ref: z.string() }) }), "input.ref"],
    [
      "a pattern that lets a dash begin",
      cli(
        {},
        {
          input: z.strictObject({
            ref: z
              .string()
              .max(9)
              .regex(/^[\w-]+$/),
          }),
        },
      ),
      "input.ref",
    ],
    ["a timeout of 0", { timeoutMs: 0 }, "timeoutMs"],
    ["an endless timeout", { timeoutMs: Number.POSITIVE_INFINITY }, "timeoutMs"],
    ["an unknown limit", { limits: { memory: 1 } }, "limits.memory"],
    ["a limit of 0", { limits: { concurrentCallsMax: 0 } }, "limits.concurrentCallsMax"],
    ["approval that is no object", { approval: true }, "approval"],
    ["needsApproval that is no function", { approval: { needsApproval: true } }, "approval.needsApproval"],
    ["an accepted example that is refused", { examples: { accepts: [{ id: "x" }] } }, "examples.accepts[0]"],
    ["a rejected example that is accepted", { examples: { rejects: [{ id: ID }] } }, "examples.rejects[0]"],
    [
      "a condition that throws on an example",
      {
        permissions: {
          required: ["a:b"],
          elevatedIf: {
            required: ["c:d"],
            when: () => {
              throw new Error("x");
            },
          },
        },
        examples: { accepts: [{ id: ID }] },
      },
      "examples.accepts[0]: permissions.elevatedIf.when",
    ],
    [
      "needsApproval that answers something else",
      { approval: { needsApproval: () => "no" }, examples: { accepts: [{ id: ID }] } },
      "examples.accepts[0]: approval.needsApproval",
    ],
  ];

  test.each(rows)("%s", (_title, changes, field) => {
    expect(faultsOf(changes)).toContain(field);
  });

  test.each([
    ["read", true, "is for classification write: a read tool adds nothing"],
    ["destructive", true, "is for classification write: a destructive tool changes or removes what exists"],
    ["write", "yes", "must be a boolean"],
  ])("additive of a %s tool: %p", (classification, additive, message) => {
    const given = { classification, additive, category: "write" };
    expect(faultList(given)).toEqual([{ field: "additive", message }]);
  });

  test("and reports everything at once, with tool and field", () => {
    const attempt = () => define({ classification: "x", permissions: { required: [] }, timeoutMs: -1 });
    expect(attempt).toThrow(/tool look_up: classification: .*; permissions\.required: .*; timeoutMs: /);
  });
});

describe("a valid manifest", () => {
  test.each([
    ["as it is", {}],
    ["with a title", { title: "Produkt nachschlagen – \u5546\u54c1\u3092\u63a2\u3059 \u{1f50d}" }],
    ["with a limit of results over MCP", { limits: { resultBytesMax: 1_048_576 } }],
    ["with explicit defaults", { limits: { resultBytesMax: undefined, outputBytesMax: undefined }, title: undefined }],
    ["with a plain object input", { input: z.object({ id: z.string() }) }],
    ["with elevation", { permissions: { required: ["a:b"], elevatedIf: { when: () => false, required: ["c:d"] } } }],
    ["that writes", { classification: "write", category: "write" }],
    ["that only adds", { classification: "write", category: "write", additive: true }],
    ["that reads and says that it does not add", { additive: false }],
    [
      "that destroys and says that it does not add",
      { classification: "destructive", category: "write", additive: false },
    ],
    ["with free text in a command", cli({}, { input: z.strictObject({ phrase: freeText(80) }) })],
    ["that reaches a method", { handler: undefined, target: grpcMethod("orders", "shop.v1.Orders", "Get") }],
    ["that runs a command", cli(cliCommand({ command: "git", argsBuilder: () => ["log"] }).cli as never)],
    ["with examples", { examples: { accepts: [{ id: ID }, { id: ID, kind: "a" }], rejects: [{ id: "x" }, {}, null] } }],
  ])("%s loads", (_title, changes) => {
    expect(faultsOf(changes)).toEqual([]);
  });

  test.each([
    ...["tools:list", "tools:read:orders", "tools:learning", "tools", "configuration:write", "configuration:reads"],
    ...[
      "Tools:read",
      "configurations:read",
      "read:tools",
      "audit",
      "auditor:read",
      "audit-trail:read",
      "service-desk:x",
    ],
    ...["policies:read", "approval:read", "my:approvals:decide", "toString", ":", ":read"],
  ])("may require %s, which is not an operators' permission", (name) => {
    expect(define({ permissions: { required: [name] } }).permissions.required).toEqual([name]);
  });

  test("is completed with defaults and frozen", () => {
    const tool = define({});
    expect(isTool(tool)).toBe(true);
    expect(tool).toMatchObject({
      category: "read",
      timeoutMs: 30_000,
      idempotent: false,
      additive: false,
      version: "1",
    });
    expect(define({ classification: "write", category: "write", additive: true }).additive).toBe(true);
    expect([tool.title, define({ title: "Search" }).title]).toEqual(["Look up", "Search"]);
    expect(tool.limits).toEqual({ outputBytesMax: 1_048_576, concurrentCallsMax: 64 });
    expect(define({ limits: { outputBytesMax: undefined, resultBytesMax: 5 } }).limits).toEqual({
      ...tool.limits,
      resultBytesMax: 5,
    });
    expect(
      Object.isFrozen(tool) && Object.isFrozen(tool.permissions.required) && Object.isFrozen(tool.outputPolicy),
    ).toBe(true);
  });

  test.each([
    ["read", {}, "read"],
    [
      "write over gRPC",
      { classification: "write", handler: undefined, target: grpcMethod("s", "p.S", "M") },
      "network",
    ],
    ["write by command", cli({}, { classification: "write" }), "command"],
    [
      "write to a database",
      ofDatabase("delete from orders where id = $1::uuid and kind = $2 returning id", { classification: "write" }),
      "network",
    ],
    ["read of a database", ofDatabase("select $1, $2", {}), "read"],
    ["read of a database that says delete", ofDatabase("select $1, $2", { name: "delete_order" }), "network"],
  ])("category of %s", (_title, changes, category) => {
    expect(define(changes).category).toBe(category as never);
  });

  test("grpcMethod splits the full name", () => {
    expect(grpcMethod("s", "a.b.C", "D")).toEqual({ system: "s", grpc: { package: "a.b", service: "C", method: "D" } });
  });

  test("the function form waits for the configuration", () => {
    const factory = defineTool((config: ToolConfig) => ({
      ...SOUND,
      input: z.strictObject({ repo: config.oneOf("git", "repositories") }),
    }));
    expect(isToolFactory(factory)).toBe(true);
    const config = {
      oneOf: () => z.enum(["self"]),
      sample: () => "self",
      repository: () => "/",
      gitDirectory: () => "/",
      setting: () => "x",
      path: () => "/x",
      shellWorkspace: () => "/",
      workspaceMounts: () => ["@project"],
      has: () => false,
    };
    expect(factory.make(config).input.safeParse({ repo: "self" }).success).toBe(true);
  });
});
