import { expect, test } from "bun:test";
import { join } from "node:path";
import { type CommandFile, loadCommands } from "../../src/cli/command.ts";
import { COMMANDS as BUILT_IN } from "../../src/cli/commands.ts";
import { commandTable } from "../cli/command-table.ts";
import { type Ended, run } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

/** The whole registration of the toy command. */
const COMMANDS: readonly CommandFile[] = [...BUILT_IN, () => import("./toy-command.ts")];

/** Runs `stc` with the same registration, in a process of its own. */
async function stc(...words: readonly string[]): Promise<Ended> {
  const program = `
    import { runStc } from ${JSON.stringify(join(PROJECT, "src/cli/command.ts"))};
    import { COMMANDS } from ${JSON.stringify(join(PROJECT, "src/cli/commands.ts"))};
    const toy = () => import(${JSON.stringify(join(import.meta.dir, "toy-command.ts"))});
    await runStc([...COMMANDS, toy], ${JSON.stringify(words)});`;
  return run([process.execPath, "--no-env-file", "--no-install", "-e", program]);
}

test.concurrent("a registered command runs with its argument and its option", async () => {
  expect(await stc("toy", "repeat", "ha", "--times", "2")).toEqual({ code: 0, out: "ha ha\n", err: "" });
  expect(await stc("toy", "repeat", "ha", "--times=0", "--json")).toEqual({ code: 1, out: "[]\n", err: "" });
});

test.concurrent("a registered command is in the help of stc and has its own help with its exit codes", async () => {
  expect((await stc("--help")).out).toMatch(/^ {2}toy$/m);
  expect((await stc("toy", "--help")).out).toMatch(/^ {2}repeat \[options\] <word> +Print a word several times$/m);
  const help = await stc("help", "toy", "repeat");
  expect(help).toEqual(await stc("toy", "repeat", "--help"));
  expect(help.out).toStartWith("Usage: stc toy repeat [options] <word>\n\nPrint a word several times\n");
  expect(help.out).toMatch(/^ {2}--times <count> +how often$/m);
  expect(help.out).toEndWith("\nExit codes:\n  0    done\n  1    nothing to print\n  64   wrong usage\n");
});

test.concurrent.each([
  [["toy", "repeat", "--times", "1"], "error: missing required argument 'word'"],
  [["toy", "repeat", "ha"], "error: required option '--times <count>' not specified"],
  [["toy", "repeat", "ha", "--times", "x"], "must be a whole number from 0 to 999999"],
  [["toy", "repeat", "ha", "--times", "1", "--often", "2"], "error: unknown option '--often'"],
  [["toy", "repeat", "ha", "ha", "--times", "2"], "error: too many arguments"],
  [["toy"], "Usage: stc toy "],
])("wrong usage of a registered command has exit code 64: %p", async (words, says) => {
  const { code, out, err } = await stc(...words);
  expect({ code, out }).toEqual({ code: 64, out: "" });
  expect(err).toContain(says);
});

test("a registered command is a row of the generated table", async () => {
  const table = commandTable(await loadCommands(COMMANDS));
  expect(table).toContain("\n| `toy repeat <word>` | Print a word several times |");
  expect(table).toContain("\n| `approvals show <id>` |");
});
