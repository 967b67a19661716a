import { expect, test } from "bun:test";
import { bashStand } from "./stand.ts";

/** Less than half of what is written; the collector of a busy machine runs late. */
const MORE_BYTES_MAX = 400_000_000;

/** The most memory that this process has during the work, above what it had before. */
async function memoryDuring(work: () => Promise<void>): Promise<number> {
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  let peak = before;
  const sampling = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 20);
  try {
    await work();
  } finally {
    clearInterval(sampling);
  }
  return peak - before;
}

test.each([
  ["standard output", "head -c 1000000000 /dev/zero | tr '\\0' x; exit 3"],
  ["standard error", "head -c 1000000000 /dev/zero | tr '\\0' x >&2; exit 3"],
])("a gigabyte on %s is read to its end, and memory stays limited", async (_title, command) => {
  const stand = bashStand();
  const more = await memoryDuring(async () => {
    const plan = await stand.plan({ command, timeoutMs: 120_000 });
    const answer = await stand.run(plan, { deadline: 150_000 });
    expect(answer).toMatchObject({ exitCode: 3, truncated: true });
    expect((answer as { readonly output: string }).output).toMatch(/^x+$/);
    expect(JSON.stringify(answer).length).toBeWithin(262_140, 262_145);
  });
  expect(more).toBeLessThan(MORE_BYTES_MAX);
});
