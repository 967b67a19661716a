import { Argument, InvalidArgumentError, Option, Command as Parser } from "commander";
import { DURATION_HINT, readDuration, readTime, TIME_HINT } from "../audit/query/time-range.ts";
import { TENANT_NAME, TENANT_NAME_RULE } from "../core/tenant-names.ts";
import { VERSION } from "../core/version.ts";
import { CommandError, EXIT, print, StdoutError } from "./output.ts";

export interface ValueKind<T> {
  readonly placeholder: string;
  /** Returns undefined for a text that is not such a value. */
  readonly read: (text: string) => T | undefined;
  readonly expected: string;
  /** Returns how a default is shown in the help, where it is not the text that is typed. */
  shown?(value: T): string;
  readonly choices?: readonly string[];
}

/** Any text; the placeholder says what it means. */
export function text(placeholder: string): ValueKind<string> {
  return { placeholder, read: (typed) => typed, expected: "" };
}

export const wholeNumber: ValueKind<number> = {
  placeholder: "count",
  read: (typed) => (/^\d{1,6}$/.test(typed) ? Number(typed) : undefined),
  expected: "must be a whole number from 0 to 999999",
};

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 };

/** A length of time such as `30s`, `15m` or `1h`, in seconds. */
export function duration(secondsMax: number): ValueKind<number> {
  return {
    placeholder: "duration",
    read(typed) {
      const [, amount, unit = ""] = /^(\d{1,6})([smh])$/.exec(typed) ?? [];
      const seconds = Number(amount) * (SECONDS[unit] ?? Number.NaN);
      return seconds >= 1 && seconds <= secondsMax ? seconds : undefined;
    },
    shown(seconds) {
      const unit = ["h", "m"].find((one) => seconds % (SECONDS[one] ?? 1) === 0) ?? "s";
      return `${seconds / (SECONDS[unit] ?? 1)}${unit}`;
    },
    expected: `write it as 30s, 15m or 1h; no service accepts more than ${secondsMax / 3_600}h`,
  };
}

/** A point in time. Only the syntax is checked: the service evaluates the time with its own clock. */
export const time: ValueKind<string> = {
  placeholder: "time",
  read: (typed) => (readTime(typed, 0) === undefined ? undefined : typed),
  expected: `must be ${TIME_HINT}`,
};

/** A moment with its zone, which may be in the future. */
export const instant: ValueKind<string> = {
  placeholder: "time",
  read: (typed) => (/[Zz]$|[+-]\d{2}:\d{2}$/.test(typed) && readTime(typed, 0) !== undefined ? typed : undefined),
  expected: "must be a time with its zone, such as 2026-02-16T12:30:00Z",
};

/** A length of time of up to a year, such as `30m`, `8h` or `7d`, in seconds. */
export const longDuration: ValueKind<number> = {
  placeholder: "duration",
  read(typed) {
    const seconds = (readDuration(typed) ?? Number.NaN) / 1_000;
    return seconds <= 31_536_000 ? seconds : undefined;
  },
  expected: `must be ${DURATION_HINT}, of at most 365d`,
};

export const digest: ValueKind<string> = {
  placeholder: "digest",
  read: (typed) => (/^[0-9a-f]{64}$/.test(typed) ? typed : undefined),
  expected: "must be 64 digits and letters from a to f",
};

export const tenantName: ValueKind<string> = {
  placeholder: "name",
  read: (typed) => (TENANT_NAME.test(typed) ? typed : undefined),
  expected: TENANT_NAME_RULE,
};

export function choice<T extends string>(placeholder: string, choices: readonly T[]): ValueKind<T> {
  return { placeholder, choices, read: (typed) => choices.find((one) => one === typed), expected: "" };
}

/** An option of a command. Its name is its key: `caFile` is `--ca-file`. `T` is the type of its value. */
export interface CommandOption<T = unknown> {
  readonly help: string;
  /** Undefined for a flag. */
  readonly kind?: ValueKind<unknown>;
  /** One letter: `n` for `-n`. */
  readonly short?: string;
  readonly isRequired?: boolean;
  readonly fallback?: T;
  /** `repeated`: given again for each value. `list`: followed by several values. */
  readonly many?: "repeated" | "list";
  /** Key of an option that cannot be given together with this one. */
  readonly excludes?: string;
  /** Former name of another option: accepted, and not shown in the help. */
  readonly isFormer?: true;
}

