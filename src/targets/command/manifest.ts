import { isAbsolute } from "node:path";
import { type Fault, ManifestError } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import {
  isBoolean,
  isSynchronous,
  isText,
  type KeyCheck,
  keyFaults,
  listOf,
  optional,
  type Unchecked,
  unknownKeys,
  unless,
} from "../../core/manifest/checks.ts";
import { onlyStringField } from "../../core/schema/walk.ts";
import type { CliTarget, StdoutParser, Tool } from "../../core/types.ts";
import { exampleFaults, type FreeText, freeTextOf, nameOf, tokenFault } from "./argv.ts";
import { environmentFaults } from "./environment.ts";

const COMMAND = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$/;

const OPTION = /^--?[A-Za-z0-9][^\s\0]*$/;
/** An option that takes the next tokens: `--arg <name> <value>`. */
const VALUE_OPTION = /^--?[A-Za-z0-9][^\s\0=]*(?: <[A-Za-z][A-Za-z0-9-]*>)+$/;

/** Shells, interpreters and programs that start other programs. Rules for the argv cannot restrict them. */
const INTERPRETERS: ReadonlySet<string> = new Set(
  `
  sh bash rbash dash ash zsh ksh mksh yash posh fish csh tcsh nu xonsh elvish busybox toybox git-shell env xargs
  parallel sudo doas su runuser pkexec gosu su-exec ssh rsh sshpass nohup setsid timeout time nice ionice taskset
  chrt prlimit setpriv capsh flock stdbuf unbuffer watch script expect eval exec at batch chroot unshare nsenter
  bwrap firejail proot fakeroot systemd-run start-stop-daemon tini dumb-init strace ltrace gdb lldb tmux screen
  socat ld.so python pypy ipython perl ruby irb jruby node nodejs bun bunx deno npx npm pnpm yarn tsx ts-node uv
  uvx php php-cgi lua luajit awk gawk mawk nawk sed m4 tclsh wish osascript powershell pwsh cmd make gmake cargo
  go dotnet swift java jshell groovy scala r rscript julia erl elixir iex ghci guile ocaml vi vim nvim emacs ed ex
  `
    .trim()
    .split(/\s+/),
);

/** Returns whether a command is an interpreter, in any version or case: `python3.12`, `Rscript`, `bash5`. */
function isInterpreter(command: string): boolean {
  return INTERPRETERS.has(command.toLowerCase().replace(/[0-9.]*$/, ""));
}

const PORT_MAX = 65_535;

const isOption = (option: unknown): boolean => isText(option) && (OPTION.test(option) || VALUE_OPTION.test(option));
const isPort = (port: unknown): boolean => Number.isInteger(port) && Number(port) >= 1 && Number(port) <= PORT_MAX;
const isAbsolutePath = (path: unknown): boolean => isText(path) && path.startsWith("/") && !path.includes("\0");

const CLI_KEYS = [
  ...["command", "cwd", "options", "lookups", "argsBuilder", "environment", "parse", "exitCodes", "shell"],
  ...["stderrMeans", "confinement"],
];
const CLI_CHECKS: readonly KeyCheck[] = [
  ["argsBuilder", isSynchronous, "must be a function that returns the argv, and not async"],
  [
    "cwd",
    optional((cwd) => (typeof cwd === "string" ? cwd !== "" && !cwd.includes("\0") : isSynchronous(cwd))),
    "must be a path, or a function of the input, and not async",
  ],
  [
    "environment",
    (environment) => typeof environment !== "function" || isSynchronous(environment),
    "must be a table, or a function of the input, and not async",
  ],
  [
    "options",
    optional(listOf(isOption)),
    'must list the tokens that may begin with "-": "-x", "--name", "--name=" or "--name <value>"',
  ],
  [
    "lookups",
    optional((lookups) => isTable(lookups) && Object.values(lookups).every(isSynchronous)),
    "must map names to functions of the input, and not async",
  ],
  [
    "parse",
    optional((parse) => parse === "text" || parse === "json" || typeof parse === "function"),
    'must be "text", "json" or a function of stdout',
  ],
];

const CONFINEMENT_CHECKS: readonly KeyCheck[] = [
  ["reads", optional(listOf(isAbsolutePath)), "must list absolute paths"],
  ["writes", optional(listOf(isAbsolutePath)), "must list absolute paths"],
  [
    "network",
    optional((network) => network === "system" || listOf(isPort)(network)),
    `must be "system", or list TCP ports from 1 to ${PORT_MAX}`,
  ],
  ["runs", optional((runs) => runs === "command" || runs === "system"), 'must be "command" or "system"'],
  ["temporaryDirectory", optional(isBoolean), "must be true or false"],
];

