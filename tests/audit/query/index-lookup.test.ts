import { Database } from "bun:sqlite";
import { afterAll, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { IndexLookup } from "../../../src/audit/query/index-lookup.ts";
import { type Params, readQuery } from "../../../src/audit/query/params.ts";
import { search } from "../../../src/audit/query/query.ts";
import { entryLine, generatedTraceId, writeDays, writeGeneratedDay } from "../../support/audit-lines.ts";

const DAY = "2026-02-16";
const ENTRIES = 3_000;
const folder = fs.mkdtempSync(join(tmpdir(), "stc-index-"));
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

writeGeneratedDay(join(folder, "original"), DAY, ENTRIES);
writeGeneratedDay(join(folder, "original"), "2026-02-15", 500);

/** A directory with an empty index: logs as small as these are not indexed by themselves. */
function newDir(): string {
  const dir = fs.mkdtempSync(join(folder, "audit-"));
  fs.cpSync(join(folder, "original"), dir, { recursive: true });
  fs.writeFileSync(join(dir, "index.sqlite"), "");
  return dir;
}

function build(dir: string): number {
  const index = new IndexLookup(dir);
  const steps = [...index.extend()].length;
  index.close();
  return steps;
}

async function find(dir: string, params: Params, isIndexed = true) {
  const read = readQuery(params, { limit: 10_000, limitMax: 10_000, nowMs: Date.parse("2026-02-17") });
  if ("faults" in read) throw new Error(read.faults.join());
  const index = isIndexed ? new IndexLookup(dir) : undefined;
  const page = await search({ dir, query: read.ok, places: index, pageBytesMax: 1e9 });
  index?.close();
  return { ids: page.found.map(({ entry }) => entry.traceId), bytes: page.bytesRead };
}

const QUERIES: readonly Params[] = [
  { traceId: generatedTraceId(1_234) },
  { traceId: "nobody" },
  { sub: "agent-77" },
  { sub: "agent-77", order: "oldest" },
  { tool: "git_diff_branches", code: "PERMISSION_DENIED" },
  { tool: "k8s_get_pods", code: "PERMISSION_DENIED", sub: "agent-13" },
  { sub: "agent-77", from: "2026-02-16T12:00" },
  { system: "system-1", text: "c-1" },
  { decision: "DENIED" },
];

async function expectTheSame(dir: string): Promise<void> {
  for (const params of QUERIES) {
    expect((await find(dir, params)).ids).toEqual((await find(dir, params, false)).ids);
  }
}

describe("queries find the same with and without the index", () => {
  test("complete, incomplete and behind the log", async () => {
    const dir = newDir();
    await expectTheSame(dir);
    expect(build(dir)).toBeGreaterThan(1);
    await expectTheSame(dir);
    writeDays(dir, { [DAY]: [entryLine("2026-02-16T23:59:59.999Z", { traceId: generatedTraceId(1_234) })] });
    await expectTheSame(dir);
    expect((await find(dir, { traceId: generatedTraceId(1_234) })).ids).toHaveLength(2);
  });

  test("and read less with it", async () => {
    const dir = newDir();
    build(dir);
    const { bytes } = await find(dir, { traceId: generatedTraceId(1_234) });
    expect(bytes).toBeLessThan((await find(dir, { traceId: generatedTraceId(1_234) }, false)).bytes / 3);
  });

  test("a second build has nothing to do", () => {
    const dir = newDir();
    build(dir);
    expect(build(dir)).toBe(0);
  });
});

describe("the index is never trusted", () => {
  const harm: readonly (readonly [string, (dir: string) => void])[] = [
    ["deleted", (dir) => fs.rmSync(join(dir, "index.sqlite"))],
    ["emptied", (dir) => fs.writeFileSync(join(dir, "index.sqlite"), "")],
    ["overwritten", (dir) => fs.writeFileSync(join(dir, "index.sqlite"), "x".repeat(100_000))],
    ["cut in half", (dir) => fs.truncateSync(join(dir, "index.sqlite"), 20_480)],
    [
      "overwritten but for its head",
      (dir) => {
        const bytes = fs.readFileSync(join(dir, "index.sqlite"));
        fs.writeFileSync(join(dir, "index.sqlite"), bytes.fill(0xa5, 4_096));
      },
    ],
    [
      "of another version",
      (dir) => {
        const db = new Database(join(dir, "index.sqlite"));
        db.run("PRAGMA user_version = 99");
        db.close();
      },
    ],
    [
      "pointing to wrong places",
      (dir) => {
        const db = new Database(join(dir, "index.sqlite"));
        db.run("UPDATE days SET line = 'x'");
        db.run("UPDATE blocks SET block = block + 1000");
        db.close();
      },
    ],
    [
      "a folder",
      (dir) => {
        fs.rmSync(join(dir, "index.sqlite"));
        fs.mkdirSync(join(dir, "index.sqlite"));
      },
    ],
    [
      "a link to somewhere else",
      (dir) => {
        fs.rmSync(join(dir, "index.sqlite"));
        fs.symlinkSync("/etc/hostname", join(dir, "index.sqlite"));
      },
    ],
  ];

  test.each(harm)("%s", async (_title, damage) => {
    const dir = newDir();
    build(dir);
    damage(dir);
    await expectTheSame(dir);
    build(dir);
    await expectTheSame(dir);
  });

  test("a file of the log that differs from the indexed one is read whole", async () => {
    const dir = newDir();
    build(dir);
    const path = join(dir, `${DAY}.jsonl`);
    const lines = fs.readFileSync(path, "utf8").split("\n");
    fs.rmSync(path);
    fs.writeFileSync(
      path,
      lines
        .toReversed()
        .filter((line) => line !== "")
        .map((line) => `${line}\n`)
        .join(""),
    );
    await expectTheSame(dir);
    build(dir);
    await expectTheSame(dir);
  });
});

test("a deleted day is forgotten", async () => {
  const dir = newDir();
  build(dir);
  fs.rmSync(join(dir, "2026-02-15.jsonl"));
  build(dir);
  const db = new Database(join(dir, "index.sqlite"));
  expect(db.query("SELECT day FROM days").all()).toEqual([{ day: DAY }]);
  db.close();
  await expectTheSame(dir);
});

test("it is accessible to us alone, and a small log has none", () => {
  const dir = newDir();
  build(dir);
  expect(fs.statSync(join(dir, "index.sqlite")).mode & 0o777).toBe(0o600);
  fs.rmSync(join(dir, "index.sqlite"));
  build(dir);
  expect(fs.existsSync(join(dir, "index.sqlite"))).toBe(false);
});
