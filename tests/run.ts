import { chmodSync, mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { browserPath, NO_BROWSER } from "./support/browser.ts";

/**
 * Runs one suite: `bun tests/run.ts quick|properties|slow|long|browser|clients|fleet [file or folder …]`. The tests get a temporary folder of their own;
 * the run fails when they leave anything in it.
 */
const ROOT = join(import.meta.dir, "..");
/** Ends a test that hangs. No test may come near it, however busy the machine is. */
const HANG_MS = 300_000;

interface Suite {
  readonly files: string;
  readonly options: readonly string[];
  /** A fixed seed gives the same result in every run; a random one finds new cases. */
  readonly seed: number | "random";
  readonly mentions?: string;
  /** Ends the run when the machine lacks what the suite needs. */
  readonly needs?: () => void;
}

const SUITES: Readonly<Record<string, Suite>> = {
  quick: { files: "tests/**/*.test.ts", options: ["--parallel=3", "--no-isolate"], seed: 1 },
  properties: {
    files: "tests/**/*.test.ts",
    options: ["--parallel=3", "--no-isolate"],
    seed: "random",
    mentions: '"fast-check"',
  },
  // Two files on two cores: some tests have time limits of the product.
  slow: { files: "tests/**/*.slow.ts", options: ["--parallel=2"], seed: 1 },
  browser: {
    files: "tests/**/*.browser.ts",
    options: ["--parallel=2"],
    seed: 1,
    needs: () => browserPath() ?? fail(NO_BROWSER),
  },
  long: { files: "tests/long/*.long.ts", options: ["--parallel=2"], seed: 1 },
  clients: { files: "tests/clients/**/*.clients.ts", options: ["--parallel=2"], seed: 1 },
  fleet: { files: "tests/fleet/*.fleet.ts", options: [], seed: "random" },
};

/** Made once by the product for each user, empty, and used by every later run. */
const KEPT = /^safe-tool-call-\d+-empty$/;

const [name = "", ...chosen] = process.argv.slice(2);
const suite = SUITES[name];
if (suite === undefined) {
  console.error(`usage: bun tests/run.ts ${Object.keys(SUITES).join("|")} [file or folder …]`);
  process.exit(64);
}
process.exit(await run(suite));

async function run({ options, seed: usual, needs, ...selection }: Suite): Promise<number> {
  needs?.();
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "stc-run-"));
  // Tests start programs as other users.
  chmodSync(folder, 0o755);
  const seed =
    process.env["STC_TEST_SEED"] ?? String(usual === "random" ? crypto.getRandomValues(new Int32Array(1))[0] : usual);
  if (usual === "random") console.error(`seed ${seed}: STC_TEST_SEED=${seed} repeats this run`);
  try {
    const paths = chosen.length > 0 ? chosen.map(asPath) : await filesOf(selection);
    const child = Bun.spawn([process.execPath, "test", `--timeout=${HANG_MS}`, ...options, ...paths], {
      cwd: ROOT,
      env: { ...process.env, TMPDIR: folder, STC_TEST_SEED: seed },
      stdio: ["ignore", "inherit", "inherit"],
    });
    const code = await child.exited;
    const left = readdirSync(folder).filter((entry) => !KEPT.test(entry));
    if (left.length > 0)
      console.error(`${left.length} left in the temporary folder: ${left.join(" ")}${contents(folder)}`);
    return code === 0 && left.length > 0 ? 1 : code;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What the first of them hold, which tells whose they are. */
function contents(folder: string): string {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.includes("/"));
  return names
    .slice(0, 20)
    .map((name) => `\n  ${name}`)
    .join("");
}

function fail(problem: string): never {
  console.error(problem);
  process.exit(1);
}

/** Returns a path that begins with a dot or slash: `bun test` treats any other as a filter over files named `*.test.ts`. */
function asPath(path: string): string {
  return /^\.{0,2}\//.test(path) ? path : `./${path}`;
}

async function filesOf({ files, mentions = "" }: Pick<Suite, "files" | "mentions">): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const path of new Bun.Glob(files).scan(ROOT)) {
    if (mentions === "" || (await Bun.file(join(ROOT, path)).text()).includes(mentions)) found.push(`./${path}`);
  }
  return found.sort();
}