type Details = Pick<CommandOption, "short" | "excludes" | "isFormer">;

export function flag(help: string, details: Details = {}): CommandOption<boolean | undefined> {
  return { help, ...details };
}

export function option<T>(kind: ValueKind<T>, help: string, details: Details = {}): CommandOption<T | undefined> {
  return { kind, help, ...details };
}

export function required<T>(kind: ValueKind<T>, help: string): CommandOption<T> {
  return { kind, help, isRequired: true };
}

export function defaulted<T>(
  kind: ValueKind<T>,
  { help, fallback, short }: { readonly help: string; readonly fallback: T; readonly short?: string },
): CommandOption<T> {
  return { kind, help, fallback, ...(short !== undefined && { short }) };
}

export function repeated<T>(kind: ValueKind<T>, help: string): CommandOption<readonly T[]> {
  return { kind, help, fallback: [], many: "repeated" };
}

export function list<T>(kind: ValueKind<T>, help: string): CommandOption<readonly T[] | undefined> {
  return { kind, help, many: "list" };
}

interface CommandArgument<T = unknown> {
  readonly kind: ValueKind<T>;
  readonly help: string;
  readonly fallback?: T;
  /** The last argument may be given several times. */
  readonly isList?: true;
}

/** Any number of positional arguments, after all others. */
export function remaining<T>(kind: ValueKind<T>, help: string): CommandArgument<readonly T[]> {
  return { kind: kind as ValueKind<never>, help, fallback: [], isList: true };
}

/** A positional argument; `fallback` makes it optional. */
export function argument<T>(kind: ValueKind<T>, help = "", fallback?: T): CommandArgument<T> {
  return { kind, help, ...(fallback !== undefined && { fallback }) };
}

type Options = Readonly<Record<string, CommandOption>>;
type Arguments = Readonly<Record<string, CommandArgument>>;
type None = Readonly<Record<never, never>>;

type OptionalKeys<O extends Options> = {
  [K in keyof O]: O[K] extends CommandOption<infer T> ? (undefined extends T ? K : never) : never;
}[keyof O];

/** The values of options, as `run` receives them: an option that was not given is absent. */
export type OptionValues<O extends Options> = {
  readonly [K in Exclude<keyof O, OptionalKeys<O>>]: O[K] extends CommandOption<infer T> ? T : never;
} & { readonly [K in OptionalKeys<O>]?: O[K] extends CommandOption<infer T> ? Exclude<T, undefined> : never };

type ArgumentValues<A extends Arguments> = {
  readonly [K in keyof A]: A[K] extends CommandArgument<infer T> ? T : never;
};

type Exits = Readonly<Record<number, string>>;

/** Options that several commands share, with the exit codes that they add. */
interface OptionGroup<O extends Options> {
  readonly options: O;
  readonly exits: Exits;
}

export const JSON_FLAG = flag("print JSON");

/** Options of commands that load the configuration of the whole service. */
export const CONFIGURED_SERVICE = {
  options: {
    config: option(text("file"), "configuration file (default: STC_CONFIG)"),
    dev: flag("development mode: on loopback, with its own keys and targets", { excludes: "config" }),
  },
  exits: { 78: "the configuration is invalid" },
} as const satisfies OptionGroup<Options>;

/** Options of commands that load the configuration of the service itself or of one of its tenants. */
export const CONFIGURED = {
  options: {
    ...CONFIGURED_SERVICE.options,
    tenant: option(tenantName, "the tenant that is meant, instead of the service itself"),
  },
  exits: CONFIGURED_SERVICE.exits,
} as const satisfies OptionGroup<Options>;

/** Options for a service behind TLS. */
export const TLS = {
  caFile: option(text("file"), "certificate authorities to trust, PEM (default: STC_CA_FILE, else the system's)"),
  clientCertFile: option(text("file"), "client certificate to present, PEM (default: STC_CLIENT_CERT_FILE)"),
  clientKeyFile: option(text("file"), "its private key, PEM (default: STC_CLIENT_KEY_FILE)"),
} as const;

