import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LiveIssuers } from "../support/live-tokens.ts";
import { runStc } from "../support/stc.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-matrix-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const tool = (name: string, rest: string): string => `
export const ${name} = defineTool({
  name: "${name}", description: "d", input: z.strictObject({}), handler: () => ({ ok: true }),
  output: z.strictObject({ ok: z.boolean() }), outputPolicy: { ok: "allow" }, ${rest}
});`;

writeFileSync(
  join(folder, "tools.ts"),
  [
    'import { defineTool } from "safe-tool-call";\nimport { z } from "zod";',
    tool("look", 'classification: "read", permissions: { required: ["a:read", "b:read"] }'),
    tool("drop", 'classification: "destructive", category: "network", permissions: { required: ["a:drop"] }'),
    tool(
      "alter",
      'classification: "write", category: "write", permissions: { required: ["a:write"], elevatedIf: { when: () => true, required: ["a:admin"] } }',
    ),
  ].join("\n"),
);

const [agents, people] = new LiveIssuers().profiles();
const subjectPermissions = { reader: ["a:read", "b:read"], half: ["a:read"], writer: ["a:write", "a:drop"] };

function configFile(issuers: readonly object[]): string {
  const file = join(folder, `stc-${issuers.length}-${JSON.stringify(issuers).length}.yaml`);
  const written = { tools: ["./tools.ts"], audit: { dir: "./audit" }, jwt: { issuers } };
  writeFileSync(file, JSON.stringify(written));
  return file;
}

test("one table shows who can call what", async () => {
  const file = configFile([{ ...agents, subjectPermissions }, { ...people }]);
  const { code, out, err } = await runStc(["check", "--matrix", "--config", file]);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  const cells = out
    .trimEnd()
    .split("\n")
    .map((line) => line.split(/ {2,}/));
  const end = cells.findIndex(([first]) => first === "");
  expect(cells.slice(0, end)).toEqual([
    ["TOOL", "SYSTEM", "CLASSIFICATION", "CATEGORY", "APPROVAL", "PERMISSIONS", "ELEVATED", "SUBJECTS", "ROLES"],
    ["alter", "inline", "write", "write", "by mode", "a:write", "a:admin", "writer", "-"],
    ["drop", "inline", "destructive", "network", "always", "a:drop", "-", "writer", "-"],
    ["look", "inline", "read", "read", "no", "a:read b:read", "-", "reader", "-"],
  ]);
  // Without an approval store nobody can be asked.
  expect(cells.slice(end + 1)).toEqual([
    ["TOOL", "half", "reader", "writer"],
    ["alter", "deny", "deny", "deny"],
    ["drop", "deny", "deny", "deny"],
    ["look", "deny", "allow", "deny"],
  ]);
});

test("operators call no tools, and the permissions in tokens are not known here", async () => {
  const file = configFile([{ ...agents }, { ...people, subjectPermissions }]);
  const { out } = await runStc(["check", "--matrix", "--json", "--config", file]);
  const { matrix } = JSON.parse(out) as { readonly matrix: readonly { readonly subjects: readonly string[] }[] };
  expect(matrix.map(({ subjects }) => subjects)).toEqual([[], [], []]);
});

test("a configuration that would not start has no matrix", async () => {
  const file = configFile([{ ...agents, subjectPermissions: { reader: ["not a permission"] } }]);
  const { code, out, err } = await runStc(["check", "--matrix", "--config", file]);
  expect({ code, out }).toEqual({ code: 78, out: "" });
  expect(err).toContain("jwt.issuers[0].subjectPermissions.reader[0]: must be a permission's name");
});

test("the table of verdicts counts roles that are bound to a subject", async () => {
  const file = join(folder, "roles.yaml");
  const roles = { looker: { tools: ["look"] } };
  const bindings = [
    { role: "looker", subject: "half" },
    { role: "looker", subject: "nobody-else" },
  ];
  const jwt = { issuers: [{ ...agents, subjectPermissions: { half: ["a:read"] } }] };
  writeFileSync(file, JSON.stringify({ tools: ["./tools.ts"], audit: { dir: "./audit" }, jwt, roles, bindings }));
  const { code, out, err } = await runStc(["check", "--matrix", "--csv", "--config", file]);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  const cells = out
    .trimEnd()
    .split(/\r?\n/)
    .map((line) => line.replaceAll('"', "").split(","));
  expect(cells).toEqual([
    ["TOOL", "half", "nobody-else"],
    ["alter", "deny", "deny"],
    ["drop", "deny", "deny"],
    ["look", "allow", "allow"],
  ]);
});
