import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import type { Approvals } from "../../src/approvals/types.ts";
import { AGENT, type ApprovalWorld, askFor, createApprovalWorld, questionOf } from "../support/approvals.ts";
import { childCommand } from "../support/approvals-child.ts";
import { expectKillSurvived, KILLS } from "../support/approvals-kills.ts";
import { walk, walks } from "../support/approvals-model.ts";
import { raceClaims, readLines } from "../support/approvals-race.ts";
import { rounds } from "../support/rounds.ts";

let world: ApprovalWorld;
beforeEach(() => {
  world = createApprovalWorld();
});
afterEach(() => world.end());

/** Each has 20 to 80 steps: every kind of step meets every state of an approval many times. */
const SEQUENCES = rounds({ few: 300, many: 1_000 });

test(`APR-50: in ${SEQUENCES} sequences the store agrees with the model`, async () => {
  await fc.assert(
    fc.asyncProperty(walks, (steps) => walk(steps)),
    { numRuns: SEQUENCES, endOnFailure: false },
  );
}, 600_000);

test("APR-50: 4 processes claim 500 approvals of one file, each once", async () => {
  const claimed = await raceClaims(4, 500);
  expect(claimed.reduce((sum, count) => sum + count, 0)).toBe(500);
  expect(claimed.filter((count) => count > 0).length).toBeGreaterThan(1);
});

test.each(KILLS)("kill -9 in %s, %s, leaves the state before or the state after, and a store that works", (act, when) =>
  expectKillSurvived(world, act, when),
);

const RANK: Readonly<Record<string, number>> = { nothing: 0, pending: 1, approved: 2, claimed: 3, executed: 4 };

test("kill -9 at any moment: nothing that was answered is lost, and no state is reverted", async () => {
  for (let round = 0; round < 20; round += 1) {
    const lanes = ["a", "b"].map((lane) => `${round}${lane}`);
    const told = await Promise.all(lanes.map((lane, index) => workUntilKilled(lane, 10 + round * 3 + index * 5)));
    const store = await world.open();
    for (const [id, state] of told.flatMap((states) => [...states])) {
      const now = (await store.get(id))?.state ?? "nothing";
      expect(RANK[now]).toBeGreaterThanOrEqual(RANK[state] ?? 0);
    }
    expect(told.every((states) => states.size > 0)).toBe(true);
    await endAll(store);
    await store.close();
  }
});

/** What a killed process left waiting would fill the caller's bound for the next rounds. */
async function endAll(store: Approvals): Promise<void> {
  const { approvals } = await store.list({ state: "pending", limit: 200 });
  for (const { id } of approvals) await store.cancel(id, AGENT);
}

/** Each approval's last state that the process told. */
async function workUntilKilled(lane: string, lines: number): Promise<ReadonlyMap<string, string>> {
  const child = Bun.spawn(childCommand(world, world.now, { kind: "work", lane }), {
    stdout: "pipe",
    stderr: "inherit",
  });
  const told = new Map<string, string>();
  let count = 0;
  for await (const line of readLines(child.stdout)) {
    const { id, was } = JSON.parse(line) as { id: string; was: string };
    told.set(id, was);
    count += 1;
    if (count === lines) child.kill("SIGKILL");
  }
  await child.exited;
  return told;
}

const disk = mountSmallDisk();

describe.skipIf(disk === undefined)("a full disk", () => {
  afterAll(() => disk?.unmount());

  test("refuses what does not fit, loses nothing, and continues when there is room", async () => {
    const path = join(disk?.path ?? "", "approvals.sqlite");
    const full: ApprovalWorld = Object.assign(world, { path });
    const bounds = { pendingPerCallerMax: 10_000, pendingPerSessionMax: 10_000 };
    const store = await full.open(bounds);
    const asked: string[] = [];
    let refused = "";
    for (let count = 0; refused === "" && count < 2_000; count += 1) {
      await store.ask(questionOf({ planDigest: `${count}`, view: "x".repeat(4_000) })).then(
        (answer) => answer.outcome === "asked" && asked.push(answer.approval.id),
        (error) => {
          refused = String(error);
        },
      );
    }
    expect(refused).toMatch(/full|disk/);
    expect((await store.list({ limit: 1 })).approvals).toHaveLength(1);
    for (const id of asked) expect((await store.get(id))?.state).toBe("pending");
    fs.rmSync(join(disk?.path ?? "", "filler"));
    await askFor(store, { planDigest: "with room again" });
    await store.close();
    const next = await full.open(bounds);
    for (const id of asked) expect((await next.get(id))?.state).toBe("pending");
    await next.close();
  });
});

/** A disk of 2 MiB, a part of it taken, where the machine lets us mount one. */
function mountSmallDisk(): { readonly path: string; unmount(): void } | undefined {
  const path = fs.mkdtempSync(join(tmpdir(), "stc-disk-"));
  if (!run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", path])) {
    fs.rmdirSync(path);
    return undefined;
  }
  fs.writeFileSync(join(path, "filler"), new Uint8Array(512 * 1_024));
  return {
    path,
    unmount() {
      run(["umount", "-l", path]);
      fs.rmdirSync(path);
    },
  };
}

function run(argv: readonly string[]): boolean {
  try {
    return Bun.spawnSync([...argv], { stdout: "ignore", stderr: "ignore" }).exitCode === 0;
  } catch {
    return false;
  }
}
