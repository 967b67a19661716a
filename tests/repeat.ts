import { chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Runs the quick suite again and again, to show that it can be trusted: as root and as an ordinary user, on an idle machine and beside
 * two busy loops. `bun tests/repeat.ts [runs of each kind, default 5]`. Root is needed to become an ordinary user; without it, the runs
 * are only those of the user who started them. Prints a line for each run; the exit code is the number of runs that failed.
 */
const ROOT = join(import.meta.dir, "..");
const NOBODY = 65_534;
const BUSY_LOOPS = 2;

interface Kind {
  readonly user: "root" | "ordinary-user";
  readonly isBusy: boolean;
}

const isRoot = process.getuid?.() === 0;
const rounds = Number(process.argv[2] ?? 5);
const users = isRoot ? (["root", "ordinary-user"] as const) : (["ordinary-user"] as const);
const kinds = users.flatMap((user): readonly Kind[] => [
  { user, isBusy: false },
  { user, isBusy: true },
]);

const folder = mkdtempSync(join(realpathSync(tmpdir()), "stc-repeat-"));
let failed = 0;
try {
  const bun = prepare();
  for (let round = 1; round <= rounds; round += 1) {
    for (const kind of kinds) failed += (await runOnce(bun, kind, round)) ? 0 : 1;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(`${rounds * kinds.length - failed} of ${rounds * kinds.length} runs passed`);
process.exit(failed);

/** Copies the checkout with its packages, and the runtime, to where every user can read them. */
function prepare(): string {
  chmodSync(folder, 0o755);
  for (const user of users) {
    const copy = join(folder, user);
    const isCopied = (path: string): boolean => path !== join(ROOT, "var");
    cpSync(ROOT, copy, { recursive: true, verbatimSymlinks: true, filter: isCopied });
    mkdirSync(join(folder, `${user}-tmp`));
    if (user === "ordinary-user" && isRoot) {
      Bun.spawnSync(["chown", "-R", `${NOBODY}:${NOBODY}`, copy]);
      chownSync(join(folder, `${user}-tmp`), NOBODY, NOBODY);
    }
  }
  const bun = join(folder, "bun");
  cpSync(realpathSync(process.execPath), bun);
  chmodSync(bun, 0o755);
  return bun;
}

async function runOnce(bun: string, { user, isBusy }: Kind, round: number): Promise<boolean> {
  const asUser = user === "ordinary-user" && isRoot;
  const drop = asUser ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"] : [];
  const busy = Array.from({ length: isBusy ? BUSY_LOOPS : 0 }, () => Bun.spawn([bun, "-e", "for (;;);"]));
  const from = Date.now();
  const child = Bun.spawn([...drop, bun, "tests/run.ts", "quick"], {
    cwd: join(folder, user),
    env: {
      ...process.env,
      PATH: `${folder}:${process.env["PATH"]}`,
      HOME: join(folder, `${user}-tmp`),
      TMPDIR: join(folder, `${user}-tmp`),
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  for (const loop of busy) loop.kill("SIGKILL");
  const seconds = Math.round((Date.now() - from) / 1_000);
  console.log(
    `${code === 0 ? "passed" : "FAILED"} in ${seconds} s: ${user}, ${isBusy ? "busy" : "idle"}, run ${round}`,
  );
  if (code !== 0) {
    console.log(
      `${out}${err}`
        .split("\n")
        .filter((line) => /\(fail\)|^ *\d+ (pass|fail)|error:|left in/.test(line))
        .join("\n"),
    );
  }
  return code === 0;
}
