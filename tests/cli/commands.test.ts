import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { loadCommands } from "../../src/cli/command.ts";
import { COMMANDS } from "../../src/cli/commands.ts";
import { PROJECT } from "../support/world.ts";
import { PAGE, withTable } from "./command-table.ts";

test("the table of commands is current: otherwise run `bun run docs:commands`", async () => {
  const page = readFileSync(PAGE, "utf8");
  expect(withTable(page, await loadCommands(COMMANDS))).toBe(page);
});

test("no two commands have the same name, and each belongs to a group that is declared before it", async () => {
  const names = (await loadCommands(COMMANDS)).map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  for (const [at, name] of names.entries()) {
    const group = name.split(" ").slice(0, -1).join(" ");
    expect([name, group === "" || names.slice(0, at).includes(group)]).toEqual([name, true]);
  }
});

test("the declarations load no code of a command: no schemas, no service, no database", () => {
  const program = `
    import { loadCommands } from "./src/cli/command.ts";
    import { COMMANDS } from "./src/cli/commands.ts";
    await loadCommands(COMMANDS);
    process.stdout.write(JSON.stringify(Object.keys(require.cache)));`;
  const { stdout } = Bun.spawnSync([process.execPath, "-e", program], { cwd: PROJECT });
  const loaded = (JSON.parse(stdout.toString()) as string[])
    .map((path) => relative(PROJECT, path))
    .filter((path) => path.endsWith(".ts") || path.includes("node_modules"));
  expect(loaded).toContain("src/cli/audit/commands.ts");
  const allowed =
    /^(src\/(cli\/([a-z]+\/)?(command|commands|[a-z]+-commands|grant-terms|output|printable)\.ts|audit\/|core\/)|node_modules\/commander\/)/;
  expect(loaded.filter((path) => !allowed.test(path))).toEqual([]);
});

test("plan, explain, try and call take the arguments of a call in the same two ways", async () => {
  const all = await loadCommands(COMMANDS);
  const [first, ...others] = ["plan", "explain", "try", "call"].map((name) => all.find((one) => one.name === name));
  expect(Object.keys(first?.arguments ?? {})).toEqual(["tool", "args"]);
  expect(first?.options["args"]).toBeDefined();
  for (const other of others) {
    expect(other?.arguments).toEqual(first?.arguments as NonNullable<typeof first>["arguments"]);
    expect(other?.options["args"]).toBe(first?.options["args"] as NonNullable<typeof first>["options"][string]);
  }
});

test("--to is the end of a range of time in every command that has it", async () => {
  const ends = (await loadCommands(COMMANDS)).filter(({ options }) => options["to"] !== undefined);
  const names = ends.map(({ name }) => name);
  expect(names).toContain("audit export");
  expect(names).toContain("replay");
  for (const { name, options } of ends) {
    expect([name, options["to"]?.kind?.placeholder, "from" in options]).toEqual([
      name,
      expect.stringMatching(/^(time|day|date)$/),
      true,
    ]);
  }
});
