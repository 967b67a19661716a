import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ReloadService } from "../support/reload-service.ts";
import { RunningStc, runStc } from "../support/stc.ts";

const KEPT = "audit-public-1.pem";
const NEW = "audit-public-2.pem";

let world: ReloadService;
let service: RunningStc | undefined;
beforeEach(async () => {
  world = new ReloadService({ log: { level: "info" } });
  await serve();
  await write(KEPT, ["audit", "keys", "--key", "audit.key"]);
});
afterEach(async () => {
  await service?.end("SIGKILL");
  await world.end();
});

const inFolder = (name: string): string => join(world.folder, name);
const stc = (args: readonly string[]) => runStc(args, { cwd: world.folder });
const verify = (...names: readonly string[]) =>
  stc(["audit", "verify", "--dir", "audit", ...names.flatMap((name) => ["--key", name])]);

/** `stc … > name` */
async function write(name: string, args: readonly string[]): Promise<void> {
  const { code, out } = await stc(args);
  expect([code, out]).toEqual([0, expect.stringContaining("PUBLIC KEY")]);
  writeFileSync(inFolder(name), out);
}

/** The service makes one call, and ends. */
async function serve(): Promise<void> {
  service = new RunningStc(["serve", "--config", world.file]);
  const [, url] = /"url":"([^"]+)"/.exec(await service.printed(/"url":"[^"]+"/)) ?? [];
  const headers = { authorization: `Bearer ${await world.agent()}`, "content-type": "application/json" };
  const called = await fetch(`${url}/call`, { method: "POST", headers, body: '{"tool":"hello","args":{}}' });
  expect(called.status).toBe(200);
  expect(await service.end("SIGTERM")).toBe(0);
}

async function refusedStart(): Promise<string> {
  const { code, err } = await stc(["serve", "--config", world.file]);
  expect(code).toBe(78);
  return err;
}

describe("the steps that replace the key, by the command line", () => {
  test.each<readonly [string, () => void]>([
    [
      "the configuration names it",
      () => world.configure({ audit: { dir: "./audit", checkpointKeyFile: "./new.pem" } }),
    ],
    ["it takes the place of the first one", () => renameSync(inFolder("new.pem"), inFolder("audit.key"))],
  ])("the new key: %s", async (_name, replace) => {
    await write(NEW, ["audit", "keys", "--new", "new.pem"]);
    replace();
    await serve();
    expect(await verify(KEPT, NEW)).toMatchObject({ code: 0, out: expect.not.stringContaining("by other keys") });
    expect(await verify(NEW)).toMatchObject({ code: 0, out: expect.stringMatching(/by other keys\)\nok\n$/) });
    const old = await verify(KEPT);
    expect([old.code, old.out]).toEqual([4, expect.stringContaining("no given key signed it or a later one")]);
  });
});

describe("somebody without the key, who can write the folder of the log,", () => {
  test("cannot make the service go on with another key: it does not start", async () => {
    rmSync(inFolder("audit.key"));
    expect(await refusedStart()).toContain("is missing, and the audit is signed already");
  });
});
