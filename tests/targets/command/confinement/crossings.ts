import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Tool } from "../../../../src/core/types.ts";
import { standTool } from "../stand.ts";
import { confinedStand } from "./stand.ts";

const LANES = 16;
const Answer = z.strictObject({ output: z.string(), exitCode: z.int(), truncated: z.boolean() });

/** A shell that may write one directory. */
export function shellTool(name: string, directory: string, script: string): Tool {
  const cli = {
    command: "bash",
    shell: { workspace: directory },
    options: ["--noprofile", "--norc", "-c"],
    argsBuilder: () => ["--noprofile", "--norc", "-c", "--", script],
    confinement: { writes: [directory] },
  };
  return { ...standTool(cli, Answer), name };
}

/** Runs this many calls, half under each profile. Returns the answers that lack their own secret or contain the other one. */
export async function crossings(folder: string, count: number): Promise<readonly string[]> {
  const [left, right] = [join(folder, "left"), join(folder, "right")] as const;
  for (const own of [left, right]) {
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, "secret"), `secret of ${own}`);
  }
  const script = `cat ${left}/secret ${right}/secret 2>/dev/null; true`;
  const sides = [left, right].map((own) => ({ own, tool: shellTool(own === left ? "left" : "right", own, script) }));
  const stand = await confinedStand(sides.map(({ tool }) => tool));
  const wrong: string[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      const side = sides[next % 2];
      next += 1;
      if (side === undefined) return;
      const { output } = Answer.parse(await stand.call(side.tool));
      if (output !== `secret of ${side.own}`) wrong.push(output);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  await stand.close();
  return wrong;
}
