import { afterAll, beforeAll, expect, test } from "bun:test";
import { type RunningService, startService } from "../../../src/cli/service.ts";
import { StartupError } from "../../../src/core/errors.ts";
import { present } from "../../../src/core/present.ts";
import type { ReloadCandidate } from "../../../src/runtime/reload/types.ts";
import { readConfigFile } from "../../support/build.ts";
import { ReloadService } from "../../support/reload-service.ts";

const files = new ReloadService();
const events: string[] = [];
let service: RunningService;

beforeAll(async () => {
  const read = (candidate?: ReloadCandidate) => {
    events.push(candidate === undefined ? "in use" : "candidate");
    candidate?.amend({});
    return readConfigFile(files.file, { PATH: process.env["PATH"] });
  };
  service = await startService(read(), read);
});
afterAll(async () => {
  await service.drain();
  await files.end();
});

/** Starts a reload with a candidate, and others before and after it; returns their outcomes. */
async function outcomes(amend: ReloadCandidate["amend"]): Promise<readonly string[]> {
  const reload = present(service.reload, "reload");
  events.length = 0;
  const before = reload("signal");
  const tried = reload("bundle", { amend, adopted: () => events.push("adopted") });
  await before;
  return (await Promise.all([before, tried, reload("signal")])).map(({ outcome }) => outcome);
}

test("a candidate is read by its own reload alone, and is adopted before the next reload reads", async () => {
  expect(await outcomes((written) => written)).toEqual(["changed", "changed", "changed"]);
  expect(events).toEqual(["in use", "candidate", "adopted", "in use"]);
});

test("a refused candidate is never adopted, and the reloads before and after it read what is in use", async () => {
  const refuse = (): never => {
    throw new StartupError(["is refused"]);
  };
  expect(await outcomes(refuse)).toEqual(["changed", "refused", "changed"]);
  expect(events).toEqual(["in use", "candidate", "in use"]);
});