/** Returns the errors in a manifest's `target.cli`. */
export function cliFaults(cli: unknown, manifest: Unchecked): readonly Fault[] {
  const field = "target.cli";
  if (!isTable(cli)) return [{ field, message: "must be { command, argsBuilder, … }" }];
  const { command, confinement, cwd, shell } = cli;
  const isCommand = isText(command) && COMMAND.test(command);
  return [
    ...unknownKeys(field, cli, CLI_KEYS),
    ...unless(isCommand, `${field}.command`, "must be a plain command name; the configuration says where it is"),
    ...unless(
      !isCommand || !isInterpreter(command) || isDeclaredShell(cli, manifest),
      `${field}.command`,
      `${String(command)} is a shell or interpreter: its arguments are programs`,
    ),
    ...unless(
      typeof cwd !== "string" || isAbsolutePath(cwd) || shell !== undefined,
      `${field}.cwd`,
      "must be absolute",
    ),
    ...shellFaults(cli, manifest),
    ...confinementFaults(confinement),
    ...keyFaults(field, cli, CLI_CHECKS),
  ];
}

/** Returns the errors in a fixed profile. A profile that a function builds is checked at each call. */
function confinementFaults(confinement: unknown): readonly Fault[] {
  const field = "target.cli.confinement";
  if (confinement === undefined) return [];
  if (typeof confinement === "function") {
    return unless(isSynchronous(confinement), field, "must be a table, or a function of the input, and not async");
  }
  if (!isTable(confinement)) return [{ field, message: "must be { reads?, writes?, network?, runs?, … }" }];
  const keys = CONFINEMENT_CHECKS.map(([key]) => key);
  return [...unknownKeys(field, confinement, keys), ...keyFaults(field, confinement, CONFINEMENT_CHECKS)];
}

/** The only shell that a tool may run. */
const SHELL = "bash";

/** Returns whether a manifest may use a shell: it declares `target.cli.shell`, and every call needs approval. */
function isDeclaredShell(cli: Unchecked, { approval, category, classification }: Unchecked): boolean {
  return (
    cli["command"] === SHELL &&
    isTable(cli["shell"]) &&
    isTable(approval) &&
    approval["required"] === true &&
    category === "command" &&
    (classification === "write" || classification === "destructive")
  );
}

/** Returns the errors in a manifest's `target.cli.shell`. */
function shellFaults(cli: Unchecked, manifest: Unchecked): readonly Fault[] {
  const { shell, lookups } = cli;
  if (shell === undefined) return [];
  const field = "target.cli.shell";
  if (!isTable(shell)) return [{ field, message: "must be { workspace, timeoutMs? }" }];
  const { workspace, timeoutMs } = shell;
  return [
    ...unknownKeys(field, shell, ["workspace", "timeoutMs"]),
    ...unless(
      isDeclaredShell(cli, manifest),
      field,
      `is for ${SHELL} alone, category command, not read, and approval.required: true`,
    ),
    ...unless(isText(workspace) && workspace.startsWith("/"), `${field}.workspace`, "must be an absolute directory"),
    ...unless(
      timeoutMs === undefined || isSynchronous(timeoutMs),
      `${field}.timeoutMs`,
      "must be a function of the input, and not async",
    ),
    ...unless(
      !isTable(manifest["approval"]) || manifest["approval"]["grants"] === undefined,
      "approval.grants",
      "is not for shells: a script is approved as a whole",
    ),
    ...unless(lookups === undefined, "target.cli.lookups", "are not for a shell: they would run before the approval"),
  ];
}

const LOOKUPS_MAX = 16;
const EXIT_CODE_MAX = 255;
const MEANINGS = new Set<unknown>(
  "OK NOT_FOUND ALREADY_EXISTS INVALID_ARGUMENT FAILED_PRECONDITION OUT_OF_RANGE".split(" "),
);

/** A command tool whose manifest is valid with this configuration. */
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
 * Binds a tool to the command that the configuration allows.
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
    ...unless(
      command !== undefined,
      "target.cli.command",
      `${cli.command} is not among the commands that the configuration allows (commands.allowed)`,
    ),
    ...unless(
      command === undefined || isAbsolute(command),
      "target.cli.command",
      "was not resolved to an absolute path",
    ),
    ...optionFaults(options),
    ...unless(
      Object.keys(cli.lookups ?? {}).length <= LOOKUPS_MAX,
      "target.cli.lookups",
      `has more than ${LOOKUPS_MAX}`,
    ),
    ...(typeof cli.environment === "function" ? [] : environmentFaults(cli.environment ?? {})),
    ...exitCodeFaults(cli.exitCodes ?? {}),
    ...stderrFaults(cli.stderrMeans ?? []),
    ...unless(
      cli.shell !== undefined || parse !== "text" || textField !== undefined,
      "target.cli.parse",
      'is "text" (the default), which needs an output schema that is an object with one string field',
    ),
    ...exampleFaults(tool, freeText),
  ];
  if (command === undefined || faults.length > 0) throw new ManifestError(tool.name, faults);
  return { tool, command, cli, options, parse, textField, freeText };
}

function optionFaults(options: readonly string[]): readonly Fault[] {
  return options.flatMap((option, index) => {
    const isOption = tokenFault(option) === undefined && option.startsWith("-") && option !== "--";
    const field = `target.cli.options[${index}]`;
    if (!isOption) return [{ field, message: 'must be a token that begins with "-"' }];
    const isTwice = options.some((other, at) => at < index && other !== option && nameOf(other) === nameOf(option));
    return isTwice ? [{ field, message: "is declared before with other values" }] : [];
  });
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
