/** Ends a test that hangs. */
const HANG_MS = 300_000;

/** Runs test files in another process, where `preload` comes first and finds `given`, as JSON, in the variable. */
export function runPreloaded(preload: string, files: readonly string[], given: { variable: string; value: object }) {
  return Bun.spawnSync([process.execPath, "test", "--preload", preload, `--timeout=${HANG_MS}`, ...files], {
    env: { ...process.env, [given.variable]: JSON.stringify(given.value) },
    stdout: "pipe",
    stderr: "pipe",
  });
}
