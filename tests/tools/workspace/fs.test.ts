import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { renderView } from "../../../src/approvals/view.ts";
import { defineTool, SafeToolCall, type SafeToolCallOptions, type ToolCallResult } from "../../../src/index.ts";
import { LiveIssuers } from "../../support/live-tokens.ts";
import { AGENTS_AUDIENCE, AGENTS_ISSUER } from "../../support/tokens.ts";
import { fsStand, temporaryFolder } from "../../targets/files/stand.ts";

const TOOLS = join(import.meta.dir, "../../../tools/workspace");
const issuers = new LiveIssuers();
const PERMISSIONS = ["workspace:fs:read", "workspace:fs:write"];
const services: SafeToolCall[] = [];
afterAll(async () => {
  for (const service of services) await service.close();
});

function service(more: Partial<SafeToolCallOptions> = {}) {
  const folder = temporaryFolder();
  for (const name of ["project", "pkg"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "project/a.txt"), "one\ntwo\n");
  const stc = SafeToolCall.create({
    folder,
    tools: ["list", "read", "search", "write", "apply-patch"].map((name) => join(TOOLS, `fs-${name}.ts`)),
    workspace: { project: "project", pkg: "pkg", state: "state" },
    audit: { dir: "audit" },
    jwt: {
      issuer: AGENTS_ISSUER,
      audience: AGENTS_AUDIENCE,
      algorithms: ["ES256"],
      jwks: { keys: [issuers.agents.jwk] },
    },
    ...more,
  });
  services.push(stc);
  const call = async (
    tool: string,
    args: unknown,
    permissions: readonly string[] = PERMISSIONS,
  ): Promise<ToolCallResult> => stc.call(tool, args, await issuers.token({ kind: "good", sub: "agent", permissions }));
  const audit = (): readonly Record<string, unknown>[] =>
    readdirSync(join(folder, "audit"))
      .filter((name) => /^\d{4}-\d\d-\d\d\.jsonl$/.test(name))
      .map((name) => readFileSync(join(folder, "audit", name), "utf8"))
      .join("")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { folder, stc, call, audit };
}

const errorOf = (result: ToolCallResult): unknown => ("error" in result ? result.error : undefined);

