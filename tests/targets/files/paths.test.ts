import { describe, expect, test } from "bun:test";
import { linkSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { CONFINEMENTS, codeOf, type FsStand, fsStand, type StandOptions } from "./stand.ts";

function tree(options: StandOptions = {}): FsStand {
  const stand = fsStand(options);
  const { project, pkg, state, outside } = stand;
  mkdirSync(join(project, "src/deep"), { recursive: true });
  writeFileSync(join(project, "a.txt"), "in a");
  writeFileSync(join(project, "src/b.txt"), "in b");
  writeFileSync(join(project, "%2e%2e"), "percent");
  writeFileSync(join(project, "caf\u00e9"), "composed");
  writeFileSync(join(project, "..."), "three dots");
  writeFileSync(join(pkg, "p.txt"), "in pkg");
  writeFileSync(join(state, "s.txt"), "in state");
  writeFileSync(join(outside, "secret"), "SECRET");
  const links: readonly (readonly [string, string])[] = [
    ["to-b", "src/b.txt"],
    ["to-src", "src"],
    ["src/deep/up", "../b.txt"],
    ["to-outside", "../outside"],
    ["to-secret", "../outside/secret"],
    ["absolute", join(outside, "secret")],
    ["absolute-inside", join(project, "a.txt")],
    ["dangling", "nowhere"],
    ["dangling-out", "../outside/new"],
    ["loop", "loop"],
    ["proc", "/proc/self/root/etc/passwd"],
  ];
  for (const [name, target] of links) symlinkSync(target, join(project, name));
  return stand;
}

describe.each(CONFINEMENTS.map((kind) => [kind] as const))("by %s", (confinement) => {
  const stand = tree({ confinement });

  test("is the requested file", () => {
    expect(stand.mounts.confinement.kind).toBe(confinement);
  });

  test.each([
    ["a file", "@project/a.txt", "in a"],
    ["below", "@project/src/b.txt", "in b"],
    ["consecutive slashes", "@project//src///b.txt", "in b"],
    ["dots", "@project/./src/././b.txt", "in b"],
    [".. that stays inside", "@project/src/../a.txt", "in a"],
    ["a link to a file", "@project/to-b", "in b"],
    ["through a link", "@project/to-src/b.txt", "in b"],
    [".. after a link", "@project/to-src/../a.txt", "in a"],
    ["a link that goes up and stays", "@project/src/deep/up", "in b"],
    ["percent signs are characters", "@project/%2e%2e", "percent"],
    ["three dots are a name", "@project/...", "three dots"],
    ["the composed form that the file has", "@project/caf\u00e9", "composed"],
    ["the read-only mount", "@pkg/p.txt", "in pkg"],
    ["the state", "@state/s.txt", "in state"],
  ])("reads %s", async (_title, path, content) => {
    expect(await stand.call("fs_read", { path })).toMatchObject({ content, path });
  });

  test.each([
    ["above the mount", "@project/../outside/secret", "E_SANDBOX_VIOLATION"],
    ["above the mount through a directory", "@project/src/../../outside/secret", "E_SANDBOX_VIOLATION"],
    ["out and back in", "@project/../project/a.txt", "E_SANDBOX_VIOLATION"],
    ["a link out", "@project/to-secret", "E_SANDBOX_VIOLATION"],
    ["through a link out", "@project/to-outside/secret", "E_SANDBOX_VIOLATION"],
    ["an absolute link out", "@project/absolute", "E_SANDBOX_VIOLATION"],
    ["an absolute link, though it leads inside", "@project/absolute-inside", "E_SANDBOX_VIOLATION"],
    ["a link through /proc", "@project/proc", "E_SANDBOX_VIOLATION"],
    ["a loop", "@project/loop", "E_SANDBOX_VIOLATION"],
    ["no mount", "a.txt", "E_SANDBOX_VIOLATION"],
    ["an absolute path", "/etc/passwd", "E_SANDBOX_VIOLATION"],
    ["an unknown mount", "@home/a.txt", "E_SANDBOX_VIOLATION"],
    ["the mount in capitals", "@Project/a.txt", "E_SANDBOX_VIOLATION"],
    ["a mount's longer namesake", "@projects/a.txt", "E_SANDBOX_VIOLATION"],
    ["a space before the mount", " @project/a.txt", "E_SANDBOX_VIOLATION"],
    ["a full-width at sign", "\uff20project/a.txt", "E_SANDBOX_VIOLATION"],
    ["a NUL", "@project/a.txt\0", "E_SANDBOX_VIOLATION"],
    ["a lone surrogate", "@project/\ud800", "E_SANDBOX_VIOLATION"],
    ["a backslash is a character", "@project\\a.txt", "E_SANDBOX_VIOLATION"],
    ["the machine's root is not below", "@project//etc/passwd", "ENOENT"],
    ["encoded dots", "@project/%2e%2e/outside/secret", "ENOTDIR"],
    ["nothing", "@project/missing", "ENOENT"],
    ["a name below a missing directory", "@project/missing/x", "ENOENT"],
    ["a dangling link", "@project/dangling", "ENOENT"],
    ["another case", "@project/A.TXT", "ENOENT"],
    ["another form of the same characters", "@project/cafe\u0301", "ENOENT"],
    ["below a file", "@project/a.txt/x", "ENOTDIR"],
    ["a file as a directory", "@project/a.txt/", "ENOTDIR"],
    ["a directory", "@project/src", "EISDIR"],
    ["the mount itself", "@project", "EISDIR"],
    ["a name that is too long", `@project/${"x".repeat(300)}`, "ENAMETOOLONG"],
  ])("refuses %s", async (_title, path, code) => {
    expect(await codeOf(stand.call("fs_read", { path }))).toBe(code);
  });

  test("pipes, sockets and devices are neither read nor written nor waited for", async () => {
    expect(Bun.spawnSync(["mkfifo", join(stand.project, "pipe")]).exitCode).toBe(0);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(stand.project, "socket"), resolve));
    const names = ["pipe", "socket"];
    if (process.getuid?.() === 0) {
      // In a container without the right to mount, this attack is impossible.
      const made = Bun.spawnSync(["mknod", join(stand.project, "zero"), "c", "1", "5"]);
      if (made.exitCode === 0) names.push("zero");
    }
    for (const name of names) {
      const path = `@project/${name}`;
      expect([name, await codeOf(stand.call("fs_read", { path }))]).toEqual([name, "E_SANDBOX_VIOLATION"]);
      expect(await codeOf(stand.call("fs_write", { path, content: "x" }))).toBe("E_SANDBOX_VIOLATION");
      expect(await codeOf(stand.call("fs_search", { path, pattern: "x" }))).toBe("E_SANDBOX_VIOLATION");
    }
    server.close();
  });

  test("no answer and no refusal names a path of the machine", async () => {
    for (const path of ["@project/missing", "@project/to-secret", "@project/a.txt", "@project/src", "x"]) {
      const said = await stand.call("fs_read", { path }).catch((error: Error & { details?: unknown }) => ({
        message: error.message,
        details: error.details,
      }));
      expect(JSON.stringify(said)).not.toContain(stand.folder);
    }
  });
});

