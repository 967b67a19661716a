import { names, words } from "../names.ts";
import { findStarts } from "./find.ts";
import { has, type Invocation, isOne, operandsOf, valuesOf } from "./invocation.ts";
import { type Options, optionsOf } from "./options.ts";
import { reachOf } from "./place.ts";
import { findsSecret, isSecretFolder, isSecretPlace } from "./secret-places.ts";
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
  valuedLongs: words("regexp file include exclude exclude-dir exclude-from glob type max-count context"),
};

/** Words that may be names of files that are read: not what is only printed, nor a pattern that is looked for. */
function readBy(run: Invocation): readonly string[] {
  return [...filesOf(run).filter((word) => !/\s/.test(word)), ...run.opened.map(({ path }) => path)];
}

function filesOf(run: Invocation): readonly string[] {
  const { program, args } = run;
  if (SHOWS_NAMES.has(program)) return valuesOf(args, "--files0-from");
  if (program === "sed" || program === "gsed") return sedCall(args).files;
  if (isOne(run, AWKS)) return operandsOf(args, ["-F", "-v"]).slice(1);
  if (SEARCHES.has(program)) return searched(args);
  if (program !== "find") return args.flatMap(namedBy);
  return [...findStarts(args), ...valuesOf(args, "-files0-from")];
}

/** Looks through places outside the workspace for files by the names that keys have. */
function searchesSecrets({ program, args, standing }: Invocation): boolean {
  if (program !== "find") return false;
  const isFar = findStarts(args).some((start) => reachOf(`${start}/x`, standing) === "outside");
  return isFar && valuesOf(args, "-name", "-iname").some(findsSecret);
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
const DESCENDS = names("tar gtar bsdtar zip 7z 7za 7zr 7zz rar rsync scp rg ag ack ln");

/** Programs whose business is to show what is kept secret. */
const KEEPERS = names("pass gopass secret-tool keyring bw op lpass sops chamber");
const KEEPER_SHOWS = names("show ls get lookup search read item list decrypt -d --decrypt export");

/** Whether it opens a store of secrets, or looks for such. */
export function opensSecrets(run: Invocation): boolean {
  const { args } = run;
  if (searchesSecrets(run)) return true;
  if (KEEPERS.has(run.program)) return args.some((arg) => KEEPER_SHOWS.has(arg)) || run.program === "pass";
  if (run.program === "security") return args.some((arg) => /^(?:find-|dump-|export)/.test(arg));
  if (!/^gpg2?$/.test(run.program)) return run.program === "git" && args[0] === "credential";
  return args.some((arg) => /^--(?:export-secret|decrypt|delete-secret)|^-[a-z]{0,4}d[a-z]{0,4}$/.test(arg));
}

/** Whether it reads a place of secrets, or a folder as a whole of which a part is one. */
export function takesSecrets(run: Invocation): boolean {
  const { program, args, standing } = run;
  const descends =
    DESCENDS.has(program) ||
    (/^(?:cp|mv|grep|egrep|fgrep|zgrep|diff)$/.test(program) && has(args, "rRa", "--recursive", "--archive"));
  return readBy(run).some((path) => isSecretPlace(path, standing) || (descends && isSecretFolder(path, standing)));
}
