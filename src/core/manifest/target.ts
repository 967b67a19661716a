import type { Fault } from "../errors.ts";
import { isTable } from "../json.ts";
import { isSynchronous, isText, type Unread, unknownKeys, unless, wholeNumber } from "./checks.ts";

const COMMAND = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$/;

const SYSTEM = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

const OPTION = /^--?[A-Za-z0-9][^\s\0]*$/;

/**
 * Programs whose arguments are programs: shells, interpreters, launchers of other programs. The argv rules cannot restrict
 * them.
 */
const INTERPRETERS: ReadonlySet<string> = new Set([
  ..."sh bash rbash dash ash zsh ksh mksh yash posh fish csh tcsh nu xonsh elvish busybox toybox git-shell".split(" "),
  ..."env xargs parallel sudo doas su runuser pkexec gosu su-exec ssh rsh sshpass nohup setsid timeout time nice".split(
    " ",
  ),
  ..."ionice taskset chrt prlimit setpriv capsh flock stdbuf unbuffer watch script expect eval exec at batch".split(
    " ",
  ),
  ..."chroot unshare nsenter bwrap firejail proot fakeroot systemd-run start-stop-daemon tini dumb-init".split(" "),
  ..."strace ltrace gdb lldb tmux screen socat ld.so".split(" "),
  ..."python pypy ipython perl ruby irb jruby node nodejs bun bunx deno npx npm pnpm yarn tsx ts-node uv uvx php php-cgi lua luajit".split(
    " ",
  ),
  ..."awk gawk mawk nawk sed m4 tclsh wish osascript powershell pwsh cmd make gmake cargo go dotnet swift".split(" "),
  ..."java jshell groovy scala r rscript julia erl elixir iex ghci guile ocaml vi vim nvim emacs ed ex".split(" "),
]);

/** Returns whether a command is an interpreter. Version and case are ignored: `python3.12`, `Rscript` and `bash5` count. */
function isInterpreter(command: string): boolean {
  return INTERPRETERS.has(command.toLowerCase().replace(/[0-9.]*$/, ""));
}

/** Returns the errors in a tool's target: exactly one target must be given, and each part of it must be valid. */
export function target(manifest: Unread): readonly Fault[] {
  const { target: aimed, handler } = manifest;
  if (handler !== undefined) {
    if (typeof handler !== "function") return [{ field: "handler", message: "must be a function" }];
    if (aimed === undefined) return [];
    if (!isTable(aimed)) return [{ field: "target", message: "must be an object" }];
    return [...system(aimed), ...unknownKeys("target", aimed, ["system"])];
  }
  if (!isTable(aimed)) return [{ field: "target", message: "must name a system and grpc, cli, fs or handler" }];
  const kinds = ["grpc", "cli", "fs", "handler"].filter((kind) => kind in aimed);
  const [kind] = kinds;
  if (kinds.length !== 1 || kind === undefined) {
    return [{ field: "target", message: "must have exactly one of grpc, cli, fs, handler" }, ...system(aimed)];
  }
  return [
    ...system(aimed),
    ...unknownKeys("target", aimed, ["system", kind]),
    ...TARGETS[kind as keyof typeof TARGETS](aimed[kind], manifest),
  ];
}

function system({ system: name }: Unread): readonly Fault[] {
  return unless(isText(name) && SYSTEM.test(name), "target.system", "must name the system that the tool reaches");
}

const TARGETS = {
  handler: (handler: unknown) => unless(typeof handler === "function", "target.handler", "must be a function"),
  grpc: (grpc: unknown) => {
    if (!isTable(grpc)) return [{ field: "target.grpc", message: "must be { package, service, method }" }];
    return [
      ...["package", "service", "method"].flatMap((key) =>
        unless(isText(grpc[key]) && grpc[key] !== "", `target.grpc.${key}`, "must be a name"),
      ),
      ...streamFaults(grpc["stream"]),
      ...unknownKeys("target.grpc", grpc, ["package", "service", "method", "stream"]),
    ];
  },
  cli: cliFaults,
  fs: fsFaults,
} as const;

const FS_READS = ["list", "read", "search"];
const FS_WRITES = ["write", "apply_patch"];

function fsFaults(fs: unknown, { classification }: Unread): readonly Fault[] {
  if (!isTable(fs)) return [{ field: "target.fs", message: "must be { operation }" }];
  const operation = fs["operation"];
  const isWrite = isText(operation) && FS_WRITES.includes(operation);
  return [
    ...unknownKeys("target.fs", fs, ["operation"]),
    ...unless(
      isText(operation) && [...FS_READS, ...FS_WRITES].includes(operation),
      "target.fs.operation",
      `must be one of ${[...FS_READS, ...FS_WRITES].join(", ")}`,
    ),
    ...unless(!isWrite || classification !== "read", "classification", `read cannot ${String(operation)} files`),
  ];
}

const STREAM_ITEMS_MAX = 100_000;
const STREAM_BYTES_MAX = 67_108_864;

