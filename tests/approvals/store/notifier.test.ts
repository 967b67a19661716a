import { expect, test } from "bun:test";
import { Notifier } from "../../../src/approvals/store/notifier.ts";

test("a listener added before the first read is notified after it: earlier changes notify nobody again", async () => {
  const look = Promise.withResolvers<number>();
  const notifier = new Notifier({
    pollMs: 60_000,
    eventsAfter: async () => [],
    lastSeq: () => look.promise,
    log: () => {},
  });
  let rings = 0;
  const stop = notifier.listen(() => (rings += 1));
  // The listener reads now, and another process changes something then; the look finds that it is the newest.
  look.resolve(7);
  await notifier.ready();
  expect(rings).toBe(1);
  stop();
  notifier.close();
});
