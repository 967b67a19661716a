import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PROJECT = join(import.meta.dir, "../..");
const MODULE = "github.com/grafana/loki/v3";
const VERSION = "v3.7.8";
/** For each step of building it. */
const STEP_TIMEOUT_MS = 900_000;

interface Replacement {
  readonly Old: { readonly Path: string };
  readonly New: { readonly Path: string; readonly Version?: string };
}

/** The real logcli: built once from its module, or why it cannot be had. */
export function buildLogcli(): { readonly program: string } | { readonly missing: string } {
  const go = Bun.which("go");
  if (go === null) return { missing: "there is no Go here" };
  const program = join(PROJECT, "var", `logcli-${VERSION}`, "logcli");
  if (existsSync(program)) return { program };
  const folder = mkdtempSync(join(tmpdir(), "stc-logcli-"));
  try {
    build(go, folder);
    mkdirSync(join(program, ".."), { recursive: true });
    renameSync(join(folder, "logcli"), program);
    return { program };
  } catch (error) {
    return { missing: error instanceof Error ? error.message : String(error) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Loki replaces modules, which only a main module may do: so ours says the same. */
function build(go: string, folder: string): void {
  const run = (...args: readonly string[]): string => {
    const { success, stdout, stderr } = Bun.spawnSync([go, ...args], { cwd: folder, timeout: STEP_TIMEOUT_MS });
    if (!success) throw new Error(`go ${args[0]}: ${stderr.toString().trim().split("\n").at(-1)}`);
    return stdout.toString();
  };
  const { GoMod } = JSON.parse(run("mod", "download", "-json", `${MODULE}@${VERSION}`)) as { readonly GoMod: string };
  const { Replace } = JSON.parse(run("mod", "edit", "-json", GoMod)) as { readonly Replace: readonly Replacement[] };
  const replacements = Replace.filter((row) => row.New.Version !== undefined).map(
    (row) => `replace ${row.Old.Path} => ${row.New.Path} ${row.New.Version}\n`,
  );
  writeFileSync(join(folder, "go.mod"), `module logcli.test/build\n\ngo 1.26\n\n${replacements.join("")}`);
  run("get", "-tool", `${MODULE}/cmd/logcli@${VERSION}`);
  run("build", "-p", "1", "-o", "logcli", `${MODULE}/cmd/logcli`);
}
