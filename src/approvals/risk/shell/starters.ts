import { byName, words } from "../names.ts";
import { type Invocation, operandsOf } from "./invocation.ts";
import { type Option, type Options, optionsOf } from "./options.ts";

/** Of a program that can be told to start another one: all options that decide how words are read, and those that do it. */
interface Starter {
  readonly options?: Options;
  readonly starts?: readonly string[];
  /** For what is no option. */
  readonly pattern?: RegExp;
}

const TAR_STARTS = words("checkpoint-action to-command use-compress-program info-script new-volume-script rsh-command");
const TAR: Options = {
  letters: "AcdrtuxhijJkllmMnOopPRsSUvwWzZaB",
  valued: "bCfFgHIKLNTVX",
  valuedLongs: [
    ...TAR_STARTS,
    "directory",
    "file",
    "exclude",
    "files-from",
    "transform",
    "strip-components",
    "rmt-command",
  ],
  longs: words(
    "list extract get create append update concatenate catenate delete diff compare absolute-names one-top-level",
  ),
};

/** The first word of tar needs no dash. */
export function tarOptions([first = "", ...rest]: readonly string[]): readonly Option[] {
  const isOld = /^[A-Za-z]{1,32}$/.test(first);
  if (!isOld) return optionsOf([first, ...rest], TAR).options;
  // Of letters in the old form each takes the next word that is left, in their order.
  const values = [...rest];
  const old = [...first].map((name) => ({
    name,
    value: TAR.valued?.includes(name) === true ? (values.shift() ?? "") : "",
  }));
  return [...old, ...optionsOf(values, TAR).options];
}

/** The options of tar that start programs, with what they start. */
export function tarActions(args: readonly string[]): readonly Option[] {
  return tarOptions(args).filter(
    ({ name, value }) => TAR_STARTS.includes(name) || name === "I" || name === "F" || isRemoteArchive(name, value),
  );
}

/** `host:archive` is fetched by a shell on that host. */
function isRemoteArchive(name: string, value: string): boolean {
  return (name === "f" || name === "file") && /^[^/]{1,255}:/.test(value);
}

const FD: Options = { letters: "HIsigFLapul01qrvVxX", valued: "tedESocjC", longs: ["exec", "exec-batch"] };

/** `-x`, `-X` and their long names, alone or in a cluster of fd. */
export function startsForEach(arg: string): boolean {
  return (
    arg.startsWith("-") && optionsOf([arg], FD).options.some(({ name }) => /^(?:[xX]|exec|exec-batch)$/.test(name))
  );
}

/** These options alone do it. */
function starterBy(...longs: readonly string[]): Starter {
  return { options: { valuedLongs: longs }, starts: longs };
}

