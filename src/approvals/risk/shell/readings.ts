import { isOne, names } from "../rule.ts";
import { has, type Invocation, operandsOf } from "./invocation.ts";
import { type Options, optionsOf } from "./options.ts";
import { isSecretFolder, isSecretPlace } from "./secrets.ts";
import { sedCall } from "./sed.ts";

/** What they are told they show, or its name, size or owner: never what stands in it. */
const SHOWS_NAMES = names(
  "echo printf : true false ls dir vdir exa eza stat test [ [[ realpath readlink basename dirname du touch mkdir chmod chown which",
);
const AWKS = names("awk gawk mawk nawk");
const SEARCHES = names("grep egrep fgrep zgrep rg ag ack");
const SEARCH: Options = {
  letters: "EFGPivywxcLlqsHhnTZzrRUuaboI0N",
  valued: "efmABCDdgtTjM",
  longs: ["color", "colour", "recursive", "files"],
  valuedLongs: [
    "regexp",
    "file",
    "include",
    "exclude",
    "exclude-dir",
    "exclude-from",
    "glob",
    "type",
    "max-count",
    "context",
  ],
};

/** Words that may be names of files that are read: not what is only printed, nor a pattern that is looked for. */
function readBy(run: Invocation): readonly string[] {
  return [...filesOf(run).filter((word) => !/\s/.test(word)), ...run.opened.map(({ path }) => path)];
}

function filesOf(run: Invocation): readonly string[] {
  const { program, args } = run;
  if (SHOWS_NAMES.has(program)) return [];
  if (program === "sed" || program === "gsed") return sedCall(args).files;
  if (isOne(run, AWKS)) return operandsOf(args, ["-F", "-v"]).slice(1);
  if (SEARCHES.has(program)) return searched(args);
  if (program !== "find") return args.flatMap(namedBy);
  // Where it begins; behind that stand its tests.
  const from = args.findIndex((arg) => /^[-!(]/.test(arg));
  return from === -1 ? args : args.slice(0, from);
}

/** The first operand is what is looked for, unless an option says it. */
function searched(args: readonly string[]): readonly string[] {
  const { options, operands } = optionsOf(args, SEARCH);
  const lists = options.filter(({ name }) => name === "f" || name === "file");
  const isSaid = lists.length > 0 || options.some(({ name }) => /^(?:e|regexp|files)$/.test(name));
  return [...lists.map(({ value }) => value), ...(isSaid ? operands : operands.slice(1))];
}

/** A word, what stands behind its `=`, and what stands behind the letter of an option. A pattern there matches no files. */
export function namedBy(word: string): readonly string[] {
  const value = word.slice(word.indexOf("=") + 1);
  const behind = value === word || /[*?[]/.test(value) ? [] : [value];
  return /^-[A-Za-z]./.test(word) ? [word.slice(2), ...behind] : [word, ...behind];
}

/** Programs that go into a folder and show or take what is in it. */
const DESCENDS = names("tar gtar bsdtar zip 7z rsync scp rg ag ack");

/** Whether it reads a place of secrets, or a folder as a whole of which a part is one. */
export function takesSecrets(run: Invocation): boolean {
  const { program, args, standing } = run;
  const descends =
    DESCENDS.has(program) ||
    (/^(?:cp|mv|grep|egrep|fgrep|zgrep|diff)$/.test(program) && has(args, "rRa", "--recursive", "--archive"));
  return readBy(run).some((path) => isSecretPlace(path, standing) || (descends && isSecretFolder(path, standing)));
}
