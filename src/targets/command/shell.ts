import { realpathSync, statSync } from "node:fs";
import { constants } from "node:os";
import { isAbsolute, join, relative } from "node:path";
import { Refusal } from "../../core/errors.ts";
import { CUT_MARGIN_BYTES, PartialAnswer } from "../../core/partial-answer.ts";
import { plainText } from "../../core/terminal-text.ts";
import type { Json, Tool } from "../../core/types.ts";
import { refuseTooLong, tokenFault } from "./argv.ts";
import type { ChildResult } from "./child.ts";
import { refusalOf } from "./endings.ts";
import { childEnvironment } from "./environment.ts";
import type { CliTool } from "./manifest.ts";
import { cutTextOf, decode } from "./parser.ts";
import { namedFiles } from "./shell-files.ts";

/** The one form in which a script runs: no start-up files, and nothing behind `--` is an option. */
const SHELL_ARGV = ["--noprofile", "--norc", "-c", "--"];

/** For the exit code that a shell would report of a signal: this and the signal's number. */
const SIGNALS: Readonly<Record<string, number>> = constants.signals;
const SIGNAL_BASE = 128;
const SIGNAL_UNKNOWN = 127;
const KILLED = SIGNAL_BASE + 9;

/** What a script's plan says beside command, argv and the program's hash. */
export interface ShellScene {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Hex SHA-256 of every file of the workspace that the script's words name, by its path from the workspace. */
  readonly files: Readonly<Record<string, string>>;
  /** Words that name more than can be hashed: folders, patterns, files that are too large or too many. */
  readonly unhashed: readonly string[];
  readonly [member: string]: Json;
}

export interface ShellPlanning {
  readonly input: unknown;
  readonly environment: Readonly<Record<string, string>>;
  readonly pathVariable: string | undefined;
}

/**
 * Where, with what and over which files a script will run.
 *
 * @throws {Refusal} TARGET_REFUSED when the working directory is missing or leaves the workspace, or no program takes the script
 */
export function shellScene({ cli, tool }: CliTool, { input, environment, pathVariable }: ShellPlanning): ShellScene {
  const workspace = realDirectory(cli.shell?.workspace ?? "");
  if (workspace === undefined) {
    throw new Refusal("TARGET_UNAVAILABLE", "The workspace cannot be used.", {
      cause: new Error("workspace.project is not a directory"),
    });
  }
  const cwd = within(workspace, cli.cwd?.(input as never) ?? ".");
  const argv = [...cli.argsBuilder(input as never, {} as never)];
  refuseTooLong(argv, environment);
  const script = argv.at(-1);
  const isForm = argv.length === SHELL_ARGV.length + 1 && SHELL_ARGV.every((token, at) => argv[at] === token);
  if (!isForm || typeof script !== "string") {
    throw new Refusal("INTERNAL", "The command could not be built.", {
      cause: new Error(`a shell is started as ${SHELL_ARGV.join(" ")} and one script`),
    });
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

/** The directory below the workspace that a relative path leads to, links followed. */
function within(workspace: string, path: string): string {
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

/** The path of a directory with its links followed; undefined when there is none. */
export function realDirectory(path: string): string | undefined {
  try {
    const real = realpathSync(path);
    return isAbsolute(path) && statSync(real).isDirectory() ? real : undefined;
  } catch {
    return undefined;
  }
}

/**
 * How a script ended, as an answer: whatever its exit code, and however much it wrote. One that was ended by a signal has the
 * exit code that a shell reports for it.
 *
 * @throws {Refusal} for a script that could not be run or was cut off; by the deadline, with its output so far
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

/** The text without what follows its last white space: the script may have been about to write the second half of a secret. */
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
