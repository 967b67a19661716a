import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { Confinement, Tool } from "../../../../src/core/types.ts";
import { stand as cliStand, planOf, programs, refusalFrom, standTool } from "../stand.ts";
import { temporaryDirectory } from "../temporary-directory.ts";
import { crossings, shellTool } from "./crossings.ts";
import { COMMANDS, type ConfinedStand, confinedStand, missing } from "./stand.ts";

const folder = temporaryDirectory();
const stands: ConfinedStand[] = [];
afterAll(async () => {
  await Promise.all(stands.map((stand) => stand.close()));
});

async function open(...given: Parameters<typeof confinedStand>): Promise<ConfinedStand> {
  const stand = await confinedStand(...given);
  stands.push(stand);
  return stand;
}

const held = new Map([...programs, ...COMMANDS]);

function tool(name: string, confinement?: Confinement, args: readonly string[] = []): Tool {
  const cli = { command: "argv", argsBuilder: () => args, ...(confinement !== undefined && { confinement }) };
  return { ...standTool(cli), name };
}

const SHELL = shellTool("shell", folder, "true");

describe("registration", () => {
  const missingPath = join(folder, "missing");
  const sound = missing === undefined ? "confined" : undefined;

  test.each([
    ["require", false, { plain: sound, shell: sound }],
    // A manifest that declares nothing may need any access: only `require` confines it, to the system's programs.
    ["prefer", false, { plain: "none", shell: sound }],
    ["off", false, { plain: "none" }],
    ["off", true, { plain: "none", shell: "none" }],
  ] as const)("%s, a shell unconfined: %s", async (mode, unconfinedShell, levels) => {
    const { confinement } = await open([tool("plain"), SHELL], { mode, unconfinedShell, commands: held });
    const wanted = Object.entries(levels).filter(([, level]) => level !== undefined);
    expect([...confinement.levels]).toEqual(wanted as [string, "confined" | "none"][]);
    expect([...confinement.withheld.keys()].sort()).toEqual(
      ["plain", "shell"].filter((name) => !wanted.some(([known]) => known === name)),
    );
  });

  test.skipIf(missing !== undefined).each([
    ["require", { levels: {}, withheld: ["broken"] }],
    ["prefer", { levels: { broken: "none" }, withheld: [] }],
  ] as const)("%s: a profile that names a missing path is not offered", async (mode, { levels, withheld }) => {
    const { confinement } = await open([tool("broken", { reads: [missingPath] })], { mode, commands: held });
    expect(Object.fromEntries(confinement.levels)).toEqual(levels);
    expect([...confinement.withheld.keys()]).toEqual([...withheld]);
    expect(confinement.faults.get("broken")).toContain(missingPath);
  });

  test.skipIf(missing !== undefined)("a profile that allows a forbidden operation is not offered", async () => {
    const { confinement } = await open([tool("wide", { reads: [tmpdir()] })], { commands: held });
    expect(confinement.withheld.get("wide")).toContain("reading the service's files");
  });
});

describe.skipIf(missing !== undefined)(`a confined command (${missing ?? "held"})`, () => {
  test("its plan says how it is confined, and is the same twice", async () => {
    const reading = tool("reading", { reads: [folder, folder], network: [6443, 443, 443], temporaryDirectory: true });
    const { confinement } = await open([reading], { commands: held });
    const { handler } = cliStand({ confinement, commands: held });
    const plan = await planOf(reading, { handler });
    expect(plan["confinement"]).toEqual({
      ...{ level: "confined", reads: [folder], writes: [], network: [443, 6443], runs: "system" },
      temporaryDirectory: true,
    });
    expect(await planOf(reading, { handler })).toEqual(plan);
  });

  test("a lost level is TARGET_UNAVAILABLE, and nothing runs", async () => {
    const place = join(folder, "place");
    const out = join(folder, "out");
    mkdirSync(place);
    mkdirSync(out);
    const shell = shellTool("losing", out, `touch ${out}/ran`);
    if (!("cli" in shell.target)) throw new Error("it is a command");
    const cli = { ...shell.target.cli, confinement: { reads: [place], writes: [out] } };
    const losing: Tool = { ...shell, target: { system: "stand", cli } };
    const stand = await open([losing]);
    rmSync(place, { recursive: true });
    const refusal = await refusalFrom(stand.call(losing));
    expect([refusal.code, String(refusal.cause)]).toEqual([
      "TARGET_UNAVAILABLE",
      expect.stringContaining("spawnError"),
    ]);
    expect(readdirSync(out)).toEqual([]);
  });

  test("a program cannot imitate a failed launcher", async () => {
    const stand = await open([tool("plain")], { commands: held });
    const liar: Tool = {
      ...standTool({ command: "exit-with", argsBuilder: () => ["126", "", "token fault"] }),
      name: "plain",
    };
    expect((await refusalFrom(stand.call(liar))).code).toBe("TARGET_FAILED");
  });

  test("an argv arrives token by token, however unusual or long", async () => {
    const odd = ["a b", "$(id)", "", "é\n", "--", "-x", "y".repeat(100_000)];
    const plain = tool("plain", undefined, odd);
    const { text } = z.object({ text: z.string() }).parse(
      await (await open([plain], { commands: held })).call({
        ...plain,
        limits: { ...plain.limits, outputBytesMax: 200_000 },
      }),
    );
    expect(text).toBe(odd.map((token) => `[${token}]\n`).join(""));
  });

  test("40 concurrent commands under two profiles never see each other's file", async () => {
    expect(await crossings(folder, 40)).toEqual([]);
  });
});
