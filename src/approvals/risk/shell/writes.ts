import { writtenByGit } from "../git-call.ts";
import { byName } from "../names.ts";
import { has, type Invocation, operandsOf, valuesOf } from "./invocation.ts";
import { isForeign, partsOf, type ShellDirectories } from "./place.ts";
import { sedCall } from "./sed.ts";
import { tarOptions } from "./starters.ts";
import { UNKNOWN } from "./word.ts";

type Written = (args: readonly string[], standing: ShellDirectories) => readonly string[];

const TARGET_DIRECTORY = ["-t", "--target-directory"];

/** The last operand, or the directory named by option; and the files as they will be called in there. */
function destination(args: readonly string[]): readonly string[] {
  const operands = operandsOf(args, ["-S", "--suffix", "-m", "--mode", "-o", "--owner", "-g", "--group", "-e"]);
  const named = valuesOf(args, ...TARGET_DIRECTORY);
  const places = named.length > 0 ? named : operands.slice(-1);
  const sources = named.length > 0 ? operands : operands.slice(0, -1);
  const inside = places.flatMap((place) =>
    sources.map((source) => `${place}/${source.slice(source.lastIndexOf("/") + 1)}`),
  );
  if (operands.length < 2 && named.length === 0) return [];
  // A folder itself is not written, only what comes to lie in it.
  return [...places.filter((place) => !place.endsWith("/")), ...inside];
}

/** Everything that is moved away changes too. */
function moved(args: readonly string[]): readonly string[] {
  return [...operandsOf(args), ...destination(args)];
}

function filesOfSed(args: readonly string[]): readonly string[] {
  const { inPlace, files, copies } = sedCall(args);
  return inPlace ? [...files, ...copies] : [];
}

export const XXD_VALUED = ["-l", "-s", "-c", "-g", "-o", "-n"];

/** Where it goes, and the archive that it makes. */
function writtenByTar(args: readonly string[]): readonly string[] {
  const options = tarOptions(args);
  const makes = options.some(({ name }) => /^(?:[cruA]|create|append|update|concatenate|catenate|delete)$/.test(name));
  const extracts = options.some(({ name }) => /^(?:x|extract|get)$/.test(name));
  return options.flatMap(({ name, value }) => {
    // With their own names, its members go wherever they say.
    if (extracts && (name === "P" || name === "absolute-names")) return [UNKNOWN];
    if (name === "one-top-level") return [value];
    const isTarget = name === "C" || name === "directory" || (makes && (name === "f" || name === "file"));
    return isTarget && value !== "-" ? [value] : [];
  });
}

/** `install -d` makes folders of all its operands. */
function installed(args: readonly string[]): readonly string[] {
  return has(args, "d", "--directory")
    ? operandsOf(args, ["-m", "--mode", "-o", "--owner", "-g", "--group"])
    : destination(args);
}

/** What is written through a link goes where it leads. */
function linked(args: readonly string[], standing: ShellDirectories): readonly string[] {
  const all = operandsOf(args, [...TARGET_DIRECTORY, "-S", "--suffix"]);
  const [named] = valuesOf(args, ...TARGET_DIRECTORY);
  const leads = named === undefined ? all.slice(0, Math.max(1, all.length - 1)) : all;
  const target = named === undefined && all.length > 1 ? (all.at(-1) ?? "") : `${named ?? "."}/`;
  // A name inside a link is read from where the link lies.
  const folder = has(args, "s", "--symbolic") ? `${target.slice(0, target.lastIndexOf("/") + 1)}` : "";
  const ends = leads.map((path) => (/^[/\u0001]/.test(path) ? path : `${folder}${path}`));
  return [...destination(args), ...ends.filter((path) => isRoot(path, standing) || isForeign(path, standing))];
}

function isRoot(path: string, standing: ShellDirectories): boolean {
  return partsOf(path, standing)?.length === 0;
}

const operands: Written = (args) => operandsOf(args);
const afterFirst: Written = (args) => operandsOf(args).slice(1);

const WRITES = byName<Written>([
  ["tee sponge touch mkdir rmdir rm unlink shred mkfifo mknod vim vi nano ed ex", operands],
  ["chmod chown chgrp setfacl chattr rename", afterFirst],
  ["cp rsync scp", destination],
  ["ln link", linked],
  ["install", installed],
  ["mv", moved],
  ["zip", (args) => operandsOf(args).slice(0, 1)],
  ["truncate", (args) => operandsOf(args, ["-s", "--size", "-r", "--reference"])],
  ["dd", (args) => valuesOf(args, "of=")],
  ["sed gsed", filesOfSed],
  ["perl", (args) => (has(args, "i") ? operandsOf(args, ["-e"]) : [])],
  ["curl", (args) => valuesOf(args, "-o", "--output", "--output-dir", "-D", "--dump-header", "-c", "--cookie-jar")],
  ["wget", (args) => valuesOf(args, "-O", "--output-document", "-P", "--directory-prefix", "-o", "-a")],
  ["sort shuf info time gtime", (args) => valuesOf(args, "-o", "--output")],
  ["tree gcc cc clang g++ clang++ ld", (args) => valuesOf(args, "-o")],
  ["uniq", (args) => operandsOf(args, ["-f", "-s", "-w"]).slice(1)],
  ["xxd", (args) => operandsOf(args, XXD_VALUED).slice(1)],
  ["less", (args) => valuesOf(args, "-o", "-O", "--log-file", "--LOG-FILE")],
  ["history", (args) => (has(args, "aw") ? operandsOf(args) : [])],
  ["file", (args) => (has(args, "C", "--compile") ? valuesOf(args, "-m", "--magic-file") : [])],
  ["find", (args) => valuesOf(args, "-fprint", "-fprint0", "-fprintf", "-fls")],
  ["git", writtenByGit],
  ["tar gtar bsdtar", writtenByTar],
  ["unzip", (args) => valuesOf(args, "-d")],
  [
    "patch",
    (args) => [
      ...operandsOf(args).slice(0, 1),
      ...valuesOf(args, "-d", "--directory", "-o", "--output", "-r", "--reject-file"),
    ],
  ],
]);

/** Whether it is known of a program where it writes. */
export function knowsWrites({ program, family }: Invocation): boolean {
  return WRITES.has(program) || WRITES.has(family);
}

/** The paths that a program would write, remove or change, as its argv and redirections say. */
export function writtenBy({ program, family, args, opened, standing }: Invocation): readonly string[] {
  const written = WRITES.get(program) ?? WRITES.get(family);
  return [...opened.flatMap(({ path, writes }) => (writes ? [path] : [])), ...(written?.(args, standing) ?? [])].filter(
    (path) => path !== "",
  );
}
