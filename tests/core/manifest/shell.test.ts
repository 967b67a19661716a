import { expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError } from "../../../src/core/errors.ts";
import { freeText } from "../../../src/core/schema/bounds.ts";
import { defineTool } from "../../../src/index.ts";

const CLI = {
  command: "bash",
  shell: { workspace: "/ws" },
  options: ["--noprofile", "--norc", "-c"],
  argsBuilder: ({ command }: { readonly command: string }) => ["--noprofile", "--norc", "-c", "--", command],
};
const SOUND = {
  name: "run",
  description: "runs a script",
  classification: "write",
  category: "command",
  permissions: { required: ["test:run"] },
  input: z.strictObject({ command: freeText(100) }),
  output: z.strictObject({ output: z.string(), exitCode: z.int(), truncated: z.boolean() }),
  outputPolicy: { output: "allow", exitCode: "allow", truncated: "allow" },
  approval: { required: true },
} as const;

function faultsOf(manifest: object, cli: object): readonly string[] {
  try {
    defineTool({ ...SOUND, ...manifest, target: { system: "workspace", cli: { ...CLI, ...cli } } } as never);
    return [];
  } catch (error) {
    if (error instanceof ManifestError) return error.faults.map(({ field }) => field);
    throw error;
  }
}

test("a declared shell that always asks may load", () => {
  expect(faultsOf({}, {})).toEqual([]);
  expect(faultsOf({ classification: "destructive" }, {})).toEqual([]);
  expect(faultsOf({}, { cwd: "src" })).toEqual([]);
});

test.each([
  ["it does not always ask", { approval: { required: false } }, {}],
  ["it asks when it likes", { approval: { needsApproval: () => true } }, {}],
  ["nothing is said of approval", { approval: undefined }, {}],
  ["it is called a write", { category: "write" }, {}],
  ["its category is left to be guessed", { category: undefined }, {}],
  ["it is called a read", { classification: "read" }, {}],
  ["it does not say that it is a shell", {}, { shell: undefined }],
  ["it is another shell", {}, { command: "zsh" }],
  ["it is an interpreter", {}, { command: "python3" }],
  ["it is the shell's other name", { name: "bash" }, { command: "sh" }],
])("no shell loads when %s", (_title, manifest, cli) => {
  expect(faultsOf(manifest, cli)).not.toEqual([]);
});

test.each([
  ["a relative workspace", {}, { shell: { workspace: "ws" } }, "target.cli.shell.workspace"],
  ["an unknown key", {}, { shell: { workspace: "/ws", user: "x" } }, "target.cli.shell.user"],
  [
    "a time that is waited for",
    {},
    { shell: { workspace: "/ws", timeoutMs: async () => 1 } },
    "target.cli.shell.timeoutMs",
  ],
  ["lookups", {}, { lookups: { x: () => [] } }, "target.cli.lookups"],
  ["a command that is no shell", {}, { command: "git" }, "target.cli.shell"],
])("%s is an error of its field", (_title, manifest, cli, field) => {
  expect(faultsOf(manifest, cli)).toContain(field);
});

test("a shell offers no bounded grants", () => {
  expect(faultsOf({ approval: { required: true, grants: { runs: 1, minutes: 1 } } }, {})).toEqual(["approval.grants"]);
});
