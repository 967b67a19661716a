import { describe, expect, test } from "bun:test";
import { closeSync, mkdirSync, openSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { identify, idOf } from "../../../src/targets/files/confinement.ts";
import { readEntries } from "../../../src/targets/files/list.ts";
import { search } from "../../../src/targets/files/search.ts";
import { CONFINEMENTS, codeOf, fsStand, refusalOf } from "./stand.ts";
import { LIMITS } from "./stand-in.ts";

/** Files that a program in the workspace, or a patient agent, can prepare for other programs. */

describe("a repository cannot be created one file at a time", () => {
  const config = "[core]\n\tfsmonitor = ./evil\n";
  const shared: readonly string[] = ["real/config", "real/objects/x", "real/refs/x"];
  test.each([
    ["of its own", ["config", "HEAD", "objects/x", "refs/x"], "refs/x"],
    ["in reverse order", ["config", "refs/x", "objects/x", "HEAD"], "HEAD"],
    ["that shares what another directory holds", [...shared, "HEAD", "commondir"], "commondir"],
    ["that shares it, in reverse order", [...shared, "commondir", "HEAD"], "HEAD"],
  ] as const)("%s", async (_title, names, last) => {
    for (const confinement of CONFINEMENTS) {
      const { call } = fsStand({ confinement });
      const codes: string[] = [];
      for (const name of names) {
        const path = `@project/lib/${name}`;
        codes.push(await codeOf(call("fs_write", { path, content: config, createDirectories: true })));
      }
      expect(codes).toEqual(names.map((name) => (name === last ? "E_SANDBOX_VIOLATION" : "done")));
    }
  });

  test.each(["GITMOD~1", "gi7eba~1", "GI7EB~10", ".gitmodules ", ".gitmodules::$DATA"])(
    "list of submodules as %s",
    async (name) => {
      const { call } = fsStand();
      expect(await codeOf(call("fs_write", { path: `@project/${name}`, content: "" }))).toBe("E_SANDBOX_VIOLATION");
    },
  );
});

describe("one directory under several mounts' names", () => {
  test("is read-only under all of them when it is under one", async () => {
    const { project } = fsStand();
    const { call } = fsStand({ directories: { project, pkg: project } });
    expect(await codeOf(call("fs_write", { path: "@project/x", content: "" }))).toBe("E_SANDBOX_VIOLATION");
    expect(readdirSync(project)).toEqual([]);
  });

  test("contains the workflow under all of them", async () => {
    const { project } = fsStand();
    const { call } = fsStand({ directories: { project, state: project } });
    for (const path of ["@project/workflow.md", "@state/workflow.md", "@project/WORKFLOW.md"]) {
      expect(await codeOf(call("fs_write", { path, content: "# Nothing" }))).toBe("E_INVALID_FRONTMATTER");
    }
    expect(await call("fs_write", { path: "@project/notes.md", content: "# Notes" })).toMatchObject({ created: true });
  });
});

describe("a directory that no path could name is not created", () => {
  test.each([
    ["a name that is too long below new directories", `new/${"x".repeat(256)}/y`],
    ["a name that is too long in bytes", `new/${"\u00e9".repeat(128)}`],
    ["more directories than are followed", `${"d/".repeat(300)}x`],
    ["a path that is too long in bytes", `${`${"\u4f60".repeat(80)}/`.repeat(18)}x`],
  ])("%s", async (_title, path) => {
    const { plan, project } = fsStand();
    const planned = plan("fs_write", { path: `@project/${path}`, content: "", createDirectories: true });
    expect(await codeOf(planned)).toBe("ENAMETOOLONG");
    expect(readdirSync(project)).toEqual([]);
  });

  test("a deep tree within the limit is", async () => {
    const { call } = fsStand();
    const path = `@project/${"d/".repeat(150)}x`;
    expect(await call("fs_write", { path, content: "deep", createDirectories: true })).toMatchObject({ path });
    expect(await call("fs_read", { path })).toMatchObject({ content: "deep" });
  });
});

describe("a search", () => {
  test("sees the first line after a byte order mark", async () => {
    const { call, project } = fsStand();
    writeFileSync(join(project, "a.ts"), '\ufeffimport "x";\nimport "y";\n');
    const { matches } = await call("fs_search", { path: "@project", pattern: "^import" });
    expect(matches).toMatchObject([
      { line: 1, text: 'import "x";' },
      { line: 2, text: 'import "y";' },
    ]);
  });

  test("ends in time with the matches that fit, however long the paths are", async () => {
    const { call, project, tool } = fsStand();
    const deep = Array.from({ length: 15 }, () => "\u0001".repeat(250)).join("/");
    mkdirSync(join(project, deep), { recursive: true });
    writeFileSync(join(project, deep, "many"), "x\n".repeat(2_000));
    const answer = await call("fs_search", { path: "@project", pattern: "x", maxMatches: 1_000 });
    expect(answer).toMatchObject({ truncated: true });
    expect((answer["matches"] as readonly unknown[]).length).toBeGreaterThan(40);
    expect(Buffer.byteLength(JSON.stringify(answer))).toBeLessThan(tool("fs_search").limits.outputBytesMax);
  });
});

/** Runs with a mount in a directory. Prints a note and does nothing where mounting is not permitted. */
async function mounted(order: readonly string[], at: string, work: () => Promise<void>): Promise<void> {
  mkdirSync(at);
  if (process.getuid?.() !== 0 || Bun.spawnSync(["mount", ...order, at], { stderr: "ignore" }).exitCode !== 0) {
    console.warn("nothing can be mounted here: not tried");
    return;
  }
  try {
    await work();
  } finally {
    Bun.spawnSync(["umount", "-l", at]);
  }
}

describe.each(CONFINEMENTS.map((kind) => [kind] as const))("a filesystem mounted below, by %s", (confinement) => {
  test("is not accessible, though it is on the same device", async () => {
    const { call, project, outside } = fsStand({ confinement });
    writeFileSync(join(outside, "secret"), "SECRET");
    await mounted(["--bind", outside], join(project, "bound"), async () => {
      const path = "@project/bound/secret";
      expect(await codeOf(call("fs_read", { path }))).toBe("E_SANDBOX_VIOLATION");
      expect(await codeOf(call("fs_list", { path: "@project/bound" }))).toBe("E_SANDBOX_VIOLATION");
      expect(await codeOf(call("fs_write", { path, content: "EVIL" }))).toBe("E_SANDBOX_VIOLATION");
      expect(await call("fs_search", { path: "@project", pattern: "SECRET" })).toMatchObject({ matches: [] });
    });
  });

  test("a full disk leaves the old file, and the refusal says why", async () => {
    const { folder } = fsStand();
    const disk = join(folder, "disk");
    await mounted(["-t", "tmpfs", "-o", "size=64k", "none"], disk, async () => {
      const { call } = fsStand({ confinement, directories: { project: disk } });
      await call("fs_write", { path: "@project/a", content: "old" });
      const refusal = await refusalOf(call("fs_write", { path: "@project/a", content: "x".repeat(200_000) }));
      expect(refusal).toMatchObject({ code: "TARGET_FAILED", details: { code: "E_INTERNAL" } });
      expect(refusal.message).toContain("file system is full");
      expect(readdirSync(disk)).toEqual(["a"]);
      expect(await call("fs_read", { path: "@project/a" })).toMatchObject({ content: "old" });
    });
  });
});

describe("a directory", () => {
  test("with names that are not text is read up to the same limit", () => {
    const { mounts, project } = fsStand();
    for (let index = 0; index < 30; index += 1) {
      writeFileSync(Buffer.concat([Buffer.from(`${project}/`), Buffer.from([0xff, 0x41 + index])]), "");
    }
    const fd = openSync(project, "r");
    expect(readEntries(mounts.confinement.library, fd, 10)).toMatchObject({ unreadable: 11, truncated: true });
    closeSync(fd);
  });

  test("that is removed during a search is skipped", async () => {
    const { mounts, project } = fsStand();
    mkdirSync(join(project, "goes"));
    writeFileSync(join(project, "stays"), "here");
    const { confinement } = mounts;
    const { library } = confinement;
    const readOn = library.readEntries;
    const watched = {
      ...library,
      readEntries(directory: number, buffer: Uint8Array) {
        if (identify(directory).id === going) rmSync(join(project, "goes"), { recursive: true, force: true });
        return readOn(directory, buffer);
      },
    };
    const going = idOf(statSync(join(project, "goes"), { bigint: true }));
    const order = {
      path: "@project",
      pattern: "here",
      literal: true,
      ignoreCase: false,
      before: 0,
      after: 0,
      maxMatches: 9,
      all: false,
    };
    const context = { limits: LIMITS.search, signal: new AbortController().signal, now: () => 0 };
    const answer = await search({ ...mounts, confinement: { ...confinement, library: watched } }, order, context);
    expect(answer).toMatchObject({ matches: [{ path: "@project/stays" }], filesSkipped: 1 });
  });
});
