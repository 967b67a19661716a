import { expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError, Refusal } from "../../../src/core/errors.ts";
import { freeText } from "../../../src/core/schema/bounds.ts";
import { defineTool } from "../../../src/index.ts";
import { cliHandler } from "../../../src/targets/command/handler.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

type Build = (input: { phrase: string; more: readonly string[] }) => readonly string[];

function search(argsBuilder: Build, accepts: readonly { phrase: string; more: string[] }[]) {
  return defineTool({
    name: "search",
    description: "Search for a phrase",
    classification: "read",
    permissions: { required: ["test:run"] },
    input: z.strictObject({ phrase: freeText(40), more: z.array(freeText(40)).max(3) }),
    target: {
      system: "test",
      cli: { command: "echo", options: ["--phrase=", "-n", "--arg <name> <value>"], argsBuilder },
    },
    output: z.strictObject({ said: z.string() }),
    outputPolicy: { said: "allow" },
    examples: { accepts },
  });
}

const handler = cliHandler({
  commands: new Map([["echo", "/bin/echo"]]),
  emptyDirectory: temporaryDirectory(),
  now: () => 0,
  newId: () => "id",
});
const signal = new AbortController().signal;

const SAFE: readonly (readonly [string, Build])[] = [
  ["after --", ({ phrase, more }) => ["-n", "--", phrase, ...more]],
  ["as the value of a declared option", ({ phrase }) => [`--phrase=${phrase}`]],
  ["cut short, after --", ({ phrase }) => ["--", phrase.slice(0, 8).toUpperCase()]],
  ["in words, after --", ({ phrase }) => ["-n", "--", ...phrase.split(/\s+/)]],
  ["cut short, as a declared value", ({ phrase }) => [`--phrase=${phrase.slice(0, 8)}`]],
  ["as a declared value where there is one", ({ phrase }) => (phrase === "" ? [] : [`--phrase=${phrase}`])],
  ["as another declared value when it is a number", ({ phrase }) => [/^\d+$/.test(phrase) ? "-n" : "--phrase=x"]],
  ["not at all", () => ["fixed", "-n"]],
  [
    "checked by the builder",
    ({ phrase }) => {
      if (phrase.includes("\n") || phrase.length > 40) throw new Error("a phrase has one short line");
      return ["--", phrase];
    },
  ],
];

const UNSAFE: readonly (readonly [string, Build])[] = [
  ["after the values of an option", ({ phrase }) => ["--arg", "n", "x", phrase]],
  ["as more values than an option takes", ({ phrase }) => ["--arg", "n", ...phrase.split(/\s+/)]],
  ["as a token of its own", ({ phrase }) => [phrase]],
  ["before --", ({ phrase }) => [phrase, "--"]],
  ["inside a token", ({ phrase }) => [`x${phrase}`]],
  ["as the value of an undeclared option", ({ phrase }) => [`name=${phrase}`]],
  ["from a list", ({ more }) => [...more]],
  ["cut short", ({ phrase }) => [phrase.slice(0, 8)]],
  ["without its beginning", ({ phrase }) => [phrase.slice(8)]],
  ["without its first hundred characters", ({ phrase }) => [phrase.slice(100)]],
  ["by its last character", ({ phrase }) => [phrase.slice(-1)]],
  ["by one character", ({ phrase }) => [phrase[2] ?? "x"]],
  ["in upper case", ({ phrase }) => [phrase.toUpperCase()]],
  ["in lower case", ({ phrase }) => [phrase.toLowerCase()]],
  ["reversed", ({ phrase }) => [[...phrase].reverse().join("")]],
  ["encoded", ({ phrase }) => [encodeURIComponent(phrase)]],
  ["in hex", ({ phrase }) => [Buffer.from(phrase).toString("hex")]],
  ["in words", ({ phrase }) => phrase.split(" ")],
  ["by its second word", ({ phrase }) => [phrase.split(/\s+/)[1] ?? ""]],
  ["by its second line", ({ phrase }) => [phrase.split("\n")[1] ?? ""]],
  ["by what comes after =", ({ phrase }) => [phrase.split("=")[1] ?? ""]],
  ["by its digits", ({ phrase }) => [phrase.replace(/\D/g, "")]],
  ["as a number", ({ phrase }) => [String(Number(phrase))]],
  ["without the spaces around it", ({ phrase }) => [phrase.trim()]],
  ["normalized", ({ phrase }) => [phrase.normalize("NFKC")]],
  ["joined with others", ({ more }) => [more.join(",")]],
  ["cut short, as the value of an undeclared option", ({ phrase }) => [`name=${phrase.slice(0, 3)}`]],
];

