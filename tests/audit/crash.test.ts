import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createWorld, draftOf, outcomes, type World } from "./support/open.ts";

const CALLS = "2026-02-16.jsonl";
const APPENDER = join(import.meta.dir, "support", "append-forever.ts");
const SMALL_DISK_BYTES = 65_536;

let world: World;
beforeEach(() => {
  world = createWorld();
});
afterEach(() => world.end());

test("kill -9 at any moment: every acknowledged line is in the file once, and the next run continues", async () => {
  const acknowledged: string[] = [];
  for (const lines of [1, 20, 150, 400]) {
    acknowledged.push(...(await runUntilKilled(lines)));
  }
  const next = world.open();
  await next.append(draftOf("last"));
  const written = world.lines(CALLS).map((line) => String(line["traceId"]));
  expect(new Set(written).size).toBe(written.length);
  const missing = acknowledged.filter((id) => !new Set(written).has(id));
  expect({ missing, last: written.at(-1) }).toEqual({ missing: [], last: "last" });
  expect(acknowledged.length).toBeGreaterThanOrEqual(571);
});

const disk = mountSmallDisk();

describe.skipIf(disk === undefined)("a full disk", () => {
  afterEach(() => disk?.unmount());

  test("refuses the calls that do not fit, keeps the others, and recovers at the next start with room", async () => {
    const full = createWorld(disk?.path);
    const log = full.open();
    const acknowledged: string[] = [];
    let refused = "";
    for (let count = 0; refused === "" && count < 1_000; count += 1) {
      const [outcome = ""] = await outcomes([log.append(draftOf(`t-${count}`))]);
      if (outcome === "ok") {
        acknowledged.push(`t-${count}`);
      } else {
        refused = outcome;
      }
    }
    expect(refused).toContain("ENOSPC");
    expect(log.hasRoom()).toBe(false);
    expect(full.lines(CALLS).map((line) => line["traceId"])).toEqual(acknowledged);
    expect(fs.readFileSync(join(full.dir, CALLS), "utf8")).toEndWith("\n");
    await full.stop();
    expect(() => full.open()).not.toThrow();
    await full.stop();
    disk?.grow();
    await full.open().append(draftOf("after"));
    expect(full.lines(CALLS).map((line) => line["traceId"])).toEqual([...acknowledged, "after"]);
    await full.stop();
  });
});

/** Kills the appender as soon as it has acknowledged `lines` lines; returns all that it acknowledged. */
async function runUntilKilled(lines: number): Promise<readonly string[]> {
  const child = Bun.spawn([process.execPath, "--no-env-file", "--no-install", APPENDER, world.dir], {
    stdout: "pipe",
    stderr: "inherit",
  });
  let printed = "";
  const decoder = new TextDecoder();
  for await (const chunk of child.stdout) {
    printed += decoder.decode(chunk, { stream: true });
    if (printed.split("\n").length > lines) {
      child.kill("SIGKILL");
    }
  }
  await child.exited;
  return printed.split("\n").slice(0, -1);
}

/** A disk of 64 KiB, where the machine lets us mount one. */
function mountSmallDisk(): { readonly path: string; grow(): void; unmount(): void } | undefined {
  const path = fs.mkdtempSync(join(tmpdir(), "stc-disk-"));
  const options = `size=${SMALL_DISK_BYTES}`;
  const isMounted = run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path]);
  if (!isMounted) {
    fs.rmdirSync(path);
    return undefined;
  }
  return {
    path,
    grow() {
      run(["mount", "-o", `remount,size=${2 * SMALL_DISK_BYTES}`, path]);
    },
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
