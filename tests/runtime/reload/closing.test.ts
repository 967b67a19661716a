import { afterAll, beforeAll, expect, test } from "bun:test";
import { StartupError } from "../../../src/core/errors.ts";
import type { Config } from "../../../src/runtime/config/config.ts";
import { fingerprintOf } from "../../../src/runtime/reload/fingerprints.ts";
import { Reload, type Reloadable } from "../../../src/runtime/reload/reload.ts";
import { LiveSnapshots } from "../../../src/runtime/reload/snapshots.ts";
import { readConfigFile } from "../../support/build.ts";
import { ReloadService } from "../../support/reload-service.ts";

const files = new ReloadService();
let config: Config;
beforeAll(() => {
  config = readConfigFile(files.file, { PATH: process.env["PATH"] });
});
afterAll(() => files.end());

/** A reload that the service's end overtakes in one step, and what of it was recorded and closed. */
function overtaken(at: "read" | "describe") {
  const events: string[] = [];
  const content = (name: string) =>
    ({ config, modules: new Set(), close: async () => void events.push(`${name} closed`) }) as unknown as Reloadable;
  const reload: Reload<Reloadable> = new Reload({
    snapshots: new LiveSnapshots(content("former"), 60_000),
    fingerprint: fingerprintOf(config),
    read: () => {
      if (at === "describe") return config;
      reload.close();
      throw new StartupError(["is refused"]);
    },
    build: async () => content("next"),
    describe: async () => {
      reload.close();
      return {};
    },
    adopted: () => events.push("adopted"),
    journal: async ({ type }) => void events.push(String(type)),
    clock: Date.now,
    perMinuteMax: 10,
    liveKeys: ["tools"],
    log: ({ type }) => events.push(`log ${type}`),
  });
  return { events, reloaded: reload.run("signal") };
}

test("a reload that the end of the service overtakes is not recorded: no line follows that of the end", async () => {
  for (const [at, closed] of [
    ["read", []],
    ["describe", ["next closed"]],
  ] as const) {
    const { events, reloaded } = overtaken(at);
    expect(await reloaded).toMatchObject({ outcome: "busy", reason: "closing" });
    expect(events).toEqual([...closed]);
  }
});
