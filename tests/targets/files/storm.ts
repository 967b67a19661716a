import { expect } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Refusal } from "../../../src/core/errors.ts";
import type { ConfinementKind } from "../../../src/targets/files/confinement.ts";
import { fsStand } from "./stand.ts";

const SECRET = "SECRET";
/** Writes wait for the disk; reads do not. */
const READS_IN_A_ROUND = 15;

export interface StormFindings {
  readonly reads: number;
  readonly writes: number;
  readonly refused: number;
  readonly swaps: number;
}

/**
 * Reads, writes, lists and searches while another process swaps a directory and a link that leads out, over and over: whatever
 * is answered comes from inside, and nothing outside is changed. `lasts` is called before every round, with the findings so far.
 */
export async function storm(
  confinement: ConfinementKind,
  lasts: (found: StormFindings) => boolean,
): Promise<StormFindings> {
  const stand = fsStand({ confinement });
  const { project, outside } = stand;
  mkdirSync(join(project, "real"));
  mkdirSync(join(project, "spare"));
  for (const [folder, text] of [
    [join(project, "real"), "inside"],
    [join(project, "spare"), "inside"],
    [outside, SECRET],
  ] as const) {
    for (const name of ["file", "link-target"]) writeFileSync(join(folder, name), text);
  }
  const swapper = Bun.spawn([process.execPath, join(import.meta.dir, "swapper-child.ts"), stand.folder], {
    stdout: "pipe",
    stderr: "inherit",
  });
  await swapper.stdout.getReader().read();
  const counts = { reads: 0, writes: 0, refused: 0, swaps: 0 };
  const attempts: readonly (() => Promise<void>)[] = [
    async () => {
      const { content } = await stand.call("fs_read", { path: "@project/swapped/file" });
      expect(content).not.toBe(SECRET);
      counts.reads += 1;
    },
    async () => {
      const { content } = await stand.call("fs_read", { path: "@project/name" });
      expect(content).not.toBe(SECRET);
      counts.reads += 1;
    },
    async () => {
      await stand.call("fs_write", { path: "@project/swapped/new", content: `w${counts.writes}` });
      counts.writes += 1;
    },
    async () => {
      await stand.call("fs_write", { path: "@project/swapped/deep/er/new", content: "w", createDirectories: true });
      counts.writes += 1;
    },
    async () => {
      await stand.call("fs_write", { path: "@project/name", content: "inside" });
      counts.writes += 1;
    },
    async () => {
      const { matches } = await stand.call("fs_search", { path: "@project", pattern: SECRET });
      expect(matches).toEqual([]);
    },
    async () => {
      const { entries } = await stand.call("fs_list", { path: "@project/swapped", all: true });
      expect(JSON.stringify(entries)).not.toContain("only-outside");
    },
  ];
  writeFileSync(join(outside, "only-outside"), SECRET);
  while (lasts(counts)) {
    // The file is empty for a moment while it is written.
    counts.swaps = Number(readFileSync(join(stand.folder, "swaps"), "utf8")) || counts.swaps;
    for (const attempt of [
      ...Array.from({ length: READS_IN_A_ROUND }, () => attempts.slice(0, 2)).flat(),
      ...attempts,
    ]) {
      try {
        await attempt();
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        if (error.code === "INTERNAL") throw error;
        counts.refused += 1;
      }
    }
  }
  swapper.kill("SIGKILL");
  await swapper.exited;
  expect(readdirSync(outside).sort()).toEqual(["file", "link-target", "only-outside"]);
  for (const name of ["file", "link-target"]) expect(readFileSync(join(outside, name), "utf8")).toBe(SECRET);
  return counts;
}
