import { afterAll, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { verifyLog } from "../../src/audit/verify/verify.ts";
import { temporaryDirectory } from "../audit/support/chained-log.ts";
import { readLines } from "../audit/support/open.ts";
import { afterPowerCut, ENDINGS } from "../audit/support/power.ts";

/** Long: thousands of places where a crash can strike, played; and some hundred where the kernel itself says no. */
const ROUNDS = Number(process.env["STC_CRASH_ROUNDS"] ?? 18);
const OPERATIONS_MAX = 1_000;
const POINTS_MIN = 2_000;

test("no acknowledged line is lost and no damage is left, wherever the end comes", async () => {
  const faults: string[] = [];
  let points = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const ending of ENDINGS) {
      for (let at = 1; at <= OPERATIONS_MAX; at += 1) {
        const after = await afterPowerCut(at, ending, round);
        if (after.isOver) break;
        points += 1;
        faults.push(...after.faults.map((fault) => `round ${round}, ${ending} operation ${at}: ${fault}`));
      }
    }
  }
  console.log(`${points} crash points`);
  expect(faults).toEqual([]);
  expect(points).toBeGreaterThanOrEqual(POINTS_MIN);
}, 3_600_000);

const CHILD = join(import.meta.dir, "../audit/support/append-some.ts");
const folder = temporaryDirectory();
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

const WRITE = "write,pwrite64,writev";
/** Calls to the kernel that touch the log, the errors that they meet, and what else fails in the same run, always. */
const ERRORS: readonly (readonly [string, string, string?])[] = [
  [WRITE, "EIO"],
  [WRITE, "ENOSPC"],
  ["fdatasync", "EIO"],
  ["fsync", "EIO"],
  ["openat,open", "EMFILE"],
  ["openat,open", "EIO"],
  ["rename,renameat,renameat2", "EIO"],
  [WRITE, "ENOSPC", "ftruncate"],
];
const FAULT_STEPS = [2, 3, 5, 7] as const;
const KILLED = [WRITE, "fdatasync", "rename,renameat,renameat2", "openat,open"] as const;
const KILLS = 8;

describe.skipIf(!canTrace())("under strace (skipped where it is missing or may not trace)", () => {
  for (const [calls, error, also] of ERRORS) {
    test(`${error} on ${calls}${also === undefined ? "" : `, and on ${also}`}, again and again`, () => {
      let faults = 0;
      for (const step of FAULT_STEPS) {
        const always = also === undefined ? [] : [`${also}:error=EIO`];
        faults += sound(trace([`${calls}:error=${error}:when=${step}+${step}`, ...always]));
      }
      console.log(`${error} on ${calls}: ${faults} faults`);
      expect(faults).toBeGreaterThan(0);
    });
  }

  for (const calls of KILLED) {
    test(`killed at ${calls}`, () => {
      let kills = 0;
      for (let when = 1; when <= KILLS; when += 1) {
        kills += sound(trace([`${calls}:signal=SIGKILL:when=${when * 3}`])) > 0 ? 1 : 0;
      }
      console.log(`killed at ${calls}: ${kills} times`);
      expect(kills).toBeGreaterThan(0);
    });
  }
});

interface Traced {
  readonly dir: string;
  readonly acknowledged: readonly string[];
  /** How many calls to the kernel met the fault. */
  readonly faults: number;
}

/** Runs the child with faults in what it asks of the kernel below its directory; it opens the log again after each. */
function trace(injections: readonly string[]): Traced {
  const dir = fs.mkdtempSync(join(folder, "log-"));
  const paths = ["", "journal", "checkpoints", ".state"].map((name) => join(dir, name));
  for (const path of paths) fs.mkdirSync(path, { recursive: true });
  const files = [
    ...["2026-02-16.jsonl", "2026-02-17.jsonl", "journal/2026-02-16.jsonl", "journal/2026-02-17.jsonl"],
    ...["checkpoints/2026-02-16.txt", "checkpoints/2026-02-17.txt", ".state/place.json.new", ".state/place.json"],
  ].map((name) => join(dir, name));
  const log = join(folder, "trace");
  const filter = [...files, ...paths].flatMap((path) => ["-P", path]);
  const options = ["-f", "-qq", "-o", log, ...injections.flatMap((fault) => ["-e", `inject=${fault}`]), ...filter];
  const { stdout } = Bun.spawnSync(
    ["strace", ...options, process.execPath, "--no-env-file", "--no-install", CHILD, dir],
    {
      stderr: "ignore",
    },
  );
  const faults = fs.readFileSync(log, "utf8").match(/\(INJECTED\)|SIGKILL/g)?.length ?? 0;
  return { dir, acknowledged: stdout.toString().split("\n").slice(0, -1), faults };
}

/** After a start without faults: every acknowledged line is there, once, and the log verifies. */
function sound({ dir, acknowledged, faults }: Traced): number {
  const { exitCode } = Bun.spawnSync([process.execPath, "--no-env-file", "--no-install", CHILD, dir, "once"], {
    stderr: "inherit",
  });
  expect(exitCode).toBe(0);
  const names = fs.readdirSync(dir).filter((name) => name.endsWith(".jsonl"));
  const written = names.flatMap((name) => readLines(join(dir, name))).map((line) => String(line["traceId"]));
  const { streams, checkpoints } = verifyLog({ dir, keys: [] });
  const damages = [...streams.map(({ damage }) => damage), checkpoints.damage].filter((damage) => damage !== undefined);
  expect(damages).toEqual([]);
  expect(new Set(written).size).toBe(written.length);
  expect(acknowledged.filter((id) => !written.includes(id))).toEqual([]);
  return faults;
}

function canTrace(): boolean {
  try {
    const run = Bun.spawnSync(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "true"]);
    return run.exitCode === 0;
  } catch {
    return false;
  }
}