describe.each(CONFINEMENTS.map((kind) => [kind] as const))("writes, by %s", (confinement) => {
  test.each([
    ["the read-only mount", "@pkg/p.txt", "E_SANDBOX_VIOLATION"],
    ["a new file of the read-only mount", "@pkg/new", "E_SANDBOX_VIOLATION"],
    ["above", "@project/../outside/new", "E_SANDBOX_VIOLATION"],
    ["through a link out", "@project/to-outside/new", "E_SANDBOX_VIOLATION"],
    ["a link out", "@project/to-secret", "E_SANDBOX_VIOLATION"],
    ["a dangling link out", "@project/dangling-out", "E_SANDBOX_VIOLATION"],
    ["Git's own files", "@project/.git/hooks/pre-commit", "E_SANDBOX_VIOLATION"],
    ["Git's configuration in capitals", "@project/.GIT/config", "E_SANDBOX_VIOLATION"],
    ["Git with a zero-width character", "@project/.g\u200bit/config", "E_SANDBOX_VIOLATION"],
    ["Git in full-width characters", "@project/\uff0e\uff47\uff49\uff54/config", "E_SANDBOX_VIOLATION"],
    ["Git's short name", "@project/GIT~1/config", "E_SANDBOX_VIOLATION"],
    ["Git with a trailing dot", "@project/.git./config", "E_SANDBOX_VIOLATION"],
    ["a pointer to Git", "@project/src/.git", "E_SANDBOX_VIOLATION"],
    ["submodules", "@project/.gitmodules", "E_SANDBOX_VIOLATION"],
    ["the mount itself", "@project", "EISDIR"],
    ["a directory", "@project/src", "EISDIR"],
    ["with a slash at the end", "@project/new/", "ENOENT"],
    ["with a dot at the end", "@project/new/.", "ENOENT"],
    ["below a file", "@project/a.txt/new", "ENOTDIR"],
    ["below nothing", "@project/none/new", "ENOENT"],
  ])("refuses %s", async (_title, path, code) => {
    const stand = tree({ confinement });
    expect(await codeOf(stand.call("fs_write", { path, content: "EVIL" }))).toBe(code);
    expect(readFileSync(join(stand.outside, "secret"), "utf8")).toBe("SECRET");
  });

  test.each([
    ["a new file", "@project/new.txt", "@project/new.txt"],
    ["a known one", "@project/a.txt", "@project/a.txt"],
    ["by a detour", "@project/src/../a.txt", "@project/a.txt"],
    ["through a link", "@project/to-src/new.txt", "@project/src/new.txt"],
    ["a link that stays", "@project/to-b", "@project/src/b.txt"],
    ["a dangling link that stays", "@project/dangling", "@project/nowhere"],
    [".github", "@project/.github", "@project/.github"],
    [".gitignore", "@project/.gitignore", "@project/.gitignore"],
    [".gitattributes", "@project/.gitattributes", "@project/.gitattributes"],
    ["git", "@project/git", "@project/git"],
    ["x.git", "@project/x.git", "@project/x.git"],
    ["the state", "@state/s.txt", "@state/s.txt"],
  ])("accepts %s", async (_title, path, real) => {
    const stand = tree({ confinement });
    expect(await stand.call("fs_write", { path, content: "new" })).toMatchObject({ path: real, changed: true });
    expect(readFileSync(join(stand.folder, real.slice(1)), "utf8")).toBe("new");
  });
});

