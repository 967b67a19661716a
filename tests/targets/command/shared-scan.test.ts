import { expect, test } from "bun:test";
import fc from "fast-check";
import { SharedScan } from "../../../src/targets/command/shared-scan.ts";

/** A process table that the test changes between the steps of a scan, with the number of scans that began. */
function tableOf(processes: Map<number, string>) {
  const steps: (() => void)[] = [];
  let scans = 0;
  const scan = new SharedScan<string, number>(async (found) => {
    scans += 1;
    const number = scans;
    const step = Promise.withResolvers<void>();
    steps.push(step.resolve);
    const seen = [...processes];
    await step.promise;
    for (const [pid, key] of seen) found(key, pid);
    return number;
  });
  const find = async (key: string) => {
    const pids: number[] = [];
    return { scan: await scan.search(key, (pid) => pids.push(pid)), pids };
  };
  /** Ends the scan that is running, after all searches that were asked for have joined one. */
  const endScan = async (): Promise<void> => {
    await Bun.sleep(0);
    steps.shift()?.();
  };
  return { find, endScan, scans: () => scans };
}

test("searches that begin together share one scan, and each gets its own processes", async () => {
  const keys = Array.from({ length: 40 }, (_, index) => `call-${index}`);
  const { find, endScan, scans } = tableOf(
    new Map(
      keys.flatMap((key, index) => [
        [index, key],
        [100 + index, key],
      ]),
    ),
  );
  const found = Promise.all(keys.map(find));
  await endScan();
  expect(await found).toEqual(keys.map((_, index) => ({ scan: 1, pids: [index, 100 + index] })));
  expect(scans()).toBe(1);
});

test("searches that begin during a scan share the next one, which sees the processes started since", async () => {
  const processes = new Map([[7, "first"]]);
  const { find, endScan, scans } = tableOf(processes);
  const first = find("first");
  await Bun.sleep(0);
  processes.set(8, "late");
  const late = Promise.all([find("late"), find("late"), find("first")]);
  await endScan();
  await endScan();
  expect(await first).toEqual({ scan: 1, pids: [7] });
  expect(await late).toEqual([
    { scan: 2, pids: [8] },
    { scan: 2, pids: [8] },
    { scan: 2, pids: [7] },
  ]);
  expect(scans()).toBe(2);
});

test("searches that repeat in step never scan more often than the longest of them", async () => {
  const rounds = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(rounds, async (counts) => {
      let scans = 0;
      const scan = new SharedScan<number>(async () => {
        scans += 1;
      });
      const repeat = async (count: number): Promise<void> => {
        for (let round = 0; round < count; round += 1) await scan.search(0, () => {});
      };
      await Promise.all(counts.map(repeat));
      expect(scans).toBe(Math.max(...counts));
    }),
    { seed: 20_261_129 },
  );
});

test("a scan that fails rejects its own searches, and the next one runs", async () => {
  const outcomes = [() => Promise.reject(new Error("no table")), () => Promise.resolve()];
  const scan = new SharedScan<string>(() => outcomes.shift()?.() ?? Promise.resolve());
  const first = scan.search("a", () => {});
  const [one] = await Promise.allSettled([first]);
  expect(one).toMatchObject({ status: "rejected", reason: { message: "no table" } });
  expect(await scan.search("a", () => {})).toBeUndefined();
});
