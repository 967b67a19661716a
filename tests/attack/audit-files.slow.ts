import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { startExporters } from "../../src/audit/export/exporter.ts";
import { readExportPositions, writeExportPosition } from "../../src/audit/export/positions.ts";
import { savedPositionPath } from "../../src/audit/journal/saved-position.ts";
import { LineIndex } from "../../src/audit/query/line-index.ts";
import { readQuery } from "../../src/audit/query/params.ts";
import { search } from "../../src/audit/query/query.ts";
import { found, keys, writeLog } from "../audit/support/chained-log.ts";
import { createWorld, draftOf, outcomes, type World } from "../audit/support/open.ts";
import { runStc } from "../support/stc.ts";
import { until } from "../support/until.ts";

const LAST = "2026-02-19.jsonl";
const AFTER = Date.parse("2026-02-19T13:00:00.000Z");
const checkpointKey = keys.privateKey;
const isRoot = process.getuid?.() === 0;

let world: World;
beforeEach(async () => {
  world = createWorld();
  world.now = AFTER;
  await writeLog(world.dir);
});
afterEach(async () => {
  fs.chmodSync(world.dir, 0o700);
  await world.end();
});

const inDir = (file: string): string => join(world.dir, file);

/** What a file may be turned into. Each must be answered at once: nothing waits for the other end of a pipe. */
const SHAPES: Readonly<Record<string, (path: string) => void>> = {
  "a named pipe": (path) => void Bun.spawnSync(["mkfifo", path]),
  "a directory": (path) => fs.mkdirSync(path, { recursive: true }),
  "a link to itself": (path) => fs.symlinkSync(path, path),
  "a link to an endless file": (path) => fs.symlinkSync("/dev/zero", path),
};
const SHAPE_NAMES = Object.keys(SHAPES);

function turn(file: string, shape: string): void {
  fs.rmSync(inDir(file), { recursive: true, force: true });
  fs.mkdirSync(join(inDir(file), ".."), { recursive: true });
  SHAPES[shape]?.(inDir(file));
}

const rows = (files: readonly string[]): readonly (readonly [string, string])[] =>
  files.flatMap((file) => SHAPE_NAMES.map((shape) => [file, shape] as const));

describe("before a start", () => {
  const refused = rows([LAST, `journal/${LAST}`, ".lock", "checkpoints", ".state"]).filter(
    // Folders are directories, and a pipe can be locked as well as a file.
    ([file, shape]) =>
      (shape !== "a directory" || file === ".lock" || file.endsWith(LAST)) &&
      (file !== ".lock" || shape !== "a named pipe"),
  );

  test.each(refused)("%s replaced by %s: the start is refused with the reason", (file, shape) => {
    turn(file, shape);
    expect(() => world.open({ checkpointKey })).toThrow(file.includes("/") ? "journal" : world.dir);
  });

  test.each(rows([".state/place.json", "pruned.jsonl", "index.sqlite", ".state/place.json.new", ".state/reserve"]))(
    "%s replaced by %s: derived files are dispensable",
    async (file, shape) => {
      turn(file, shape);
      await world.open({ checkpointKey }).append(draftOf("t-new"));
      expect(world.lines(LAST).at(-1)).toMatchObject({ traceId: "t-new", seq: 15 });
    },
  );

  test("a directory that is another file, or cannot be created, is reported in one line", () => {
    for (const dir of ["/proc/none", inDir(LAST), "/dev/null/x"]) {
      expect(() => world.open({ dir })).toThrow(`cannot open the audit directory ${dir}`);
    }
  });

  test.skipIf(!isRoot)("a directory that another user wrote is reported in one line and stays unchanged", () => {
    const names = fs.readdirSync(world.dir, { recursive: true });
    fs.chmodSync(world.dir, 0o755);
    const child = Bun.spawnSync([
      "setpriv",
      "--reuid=65534",
      "--clear-groups",
      process.execPath,
      "-e",
      `
      import { openAuditLog } from ${JSON.stringify(join(import.meta.dir, "../../src/audit/audit-log.ts"))};
      try { openAuditLog({ dir: process.argv[1], instance: "x", clock: () => ${AFTER}, durability: "write", queueEntriesMax: 9 }); }
      catch (error) { console.log(error.message); }`,
      world.dir,
    ]);
    // Without the tool, or where the other user may not read this project, there is nothing to see.
    if (child.exitCode !== 0 || child.stdout.length === 0) return;
    expect(child.stdout.toString()).toMatch(/^cannot open the audit directory .*: EACCES/);
    expect(fs.readdirSync(world.dir, { recursive: true })).toEqual(names);
  });

  test("a second service on the directory is refused, and the first continues", async () => {
    const log = world.open({ checkpointKey });
    expect(() => world.open({ checkpointKey })).toThrow("already in use");
    await log.append(draftOf("t-new"));
    await world.stop();
    expect(found(world.dir)).toBe("sound");
  });
});

