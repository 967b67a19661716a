import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { originOf } from "../../../src/audit/chain/checkpoint.ts";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { ReloadService } from "../../support/reload-service.ts";

const stand = new ReloadService();
afterAll(() => stand.end());

test("a journal names its service's logs at each start and stop, once they have lines", async () => {
  await stand.start();
  expect(await stand.says()).toBe("first");
  await stand.running.drain();
  await stand.start();
  const dir = join(stand.folder, "audit");
  const [journal, calls] = (["journal", "calls"] as const).map((stream) =>
    originOf(stream, logIdIn(dir, stream) ?? ""),
  );
  expect(stand.journal("service.started").map(({ origins }) => origins)).toEqual([undefined, [calls, journal]]);
  expect(stand.journal("service.stopped").map(({ origins }) => origins)).toEqual([[calls, journal]]);
});
