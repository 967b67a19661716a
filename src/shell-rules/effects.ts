import {
  byName,
  type Call,
  filledWith,
  has,
  isOne,
  names,
  operandsOf,
  pathArguments,
  pathsIn,
  type ShellDirectories,
  valuesOf,
} from "./call.ts";
import { readSed } from "./filters.ts";
import { writtenByGit } from "./git.ts";
import { findsSecret, isForeign, isSecretFolder, isSecretPath, locationOf, partsOf } from "./paths.ts";
import { UNKNOWN } from "./words.ts";
import { findStarts } from "./wrappers.ts";

type Written = (args: readonly string[], directories: ShellDirectories) => readonly string[];

const TARGET_DIRECTORY = "-t --target-directory";
const OWNERS = "-m --mode -o --owner -g --group";

/** Returns the target (the last operand, or the directory that an option names) and the paths of the files in it. */
const destination: Written = (args) => {
  const operands = operandsOf(args, `-S --suffix ${OWNERS} -e`);
  const named = valuesOf(args, TARGET_DIRECTORY);
  if (operands.length < 2 && named.length === 0) return [];
  const targets = named.length > 0 ? named : operands.slice(-1);
  const sources = named.length > 0 ? operands : operands.slice(0, -1);
  const inside = targets.flatMap((target) =>
    sources.map((source) => `${target}/${source.slice(source.lastIndexOf("/") + 1)}`),
  );
  return [...targets.filter((target) => !target.endsWith("/")), ...inside];
};

/** Options of tar as single letters; long names are mapped to them. tar's first argument may be option letters without a dash. */
const TAR_LONGS = byName<string>([
  ["--list", "t"],
  ["--extract --get", "x"],
  ["--create --append --update --concatenate --catenate", "c"],
  ["--delete", "d"],
  ["--file", "f"],
  ["--directory", "C"],
  ["--absolute-names", "P"],
  ["--one-top-level", "C"],
]);
const TAR_VALUED = "bCfFgHIKLNTVX";

/** Returns the options of a call of tar by their letters, with their values. */
export function tarOptions([first = "", ...rest]: readonly string[]): readonly (readonly [string, string])[] {
  const isOld = /^[A-Za-z]{1,32}$/.test(first);
  const args = isOld ? rest : [first, ...rest];
  // In the old form, each letter with a value takes the next unused word.
  const options: (readonly [string, string])[] = isOld
    ? [...first].map((letter) => [letter, TAR_VALUED.includes(letter) ? (args.shift() ?? "") : ""])
    : [];
  for (const [at, arg] of args.entries()) {
    if (arg === "--") break;
    const next = args[at + 1] ?? "";
    if (arg.startsWith("--")) {
      const [name = "", ...value] = arg.split("=");
      const long = [...TAR_LONGS].find(([candidate]) => name.length > 3 && candidate.startsWith(name));
      if (long !== undefined) options.push([long[1], value.length > 0 ? value.join("=") : next]);
    } else if (arg.startsWith("-")) {
      const end = [...arg].findIndex((letter, index) => index > 0 && TAR_VALUED.includes(letter));
      for (const letter of arg.slice(1, end === -1 ? undefined : end)) options.push([letter, ""]);
      if (end !== -1) options.push([arg[end] ?? "", arg.slice(end + 1) || next]);
    }
  }
  return options;
}

const writtenByTar: Written = (args) => {
  const options = tarOptions(args);
  const has = (letters: RegExp) => options.some(([name]) => letters.test(name));
  // With absolute names, members of the archive are written to any path.
  if (has(/P/) && has(/x/)) return [UNKNOWN];
  return options.flatMap(([name, value]) =>
    name === "C" || (name === "f" && has(/[cruAd]/) && value !== "-") ? [value] : [],
  );
};

/** Returns the link, and its target when that is outside the workspace: later writes would follow the link. */
const writtenByLink: Written = (args, directories) => {
  const all = operandsOf(args, `${TARGET_DIRECTORY} -S --suffix`);
  const [named] = valuesOf(args, TARGET_DIRECTORY);
  const leads = named === undefined ? all.slice(0, Math.max(1, all.length - 1)) : all;
  const target = named === undefined && all.length > 1 ? (all.at(-1) ?? "") : `${named ?? "."}/`;
  // A relative name in a symbolic link counts from the folder of the link.
  const folder = has(args, "-s --symbolic") ? target.slice(0, target.lastIndexOf("/") + 1) : "";
  const ends = leads.map((path) => (/^[/\u0001]/.test(path) ? path : `${folder}${path}`));
  const isRoot = (path: string) => partsOf(path, directories)?.length === 0;
  return [...destination(args, directories), ...ends.filter((path) => isRoot(path) || isForeign(path, directories))];
};

/** Options of `xxd` with a value. */
export const XXD_VALUED = "-l -s -c -g -o -n";

