import { has, type Invocation, operandsOf, valuesOf } from "./shell-invocation.ts";

type Written = (args: readonly string[]) => readonly string[];

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
  return operands.length < 2 && named.length === 0 ? [] : [...places, ...inside];
}

/** Everything that is moved away changes too. */
function moved(args: readonly string[]): readonly string[] {
  return [...operandsOf(args), ...destination(args)];
}

/** The first operand is the script, unless that came as an option. */
function filesOfSed(args: readonly string[]): readonly string[] {
  const files = operandsOf(args, ["-e", "-f", "--expression", "--file"]);
  return args.some((arg) => /^-[nErszu]*[ef]|^--(?:exp|fi)/.test(arg)) ? files : files.slice(1);
}

const operands: Written = (args) => operandsOf(args);
const afterFirst: Written = (args) => operandsOf(args).slice(1);

const WRITES: ReadonlyMap<string, Written> = new Map<string, Written>([
  ...[
    "tee",
    "sponge",
    "touch",
    "mkdir",
    "rmdir",
    "rm",
    "unlink",
    "shred",
    "mkfifo",
    "mknod",
    "vim",
    "vi",
    "nano",
    "ed",
    "ex",
  ].map((program) => [program, operands] as const),
  ...["chmod", "chown", "chgrp", "setfacl", "chattr"].map((program) => [program, afterFirst] as const),
  ...["cp", "install", "ln", "rsync", "scp", "link"].map((program) => [program, destination] as const),
  ["mv", moved],
  ["rename", afterFirst],
  ["zip", (args) => operandsOf(args).slice(0, 1)],
  ["truncate", (args) => operandsOf(args, ["-s", "--size", "-r", "--reference"])],
  ["dd", (args) => valuesOf(args, "of=")],
  ["sed", (args) => (has(args, "i", "--in-place") ? filesOfSed(args) : [])],
  ["perl", (args) => (has(args, "i") ? operandsOf(args, ["-e"]) : [])],
  ["curl", (args) => valuesOf(args, "-o", "--output", "--output-dir", "-D", "--dump-header", "-c", "--cookie-jar")],
  ["wget", (args) => valuesOf(args, "-O", "--output-document", "-P", "--directory-prefix", "-o", "-a")],
  ["sort", (args) => valuesOf(args, "-o", "--output")],
  ["shuf", (args) => valuesOf(args, "-o", "--output")],
  ["tree", (args) => valuesOf(args, "-o")],
  ["uniq", afterFirst],
  ["xxd", afterFirst],
  ["find", (args) => valuesOf(args, "-fprint", "-fprint0", "-fprintf", "-fls")],
  ["git", (args) => valuesOf(args, "--output")],
  [
    "tar",
    (args) => [...valuesOf(args, "-C", "--directory"), ...(has(args, "cru") ? valuesOf(args, "-f", "--file") : [])],
  ],
  ["unzip", (args) => valuesOf(args, "-d")],
  ["patch", (args) => [...operandsOf(args).slice(0, 1), ...valuesOf(args, "-d", "--directory", "-o", "--output")]],
  ...["gcc", "cc", "clang", "g++", "clang++", "ld"].map(
    (program) => [program, (args: readonly string[]) => valuesOf(args, "-o")] as const,
  ),
]);

/** The paths that a program would write, remove or change, as its argv and redirections say. */
export function writtenBy({ program, family, args, opened }: Invocation): readonly string[] {
  const written = WRITES.get(program) ?? WRITES.get(family);
  return [...opened.flatMap(({ path, writes }) => (writes ? [path] : [])), ...(written?.(args) ?? [])].filter(
    (path) => path !== "",
  );
}
