import { afterEach, expect, test } from "bun:test";
import { renameSync } from "node:fs";
import { join } from "node:path";
import { manifest, ReloadService, SHORT_IMPORTS } from "../support/reload-service.ts";
import { RunningStc } from "../support/stc.ts";
import { until } from "../support/until.ts";

const running: ReloadService[] = [];
afterEach(async () => {
  for (const service of running.splice(0)) await service.end();
});

async function started(changes: Readonly<Record<string, unknown>> = {}): Promise<ReloadService> {
  const service = await new ReloadService(changes).start();
  running.push(service);
  return service;
}

const GOOD = manifest({ says: "second" });

const thrown: readonly (readonly [string, string, string])[] = [
  ["null", "throw null;", ": null"],
  ["an object without a prototype", "throw Object.create(null);", ""],
  ["an error whose message throws", 'throw new (class extends Error { get message() { throw "again"; } })();', ""],
  ["what calls itself a ManifestError", 'throw Object.assign(new Error(), { name: "ManifestError", faults: 1 });', ""],
  ["an end of the process", "process.exit(0);", ": process.exit() was called"],
];

test.each(thrown)(
  "a manifest that throws %s is refused with its file, along with every other problem",
  async (_, code, why) => {
    const service = await started();
    service.write("tools/hello.ts", `${code}\n${GOOD}`);
    service.write("tools/other.ts", "export const x = ;");
    const { http, body } = await service.reload();
    expect(http).toBe(422);
    expect(body.problems).toHaveLength(2);
    expect(body.problems[0]).toBe(`tools/hello.ts: cannot be loaded${why}`);
    expect(body.problems[1]).toStartWith("tools/other.ts: cannot be loaded");
    expect(await service.says()).toBe("first");
  },
);

test("a file that was missing at one load may exist at the next reload, for a manifest's helper too", async () => {
  const service = await started();
  const read = `import { readFileSync } from "node:fs";
export const words = readFileSync(${JSON.stringify(join(service.folder, "words.txt"))}, "utf8");`;
  service.write("tools/words.ts", read);
  const before = 'import { words } from "./words.ts";';
  service.write("tools/hello.ts", manifest({ before, body: "return { said: words };" }));
  service.write("tools/other.ts", manifest({ name: "other", before, body: "return { said: words };" }));
  expect((await service.reload()).http).toBe(422);
  expect((await service.reload()).http).toBe(422);
  service.write("words.txt", "here I am");
  expect((await service.reload()).body).toMatchObject({ status: "changed", generation: 2 });
  expect(await service.says()).toBe("here I am");
  expect(await service.says({ tool: "other" })).toBe("here I am");
});

test("a manifest that waited for a missing file loads when the file exists", async () => {
  const service = await started({ reload: SHORT_IMPORTS });
  const gate = `globalThis[Symbol.for(${JSON.stringify(service.folder)})]`;
  service.write("tools/hello.ts", manifest({ before: `await (${gate} ?? new Promise(() => {}));`, says: "second" }));
  expect((await service.reload()).http).toBe(422);
  Reflect.set(globalThis, Symbol.for(service.folder), Promise.resolve());
  expect((await service.reload()).http).toBe(200);
  expect(await service.says()).toBe("second");
});

test("a refused reload leaves nothing in shared state", async () => {
  const service = await started();
  service.write("tools/hello.ts", `Object.prototype.polluted = 1;\nJSON.stringify = () => "{}";\n${GOOD}`);
  const { http, body } = await service.reload();
  expect(http).toBe(422);
  expect(body.problems.slice(0, 2)).toEqual([
    "tools: a manifest changes Object.prototype.polluted, which is shared by the whole process",
    "tools: a manifest changes JSON.stringify, which is shared by the whole process",
  ]);
  expect(["polluted" in {}, JSON.stringify([])]).toEqual([false, "[]"]);
  expect(await service.says()).toBe("first");
});

test("an address with a password in a manifest's error is reported to nobody", async () => {
  const service = await started();
  service.write("tools/hello.ts", `throw new Error("no way to postgres://u:Tr0ub4dor-3@db/x");\n${GOOD}`);
  const { http, body } = await service.reload();
  expect(http).toBe(422);
  expect(body.problems.join()).toContain("tools/hello.ts: cannot be loaded: no way to postgres://");
  expect(body.problems.join()).not.toContain("Tr0ub4dor-3");
});

