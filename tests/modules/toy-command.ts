import { argument, command, JSON_FLAG, required, text, wholeNumber } from "../../src/cli/command.ts";
import { print } from "../../src/cli/output.ts";

/** A command that is not part of the product: it shows what a declaration is enough for. */
export const commands = [
  command({
    name: "toy repeat",
    summary: "Print a word several times",
    arguments: { word: argument(text("word")) },
    options: { times: required(wholeNumber, "how often"), json: JSON_FLAG },
    exits: { 1: "nothing to print" },
    run({ word }, { times, json }) {
      if (times === 0) process.exitCode = 1;
      const words = Array.from({ length: times }, () => word);
      if (json === true) print.json(words);
      else print.line(words.join(" "));
    },
  }),
];
