import { describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { NotRegistered } from "../../../src/core/errors.ts";
import type { OpenedKind } from "../../../src/core/target-kind.ts";
import { files } from "../../../src/targets/files/kind.ts";
import { readConfig } from "../../support/build.ts";
import { contextFor } from "../../support/kinds.ts";
import { temporaryFolder } from "./stand.ts";

async function open(folder: string, workspace: object, more: object = {}) {
  const written = {
    tools: ["./tools"],
    audit: { dir: "./audit" },
    jwt: { issuers: [{ issuer: "https://x", jwksFile: "./keys/jwks.json" }] },
    ...more,
    workspace,
  };
  const config = readConfig(written, { folder, environment: {}, origin: join(folder, "stc.yaml") });
  const problems: string[] = [];
  const opened: OpenedKind = await files.open(contextFor(config, "fs", problems));
  return { opened, problems };
}

function temporaryRoot(): string {
  const folder = temporaryFolder();
  for (const name of ["tools", "audit", "keys", "project", "project/inner", "pkg"]) mkdirSync(join(folder, name));
  for (const name of ["stc.yaml", "keys/jwks.json"]) writeFileSync(join(folder, name), "");
  return folder;
}

describe("the workspace at start", () => {
  test("opens existing folders and creates the run's state", async () => {
    const folder = temporaryRoot();
    const { opened, problems } = await open(folder, { project: "project", pkg: "pkg", state: "state", runId: "r-1" });
    expect(problems).toEqual([]);
    expect(opened.facts?.["files"]).toBeOneOf(["openat2", "walk"]);
    expect(
      await Bun.file(join(folder, "state/runs/r-1/state"))
        .stat()
        .then((stat) => stat.isDirectory()),
    ).toBe(true);
    await opened.close();
  });

  test("without directories there is no workspace, and no problem", async () => {
    const { opened, problems } = await open(temporaryRoot(), {});
    expect(problems).toEqual([]);
    expect(opened.facts).toBeUndefined();
    expect(() => opened.offers?.workspaceMounts?.("read")).toThrow(
      new NotRegistered("workspace names no directory for it"),
    );
    expect(() => opened.bind({ name: "x" } as never)).toThrow(
      "target.fs: cannot be reached: workspace names no directory",
    );
  });

  const rows: readonly (readonly [string, object, object, readonly string[]])[] = [
    ["a missing directory", { project: "none" }, {}, ["workspace.project", "none"]],
    ["a file for a directory", { project: "stc.yaml" }, {}, ["workspace.project"]],
    ["the configuration below", { project: "." }, {}, ["workspace.project", "the configuration"]],
    [
      "the audit below",
      { project: "project" },
      { audit: { dir: "project/audit" } },
      ["workspace.project", "audit.dir"],
    ],
    ["the audit above", { project: "audit/x" }, {}, ["workspace.project", "audit.dir"]],
    ["manifests below", { project: "project" }, { tools: ["./project/inner"] }, ["workspace.project", "tools[0]"]],
    ["keys below", { project: "keys" }, {}, ["workspace.project", "jwt.issuers[0].jwksFile"]],
    [
      "a store below",
      { project: "project" },
      { approvals: { store: "sqlite://./project/a.sqlite" } },
      ["workspace.project", "approvals.store"],
    ],
    [
      "a key of the audit below",
      { pkg: "pkg" },
      { audit: { dir: "audit", hashKeyFile: "pkg/key" } },
      ["workspace.pkg", "audit.hashKeyFile"],
    ],
    [
      "credentials of the collector below",
      { pkg: "pkg" },
      { telemetry: { traces: { endpoint: "https://otel.example", headersFile: "pkg/headers" } } },
      ["workspace.pkg", "telemetry.traces.headersFile"],
    ],
    [
      "contracts below",
      { project: "project" },
      { systems: { s: { endpoint: "localhost:1", plaintext: true, proto: "project/inner" } } },
      ["workspace.project", "systems.s.proto"],
    ],
    [
      "the audit below, by a link",
      { project: "link" },
      { audit: { dir: "project/audit" } },
      ["workspace.project", "audit.dir"],
    ],
    [
      "the audit by a link into it",
      { project: "project" },
      { audit: { dir: "audit-link/deep/er" } },
      ["workspace.project", "audit.dir"],
    ],
    ["one directory twice", { project: "project", pkg: "project" }, {}, ["workspace.project", "workspace.pkg"]],
    [
      "what is written inside what is only read",
      { project: "project/inner", pkg: "project" },
      {},
      ["workspace.project", "workspace.pkg"],
    ],
    [
      "a schema that is none",
      { project: "project", workflow: { schema: { type: "nothing" } } },
      {},
      ["workspace.workflow.schema"],
    ],
  ];
  test.each(rows)("%s is a problem that names both paths", async (_title, workspace, more, named) => {
    const folder = temporaryRoot();
    mkdirSync(join(folder, "audit/x"));
    symlinkSync("project", join(folder, "link"));
    symlinkSync("project/inner", join(folder, "audit-link"));
    const { opened, problems } = await open(folder, workspace, more);
    await opened.close();
    const naming = problems.filter((problem) => named.every((name) => problem.includes(name)));
    expect([problems, naming.length]).toEqual([problems, 1]);
  });

  test("a mount may contain another where the outer one is configured", async () => {
    const { opened, problems } = await open(temporaryRoot(), {
      project: "project",
      pkg: "project/inner",
      state: "project/run",
    });
    expect(problems).toEqual([]);
    await opened.close();
  });
});
