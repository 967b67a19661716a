import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readSync, realpathSync, statSync } from "node:fs";
import { constants as osConstants } from "node:os";
import { isAbsolute, join, normalize, relative } from "node:path";
import { forEachChild, parse, type SyntaxNode, type Word } from "unbash";
import { Refusal } from "../../core/errors.ts";
import { CUT_MARGIN_BYTES, PartialAnswer } from "../../core/partial-answer.ts";
import { present } from "../../core/present.ts";
import { SHELL_ARGV, shellScriptOf } from "../../core/shell-script.ts";
import { isBelow } from "../../core/target-kind.ts";
import { plainText } from "../../core/terminal-text.ts";
import type { ExecutionPlan, Json, Tool } from "../../core/types.ts";
import { refuseTooLong, tokenFault } from "./argv.ts";
import { type ChildResult, refusalOf, unbuildable } from "./endings.ts";
import { childEnvironment, cwdOf } from "./environment.ts";
import type { CliTool } from "./manifest.ts";
import { cutTextOf, decode } from "./parser.ts";

/** Signal numbers. A shell reports a signal as exit code `SIGNAL_BASE` plus the number. */
const SIGNALS: Readonly<Record<string, number>> = osConstants.signals;
const SIGNAL_BASE = 128;
const SIGNAL_UNKNOWN = 127;
const KILLED = SIGNAL_BASE + 9;

/** Members of a script's plan besides the command and the program's hash. */
interface ShellPlan {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Hex SHA-256 of every workspace file that the script names, by path relative to the workspace. */
  readonly files: Readonly<Record<string, string>>;
  /** Words that name more than can be hashed: folders, patterns, and files that are too large or too many. */
  readonly unhashed: readonly string[];
  readonly [member: string]: Json;
}

interface ShellCall {
  readonly input: unknown;
  readonly environment: Readonly<Record<string, string>>;
  readonly pathVariable: string | undefined;
}

/**
 * Returns the argv, working directory, environment and files of a script.
 *
 * @throws {Refusal} TARGET_REFUSED when the working directory is missing or outside the workspace, or the script cannot be passed
 * to a program; TARGET_UNAVAILABLE when the workspace cannot be used
 */
export function shellPlan({ cli, tool }: CliTool, { input, environment, pathVariable }: ShellCall): ShellPlan {
  const workspace = realDirectory(present(cli.shell, "the shell of the tool").workspace);
  if (workspace === undefined) {
    throw new Refusal("TARGET_UNAVAILABLE", "The workspace cannot be used.", {
      cause: new Error("workspace.project is not a directory"),
    });
  }
  const cwd = directoryIn(workspace, cwdOf(cli, input) ?? ".");
  const argv = [...cli.argsBuilder(input as never, {} as never)];
  refuseTooLong(argv, environment);
  const script = shellScriptOf(argv);
  if (script === undefined) {
    throw unbuildable(`a shell is started as ${SHELL_ARGV.join(" ")} and one script`);
  }
  const fault = tokenFault(script);
  if (fault !== undefined) {
    throw new Refusal("TARGET_REFUSED", `The command ${fault}.`, { details: { status: "INVALID_ARGUMENT" } });
  }
  return {
    argv,
    cwd,
    environment: childEnvironment({ emptyDirectory: workspace, pathVariable }, environment),
    timeoutMs: Math.min(cli.shell?.timeoutMs?.(input as never) ?? tool.timeoutMs, tool.timeoutMs),
    ...namedFiles(script, { workspace, cwd }),
  };
}

/**
 * Returns what risk rules read of a script's plan. Undefined for a script in a folder of the workspace, which may be a link, and
 * for one that would be refused.
 */
export function shellPlanForRules(
  { cli }: CliTool,
  { input, environment, pathVariable }: ShellCall,
): ExecutionPlan | undefined {
  const { workspace } = cli.shell ?? {};
  if (workspace === undefined || normalize(join(workspace, cwdOf(cli, input) ?? ".")) !== normalize(workspace))
    return undefined;
  const argv = [...cli.argsBuilder(input as never, {} as never)];
  const script = argv.at(-1);
  if (typeof script !== "string" || tokenFault(script) !== undefined) return undefined;
  const own = childEnvironment({ emptyDirectory: workspace, pathVariable }, environment);
  return { kind: "cli", argv, cwd: workspace, environment: own };
}