describe("files with several names", () => {
  test("a hard link can be read and not written", async () => {
    const stand = tree();
    linkSync(join(stand.project, "a.txt"), join(stand.project, "other-name"));
    expect(await stand.call("fs_read", { path: "@project/other-name" })).toMatchObject({ content: "in a" });
    expect(await codeOf(stand.call("fs_write", { path: "@project/other-name", content: "x" }))).toBe(
      "E_SANDBOX_VIOLATION",
    );
  });

  test("the service's own files cannot be accessed under any name", async () => {
    const outside = fsStand().outside;
    const key = join(outside, "key.pem");
    writeFileSync(key, "KEY");
    const stand = tree({ protectedPaths: [key] });
    try {
      linkSync(key, join(stand.project, "innocent"));
    } catch {
      return; // Another file system, or a kernel that protects hard links.
    }
    for (const name of ["fs_read", "fs_search"]) {
      const args = { path: "@project/innocent", ...(name === "fs_search" && { pattern: "KEY" }) };
      expect(await codeOf(stand.call(name, args))).toBe("E_SANDBOX_VIOLATION");
    }
    expect(await stand.call("fs_search", { path: "@project", pattern: "KEY" })).toMatchObject({ matches: [] });
  });

  test("a mount inside another is written by its own name alone", async () => {
    const outer = fsStand();
    const directories = { project: outer.project, pkg: join(outer.project, "pkg"), state: join(outer.project, "run") };
    for (const directory of [directories.pkg, directories.state]) mkdirSync(directory);
    writeFileSync(join(directories.pkg, "p.txt"), "in pkg");
    const stand = fsStand({ directories });
    for (const path of ["@project/pkg/p.txt", "@project/run/workflow.md", "@pkg/p.txt"]) {
      expect([path, await codeOf(stand.call("fs_write", { path, content: "x" }))]).toEqual([
        path,
        "E_SANDBOX_VIOLATION",
      ]);
    }
    expect(await stand.call("fs_read", { path: "@project/pkg/p.txt" })).toMatchObject({ content: "in pkg" });
    expect(await stand.call("fs_write", { path: "@state/x", content: "x" })).toMatchObject({ created: true });
  });

  test("a repository is recognized by its contents, whatever its name", async () => {
    const stand = tree();
    for (const name of ["store/objects", "store/refs"]) mkdirSync(join(stand.project, name), { recursive: true });
    writeFileSync(join(stand.project, "store/HEAD"), "ref: refs/heads/main\n");
    symlinkSync("store", join(stand.project, ".git"));
    for (const path of ["@project/store/config", "@project/store/refs/x", "@project/.git/config"]) {
      expect(await codeOf(stand.call("fs_write", { path, content: "x" }))).toBe("E_SANDBOX_VIOLATION");
    }
  });
});
