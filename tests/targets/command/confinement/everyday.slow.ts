import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { bash } from "../../../../tools/workspace/bash.ts";
import { configFor } from "../../../tools/workspace/stand.ts";
import { temporaryDirectory } from "../temporary-directory.ts";
import { COMMANDS, type ConfinedStand, confinedStand, missing } from "./stand.ts";

/** Compilers and runtimes in ordinary use, confined as by the shipped tool. */
const workspace = join(temporaryDirectory(), "project");
mkdirSync(workspace);
const tool = bash.make(configFor(workspace));
let stand: ConfinedStand;

const Answer = z.strictObject({ output: z.string(), exitCode: z.int(), truncated: z.boolean() });
const run = async (command: string): Promise<z.output<typeof Answer>> =>
  Answer.parse(await stand.call(tool, tool.input.parse({ command })));

const authorities = "/etc/ssl/certs/ca-certificates.crt";
const has = (program: string): boolean => Bun.which(program, { PATH: "/usr/local/bin:/usr/bin:/bin" }) !== null;
const skipped = missing !== undefined || !COMMANDS.has("bash");

beforeAll(async () => {
  if (!skipped) stand = await confinedStand([tool]);
});
afterAll(() => stand?.close());

describe.skipIf(skipped)(`everyday work (${missing ?? "held"})`, () => {
  test.skipIf(!has("npm") || !existsSync(authorities))("npm with a setting that names them", async () => {
    const { output, exitCode } = await run(`echo cafile=${authorities} > .npmrc; npm pkg get name; rm .npmrc`);
    expect(output).not.toContain("EACCES");
    expect(exitCode).toBe(0);
  });

  // No path can be made executable: no rule can tell a file of the workspace from another one.
  const compile = "printf 'int main(void) { return 7; }' > c.c; cc -o c c.c";
  const made = [
    ["by the loader", `${compile}; /lib64/ld-linux-x86-64.so.2 ./c`],
    ["after its mode was set by a descriptor", `${compile}; perl -e 'open F, "<", "c"; chmod 0755, *F'; ./c`],
    ...(has("ld.gold")
      ? [["linked by a linker that makes it so", `${compile.replace("-o", "-fuse-ld=gold -o")}; ./c`] as const]
      : []),
  ] as const;
  test.skipIf(!has("cc") || !has("perl")).each(made)(
    "a program that was compiled here runs %s",
    async (_title, command) => {
      expect(await run(command)).toMatchObject({ exitCode: 7 });
    },
  );

  const python = "from multiprocessing import Pipe, Process; a, b = Pipe(); p = Process(target=b.send, args=(5,))";
  const threads = "from concurrent.futures import ThreadPoolExecutor as P; print(list(P(2).map(abs, [-5])))";
  test.skipIf(!has("python3")).each([
    ["processes with pipes", `${python}; p.start(); print(a.recv())`, "5\n"],
    ["a pool of threads", threads, "[5]\n"],
  ])("Python: %s", async (_title, script, output) => {
    expect(await run(`python3 -c '${script}'`)).toMatchObject({ output, exitCode: 0 });
  });

  test.skipIf(!has("python3"))("Python's process pools have no semaphores, and say so", async () => {
    const { output, exitCode } = await run("python3 -c 'from multiprocessing import Lock; Lock()'");
    expect([output.includes("PermissionError"), exitCode]).toEqual([true, 1]);
  });
});