/** Returns the directory for a path relative to the workspace, with links resolved. */
function directoryIn(workspace: string, path: string): string {
  const refuse = (status: string, message: string) =>
    new Refusal("TARGET_REFUSED", message, { details: { status, fields: ["workingDir"] } });
  if (isAbsolute(path)) throw refuse("INVALID_ARGUMENT", "The working directory must be relative to the workspace.");
  const directory = realDirectory(join(workspace, path));
  if (directory === undefined) throw refuse("NOT_FOUND", "The working directory does not exist in the workspace.");
  const inside = relative(workspace, directory);
  if (inside === ".." || inside.startsWith("../") || isAbsolute(inside)) {
    throw refuse("INVALID_ARGUMENT", "The working directory must not leave the workspace.");
  }
  return directory;
}

export function realDirectory(path: string): string | undefined {
  try {
    const real = realpathSync(path);
    return isAbsolute(path) && statSync(real).isDirectory() ? real : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the output and exit code of a script that ended by itself or by a signal. A signal becomes the exit code that
 * a shell reports for it.
 *
 * @throws {Refusal} for a script that could not be run or was interrupted; with the output so far at the deadline
 */
export function shellAnswer(tool: Tool, result: ChildResult): unknown {
  const output = plainText(decode(result.stdout));
  const exitCode = exitCodeOf(result);
  if (exitCode !== undefined) {
    const answer = { output, exitCode, truncated: result.truncated };
    return result.truncated ? new PartialAnswer(answer, cutTextOf(result, "output")) : answer;
  }
  const written = result.truncated ? output : withoutUnfinishedWord(output);
  const soFar = { output: written, exitCode: KILLED, truncated: true };
  const isLate = result.ending.kind === "deadline" && result.started;
  const cutText = result.truncated ? cutTextOf(result, "output") : undefined;
  throw refusalOf(tool, result, { outputSoFar: isLate ? new PartialAnswer(soFar, cutText) : undefined });
}

/** Returns the text up to its last whitespace, because a secret may have been written only in part. */
function withoutUnfinishedWord(text: string): string {
  const first = Math.max(0, text.length - CUT_MARGIN_BYTES);
  let end = text.length;
  while (end > first && text[end - 1]?.trim() !== "") end -= 1;
  return text.slice(0, end);
}

function exitCodeOf({ ending }: ChildResult): number | undefined {
  if (ending.kind === "exit") return ending.code;
  return ending.kind === "signal" ? SIGNAL_BASE + (SIGNALS[ending.signal] ?? SIGNAL_UNKNOWN) : undefined;
}

/** Maximum number of words that are tried as file names, and of their characters together. */
const WORDS_MAX = 512;
const NAMES_CHARACTERS_MAX = 65_536;
/** Maximum number of named folders in which the other words are tried as well. */
const FOLDERS_MAX = 8;
/** Maximum number of hashed files, and of their bytes together. */
const FILES_MAX = 64;
const BYTES_MAX = 33_554_432;
const CHUNK_BYTES = 1_048_576;
const WORD_CHARACTERS_MAX = 4_096;
/** Maximum depth of nested nodes: each script inside another script is parsed again. */
const DEPTH_MAX = 128;

/** Absolute paths without links. */
interface Directories {
  readonly workspace: string;
  readonly cwd: string;
}

/**
 * Returns hashes of the workspace files that a script's literal words name: a file that changes between approval and
 * run changes the plan. Files that a script uses without naming them are not detected.
 */
export function namedFiles(script: string, { workspace, cwd }: Directories): Pick<ShellPlan, "files" | "unhashed"> {
  const { words, patterns } = wordsOf(script);
  const unhashed = new Set(patterns);
  const bases = [cwd, ...folders(words, { workspace, cwd }, unhashed)];
  const files = new Map<string, string>();
  let bytesLeft = BYTES_MAX;
  for (const word of words) {
    for (const base of bases) {
      const path = fileIn(workspace, isAbsolute(word) ? word : join(base, word));
      if (path === undefined) continue;
      const name = relative(workspace, path);
      if (files.has(name)) continue;
      const hashed = files.size < FILES_MAX ? hashFile(path, bytesLeft) : undefined;
      if (hashed === undefined) unhashed.add(name);
      else {
        files.set(name, hashed.sha256);
        bytesLeft -= hashed.bytes;
      }
    }
  }
  return { files: Object.fromEntries([...files].sort(([a], [b]) => (a < b ? -1 : 1))), unhashed: [...unhashed].sort() };
}

/** Returns every literal word, also in quotes, here-documents and nested scripts. `patterns` may match names. */
function wordsOf(script: string): { readonly words: readonly string[]; readonly patterns: readonly string[] } {
  const words = new Set<string>();
  const patterns = new Set<string>();
  let charactersLeft = NAMES_CHARACTERS_MAX;
  const add = (text: string): void => {
    if (words.size >= WORDS_MAX || charactersLeft <= 0) return;
    for (const word of [text, ...text.split(/[\s"'`;&|<>(){}=,:]+/, WORDS_MAX)]) {
      const name = word.replace(/^~\//, "").slice(0, WORD_CHARACTERS_MAX);
      if (name === "" || words.size >= WORDS_MAX || words.has(name) || name.length > charactersLeft) continue;
      words.add(name);
      charactersLeft -= name.length;
    }
  };
  const visit = (node: SyntaxNode, depth: number): void => {
    if (node.type === "Word") {
      if (isPattern(node) && patterns.size < FILES_MAX) patterns.add(node.text.slice(0, WORD_CHARACTERS_MAX));
      add(node.value);
    } else if (node.type === "HereDocBody") add(node.text);
    if (depth < DEPTH_MAX) forEachChild(node, (child) => visit(child, depth + 1));
  };
  add(script);
  try {
    visit(parse(script), 0);
  } catch {
    // `add` above has split the text into words already.
  }
  return { words: [...words], patterns: [...patterns] };
}

function isPattern({ parts }: Word): boolean {
  return parts?.some(({ type }) => type === "Glob" || type === "ExtendedGlob" || type === "BraceExpansion") === true;
}

function folders(words: readonly string[], { workspace, cwd }: Directories, unhashed: Set<string>): readonly string[] {
  const found: string[] = [];
  for (const word of words) {
    const path = isAbsolute(word) ? word : join(cwd, word);
    if (word === "." || found.length >= FOLDERS_MAX || kindOf(path) !== "folder") continue;
    const real = realOf(path);
    if (real === undefined || !isBelow(real, workspace)) continue;
    found.push(real);
    unhashed.add(`${relative(workspace, real) || "."}/`);
  }
  return found;
}

/** Returns the real path of a regular file in the workspace. */
function fileIn(workspace: string, path: string): string | undefined {
  const real = realOf(path);
  return real !== undefined && isBelow(real, workspace) && kindOf(real) === "file" ? real : undefined;
}

function realOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

function kindOf(path: string): "file" | "folder" | "other" {
  try {
    const found = statSync(path);
    if (found.isFile()) return "file";
    return found.isDirectory() ? "folder" : "other";
  } catch {
    return "other";
  }
}

/** Returns the hash and size of a regular file. Does not block on a pipe or device: it opens without waiting. */
function hashFile(path: string, bytesMax: number): HashedFile | undefined {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    const stats = fstatSync(descriptor);
    return stats.isFile() && stats.size <= bytesMax ? hashOpenFile(descriptor, bytesMax) : undefined;
  } catch {
    return undefined;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

interface HashedFile {
  /** Hexadecimal. */
  readonly sha256: string;
  readonly bytes: number;
}

/** Hashes an open file from its current position; `undefined` when it has more than `bytesMax` bytes. */
export function hashOpenFile(descriptor: number, bytesMax = Number.POSITIVE_INFINITY): HashedFile | undefined {
  const hash = createHash("sha256");
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let bytes = 0;
  for (let read = readSync(descriptor, chunk); read > 0; read = readSync(descriptor, chunk)) {
    bytes += read;
    if (bytes > bytesMax) return undefined;
    hash.update(chunk.subarray(0, read));
  }
  return { sha256: hash.digest("hex"), bytes };
}