const pipes: readonly (readonly [string, string, RegExp])[] = [
  ["the configuration", "stc.yaml", /stc\.yaml: a pipe cannot be read again/],
  ["a manifest", "tools/hello.ts", /hello\.ts: cannot be loaded: .* is a pipe/],
  ["a key", "key.pem", /assertion\.keyFile: \.\/key\.pem cannot be read \(a pipe\)/],
];

/** In a process of its own: one that waits for the pipe answers nobody. */
test.each(pipes)("%s that became a pipe is refused without waiting for it", async (_title, path, problem) => {
  const world = new ReloadService({
    log: { level: "info" },
    assertion: { issuer: "https://us", keyFile: "./key.pem" },
  });
  const { privateKey } = world.issuers.agents;
  world.write("key.pem", String(privateKey.export({ type: "pkcs8", format: "pem" })));
  const child = new RunningStc(["serve", "--config", world.file]);
  try {
    const listening = await child.printed(/"url":"[^"]+"/);
    const [, url = ""] = /"url":"([^"]+)"/.exec(listening) ?? [];
    expect(Bun.spawnSync(["mkfifo", join(world.folder, "pipe")]).exitCode).toBe(0);
    renameSync(join(world.folder, "pipe"), join(world.folder, path));
    child.child.kill("SIGHUP");
    expect(await child.printed("configuration.refused")).toMatch(problem);
    expect((await fetch(`${url}/readyz`)).ok).toBe(true);
    expect(await child.end("SIGTERM")).toBe(0);
  } finally {
    child.child.kill("SIGKILL");
    await world.end();
  }
});

test("SIGHUP ends no service: not before its start, nor where reload is off", async () => {
  const world = new ReloadService({ log: { level: "info" }, reload: { trigger: "off" } });
  const slow = "await new Promise((resolve) => setTimeout(resolve, 300));";
  world.write("tools/hello.ts", `console.log("loading");\n${slow}\n${GOOD}`);
  const child = new RunningStc(["serve", "--config", world.file]);
  try {
    await child.printed("loading");
    child.child.kill("SIGHUP");
    await child.printed('"listening"');
    for (let signal = 0; signal < 20; signal += 1) child.child.kill("SIGHUP");
    const [, url = ""] = /"url":"([^"]+)"/.exec(child.out) ?? [];
    expect((await fetch(`${url}/readyz`)).ok).toBe(true);
    expect(child.out).not.toContain("configuration.");
    expect(await child.end("SIGTERM")).toBe(0);
  } finally {
    child.child.kill("SIGKILL");
    await world.end();
  }
});

test("a service that is stopped while it reloads stops at once, with nothing adopted", async () => {
  const world = new ReloadService({ log: { level: "info" }, reload: { importTimeoutMs: 60_000 } });
  const child = new RunningStc(["serve", "--config", world.file]);
  try {
    await child.printed('"listening"');
    world.write("tools/hello.ts", `console.log("loading");\nawait new Promise(() => {});\n${GOOD}`);
    child.child.kill("SIGHUP");
    await child.printed("loading");
    expect(await child.end("SIGTERM")).toBe(0);
    expect(world.journal("configuration.changed")).toEqual([]);
    expect(world.journal("service.stopped")).toHaveLength(1);
  } finally {
    child.child.kill("SIGKILL");
    await world.end();
  }
});

test("many signals and requests cause few reloads, and the last one sees the current files", async () => {
  const service = await started();
  const token = await service.operator();
  const storm = Array.from({ length: 100 }, (_, index) => {
    service.write("tools/hello.ts", manifest({ says: `round ${index}` }));
    return index % 2 === 0 ? service.reload(token) : service.running.reload?.("signal");
  });
  await Promise.all(storm);
  expect(await service.says()).toBe("round 99");
  expect(service.journal("configuration.changed").length).toBeLessThan(20);
  await until("the journal to be whole", () => service.journal("service.started").length || undefined);
});
