import { isAbsolute } from "node:path";
import { type Fault, ManifestError } from "../../core/errors.ts";
import type { CliTarget, StdoutParser, Tool } from "../../core/types.ts";
import { tokenFault } from "./argv.ts";
import { environmentFaults } from "./environment.ts";
import { exampleFaults, type FreeText, freeTextOf } from "./examples.ts";
import { onlyStringField } from "./parser.ts";

const LOOKUPS_MAX = 16;
const EXIT_CODE_MAX = 255;
const MEANINGS = new Set<unknown>([
  ...["OK", "NOT_FOUND", "ALREADY_EXISTS", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"],
]);

/** A command-line tool whose manifest is valid with this configuration. */
export interface CliTool {
  readonly tool: Tool;
  /** Absolute path. */
  readonly command: string;
  readonly cli: CliTarget["cli"];
  readonly options: readonly string[];
  readonly parse: StdoutParser;
  readonly textField: string | undefined;
  readonly freeText: FreeText;
}

/**
 * Joins a tool to the command that the configuration allows.
 *
 * @throws {ManifestError} listing every reason why the tool can never work here
 */
export function cliTool(tool: Tool, commands: ReadonlyMap<string, string>): CliTool {
  if (!("cli" in tool.target)) {
    throw new ManifestError(tool.name, [{ field: "target", message: "is not a command" }]);
  }
  const { cli } = tool.target;
  const { parse = "text", options = [] } = cli;
  const command = commands.get(cli.command);
  const textField = onlyStringField(tool.output);
  const freeText = freeTextOf(tool, cli, options);
  const faults = [
    ...commandFaults(cli.command, command),
    ...optionFaults(options),
    ...lookupFaults(cli.lookups),
    ...(typeof cli.environment === "function" ? [] : environmentFaults(cli.environment ?? {})),
    ...exitCodeFaults(cli.exitCodes ?? {}),
    ...stderrFaults(cli.stderrMeans ?? []),
    ...(cli.shell === undefined ? parseFaults(parse, textField) : []),
    ...exampleFaults(tool, freeText),
  ];
  if (command === undefined || faults.length > 0) throw new ManifestError(tool.name, faults);
  return { tool, command, cli, options, parse, textField, freeText };
}

function commandFaults(name: string, command: string | undefined): readonly Fault[] {
  const field = "target.cli.command";
  if (command === undefined) {
    return [{ field, message: `${name} is not among the commands that the configuration allows (commands.allowed)` }];
  }
  return isAbsolute(command) ? [] : [{ field, message: "was not resolved to an absolute path" }];
}

function optionFaults(options: readonly string[]): readonly Fault[] {
  return options.flatMap((option, index) => {
    const isOption = tokenFault(option) === undefined && option.startsWith("-") && option !== "--";
    return isOption ? [] : [{ field: `target.cli.options[${index}]`, message: 'must be a token that begins with "-"' }];
  });
}

function lookupFaults(lookups: CliTarget["cli"]["lookups"]): readonly Fault[] {
  const field = "target.cli.lookups";
  return Object.keys(lookups ?? {}).length > LOOKUPS_MAX ? [{ field, message: `has more than ${LOOKUPS_MAX}` }] : [];
}

function exitCodeFaults(exitCodes: Readonly<Record<string, unknown>>): readonly Fault[] {
  return Object.entries(exitCodes).flatMap(([code, meaning]) => {
    const isCode = /^(0|[1-9][0-9]{0,2})$/.test(code) && Number(code) <= EXIT_CODE_MAX;
    if (isCode && MEANINGS.has(meaning)) return [];
    return [{ field: "target.cli.exitCodes", message: `must map 0 to ${EXIT_CODE_MAX} to "OK" or a status` }];
  });
}

/** Shorter literals occur in texts by chance. */
const LITERAL_CHARS = { min: 8, max: 128 } as const;
const STDERR_MEANINGS_MAX = 16;

function stderrFaults(meanings: unknown): readonly Fault[] {
  const field = "target.cli.stderrMeans";
  if (!Array.isArray(meanings) || meanings.length > STDERR_MEANINGS_MAX) {
    return [{ field, message: `must be a list of at most ${STDERR_MEANINGS_MAX}` }];
  }
  const message = `must be { starts or contains, means }: ${LITERAL_CHARS.min} to ${LITERAL_CHARS.max} printable ASCII characters, and a status`;
  return meanings.flatMap((meaning: unknown, index) =>
    isStderrMeaning(meaning) ? [] : [{ field: `${field}[${index}]`, message }],
  );
}

function isStderrMeaning(meaning: unknown): boolean {
  if (typeof meaning !== "object" || meaning === null) return false;
  const { starts, contains, means, ...others } = meaning as Readonly<Record<string, unknown>>;
  const literal = starts ?? contains;
  if (Object.keys(others).length > 0 || (starts === undefined) === (contains === undefined)) return false;
  if (means === "OK" || !MEANINGS.has(means) || typeof literal !== "string") return false;
  return literal.length >= LITERAL_CHARS.min && literal.length <= LITERAL_CHARS.max && /^[\x20-\x7e]*$/.test(literal);
}

function parseFaults(parse: StdoutParser, textField: string | undefined): readonly Fault[] {
  if (parse !== "text" || textField !== undefined) return [];
  const message = 'is "text" (the default), which needs an output schema that is an object with one string field';
  return [{ field: "target.cli.parse", message }];
}