export const URL_OPTION = option(text("url"), "the service (default: STC_URL, else this machine at STC_PORT or 8787)");

/** Options of commands that query a running service. */
export const CLIENT = {
  options: {
    url: URL_OPTION,
    tokenFile: option(text("file"), 'file that contains the token, "-" for standard input (default: STC_TOKEN_FILE)'),
    ...TLS,
    json: JSON_FLAG,
  },
  exits: { 1: "refused or failed", 2: "the service does not answer" },
} as const satisfies OptionGroup<Options>;

interface Declaration<A extends Arguments, G extends Options, O extends Options> {
  /** The words after `stc`: `audit query`. */
  readonly name: string;
  readonly summary: string;
  readonly arguments?: A;
  readonly uses?: OptionGroup<G>;
  readonly options?: O;
  /** Exit codes that differ from the group's, and from 0 (done) and 64 (wrong usage). */
  readonly exits?: Exits;
  /** Runs the command and sets `process.exitCode`. Imports the implementation here, not at the top of the file. */
  readonly run: (
    args: ArgumentValues<A>,
    options: OptionValues<G & O>,
    /** All commands of `stc`. */
    commands: readonly Command[],
  ) => void | Promise<void>;
}

/** A command of `stc`, or a group of commands when it has no `run`. */
export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly arguments: Arguments;
  readonly options: Options;
  readonly exits: Exits;
  readonly run?: (args: never, options: never, commands: readonly Command[]) => void | Promise<void>;
}

/** Declares a command; parsing, help and the table in `docs/commands.md` are derived from it. */
export function command<A extends Arguments = None, G extends Options = None, O extends Options = None>(
  declaration: Declaration<A, G, O>,
): Command {
  const { uses, exits, ...own } = declaration;
  return {
    ...own,
    arguments: own.arguments ?? {},
    options: { ...uses?.options, ...own.options },
    exits: { 0: "done", [EXIT.usage]: "wrong usage", ...uses?.exits, ...exits },
  };
}

/** Declares a group of commands, such as `audit`. Declare the group before its commands. */
export function group(name: string, summary: string): Command {
  return { name, summary, arguments: {}, options: {}, exits: {} };
}

export type CommandFile = () => Promise<{ readonly commands: readonly Command[] }>;

export async function loadCommands(files: readonly CommandFile[]): Promise<readonly Command[]> {
  return (await Promise.all(files.map((load) => load()))).flatMap(({ commands }) => commands);
}