const PAGED = starterBy("pager");
/** All but opening a file, at a line, in one of the plain ways. */
const EDITOR: Starter = {
  pattern: /^(?:-(?![RnNbdoOpvyZmMhV]{1,8}$|-(?:clean|version|help)?$|$|version$)|\+(?![0-9]{0,8}$))/,
};
const KEYS = starterBy("agent-program", "photo-viewer", "dirmngr-program", "exec-path", "pinentry-program");
const TRACER: Starter = { pattern: /^(?:-[a-zA-Z]{0,8}o)?\s{0,4}[|!]/ };
/** A plain replacement is none: the rest of the language may run whatever it likes. */
const RENAMER: Starter = {
  pattern:
    /^(?:s|y|tr)[^A-Za-z0-9].{0,256}[^A-Za-z0-9][gimsx]{0,4}e|`|@\{|\$\{|\(\?\??\{|^(?!(?:s|y|tr)[/|#,!]).{0,64}[;{(]/,
};
const CALLBACK: Starter = { options: { letters: "t", valued: "CcdnOsu" }, starts: ["C"] };
const COMPILER: Starter = { pattern: /^-(?:wrapper|fplugin|specs|B|plugin)/ };
const SYMBOLS = starterBy("plugin");

const STARTERS = byName<Starter>([
  ["sort", { options: { valuedLongs: ["compress-program"], longs: ["check"] }, starts: ["compress-program"] }],
  ["split", starterBy("filter")],
  ["install", { options: { valuedLongs: ["strip-program"], longs: ["strip"] }, starts: ["strip-program"] }],
  ["cloc", starterBy("extract-with")],
  ["cpio", starterBy("rsh-command")],
  ["rg", { pattern: /^--(?:pre|hostname-bin)(?:=|$)/ }],
  [
    "man",
    {
      options: {
        letters: "adDfiIkKlWwuctVZ7",
        valued: "PCLMSsreRmpT",
        attached: "HEX",
        valuedLongs: ["pager", "config-file"],
        longs: ["html"],
      },
      starts: ["P", "H", "C", "pager", "config-file", "html"],
    },
  ],
  [
    "less",
    {
      options: { valued: "kbhjoOpPtTxy#", valuedLongs: ["lesskey-file", "lesskey-src", "lesskey-content", "cmd"] },
      starts: ["k", "lesskey-file", "lesskey-src", "lesskey-content", "cmd"],
      pattern: /^\+{1,2}(?:.{0,256}[!|]|v)/,
    },
  ],
  ["vim vi nvim view vimdiff nvimdiff gvim gvimdiff rvim rview evim", EDITOR],
  ["ag ack bat batcat", PAGED],
  ["zip", { pattern: /^-[a-zA-Z0-9]{0,16}T|^--(?:unz|te)/ }],
  ["jq", { pattern: /^-[a-zA-Z]{0,16}L|^--library-path/ }],
  ["more", { pattern: /^\+.{0,256}!/ }],
  ["gpg gpg2 gpgv", KEYS],
  ["strace ltrace", TRACER],
  ["rename prename file-rename perl-rename", RENAMER],
  ["parallel", { pattern: /^(?:-S|--ssh|--slf|--basefile|--trc|--transfer|--return)/ }],
  ["tmux", { pattern: /^(?!-V$|ls$|list-[a-z]{1,16}$|has-session$|display-message$|show-options$|-[tF]$)./ }],
  ["screen", { pattern: /^(?!-ls$|-list$|-v$)./ }],
  ["go", { pattern: /^--?(?:toolexec|vettool|exec|modfile|overlay)(?:=|$)/ }],
  ["cargo", { pattern: /^--config(?:=|$)/ }],
  ["mapfile readarray", CALLBACK],
  ["compgen", { options: { letters: "abcdefgjksuv", valued: "CoAGWFXPS" }, starts: ["C", "F"] }],
  ["patch", { options: { letters: "bcelnNRstuvEfZT", valued: "dDFgiopBrVxYz", longs: ["ed"] }, starts: ["e", "ed"] }],
  ["dc", { pattern: /!|^-f|^--f|^[^-]/ }],
  ["ssh-keygen", { pattern: /^-[Dw]/ }],
  ["openssl", { pattern: /^-(?:engine|provider)/ }],
  ["gcc g++ cc c++ clang clang++ ld", COMPILER],
  ["nm objdump ar ranlib gcc-nm gcc-ar", SYMBOLS],
]);

/** An option that makes the program start another one, in whatever spelling it takes. */
export function startsProgram(run: Invocation): boolean {
  const { program, args } = run;
  if (program === "tar" || program === "gtar" || program === "bsdtar") return tarActions(args).length > 0;
  if (program === "fd" || program === "fdfind") return args.some(startsForEach);
  if (program === "sqlite3") return runsDotCommands(run);
  const starter = STARTERS.get(program);
  if (starter === undefined) return false;
  const { options = {}, starts = [], pattern } = starter;
  if (pattern !== undefined && args.some((arg) => pattern.test(arg))) return true;
  return optionsOf(args, options).options.some(({ name }) => starts.includes(name));
}

/** Its commands may also come in with what it reads, where no argument says what to do. */
function runsDotCommands({ args, input, readsInput }: Invocation): boolean {
  if (args.some((arg) => /^--?(?:init$|A)/.test(arg)) || [...args, ...input].some(isDotCommand)) return true;
  const operands = operandsOf(args, ["-cmd", "-separator", "-newline", "-nullvalue", "-vfs", "-mmap", "-maxsize"]);
  return readsInput && input.length === 0 && operands.length < 2 && !args.includes("-cmd");
}

const DOT_COMMANDS = words("shell system import output once load save backup archive cd excel clone log read restore");
const SQL_CODE = /load_extension|writefile|readfile|edit\(/i;

/** Of the program's own commands, which may be abbreviated, those that start programs or write files. */
function isDotCommand(arg: string): boolean {
  if (SQL_CODE.test(arg)) return true;
  return arg.split("\n", 64).some((line) => {
    const name = /^\s{0,16}\.([a-z]{1,16})/.exec(line)?.[1];
    return name !== undefined && DOT_COMMANDS.some((command) => command.startsWith(name));
  });
}
