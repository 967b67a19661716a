import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { isTool } from "../../src/core/define-tool.ts";
import { defineTool, ManifestError } from "../../src/index.ts";
import { environmentFaults } from "../../src/targets/command/environment.ts";

const sound = {
  name: "case_tool",
  description: "A tool of a test",
  classification: "write",
  category: "network",
  permissions: { required: ["case:run"] },
  input: z.strictObject({ name: z.enum(["a", "b"]) }),
  handler: async () => ({}),
  output: z.strictObject({}),
  outputPolicy: {},
} as const;

const command = (cli: Readonly<Record<string, unknown>>) => ({
  category: "command",
  handler: undefined,
  target: { system: "git", cli: { command: "git", argsBuilder: () => ["log"], ...cli } },
});

function fieldsAtFault(changes: Readonly<Record<string, unknown>>): readonly string[] {
  try {
    defineTool({ ...sound, ...changes } as never);
    return [];
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return error.faults.map(({ field }) => field);
  }
}

describe("a function whose result is needed at once may not return a promise", () => {
  const fails = async (): Promise<never> => {
    throw new Error("nobody awaits this");
  };
  const elevatedIf = (when: unknown) => ({
    permissions: { required: ["case:run"], elevatedIf: { when, required: ["x"] } },
  });

  test.each([
    ["permissions.elevatedIf", elevatedIf(fails)],
    ["target.cli.argsBuilder", command({ argsBuilder: fails })],
    ["target.cli.cwd", command({ cwd: fails })],
    ["target.cli.environment", command({ environment: fails })],
    ["target.cli.lookups", command({ lookups: { id: fails } })],
    ["target.cli.lookups", command({ lookups: { id: async function* () {} } })],
  ])("%s", (field, changes) => {
    expect(fieldsAtFault(changes)).toEqual([field]);
  });

  test("but needsApproval may, because approvals can wait", () => {
    expect(fieldsAtFault({ approval: { needsApproval: fails } })).toEqual([]);
  });

  test("synchronous ones load", () => {
    const lookups = { id: () => [] };
    expect(fieldsAtFault(command({ cwd: () => "/", environment: () => ({}), lookups }))).toEqual([]);
    expect(fieldsAtFault({ ...elevatedIf(() => true), approval: { needsApproval: () => false } })).toEqual([]);
  });

  test("a hidden promise is found by an example, and its failure ends nothing", () => {
    const examples = { accepts: [{ name: "a" }] };
    expect(fieldsAtFault({ approval: { needsApproval: () => fails() }, examples })).toEqual([
      "examples.accepts[0]: approval.needsApproval",
    ]);
  });
});

describe("a command that takes programs as arguments", () => {
  test.each([
    ...["bash", "BASH", "bash5", "sh", "python3.12", "Rscript", "node22", "php8.2", "php-cgi", "busybox", "env"],
    ...["flock", "taskset", "systemd-run", "parallel", "nsenter", "tmux", "ld.so", "awk", "git-shell", "go"],
  ])("%s does not load", (name) => {
    expect(fieldsAtFault(command({ command: name }))).toEqual(["target.cli.command"]);
  });

  test.each(["git", "kubectl", "logcli", "argocd", "jq", "rg", "helm", "nodectl", "gofmt", "shellcheck", "7z", "h2c"])(
    "%s is not such a command",
    (name) => {
      expect(fieldsAtFault(command({ command: name }))).toEqual([]);
    },
  );
});

test.each([
  ["a promise", Promise.resolve({ GIT_DIR: "/x" })],
  ["a list", ["GIT_DIR=/x"]],
  ["a map", new Map([["GIT_DIR", "/x"]])],
])("an environment that is %s would be empty: refused", (_title, declared) => {
  expect(environmentFaults(declared)).toHaveLength(1);
});

describe("an object that only looks like a defined tool", () => {
  const tool = defineTool(sound as never);

  test("a copy has not been checked", () => {
    expect(isTool({ ...tool, permissions: { required: [] } })).toBe(false);
  });

  test("neither has a child that overrides checked fields", () => {
    expect(isTool(tool)).toBe(true);
    expect(isTool(Object.create(tool, { permissions: { value: { required: [] } } }))).toBe(false);
  });
});