/** Paths that programs write, by their arguments. */
const WRITES = byName<Written>([
  ["tee sponge touch mkdir rmdir rm unlink shred mkfifo mknod vim vi nano ed ex", pathArguments({ from: 0 })],
  ["chmod chown chgrp setfacl chattr rename", pathArguments({ from: 1 })],
  ["cp rsync scp", destination],
  ["mv", (args, directories) => [...operandsOf(args), ...destination(args, directories)]],
  ["ln link", writtenByLink],
  [
    "install",
    (args, directories) => (has(args, "-d --directory") ? operandsOf(args, OWNERS) : destination(args, directories)),
  ],
  ["zip", pathArguments({ from: 0, to: 1 })],
  ["truncate", pathArguments({ from: 0, valued: "-s --size -r --reference" })],
  ["dd", pathArguments({ named: "of=" })],
  [
    "sed gsed",
    (args) => {
      const { inPlace, files, copies } = readSed(args);
      return inPlace ? [...files, ...copies] : [];
    },
  ],
  ["perl", (args) => (has(args, "-i") ? operandsOf(args, "-e") : [])],
  ["curl", pathArguments({ named: "-o --output --output-dir -D --dump-header -c --cookie-jar" })],
  ["wget", pathArguments({ named: "-O --output-document -P --directory-prefix -o -a" })],
  ["sort shuf info time gtime", pathArguments({ named: "-o --output" })],
  ["tree gcc cc clang g++ clang++ ld", pathArguments({ named: "-o" })],
  ["uniq", pathArguments({ from: 1, valued: "-f -s -w" })],
  ["xxd", pathArguments({ from: 1, valued: XXD_VALUED })],
  ["less", pathArguments({ named: "-o -O --log-file --LOG-FILE" })],
  ["history", (args) => (has(args, "-aw") ? operandsOf(args) : [])],
  ["file", (args) => (has(args, "-C --compile") ? valuesOf(args, "-m --magic-file") : [])],
  ["find", pathArguments({ named: "-fprint -fprint0 -fprintf -fls" })],
  ["git", writtenByGit],
  ["tar gtar bsdtar", writtenByTar],
  ["unzip", pathArguments({ named: "-d" })],
  ["patch", pathArguments({ from: 0, to: 1, named: "-d --directory -o --output -r --reject-file" })],
]);

/** Returns the paths that a call writes, removes or changes according to its arguments and redirections. */
export function writtenBy({ program, family, args, opened, directories }: Call): readonly string[] {
  const written = WRITES.get(program) ?? WRITES.get(family);
  const named = written?.(args, directories) ?? [];
  return [...opened.flatMap(({ path, writes }) => (writes ? [path] : [])), ...named].filter((path) => path !== "");
}

/** Returns whether a program has a rule for the paths that it writes. */
export function knowsWrites({ program, family }: Call): boolean {
  return WRITES.has(program) || WRITES.has(family);
}

/** Programs that print their arguments, or names, sizes and owners of files, but no contents. */
const SHOWS_NAMES = names(`echo printf : true false ls dir vdir exa eza stat test [ [[ realpath readlink basename
  dirname du touch mkdir chmod chown which`);
const AWKS = names("awk gawk mawk nawk");
const SEARCHES = names("grep egrep fgrep zgrep rg ag ack");
const SEARCH_VALUED = `-m -A -B -C -D -d -g -t -T -j -M -e -f --include --exclude --exclude-dir --exclude-from --glob --type
  --max-count --context --regexp --file`;
/** Programs that read all files of a folder. */
const DESCENDS = names("tar gtar bsdtar zip 7z 7za 7zr 7zz rar rsync scp rg ag ack ln");

function readBy(call: Call): readonly string[] {
  return [...filesOf(call).filter((word) => !/\s/.test(word)), ...call.opened.map(({ path }) => path)];
}

function filesOf(call: Call): readonly string[] {
  const { program, args } = call;
  if (SHOWS_NAMES.has(program)) return valuesOf(args, "--files0-from");
  if (program === "sed" || program === "gsed") return readSed(args).files;
  if (isOne(call, AWKS)) return operandsOf(args, "-F -v").slice(1);
  if (SEARCHES.has(program)) return searchedBy(args);
  if (program !== "find") return args.flatMap(pathsIn);
  return [...findStarts(args), ...valuesOf(args, "-files0-from")];
}

/** Returns the files that a search reads. The first operand is the pattern, unless an option gives the pattern. */
function searchedBy(args: readonly string[]): readonly string[] {
  const lists = valuesOf(args, "-f --file");
  const isGiven = lists.length > 0 || args.some((arg) => /^-[a-zA-Z]{0,8}e|^--(?:reg[a-z]{0,3}|files$)/.test(arg));
  const files = operandsOf(args, SEARCH_VALUED);
  return [...lists, ...(isGiven ? files : files.slice(1))];
}

/** Returns whether a call reads a file of secrets, or a whole folder that contains some. */
export function readsSecrets(call: Call): boolean {
  const { program, args, directories } = call;
  const descends =
    DESCENDS.has(program) ||
    (/^(?:cp|mv|grep|egrep|fgrep|zgrep|diff)$/.test(program) && has(args, "-rRa --recursive --archive"));
  const read = readBy(call);
  const isSecret = (path: string): boolean =>
    isSecretPath(path, directories) || (descends && isSecretFolder(path, directories));
  return read.some(
    (path) => isSecret(path) || (path.includes(UNKNOWN) && (filledWith(path, call.values)?.some(isSecret) ?? true)),
  );
}

/** Returns whether a call of `find` looks outside the workspace for files by the names that keys have. */
export function findsSecrets({ args, directories }: Call): boolean {
  const isRemote = findStarts(args).some((start) => locationOf(`${start}/x`, directories) === "outside");
  return isRemote && valuesOf(args, "-name -iname").some(findsSecret);
}
