import { describe, expect, test } from "bun:test";
import {
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { Refusal } from "../../../src/core/errors.ts";
import { CONFINEMENTS, type FsStand, fsStand } from "./stand.ts";

const O_PATH = 0o10000000;

/** Each file contains its own path; links lead to other files and directories inside, or out. */
const DIRECTORIES = ["d", "d/e", "d/e/f", "%2e%2e", "D"];
const FILES = ["a", "d/a", "d/e/a", "d/e/f/a", "caf\u00e9", "A", "%2e%2e/a", "d/...", "d/\u200ba", "..a"];
const LINKS: readonly (readonly [string, string])[] = [
  ["la", "a"],
  ["ld", "d/e"],
  ["d/up", ".."],
  ["d/e/across", "../../d/a"],
  ["d/self", "."],
  ["chain", "ld/f"],
  ["d/e/dead", "../nothing"],
  ["ring", "d/ring"],
  ["d/ring", "../ring"],
  ["d/slashes", "e//f/./"],
  ["out", "../outside"],
  ["d/out", "../../outside/a"],
  ["out-and-in", "../project/a"],
  ["out-absolute", "/"],
  ["d/out-proc", "/proc/self/root"],
];
const NAMES = [
  ...new Set([...DIRECTORIES, ...FILES, ...LINKS.map(([name]) => name)].flatMap((path) => path.split("/"))),
];

const component = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...NAMES) },
  { weight: 3, arbitrary: fc.constantFrom("..", ".", "", "a") },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "outside",
      "project",
      "secret",
      "cafe\u0301",
      "\uff0e\uff0e",
      "..%2f",
      "%00",
      "\\..",
      "...",
      "x".repeat(256),
      "~",
      "etc",
      "passwd",
    ),
  },
);
/** Path parts that exist, mixed with parts that may not exist. */
const existing = fc.constantFrom("d", "d/e", "d/e/..", "d/up", "ld", "ld/../e", "d/self", "chain", "d/e/f", "d//e/.");
const step = fc.oneof({ weight: 3, arbitrary: existing }, { weight: 2, arbitrary: component });
const parts = fc.tuple(fc.array(step, { maxLength: 3 }), fc.oneof(fc.constantFrom("a", "across", "a/"), component));
const path = parts.map(([steps, last]) => [...steps, last]).map((parts) => `@project/${parts.join("/")}`);

function fill({ project, outside }: FsStand): void {
  for (const name of DIRECTORIES) mkdirSync(join(project, name), { recursive: true });
  for (const name of FILES) writeFileSync(join(project, name), name);
  for (const [name, target] of LINKS) symlinkSync(target, join(project, name));
  for (const name of ["a", "secret"]) writeFileSync(join(outside, name), "SECRET");
}

type Outcome = { readonly content: string } | "directory" | "nothing" | "not a directory" | "out" | "too long";

/** Returns what the kernel finds without confinement, and whether every step stayed inside. */
function oracle(project: string, agentPath: string): Outcome {
  const parts = agentPath.slice("@project/".length).split("/");
  let reached = project;
  for (let at = 0; at <= parts.length; at += 1) {
    const found = realOf(`${project}/${parts.slice(0, at).join("/")}`, at === parts.length);
    if (typeof found !== "string") return found.outcome;
    if (found !== project && !found.startsWith(`${project}/`)) return "out";
    reached = found;
  }
  return statSync(reached).isDirectory() ? "directory" : { content: readFileSync(reached, "utf8") };
}

function realOf(real: string, whole: boolean): string | { readonly outcome: Outcome } {
  // A prefix that is a file fails at the next name; a slash after it would fail too early.
  const prefix = whole ? real : real.replace(/\/+$/, "");
  let fd: number;
  try {
    fd = openSync(prefix, O_PATH | constants.O_RDONLY);
  } catch (error) {
    const code = String((error as NodeJS.ErrnoException).code);
    const outcomes: Readonly<Record<string, Outcome>> = {
      ENOENT: "nothing",
      ENOTDIR: "not a directory",
      ELOOP: "out",
      ENAMETOOLONG: "too long",
    };
    return { outcome: outcomes[code] ?? "out" };
  }
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } finally {
    closeSync(fd);
  }
}

const CODES: Readonly<Record<string, Outcome>> = {
  ENOENT: "nothing",
  EISDIR: "directory",
  ENOTDIR: "not a directory",
  E_SANDBOX_VIOLATION: "out",
  ENAMETOOLONG: "too long",
};

async function answerOf(stand: FsStand, agentPath: string): Promise<Outcome> {
  try {
    return { content: String((await stand.call("fs_read", { path: agentPath }))["content"]) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return CODES[String(error.details?.["code"])] ?? { content: `refused ${error.code}` };
  }
}

/** Links that leave the mount are refused wherever they end: no agent may learn what exists there. */
const leaves = (agentPath: string): boolean => agentPath.includes("/out");

describe.each(CONFINEMENTS.map((kind) => [kind] as const))("by %s", (confinement) => {
  const stand = fsStand({ confinement });
  fill(stand);

  test("every read is what the kernel would find, as long as no step leaves the mount", async () => {
    let [inside, outside] = [0, 0];
    await fc.assert(
      fc.asyncProperty(path, async (agentPath) => {
        const answer = await answerOf(stand, agentPath);
        const want = oracle(stand.project, agentPath);
        if (leaves(agentPath)) {
          // A part before the link may end the path first.
          expect([agentPath, typeof answer === "object" && want === "out"]).toEqual([agentPath, false]);
          if (typeof answer === "object") expect(answer).toEqual(want as typeof answer);
          outside += 1;
        } else {
          expect([agentPath, answer]).toEqual([agentPath, want]);
          inside += typeof answer === "object" ? 1 : 0;
        }
      }),
      { numRuns: 1_200 },
    );
    expect(inside).toBeGreaterThan(50);
    expect(outside).toBeGreaterThan(50);
  });

  test("every write lands where a read of the same path finds it, and never outside", async () => {
    let written = 0;
    await fc.assert(
      fc.asyncProperty(path, async (agentPath) => {
        const other = fsStand({ confinement });
        fill(other);
        try {
          const answer = await other.call("fs_write", { path: agentPath, content: "NEW" });
          written += 1;
          expect(readFileSync(join(other.folder, String(answer["path"]).slice(1)), "utf8")).toBe("NEW");
          expect(await answerOf(other, agentPath)).toEqual({ content: "NEW" });
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
        }
        expect(readdirSync(other.outside).sort()).toEqual(["a", "secret"]);
        expect(readFileSync(join(other.outside, "a"), "utf8")).toBe("SECRET");
        expect(readdirSync(other.folder).sort()).toEqual(["outside", "pkg", "project", "state"]);
        other.mounts.close();
        rmSync(other.folder, { recursive: true, force: true });
      }),
      { numRuns: 40 },
    );
    expect(written).toBeGreaterThan(2);
  });
});