/** Returns the flag of an option: `--ca-file` for `caFile`. */
export function flagOf(key: string): string {
  return `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Returns how an argument is written in the help: `<tool>`, or `[args]` when it may be left out, `[tools...]` for a list. */
export function usageOf(name: string, { fallback, isList }: CommandArgument): string {
  if (isList === true) return `[${name}...]`;
  return fallback === undefined ? `<${name}>` : `[${name}]`;
}

/**
 * Runs `stc` with these words. Sets the exit code; exits at once after a usage error, help, or output that cannot be written.
 */
export async function runStc(files: readonly CommandFile[], words: readonly string[]): Promise<void> {
  try {
    await parserOf(await loadCommands(files)).parseAsync(words, { from: "user" });
  } catch (error) {
    if (error instanceof StdoutError) {
      if (!error.isReaderGone) print.error(error.message);
      process.exit(error.exitCode);
    }
    if (!(error instanceof CommandError)) return reportError(error);
    if (error.message !== "") print.error(error.message);
    process.exitCode = error.exitCode;
  }
}

/** Prints an error other than `CommandError`. Exits at once unless the configuration caused it. */
async function reportError(error: unknown): Promise<void> {
  const { inspect } = await import("node:util");
  const { StartupError } = await import("../core/errors.ts");
  const { filterSecrets } = await import("../detection/sensitive.ts");
  const isMistake = error instanceof StartupError;
  // Filters every message: it may contain an address with a password, a header, or the error of a manifest.
  print.error(filterSecrets(isMistake ? error.message : inspect(error)).text);
  if (!isMistake) process.exit(1);
  process.exitCode = EXIT.configuration;
}

const COMMON_EXITS: Exits = {
  0: "done",
  [EXIT.usage]: "wrong usage",
  [EXIT.cannotWrite]: "the output cannot be written",
  [EXIT.configuration]: "the configuration is invalid",
  [EXIT.readerGone]: "the reader of the output has exited",
};

function parserOf(commands: readonly Command[]): Parser {
  const program = new Parser("stc")
    .description("Safe Tool Call: the governed tool-call proxy")
    .version(VERSION)
    .showHelpAfterError()
    .addHelpText("after", `${exitsText(COMMON_EXITS)}\nThe help of a command lists its other exit codes.`)
    .configureOutput({ writeOut: print.part, writeErr: print.errorPart })
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : EXIT.usage))
    .helpCommand(false)
    .enablePositionalOptions();
  for (const declared of commands) define(program, declared, commands);
  program
    .command("help")
    .description("Show the help of a command, such as: help audit query")
    .argument("[command...]")
    .action((words: readonly string[]) => {
      let found = program;
      for (const word of words) found = childOf(found, word) ?? found.error(`error: unknown command '${word}'`);
      found.help();
    });
  return program;
}

function childOf(parent: Parser, name: string): Parser | undefined {
  return parent.commands.find((child) => child.name() === name);
}

function define(
  program: Parser,
  { name, summary, exits, run, ...declared }: Command,
  commands: readonly Command[],
): void {
  const path = name.split(" ");
  const parent = path.slice(0, -1).reduce((at, word) => childOf(at, word) ?? at.command(word), program);
  const parser = parent.command(path.at(-1) ?? name).description(summary);
  if (run === undefined) return;
  const argumentsOf = Object.entries(declared.arguments);
  for (const [key, one] of argumentsOf) parser.addArgument(argumentOf(key, one));
  for (const [key, one] of Object.entries(declared.options)) parser.addOption(optionOf(key, one));
  parser.addHelpText("after", exitsText(exits)).action(async (...given: readonly unknown[]) => {
    const args = Object.fromEntries(argumentsOf.map(([key], at) => [key, given[at]]));
    await run(args as never, parser.opts() as never, commands);
  });
}

function argumentOf(key: string, one: CommandArgument): Argument {
  const parsed = new Argument(usageOf(key, one), one.help);
  if (one.kind.choices !== undefined) parsed.choices(one.kind.choices);
  else if (one.isList === true) {
    parsed.argParser((typed, before: readonly unknown[] | undefined) => [
      ...(before ?? []),
      parseValue(one.kind, typed),
    ]);
  } else parsed.argParser((typed) => parseValue(one.kind, typed));
  return one.fallback === undefined ? parsed : parsed.default(one.fallback, one.isList === true ? "none" : undefined);
}

function optionOf(key: string, { help, kind, short, fallback, many, ...rest }: CommandOption): Option {
  const value = kind === undefined ? "" : ` <${kind.placeholder}${many === "list" ? "..." : ""}>`;
  const parsed = new Option(`${short === undefined ? "" : `-${short}, `}${flagOf(key)}${value}`, help);
  if (kind?.choices !== undefined) parsed.choices(kind.choices);
  else if (kind !== undefined && many === undefined) parsed.argParser((typed) => parseValue(kind, typed));
  else if (kind !== undefined) {
    parsed.argParser((typed, before: readonly unknown[] | undefined) => [...(before ?? []), parseValue(kind, typed)]);
  }
  const shown = Array.isArray(fallback) ? "none" : (kind as ValueKind<never> | undefined)?.shown?.(fallback as never);
  if (fallback !== undefined) parsed.default(fallback, shown);
  const { excludes = [], isRequired = false, isFormer = false } = rest;
  return parsed.conflicts(excludes).makeOptionMandatory(isRequired).hideHelp(isFormer);
}

function parseValue<T>({ read, expected }: ValueKind<T>, typed: string): T {
  const value = read(typed);
  if (value === undefined) throw new InvalidArgumentError(expected);
  return value;
}

function exitsText(exits: Exits): string {
  const lines = Object.entries(exits).map(([code, meaning]) => `  ${code.padEnd(3)}  ${meaning}`);
  return `\nExit codes:\n${lines.join("\n")}`;
}
