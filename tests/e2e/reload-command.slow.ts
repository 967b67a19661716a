import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { RunningStc, runStc } from "../support/stc.ts";
import { until } from "../support/until.ts";

const world = new ReloadService({ log: { level: "info" } });
let served: RunningStc;
let url: string;

beforeAll(async () => {
  served = new RunningStc(["serve"], { env: { STC_CONFIG: world.file } });
  const printed = await served.printed(/"url":"(http:[^"]+)"/);
  url = /"url":"(http:[^"]+)"/.exec(printed)?.[1] ?? "";
});
afterAll(async () => {
  await served.end("SIGTERM");
  await world.end();
});

async function says(): Promise<string> {
  const response = await fetch(`${url}/call`, {
    method: "POST",
    headers: { authorization: `Bearer ${await world.agent()}`, "content-type": "application/json" },
    body: '{"tool":"hello","args":{}}',
  });
  const body = (await response.json()) as { readonly result: { readonly said: string } };
  return body.result.said;
}

async function reload(permissions?: readonly string[], ...options: readonly string[]) {
  const file = join(world.folder, "token");
  writeFileSync(file, await world.operator(permissions));
  return runStc(["reload", "--url", url, "--token-file", file, ...options]);
}

test("SIGHUP adopts changes, and logs what it refuses", async () => {
  world.write("tools/hello.ts", manifest({ says: "by signal" }));
  served.child.kill("SIGHUP");
  await served.printed('"by":"signal","generation":2,"msg":"configuration.changed"');
  expect(await says()).toBe("by signal");
  world.write("tools/hello.ts", "export const = ;");
  served.child.kill("SIGHUP");
  expect(await served.printed('"msg":"configuration.refused"')).toContain("tools/hello.ts: cannot be loaded");
  expect(await says()).toBe("by signal");
});

test("`stc reload` reports the result", async () => {
  const refused = await reload();
  expect([refused.code, refused.out]).toEqual([1, ""]);
  expect(refused.err).toStartWith(
    "refused; the previous configuration stays in use:\n  tools/hello.ts: cannot be loaded",
  );
  world.write("tools/hello.ts", manifest({ says: "by command" }));
  const done = await reload();
  expect({ code: done.code, err: done.err }).toEqual({ code: 0, err: "" });
  expect(done.out).toMatch(/^reloaded: configuration snapshot 3, [0-9a-f]{64}\n$/);
  expect(await says()).toBe("by command");
  const program = await reload(undefined, "--json");
  expect(JSON.parse(program.out)).toMatchObject({ status: "changed", generation: 4 });
  const stranger = await reload(["metrics:read"]);
  expect([stranger.code, stranger.err]).toEqual([
    1,
    "PERMISSION_DENIED: This is for operators whose token holds service:reload.\n",
  ]);
});

test("the journal records who asked for which, and the configuration at the start", async () => {
  const changed = await until("the lines", () => {
    const lines = world.journal("configuration.changed");
    return lines.length === 3 ? lines : undefined;
  });
  expect(changed.map(({ by, generation }) => [by, generation])).toEqual([
    ["signal", 2],
    ["https://people.test|olga", 3],
    ["https://people.test|olga", 4],
  ]);
  const [began] = world.journal("service.started");
  expect(began?.["configuration"]).toMatch(/^[0-9a-f]{64}$/);
  expect(new Set([began?.["configuration"], ...changed.slice(0, 2).map((line) => line["sha256"])]).size).toBe(3);
});
