import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  makeTemporaryDirectory,
  removeAbandoned,
} from "../../../../src/targets/command/confinement/temporary-directory.ts";
import { temporaryDirectory } from "../temporary-directory.ts";
import { missing } from "./stand.ts";

const MODULE = join(import.meta.dir, "../../../../src/targets/command/confinement/temporary-directory.ts");
const folder = temporaryDirectory();
const former = process.env["TMPDIR"];
const newId = (): string => crypto.randomUUID();

beforeAll(() => {
  process.env["TMPDIR"] = folder;
});
afterAll(() => {
  if (former === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = former;
});

/** Another process that creates a directory with files, prints its path, and waits. */
async function service() {
  const script = `const { makeTemporaryDirectory } = await import(${JSON.stringify(MODULE)});
    const { path } = makeTemporaryDirectory();
    require("fs").mkdirSync(path + "/a/b", { recursive: true });
    require("fs").writeFileSync(path + "/a/b/c", "left");
    console.log(path);
    setInterval(() => {}, 1000);`;
  const child = Bun.spawn([process.execPath, "-e", script], {
    stdout: "pipe",
    env: { ...process.env, TMPDIR: folder },
  });
  for await (const chunk of child.stdout) return { child, path: Buffer.from(chunk).toString("utf8").trim() };
  throw new Error("the process said nothing");
}

test.skipIf(missing !== undefined)(
  "directories of a killed service are removed; those of a running one stay",
  async () => {
    const [killed, alive] = [await service(), await service()];
    killed.child.kill("SIGKILL");
    await killed.child.exited;
    await removeAbandoned(newId);
    expect([existsSync(killed.path), existsSync(join(alive.path, "a/b/c"))]).toEqual([false, true]);
    alive.child.kill("SIGKILL");
    await alive.child.exited;
    await removeAbandoned(newId);
    expect(existsSync(alive.path)).toBe(false);
  },
);

test.skipIf(missing !== undefined)("a directory that this process uses stays until it is removed", async () => {
  const { path, remove } = makeTemporaryDirectory();
  await removeAbandoned(newId);
  expect(existsSync(path)).toBe(true);
  await remove(newId);
  expect(readdirSync(folder)).toEqual([]);
});

test.skipIf(missing !== undefined)("links and other names stay, and so do their targets", async () => {
  const elsewhere = join(folder, "elsewhere");
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, "file"), "kept");
  symlinkSync(elsewhere, join(folder, "safe-tool-call-call-Abc123"));
  writeFileSync(join(folder, "safe-tool-call-call-Abc124"), "a file");
  for (const name of ["safe-tool-call-0-empty", "safe-tool-call-call-short", "safe-tool-call-new-Abc125"])
    mkdirSync(join(folder, name));
  const before = readdirSync(folder).sort();
  await removeAbandoned(newId);
  expect(readdirSync(folder).sort()).toEqual(before);
  // Inside an abandoned directory, a link is removed and not followed.
  const abandoned = join(folder, "safe-tool-call-call-Abc126");
  mkdirSync(abandoned);
  renameSync(join(folder, "safe-tool-call-call-Abc123"), join(abandoned, "link"));
  await removeAbandoned(newId);
  expect([existsSync(abandoned), readdirSync(elsewhere)]).toEqual([false, ["file"]]);
});
