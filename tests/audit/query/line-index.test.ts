import { Database } from "bun:sqlite";
import { afterAll, describe, expect, spyOn, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { LineIndex } from "../../../src/audit/query/line-index.ts";
import { type Params, readFilter, readQuery } from "../../../src/audit/query/params.ts";
import { search } from "../../../src/audit/query/query.ts";
import { readStats } from "../../../src/audit/stats/stats.ts";
import { entryLine, generatedTraceId, writeDays, writeGeneratedDay } from "../../support/audit-lines.ts";
import { runStc } from "../../support/stc.ts";

const DAY = "2026-02-16";
const NOW = Date.parse("2026-02-17");
const ENTRIES = 3_000;
/** Two of the day, and one of the day before: the ends of both files are too short. */
const SEGMENTS = 3;
const folder = fs.mkdtempSync(join(tmpdir(), "stc-index-"));
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

writeGeneratedDay(join(folder, "original"), DAY, ENTRIES);
writeGeneratedDay(join(folder, "original"), "2026-02-15", 1_500);
writeDays(join(folder, "original"), {
  [DAY]: ["human:https://people.test|alice, human:https://people.test|bert", "mode:yolo", "APPROVAL_REQUIRED"].map(
    (by) => entryLine(`${DAY}T23:59:59.998Z`, { approval: { by, id: "a-1" } }),
  ),
});

/** A directory with an empty index: logs as small as these are not indexed by themselves. */
function newDir(): string {
  const dir = fs.mkdtempSync(join(folder, "audit-"));
  fs.cpSync(join(folder, "original"), dir, { recursive: true });
  fs.writeFileSync(join(dir, "index.sqlite"), "");
  return dir;
}

function build(dir: string): number {
  const index = new LineIndex(dir);
  const steps = [...index.extend()].length;
  index.close();
  return steps;
}

async function find(dir: string, params: Params, isIndexed = true) {
  const read = readQuery(params, { limit: 10_000, limitMax: 10_000, nowMs: NOW });
  if ("faults" in read) throw new Error(read.faults.join());
  const index = isIndexed ? new LineIndex(dir) : undefined;
  const page = await search({ dir, query: read.ok, index, pageBytesMax: 1e9 });
  index?.close();
  return { ids: page.found.map(({ entry }) => entry.traceId), bytes: page.bytesRead };
}

async function count(dir: string, params: Params, isIndexed = true) {
  const { order: _order, ...filters } = params;
  const read = readFilter(filters, NOW);
  if ("faults" in read) throw new Error(read.faults.join());
  const index = isIndexed ? new LineIndex(dir) : undefined;
  const stats = await readStats({ logs: [{ dir, index }], filter: read.ok });
  index?.close();
  return stats;
}

const QUERIES: readonly Params[] = [
  {},
  { traceId: generatedTraceId(1_234) },
  { traceId: "nobody" },
  { sub: "agent-77" },
  { sub: "agent-77", order: "oldest" },
  { tool: "git_diff_branches", code: "PERMISSION_DENIED" },
  { tool: "k8s_get_pods", code: "PERMISSION_DENIED", sub: "agent-13" },
  { sub: "agent-77", from: "2026-02-16T12:00" },
  { system: "system-1", text: "c-1" },
  { decision: "DENIED" },
  { reason: "permissions" },
  { reason: "customer:w" },
  { reason: "customer:w", sub: "agent-3" },
  { reason: "nothing" },
  { approver: "alice" },
  { approver: "https://people.test|bert", order: "oldest" },
  { approver: "mode:yolo" },
];

async function expectTheSame(dir: string): Promise<void> {
  for (const params of QUERIES) {
    expect((await find(dir, params)).ids).toEqual((await find(dir, params, false)).ids);
  }
  for (const params of [{}, { sub: "agent-77", from: "2026-02-16T12:00" }]) {
    expect(await count(dir, params)).toEqual(await count(dir, params, false));
  }
}

describe("queries find the same with and without the index", () => {
  test("complete, incomplete and behind the log", async () => {
    const dir = newDir();
    for (const params of QUERIES) {
      expect((await find(dir, params)).ids).toEqual((await find(dir, params, false)).ids);
    }
    expect(build(dir)).toBe(SEGMENTS);
    await expectTheSame(dir);
    writeDays(dir, { [DAY]: [entryLine("2026-02-16T23:59:59.999Z", { traceId: generatedTraceId(1_234) })] });
    await expectTheSame(dir);
    expect((await find(dir, { traceId: generatedTraceId(1_234) })).ids).toHaveLength(3);
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

test("statistics index what they had to parse", async () => {
  const dir = newDir();
  await count(dir, {});
  expect(build(dir)).toBe(0);
});

test("a line that is added while a segment is indexed does not make the others unknown", () => {
  const dir = newDir();
  const index = new LineIndex(dir);
  const steps = index.extend();
  steps.next();
  // Hashing comes after the file was opened, and before its state is compared with the known one.
  const { xxHash3 } = Bun.hash;
  const hashing = spyOn(Bun.hash, "xxHash3").mockImplementation((...args) => {
    hashing.mockRestore();
    writeDays(dir, { [DAY]: [entryLine("2026-02-16T23:59:59.999Z")] });
    return xxHash3(...args);
  });
  expect([...steps]).toHaveLength(SEGMENTS - 1);
  index.close();
  expect(build(dir)).toBe(0);
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
      "with another byte among its rows",
      (dir) => {
        const db = new Database(join(dir, "index.sqlite"));
        db.run("UPDATE segments SET rows = CAST(substr(rows, 1, 40) || x'5a' || substr(rows, 42) AS BLOB)");
        db.run("UPDATE segments SET keys = zeroblob(length(keys))");
        db.close();
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
        db.run("UPDATE segments SET at = at + 1000");
        db.run("UPDATE segments SET at = 1001 - at");
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

/** A change to the file of a day, at a position between its start (0) and its end (1). */
const DAMAGES: Readonly<Record<string, (path: string, place: number) => void>> = {
  "lines are added": (path, place) => {
    const lines = Array.from({ length: 1 + Math.floor(place * 2_000) }, (_, at) =>
      entryLine("2026-02-16T23:59:59.999Z", { traceId: generatedTraceId(1_234 + at) }),
    );
    fs.appendFileSync(path, `${lines.join("\n")}\n`);
  },
  "a line is being written": (path) => fs.appendFileSync(path, entryLine("2026-02-16T23:59:59.999Z").slice(0, 99)),
  "bytes are overwritten": (path, place) => {
    const bytes = fs.readFileSync(path);
    const at = bytes.indexOf("agent-", Math.floor(place * bytes.length));
    const fd = fs.openSync(path, "r+");
    fs.writeSync(fd, place < 0.5 ? "agent-77" : '"}\n{"\0x\xff', Math.max(0, at));
    fs.closeSync(fd);
  },
  "the end is cut off": (path, place) => fs.truncateSync(path, Math.floor((0.5 + place / 2) * fs.statSync(path).size)),
  "lines are removed": (path, place) => {
    const lines = fs.readFileSync(path, "utf8").split("\n");
    lines.splice(Math.floor(place * lines.length), 7);
    fs.writeFileSync(path, lines.join("\n"));
  },
  "a long line is inserted": (path, place) => {
    const lines = fs.readFileSync(path, "utf8").split("\n");
    lines.splice(Math.floor(place * lines.length), 0, entryLine(STAMP, LONG));
    fs.writeFileSync(path, lines.join("\n"));
  },
  "it is replaced by a copy": (path) => {
    const bytes = fs.readFileSync(path);
    fs.rmSync(path);
    fs.writeFileSync(path, bytes);
  },
};

const STAMP = "2026-02-16T12:00:00.000Z";
const LONG = {
  request: { args: { note: `agent-77 ${"x".repeat(50_000)}` }, argsHash: "", hashAlg: "sha256" },
} as const;

test("queries and statistics are the same with and without the index, whatever happens to the files", async () => {
  const step = fc.record({
    damage: fc.constantFrom(...Object.keys(DAMAGES)),
    day: fc.constantFrom(DAY, "2026-02-15"),
    place: fc.double({ min: 0, max: 0.99, noNaN: true }),
    isBuilt: fc.boolean(),
    params: fc.constantFrom(...QUERIES),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 5 }), async (steps) => {
      const dir = newDir();
      build(dir);
      for (const { damage, day, place, isBuilt, params } of steps) {
        // The file system counts time in steps of some milliseconds.
        await Bun.sleep(10);
        DAMAGES[damage]?.(join(dir, `${day}.jsonl`), place);
        expect(await find(dir, params)).toMatchObject({ ids: (await find(dir, params, false)).ids });
        expect(await count(dir, params)).toEqual(await count(dir, params, false));
        if (isBuilt) build(dir);
      }
      fs.rmSync(dir, { recursive: true });
    }),
    { numRuns: 15 },
  );
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

test.each(["query --sub agent-77", `show ${generatedTraceId(1_234)}`, "stats"])(
  "stc audit %s --without-index finds the same and writes nothing",
  async (command) => {
    const dir = newDir();
    const words = ["audit", ...command.split(" "), "--dir", dir, "--json"];
    const plain = await runStc([...words, "--without-index"]);
    expect(fs.readdirSync(dir).map((name) => [name, fs.statSync(join(dir, name)).size])).toContainEqual([
      "index.sqlite",
      0,
    ]);
    expect(await runStc(words)).toEqual(plain);
    expect(fs.statSync(join(dir, "index.sqlite")).size).toBeGreaterThan(0);
  },
);

test("it is accessible to us alone, and a small log has none", () => {
  const dir = newDir();
  build(dir);
  expect(fs.statSync(join(dir, "index.sqlite")).mode & 0o777).toBe(0o600);
  fs.rmSync(join(dir, "index.sqlite"));
  build(dir);
  expect(fs.existsSync(join(dir, "index.sqlite"))).toBe(false);
});
