import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Tool } from "../../src/core/types.ts";
import { fsHandler } from "../../src/targets/files/handler.ts";
import { openMounts } from "../../src/targets/files/mounts.ts";
import { workflowRules } from "../../src/targets/files/workflow.ts";
import { fsRead } from "../../tools/workspace/fs-read.ts";
import { fsSearch } from "../../tools/workspace/fs-search.ts";
import { LIMITS } from "../targets/files/stand-in.ts";

/** What confinement costs: a small read beside the plain one, and a search beside ripgrep where that is installed. */
const ROUNDS = 7;
const READS = 3_000;
const FOLDERS = 60;
const FILES_IN_A_FOLDER = 80;
const READ_ADDED_US_MAX = 60;
const SEARCH_RATIO_MAX = 3;

const folder = mkdtempSync(join(tmpdir(), "stc-bench-fs-"));
const project = join(folder, "project");
mkdirSync(project);
const mounts = openMounts({ directories: new Map([["project", project]]), protectedPaths: [] });
if (mounts === undefined) throw new Error("nothing confines paths here");
const handler = fsHandler({
  mounts,
  limits: LIMITS,
  workflow: workflowRules({ stateKey: "currentNodeId" }),
  now: () => performance.now(),
  newId: () => crypto.randomUUID(),
});
const { signal } = new AbortController();
const caller = { issuer: "https://idp.test", subject: "bench", permissions: [], actors: [], expiresAt: 0 };
const config = { workspaceMounts: () => ["@project"] } as never;

function callerOf(tool: Tool): (args: object) => Promise<unknown> {
  const binding = handler.bind(tool);
  return async (args) => {
    const plan = await binding.plan(tool.input.parse(args), { signal });
    return binding.run(plan, { signal, deadline: Number.POSITIVE_INFINITY, traceId: "bench", caller });
  };
}

async function medianUs(count: number, work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const at = performance.now();
    for (let index = 0; index < count; index += 1) await work();
    times.push(((performance.now() - at) * 1_000) / count);
  }
  return times.sort((a, b) => a - b)[times.length >> 1] ?? Number.NaN;
}

async function readAddedUs(): Promise<number> {
  const file = join(project, "four-kilobytes.txt");
  writeFileSync(file, `${"0123456789abcde\n".repeat(256)}`);
  const read = callerOf(fsRead.make(config));
  const plain = await medianUs(READS, () => Bun.file(file).text());
  const confined = await medianUs(READS, () => read({ path: "@project/four-kilobytes.txt" }));
  console.log(`fs_read of 4 KB: ${confined.toFixed(1)} µs, Bun.file().text(): ${plain.toFixed(1)} µs`);
  return confined - plain;
}

async function searchRatio(): Promise<number | undefined> {
  const text = "some line of text that says nothing in particular\n".repeat(120);
  for (let index = 0; index < FOLDERS; index += 1) {
    mkdirSync(join(project, `d${index}`));
    for (let file = 0; file < FILES_IN_A_FOLDER; file += 1) {
      writeFileSync(join(project, `d${index}/f${file}.txt`), file === 7 ? `${text}the needle 42\n` : text);
    }
  }
  const search = callerOf(fsSearch.make(config));
  const order = { path: "@project", pattern: "needle \\d+", maxMatches: 1_000 };
  const ours = await medianUs(1, () => search(order));
  console.log(`fs_search of ${FOLDERS * FILES_IN_A_FOLDER} files: ${(ours / 1_000).toFixed(1)} ms`);
  const rg = Bun.which("rg");
  if (rg === null) return undefined;
  const theirs = await medianUs(1, async () => {
    const child = Bun.spawn([rg, "-n", "needle \\d+", project], { stdout: "pipe" });
    await new Response(child.stdout).text();
  });
  console.log(`rg: ${(theirs / 1_000).toFixed(1)} ms`);
  return ours / theirs;
}

const added = await readAddedUs();
const ratio = await searchRatio();
await handler.close();
rmSync(folder, { recursive: true, force: true });
console.log(`fs_read adds ${added.toFixed(1)} µs (at most ${READ_ADDED_US_MAX})`);
console.log(ratio === undefined ? "rg is not installed" : `fs_search takes ${ratio.toFixed(2)} times rg's time`);
if (added > READ_ADDED_US_MAX || (ratio ?? 0) > SEARCH_RATIO_MAX) process.exitCode = 1;
