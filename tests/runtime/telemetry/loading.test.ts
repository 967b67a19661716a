import { expect, test } from "bun:test";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../../..");

/** OpenTelemetry's packages that a process has loaded after this; of prom-client there is always the one. */
function loadedAfter(code: string): readonly string[] {
  const report = "process.stdout.write(JSON.stringify(Object.keys(require.cache)))";
  const { stdout, stderr, success } = Bun.spawnSync([process.execPath, "-e", `${code}; ${report}`], { cwd: ROOT });
  if (!success) throw new Error(stderr.toString());
  const names = (JSON.parse(stdout.toString()) as string[]).flatMap((path) =>
    [...path.matchAll(/@opentelemetry\/([a-z-]+)/g)].slice(0, 1).map(([, name = ""]) => name),
  );
  return [...new Set(names)].filter((name) => name !== "api").sort();
}

test("the service loads nothing of OpenTelemetry unless it sends traces", () => {
  expect(loadedAfter('await import("./src/cli/service.ts")')).toEqual([]);
  expect(loadedAfter('await import("./src/runtime/telemetry/span-sender.ts")')).toContain("exporter-trace-otlp-http");
});
