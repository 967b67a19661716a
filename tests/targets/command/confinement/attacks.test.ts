import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { z } from "zod";
import type { Confinement, Tool } from "../../../../src/core/types.ts";
import { standTool } from "../stand.ts";
import { temporaryDirectory } from "../temporary-directory.ts";
import { type ConfinedStand, confinedStand, missing } from "./stand.ts";

/** The runtime, running a hostile program that knows the kernel's calls by their numbers. */
const ATTACKER = join(import.meta.dir, "attacker.ts");
/** Errors of the rules and the filter, and EBADF for a descriptor that could not be created; never EFAULT or ENOENT. */
const REFUSED = new Set([-1, -9, -13, -18, -38]);
/** Succeed without effect when the profile may write: the canary shows it. */
const QUIET = /^(?:chmod|fchmodat2|chown|utimensat) it/;

const folder = temporaryDirectory();
const canary = join(folder, "canary");
let server: Server;
let port = 0;
let stand: ConfinedStand;

function attacker(confinement: Confinement, allowed: string): Tool {
  const argsBuilder = (): readonly string[] => ["--", ATTACKER, String(process.pid), canary, String(port), allowed];
  return {
    ...standTool({ command: "bun", argsBuilder, confinement }, z.strictObject({ text: z.string() })),
    name: `attacker_${allowed}`,
  };
}

const reads = [import.meta.dir, process.execPath];
const writes = [temporaryDirectory()];
const PROFILES: readonly (readonly [string, Tool])[] = [
  ["without anything", attacker({ reads }, "nothing")],
  ["with a place to write", attacker({ reads, writes, temporaryDirectory: true }, "writes")],
  ["with another port", attacker({ reads, network: [443] }, "network")],
];

beforeAll(async () => {
  writeFileSync(canary, "the service's secret", { mode: 0o600 });
  server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const listening = server.address();
  port = typeof listening === "object" && listening !== null ? listening.port : 0;
  if (missing !== undefined) return;
  const commands = new Map([["bun", process.execPath]]);
  stand = await confinedStand(
    PROFILES.map(([, tool]) => tool),
    { commands },
  );
});

afterAll(async () => {
  await stand?.close();
  server.close();
});

describe.skipIf(missing !== undefined)(`a hostile program (${missing ?? "held"})`, () => {
  test.each(PROFILES)("%s fails", async (_title, tool) => {
    const before = statSync(canary);
    const { text } = z.object({ text: z.string() }).parse(await stand.call(tool));
    const results = Object.entries(z.record(z.string(), z.number()).parse(JSON.parse(text)));
    expect(results.length).toBeGreaterThan(55);
    const leaks = results.filter(([name, result]) => !REFUSED.has(result) && !(result === 0 && QUIET.test(name)));
    expect(leaks).toEqual([]);
    expect(readFileSync(canary, "utf8")).toBe("the service's secret");
    const { mode, uid, mtimeMs, ctimeMs, nlink } = statSync(canary);
    expect({ mode, uid, mtimeMs, ctimeMs, nlink }).toEqual({
      ...{
        mode: before.mode,
        uid: before.uid,
        mtimeMs: before.mtimeMs,
        ctimeMs: before.ctimeMs,
        nlink: before.nlink,
      },
    });
  });
});