const example = { phrase: "hello", more: ["world"] };

test.each(SAFE)("free text %s is planned", async (_where, build) => {
  const binding = handler.bind(search(build, [example]));
  const plan = await binding.plan({ phrase: "--help -n x", more: ["-rf"] }, { signal });
  expect(plan["argv"]).toEqual([...build({ phrase: "--help -n x", more: ["-rf"] })]);
});

test.each(UNSAFE)("free text %s does not load when an example shows it", (_where, build) => {
  expect(() => handler.bind(search(build, [example]))).toThrow(ManifestError);
});

test.each(UNSAFE)("free text %s is never planned, whatever the text", async (_where, build) => {
  const binding = handler.bind(search(build, []));
  for (const phrase of ["hello", "-n", "--phrase=x", "a"]) {
    const planned = Promise.resolve(binding.plan({ phrase, more: [phrase] }, { signal }));
    const refusal = await planned.catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(Refusal);
    expect((refusal as Refusal).code).toBe("INTERNAL");
  }
});

test("an example whose argv holds an undeclared option does not load", () => {
  expect(() => handler.bind(search(() => ["--other"], [example]))).toThrow(/examples.accepts\[0\]/);
});

test.each([
  ["after --", (phrase: string) => ["--", phrase], "answers"],
  ["as a token of its own", (phrase: string) => [phrase], "INTERNAL"],
  ["cut short", (phrase: string) => [phrase.slice(0, 3)], "INTERNAL"],
])("a lookup's free text %s", async (_where, argsOf, outcome) => {
  const asking = defineTool({
    name: "ask",
    description: "Ask for a fact first",
    classification: "read",
    permissions: { required: ["test:run"] },
    input: z.strictObject({ phrase: freeText(40) }),
    target: {
      system: "test",
      cli: {
        command: "echo",
        lookups: { fact: ({ phrase }) => [{ args: argsOf(phrase), answer: /^.*$/ }] },
        argsBuilder: () => ["fixed"],
      },
    },
    output: z.strictObject({ said: z.string() }),
    outputPolicy: { said: "allow" },
  });
  const planned = Promise.resolve(handler.bind(asking).plan({ phrase: "hello" }, { signal }));
  expect(await planned.then(() => "answers").catch((error: Refusal) => error.code)).toBe(outcome);
});

test("free text may be the value of an option that takes the next tokens, as in jq --arg n NAME, unless it looks like an option", async () => {
  const jq = cliHandler({
    commands: new Map([["jq", "/bin/echo"]]),
    emptyDirectory: temporaryDirectory(),
    now: () => 0,
    newId: () => "id",
  });
  const named = defineTool({
    name: "named",
    description: "Print a name",
    classification: "read",
    permissions: { required: ["test:run"] },
    input: z.strictObject({ name: freeText(40) }),
    target: {
      system: "test",
      cli: {
        command: "jq",
        options: ["-n", "--arg <name> <value>"],
        argsBuilder: ({ name }) => ["-n", "--arg", "n", name, "$n"],
      },
    },
    output: z.strictObject({ said: z.string() }),
    outputPolicy: { said: "allow" },
    examples: { accepts: [{ name: "Ada" }] },
  });
  const binding = jq.bind(named);
  for (const name of ["Ada Lovelace", "O'Brien $(id)", "a--evil", "", "Jean-Luc"]) {
    const { argv } = await binding.plan({ name }, { signal });
    expect(argv).toEqual(["-n", "--arg", "n", name, "$n"]);
  }
  for (const name of ["--rawfile", "-n", "-", "--", "--arg"]) {
    const refusal = await Promise.resolve(binding.plan({ name }, { signal })).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: "TARGET_REFUSED", details: { status: "INVALID_ARGUMENT" } });
    expect((refusal as Refusal).message).toContain('no value that begins with "-"');
  }
});

test("an option is declared with one number of values", () => {
  const declared = search(() => ["-n"], [example]);
  const { cli } = declared.target as unknown as { cli: { options: string[] } };
  const twice = { ...declared, target: { system: "test", cli: { ...cli, options: ["-n", "-n <value>"] } } };
  expect(() => handler.bind(twice as never)).toThrow(/options\[1\]: is declared before with other values/);
});