describe("in the pipeline", () => {
  test("the tools are listed under their own names, bash is not", async () => {
    const { stc } = service();
    await stc.ready();
    expect(
      stc
        .listTools()
        .map((tool) => JSON.stringify(tool).match(/"name":"(\w+)"/)?.[1])
        .sort(),
    ).toEqual(["fs_apply_patch", "fs_list", "fs_read", "fs_search", "fs_write"]);
  });

  test.each(["fs_read", "fs.read"])("%s answers", async (tool) => {
    const { call } = service();
    expect(await call(tool, { path: "@project/a.txt" })).toMatchObject({
      status: "success",
      result: { content: "one\ntwo\n", totalLines: 2 },
      filteredFields: [],
    });
  });

  test.each(["fs.remove", "fs", "fs_", "fs.", "FS.READ", "fs.read.", "fs__read"])("%j is not a tool", async (tool) => {
    const { call } = service();
    expect(errorOf(await call(tool, {}))).toMatchObject({ code: "TOOL_NOT_FOUND" });
  });

  test.each([
    ["fs_read", "workspace:fs:read"],
    ["fs.write", "workspace:fs:write"],
  ])("%s needs %s", async (tool, permission) => {
    const { call } = service();
    const args = { path: "@project/a.txt", ...(tool === "fs.write" && { content: "x" }) };
    expect(
      errorOf(
        await call(
          tool,
          args,
          PERMISSIONS.filter((held) => held !== permission),
        ),
      ),
    ).toMatchObject({
      code: "PERMISSION_DENIED",
    });
  });

  test("a path that leaves a mount is refused with the code, and is in the audit", async () => {
    const { call, audit, folder } = service();
    const refused = errorOf(await call("fs_read", { path: "@project/../audit" }));
    expect(refused).toMatchObject({
      code: "TARGET_REFUSED",
      stage: "EXECUTION",
      details: { status: "INVALID_ARGUMENT", code: "E_SANDBOX_VIOLATION" },
    });
    expect(JSON.stringify(refused)).not.toContain(folder);
    expect(audit().at(-1)).toMatchObject({
      tool: { name: "fs_read", classification: "read" },
      decision: "ERROR",
      request: { args: { path: "@project/../audit" } },
    });
  });

  test("a write that nobody can approve is refused, and changes nothing", async () => {
    const { call, folder } = service();
    expect(errorOf(await call("fs_write", { path: "@project/a.txt", content: "x" }))).toMatchObject({
      code: "APPROVAL_DENIED",
    });
    expect(readFileSync(join(folder, "project/a.txt"), "utf8")).toBe("one\ntwo\n");
  });

  test("a write asks, runs after an approval, and its content is not in the audit", async () => {
    const asked: unknown[] = [];
    const { call, folder, audit } = service({
      onToolApprove: (use) => {
        asked.push([use.name, use.category]);
        return true;
      },
    });
    const result = await call("fs.write", { path: "@project/a.txt", content: "SECRET-CONTENT" });
    expect(result).toMatchObject({ status: "success", result: { path: "@project/a.txt", changed: true } });
    expect(asked).toEqual([["fs_write", "write"]]);
    expect(readFileSync(join(folder, "project/a.txt"), "utf8")).toBe("SECRET-CONTENT");
    expect(JSON.stringify(audit())).not.toContain("SECRET-CONTENT");
    expect(audit().at(-1)).toMatchObject({
      tool: { name: "fs_write", targetSystem: "workspace" },
      decision: "ALLOWED",
    });
  });

  test("an approval is for the file as it was: one that changed meanwhile is left alone", async () => {
    const { call, folder } = service({
      onToolApprove: () => {
        writeFileSync(join(folder, "project/a.txt"), "meanwhile");
        return true;
      },
    });
    expect(errorOf(await call("fs_write", { path: "@project/a.txt", content: "x" }))).toMatchObject({
      details: { code: "E_PRECONDITION_FAILED" },
    });
    expect(readFileSync(join(folder, "project/a.txt"), "utf8")).toBe("meanwhile");
  });

  test("in autoEdit a write runs, also through a patch", async () => {
    const { call } = service({ approvals: { mode: "autoEdit" } });
    const diff = "@@ -1 +1 @@\n-one\n+1\n";
    expect(
      await call("fs.apply_patch", { path: "@project/a.txt", patch: { operation: "unifiedDiff", diff } }),
    ).toMatchObject({ status: "success", result: { changed: true } });
  });
});

test("the approver sees the diff, the hashes and the real path", async () => {
  const stand = fsStand();
  writeFileSync(join(stand.project, "a.txt"), "one\ntwo\n");
  const plan = await stand.plan("fs_write", { path: "@project/./a.txt", content: "one\n2\n" });
  const rendered = renderView({
    tool: stand.tool("fs_write"),
    plan,
    binding: { plan: () => plan, run: async () => undefined },
    planDigest: "",
    input: {},
    requester: { issuer: "i", subject: "s", actors: [], session: undefined },
    reason: undefined,
    risk: "medium",
    rules: [],
    notes: [],
    filterSecrets: (text) => text,
    findSecrets: () => [],
    namesSecret: () => false,
  });
  expect(rendered?.view).toMatchObject({
    target: {
      path: "@project/a.txt",
      currentSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      newSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      diff: ["--- @project/a.txt", "+++ @project/a.txt", "@@ -1,2 +1,2 @@", " one", "-two", "+2"],
    },
  });
});

describe("its own manifest", () => {
  const manifest = (classification: "read" | "write", operation: string) => ({
    name: "own_files",
    description: "Files",
    classification,
    permissions: { required: ["own:files"] },
    input: z.strictObject({ path: z.string() }),
    output: z.strictObject({ path: z.string() }),
    outputPolicy: { path: "allow" as const },
    target: { system: "workspace", fs: { operation: operation as "write" } },
  });

  test("is of the category write unless it only reads", () => {
    expect(defineTool(manifest("write", "write")).category).toBe("write");
    expect(defineTool(manifest("read", "list")).category).toBe("read");
  });

  test.each([
    ["read", "write", "classification"],
    ["read", "apply_patch", "classification"],
    ["write", "remove", "target.fs.operation"],
  ] as const)("that %ss and would %s does not load", (classification, operation, field) => {
    expect(() => defineTool(manifest(classification, operation))).toThrow(field);
  });

  test("does not load without a workspace", async () => {
    const { stc } = service({ tools: [defineTool(manifest("read", "list"))], workspace: {} });
    await expect(stc.ready()).rejects.toThrow("workspace names no directory");
  });
});