describe("under a running service", () => {
  test.each<readonly [string, () => void, string]>([
    ["deleted", () => fs.rmSync(inDir(LAST)), "was deleted or replaced"],
    ["replaced by a copy", () => replace((path) => fs.copyFileSync(`${path}.old`, path)), "was deleted or replaced"],
    ["cut", () => fs.truncateSync(inDir(LAST), 100), "was cut from"],
    ...SHAPE_NAMES.map(
      (shape) => [`turned into ${shape}`, () => turn(LAST, shape), "was deleted or replaced"] as const,
    ),
    ["without its lock", () => fs.rmSync(inDir(".lock")), "was deleted or replaced"],
    ["moved away as a whole", () => fs.renameSync(world.dir, `${world.dir}.old`), "was deleted or replaced"],
  ])("the log %s: from then on nothing is acknowledged", async (_name, harm, want) => {
    let ms = 0;
    const log = world.open({ checkpointKey, monotonic: () => ms });
    await log.append(draftOf("t-1"));
    harm();
    ms += 1_000;
    expect(await outcomes([log.append(draftOf("t-2"))])).toEqual([expect.stringContaining(want)]);
    expect(log.health()).toMatchObject({ status: "failing", reason: expect.stringContaining(want) });
    expect(log.hasRoom()).toBe(false);
    await world.stop();
    if (!fs.existsSync(world.dir)) fs.renameSync(`${world.dir}.old`, world.dir);
  });

  function replace(make: (path: string) => void): void {
    fs.renameSync(inDir(LAST), inDir(`${LAST}.old`));
    make(inDir(LAST));
  }

  test("the next day's file cannot be created: the day does not begin, and the reason is logged", async () => {
    const log = world.open({ checkpointKey });
    await log.append(draftOf("t-1"));
    fs.mkdirSync(inDir("2026-02-20.jsonl"));
    world.now += 86_400_000;
    expect(await outcomes([log.append(draftOf("t-2"))])).toEqual([expect.stringContaining("2026-02-20.jsonl")]);
    expect(log.hasRoom()).toBe(false);
  });

  test("a line that somebody adds is found and prevents the next start", async () => {
    const log = world.open({ checkpointKey });
    await log.append(draftOf("t-1"));
    fs.appendFileSync(inDir(LAST), '{"timestamp":"2026-02-19T13:00:00.000Z","decision":"ALLOWED"}\n');
    await log.append(draftOf("t-2"));
    await world.stop();
    expect(found(world.dir)).toBe(`inserted ${LAST}:7`);
    expect(() => world.open({ checkpointKey })).toThrow(`${LAST}, line 7: inserted`);
  });
});

describe("readers", () => {
  const query = readQuery({}, { limit: 10, limitMax: 10, nowMs: AFTER });

  test.each(SHAPE_NAMES)("a day replaced by %s is not silently left out", async (shape) => {
    turn(LAST, shape);
    if ("faults" in query) throw new Error(query.faults.join());
    await expect(search({ dir: world.dir, query: query.ok, pageBytesMax: 1e6 })).rejects.toThrow(LAST);
    for (const command of ["query", "stats", "export --format jsonl", "tail -n 5", "show t-1-1"]) {
      const { code, err } = await runStc(["audit", ...command.split(" "), "--dir", world.dir]);
      expect([command, code, err]).toEqual([command, 66, expect.stringContaining(LAST)]);
    }
    expect((await runStc(["audit", "verify", "--dir", world.dir])).code).toBe(5);
  });

  test("a journal that is another kind of file does not count as an empty one", async () => {
    fs.rmSync(inDir("journal"), { recursive: true });
    fs.writeFileSync(inDir("journal"), "");
    expect((await runStc(["audit", "show", "t-1-1", "--dir", world.dir])).code).toBe(66);
    expect((await runStc(["audit", "verify", "--dir", world.dir])).code).toBe(5);
  });

  test("a missing journal is reported, whatever else is missing", async () => {
    fs.rmSync(inDir("journal"), { recursive: true });
    expect((await runStc(["audit", "verify", "--dir", world.dir])).code).toBe(3);
    fs.rmSync(inDir("checkpoints"), { recursive: true });
    fs.rmSync(savedPositionPath(world.dir));
    expect((await runStc(["audit", "verify", "--dir", world.dir])).code).toBe(3);
  });

  test.each(SHAPE_NAMES)("an index replaced by %s is dispensable", async (shape) => {
    turn("index.sqlite", shape);
    const index = new LineIndex(world.dir);
    for (const _bytes of index.extend()) break;
    const asked = readQuery({ traceId: "t-1-1" }, { limit: 10, limitMax: 10, nowMs: AFTER });
    if ("faults" in asked) throw new Error(asked.faults.join());
    const page = await search({ dir: world.dir, query: asked.ok, index, pageBytesMax: 1e6 });
    expect(page.found.map(({ entry }) => entry.traceId)).toEqual(["t-1-1"]);
    index.close();
  });
});

describe("exporters", () => {
  test.each(SHAPE_NAMES)("an exporter's position replaced by %s means the beginning", (shape) => {
    turn("export/loki.calls.json", shape);
    expect(readExportPositions(world.dir)).toEqual([{ exporter: "loki", stream: "calls", position: undefined }]);
  });

  test.each(SHAPE_NAMES)("a new position that cannot be written because of %s is reported", (shape) => {
    turn("export/loki.calls.json.new", shape);
    const place = { exporter: "loki", stream: "calls", position: { day: "2026-02-16", offset: 1 } } as const;
    expect(() => writeExportPosition(world.dir, place)).toThrow();
  });

  test.each(rows(["2026-02-16.jsonl", `checkpoints/${LAST.replace("jsonl", "txt")}`]))(
    "%s that cannot be read because of %s ends neither the service nor its metrics",
    async (file, shape) => {
      turn(file, shape);
      const reports: string[] = [];
      const exporters = startExporters({
        dir: world.dir,
        targets: [{ name: "loki", receiver: { deliver: async () => ({ kind: "taken", rejected: 0 }) } }],
        retentionDays: 1,
        clock: () => world.now,
        random: () => 0,
        report: (message) => reports.push(message),
        journal: async () => {},
      });
      await until("a report", () => (reports.some((text) => text.includes(inDir(file))) ? true : undefined));
      expect(exporters.states().map(({ bytesBehind }) => Number.isNaN(bytesBehind))).toEqual([
        ...(file.startsWith("checkpoints") ? [false, false, true] : [true, false, false]),
      ]);
      await exporters.stop();
    },
  );
});
