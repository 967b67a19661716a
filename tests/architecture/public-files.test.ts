import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { importsOf, ROOT, sources } from "./sources.ts";

const SRC = join(ROOT, "src");
const folders = readdirSync(SRC, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));

/** Shared vocabulary and connections: every file is for others. */
const OPEN: ReadonlySet<string> = new Set(["core", "egress", "http1", "native"]);

/** The files of a folder that the section `## Public files` of its README names, with paths below `src`. */
function publicFilesOf(folder: string): readonly string[] {
  const [, listed = ""] = readFileSync(join(SRC, folder, "README.md"), "utf8").split("\n## Public files\n");
  const [section = ""] = listed.split("\n## ");
  return [...section.matchAll(/`([\w/.-]+\.tsx?)`/g)].map(([, file = ""]) => `src/${folder}/${file}`);
}

const folderOf = (path: string): string => path.split("/")[1] ?? "";

const entered = new Map(folders.map((folder) => [folder, new Set<string>()]));
for (const source of sources("src")) {
  for (const name of importsOf(source)) {
    if (name.startsWith("src/") && folderOf(name) !== folderOf(source.path)) entered.get(folderOf(name))?.add(name);
  }
}

test.each(folders.filter((folder) => !OPEN.has(folder)))(
  "other folders import of %s what its README names",
  (folder) => {
    expect([...publicFilesOf(folder)].sort()).toEqual([...(entered.get(folder) ?? [])].sort());
  },
);

/** Each could be a package of its own: it needs nothing of the rest but this. */
test.each([
  ["src/detection/", ["src/core/"]],
  ["src/shell-rules/", ["src/core/"]],
  ["src/core/pattern/", []],
  ["src/core/json-schema/", ["src/core/"]],
])("%s stands alone, on %j", (folder, below) => {
  const files = sources("src").filter(({ path }) => path.startsWith(folder));
  expect(files.length).toBeGreaterThan(3);
  const needed = files.flatMap(importsOf).filter((name) => name.startsWith("src/") && !name.startsWith(folder));
  expect(needed.filter((name) => !below.some((under) => name.startsWith(under)))).toEqual([]);
});

test("the launcher of confined commands stands alone", () => {
  const imports = new Map(sources("src").map((source) => [source.path, importsOf(source)]));
  const reached = new Set(["src/targets/command/confinement/launcher.ts"]);
  for (const file of reached)
    for (const name of imports.get(file) ?? []) if (name.startsWith("src/")) reached.add(name);
  expect(reached.size).toBeGreaterThan(3);
  const own = /^src\/(core|native|targets\/command\/confinement)\//;
  expect([...reached].filter((name) => !own.test(name))).toEqual([]);
});

/** Every README below `src`, with the folder that it describes. */
const readmes = [...new Bun.Glob("**/README.md").scanSync(SRC)].sort().map((path) => ({
  folder: join(SRC, path, ".."),
  path,
  text: readFileSync(join(SRC, path), "utf8"),
}));

test("each folder has a README that is read on one screen or two", () => {
  expect(folders.filter((folder) => !readmes.some(({ path }) => path === `${folder}/README.md`))).toEqual([]);
  const lines = readmes.map(({ path, text }) => ({ path, lines: text.split("\n") }));
  expect(lines.filter(({ lines: all }) => all.length > 100).map(({ path }) => path)).toEqual([]);
  const long = lines.flatMap(({ path, lines: all }) => all.filter((line) => line.length > 240).map(() => path));
  expect(long).toEqual([]);
});

test("the files and folders that the READMEs name exist", () => {
  const named = readmes.flatMap(({ folder, path, text }) =>
    [...text.matchAll(/`((?:[\w.-]+\/)+|(?:[\w-]+\/)*[\w-]+\.tsx?)`/g)].map(([, name = ""]) => ({
      folder,
      path,
      name,
    })),
  );
  // A name alone may be that of a file further down.
  const isBelow = (folder: string, name: string): boolean =>
    !name.includes("/") &&
    sources("src").some(({ path }) => join(ROOT, path).startsWith(folder) && path.endsWith(`/${name}`));
  const missing = named.filter(
    ({ folder, name }) =>
      !/^toy-|\.test\.ts$/.test(name) &&
      ![folder, SRC, ROOT].some((from) => existsSync(join(from, name))) &&
      !isBelow(folder, name),
  );
  expect(named.length).toBeGreaterThan(300);
  expect(missing.map(({ path, name }) => `${path}: ${name}`)).toEqual([]);
});
