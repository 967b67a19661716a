import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Refusal } from "../../../src/core/errors.ts";
import { CONFINEMENTS, type FsStand, fsStand } from "./stand.ts";

/** Spellings of paths that try to leave the mount, and of names that only resemble such paths. */

const UPS = [
  ...[
    "..",
    "./..",
    ".././",
    "../.",
    "%2e%2e",
    "..%2f",
    "%2e%2e%2f",
    "..\\",
    "..\u2215",
    "..\uff0f",
    "\uff0e\uff0e",
    "\u2025",
  ],
  ...[
    "..\u200b",
    ".\u200d.",
    ". .",
    ".. ",
    " ..",
    "...",
    "..\t",
    "..\n",
    "..\r",
    "..;",
    "..\0",
    "..\u202e",
    "~",
    "~root",
  ],
  ...["$HOME", "*", "?", "[o]utside", "{outside}", "file:..", "\\\\?\\", "C:", "@project", "@pkg", "--", "-rf"],
];
const TAILS = ["", "outside", "outside/secret", "/outside/secret", "../outside/secret", "project/../outside/secret"];
const ELSEWHERE = [
  ...[
    "/proc/self/root/etc/passwd",
    "/proc/self/cwd",
    "/dev/fd/0",
    "/dev/stdin",
    "/etc/passwd",
    "//etc/passwd",
    "\\etc\\passwd",
  ],
  ...["file:///etc/passwd", "/proc/1/root/etc/passwd", "/proc/self/fd/3", "/dev/zero"],
];
const MOUNTS = [
  ...[
    "@PROJECT",
    "@Project",
    "project",
    " @project",
    "@project ",
    "@project:",
    "@project\\",
    "@@project",
    "@pro\u200bject",
  ],
  ...["@\uff50roject", "@project\0", "@project\n", "@project?", "@project%2f", "/@project", "./@project", "~/@project"],
];
const LINKS: readonly (readonly [string, string])[] = [
  ...([
    ["up", ".."],
    ["out", "../outside"],
    ["root", "/"],
    ["proc", "/proc/self/root"],
    ["detour", "d/../../outside"],
  ] as const),
  ...([
    ["loop", "loop/x"],
    ["one", "two"],
    ["two", "one"],
    ["fds", "/proc/self/fd"],
    ["again", "out"],
  ] as const),
  ...([
    ["long", `${"d/../".repeat(500)}../outside`],
    ["windows", "\\..\\outside"],
    ["back", "../project/a"],
  ] as const),
];
const WHEREVER = ["", "/", "/secret", "/outside/secret", "/..", "/../outside/secret", "/etc/passwd"];
const LENGTHS = [
  "x".repeat(256),
  "x/".repeat(2_000),
  "../".repeat(1_300),
  "d/../".repeat(700),
  "/".repeat(4_000),
  "\u{1f600}".repeat(64),
];

const hostile = [
  ...UPS.flatMap((up) => TAILS.flatMap((tail) => [`@project/${up}/${tail}`, `@project/d/${up}/${tail}`])),
  ...ELSEWHERE.flatMap((path) => [path, `@project${path}`, `@project/${path}`]),
  ...MOUNTS.flatMap((mount) => [mount, `${mount}/a`, `${mount}/../outside/secret`]),
  ...LINKS.flatMap(([name]) => WHEREVER.map((tail) => `@project/${name}${tail}`)),
  ...LENGTHS.flatMap((long) => [`@project/${long}`, `@project/${long}../outside/secret`]),
].filter((path) => path.length <= 4_096);

const CALLS: Readonly<Record<string, (path: string) => Readonly<Record<string, unknown>>>> = {
  fs_read: (path) => ({ path }),
  fs_list: (path) => ({ path, all: true }),
  fs_search: (path) => ({ path, pattern: "S.CRET", all: true }),
  fs_write: (path) => ({ path, content: "EVIL", createDirectories: true }),
  fs_apply_patch: (path) => ({ path, patch: { operation: "unifiedDiff", diff: "@@ -0,0 +1 @@\n+EVIL\n" } }),
};

function tree(stand: FsStand): FsStand {
  mkdirSync(join(stand.project, "d/e"), { recursive: true });
  writeFileSync(join(stand.project, "a"), "inside");
  writeFileSync(join(stand.outside, "secret"), "SECRET");
  for (const [name, target] of LINKS) symlinkSync(target, join(stand.project, name));
  return stand;
}