function streamFaults(stream: unknown): readonly Fault[] {
  if (stream === undefined) return [];
  const field = "target.grpc.stream";
  if (!isTable(stream)) return [{ field, message: "must be { itemsMax, bytesMax }" }];
  return [
    ...unless(
      wholeNumber(stream["itemsMax"], STREAM_ITEMS_MAX),
      `${field}.itemsMax`,
      `must be a whole number from 1 to ${STREAM_ITEMS_MAX}`,
    ),
    ...unless(
      wholeNumber(stream["bytesMax"], STREAM_BYTES_MAX),
      `${field}.bytesMax`,
      `must be a whole number from 1 to ${STREAM_BYTES_MAX}`,
    ),
    ...unknownKeys(field, stream, ["itemsMax", "bytesMax"]),
  ];
}

const AT_ONCE = ", and not async";

const CLI_KEYS = [
  "command",
  "cwd",
  "options",
  "lookups",
  "argsBuilder",
  "environment",
  "parse",
  "exitCodes",
  "shell",
  "stderrMeans",
  "confinement",
];

function cliFaults(cli: unknown, manifest: Unread): readonly Fault[] {
  if (!isTable(cli)) return [{ field: "target.cli", message: "must be { command, argsBuilder, … }" }];
  const { command, cwd, environment, options, lookups, argsBuilder, parse } = cli;
  const isCommand = isText(command) && COMMAND.test(command);
  return [
    ...unknownKeys("target.cli", cli, CLI_KEYS),
    ...unless(isCommand, "target.cli.command", "must be a plain command name; the configuration says where it is"),
    ...unless(
      !isCommand || !isInterpreter(command) || isDeclaredShell(cli, manifest),
      "target.cli.command",
      `${String(command)} is a shell or interpreter: its arguments are programs`,
    ),
    ...shellFaults(cli, manifest),
    ...confinementFaults(cli["confinement"]),
    ...unless(
      isSynchronous(argsBuilder),
      "target.cli.argsBuilder",
      `must be a function that returns the argv${AT_ONCE}`,
    ),
    ...unless(cwd === undefined || isSynchronous(cwd), "target.cli.cwd", `must be a function of the input${AT_ONCE}`),
    ...unless(
      typeof environment !== "function" || isSynchronous(environment),
      "target.cli.environment",
      `must be a table, or a function of the input${AT_ONCE}`,
    ),
    ...unless(
      options === undefined ||
        (Array.isArray(options) && options.every((option) => isText(option) && OPTION.test(option))),
      "target.cli.options",
      'must list the tokens that may begin with "-": "-x", "--name" or "--name="',
    ),
    ...unless(
      lookups === undefined || (isTable(lookups) && Object.values(lookups).every(isSynchronous)),
      "target.cli.lookups",
      `must map names to functions of the input${AT_ONCE}`,
    ),
    ...unless(
      parse === undefined || parse === "text" || parse === "json" || typeof parse === "function",
      "target.cli.parse",
      'must be "text", "json" or a function of stdout',
    ),
  ];
}

const FIELD = "target.cli.confinement";
const KEYS = ["reads", "writes", "network", "runs", "temporaryDirectory"];
const PORT_MAX = 65_535;

/** Returns the errors in a manifest's `target.cli.confinement`. One that is built from the input is checked when it is built. */
function confinementFaults(confinement: unknown): readonly Fault[] {
  if (confinement === undefined) return [];
  if (typeof confinement === "function") {
    return unless(isSynchronous(confinement), FIELD, "must be a table, or a function of the input, and not async");
  }
  if (!isTable(confinement)) return [{ field: FIELD, message: "must be { reads?, writes?, network?, runs?, … }" }];
  const { reads, writes, network, runs, temporaryDirectory } = confinement;
  return [
    ...unknownKeys(FIELD, confinement, KEYS),
    ...unless(isPaths(reads), `${FIELD}.reads`, "must list absolute paths"),
    ...unless(isPaths(writes), `${FIELD}.writes`, "must list absolute paths"),
    ...unless(isNetwork(network), `${FIELD}.network`, `must be "system", or list TCP ports from 1 to ${PORT_MAX}`),
    ...unless(
      runs === undefined || runs === "command" || runs === "system",
      `${FIELD}.runs`,
      'must be "command" or "system"',
    ),
    ...unless(
      temporaryDirectory === undefined || typeof temporaryDirectory === "boolean",
      `${FIELD}.temporaryDirectory`,
      "must be true or false",
    ),
  ];
}

function isPaths(paths: unknown): boolean {
  if (paths === undefined) return true;
  return Array.isArray(paths) && paths.every((path) => isText(path) && path.startsWith("/") && !path.includes("\0"));
}

function isNetwork(network: unknown): boolean {
  if (network === undefined || network === "system") return true;
  const isPort = (port: unknown): boolean => Number.isInteger(port) && Number(port) >= 1 && Number(port) <= PORT_MAX;
  return Array.isArray(network) && network.every(isPort);
}

/** The only shell that a tool may run. */
const SHELL = "bash";

/**
 * Returns whether a manifest may use a shell: it must declare `target.cli.shell`, and every call must need approval. The tool's
 * name does not matter, and the configuration must allow the shell as well.
 */
function isDeclaredShell(cli: Unread, { approval, category, classification }: Unread): boolean {
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
function shellFaults(cli: Unread, manifest: Unread): readonly Fault[] {
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
      lookups === undefined,
      "target.cli.lookups",
      "are not for a shell: they would run before anybody was asked",
    ),
  ];
}
