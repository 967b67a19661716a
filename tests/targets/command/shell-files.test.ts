import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { namedFiles } from "../../../src/targets/command/shell.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const SCRIPT_CHARACTERS_MAX = 8_192;

const workspace = temporaryDirectory();
mkdirSync(join(workspace, "folder"));
for (const name of ["run.sh", "folder/deep.sh", "a b.txt"]) writeFileSync(join(workspace, name), name);

const filesOf = (script: string): readonly string[] =>
  Object.keys(namedFiles(script, { workspace, cwd: workspace }).files);

test.each([
  ["sh run.sh", ["run.sh"]],
  ["sh r''un.sh", ["run.sh"]],
  ["cat 'a b.txt'", ["a b.txt"]],
  ["cd folder && sh deep.sh", ["folder/deep.sh"]],
  [`${"echo $(".repeat(20)}sh r''un.sh${")".repeat(20)}`, ["run.sh"]],
  ["cat <<end\nrun.sh\nend", ["run.sh"]],
])("the files that %j names", (script, files) => {
  expect(filesOf(script)).toEqual(files);
});

test.each([
  ["(", ")"],
  ["<(", ")"],
  ['"$(', ')"'],
  ["${a:-", "}"],
])("a file is found inside nested scripts: %s", (opening, closing) => {
  const count = (SCRIPT_CHARACTERS_MAX - 100) / (opening.length + closing.length);
  const nested = opening.repeat(count) + closing.repeat(count);
  expect(filesOf(`sh run.sh; ${nested}; sh folder/deep.sh`)).toEqual(["folder/deep.sh", "run.sh"]);
});