/** Returns the answer or the refusal as the agent receives it. */
async function answerOf(stand: FsStand, tool: string, path: string): Promise<string> {
  try {
    return JSON.stringify(await stand.call(tool, CALLS[tool]?.(path) ?? {}));
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== "TARGET_REFUSED") throw error;
    return JSON.stringify([error.message, error.details]);
  }
}

const NAMES = [
  ...[
    "..foo",
    "a..b",
    "foo..",
    "...",
    "....",
    "-x",
    "--",
    "-",
    "~",
    "~root",
    "$HOME",
    "$(x)",
    "con",
    "nul",
    "aux.txt",
    "COM1",
  ],
  ...[
    "a b",
    " lead",
    "trail ",
    "trail.",
    "tab\there",
    "new\nline",
    "cr\rx",
    "quote'",
    'dq"',
    "back\\slash",
    "a;b",
    "a|b",
    "a>b",
  ],
  ...[
    "*",
    "?",
    "[x]",
    "{a,b}",
    "!x",
    "#x",
    "%20",
    "%2e%2e",
    "+x",
    "=x",
    "@project",
    "@x",
    ",",
    ":",
    "a:b",
    "^",
    "`x`",
    "(x)",
  ],
  ...[
    "\u00e9",
    "e\u0301",
    "\u4f60\u597d",
    "\u0645\u0631\u062d\u0628\u0627",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u0928\u092e\u0938\u094d",
  ],
  ...[
    "\u{1f600}",
    "\u{1f468}\u200d\u{1f469}",
    "\ufeffbom",
    "\u202ertl",
    "zero\u200bwidth",
    "\u00a0nbsp",
    "x".repeat(255),
    "\ufb01",
  ],
  ...[
    "git",
    "git~",
    ".gitx",
    "x.git",
    ".git-blame-ignore-revs",
    "gitmodules",
    "gitmod",
    "gi7eb",
    ".github",
    "objects",
    "HEAD",
  ],
  ...["refs", "commondir", "workflow.md", "constructor", "__proto__", ".env", "null", "0", "\u0130", "\u1e9e"],
];

describe.each(CONFINEMENTS.map((kind) => [kind] as const))("by %s", (confinement) => {
  test.each(Object.keys(CALLS))(
    `%s of ${hostile.length} paths stays inside, and is answered or refused`,
    async (tool) => {
      const stand = tree(fsStand({ confinement }));
      for (const path of hostile) {
        const answer = await answerOf(stand, tool, path);
        expect([path, answer.includes("SECRET"), answer.includes(stand.folder)]).toEqual([path, false, false]);
      }
      expect(readdirSync(stand.outside)).toEqual(["secret"]);
      expect(readFileSync(join(stand.outside, "secret"), "utf8")).toBe("SECRET");
      expect(readdirSync(stand.folder).sort()).toEqual(["outside", "pkg", "project", "state"]);
    },
  );

  test(`${NAMES.length} names are valid`, async () => {
    const stand = fsStand({ confinement });
    for (const [index, name] of NAMES.entries()) {
      const [folder, path] = [`n${index}`, `@project/n${index}/${name}`] as const;
      const content = "hello\nworld\n";
      expect(await stand.call("fs_write", { path, content, createDirectories: true })).toMatchObject({ path });
      expect(readFileSync(join(stand.project, folder, name), "utf8")).toBe(content);
      const { entries } = await stand.call("fs_list", { path: `@project/${folder}`, all: true });
      expect(entries).toEqual([{ name, type: "file", bytes: 12 }]);
      const { matches } = await stand.call("fs_search", { path: `@project/${folder}`, pattern: "^world$", all: true });
      expect(matches).toMatchObject([{ path, line: 2 }]);
      const patch = { operation: "unifiedDiff", diff: "@@ -2 +2 @@\n-world\n+mars\n" };
      expect(await stand.call("fs_apply_patch", { path, patch })).toMatchObject({ path, changed: true });
      symlinkSync(`${folder}/${name}`, join(stand.project, `link${index}`));
      expect(await stand.call("fs_read", { path: `@project/link${index}` })).toMatchObject({
        content: "hello\nmars\n",
      });
      const below = `@project/in-${folder}/${name}/x`;
      expect(await stand.call("fs_write", { path: below, content, createDirectories: true })).toMatchObject({
        path: below,
      });
    }
  });
});
