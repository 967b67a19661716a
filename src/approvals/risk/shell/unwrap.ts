import { words } from "../names.ts";
import { valuesOf } from "./invocation.ts";
import { UNKNOWN } from "./word.ts";

/** What stands behind a wrapper: the argv of another program, the text of another script, or something nobody can read. */
export type Wrapped =
  | {
      readonly argv: readonly string[];
      /** Where it is started, from where the wrapper stands. */
      readonly at?: string;
    }
  /** `words` are its `$0`, `$1` and so on. */
  | { readonly script: string; readonly dialect: "bash" | "other"; readonly words?: readonly string[] }
  | { readonly hidden: true };

/** A text that a shell like ours runs. */
export function asScript(script: string): Wrapped {
  return { script, dialect: "bash" };
}

export type Unwrap = (args: readonly string[], given: GivenInput) => readonly Wrapped[];

export interface GivenInput {
  /** Texts that come in on standard input: here-documents, here-strings, what `echo` says. */
  readonly input: readonly string[];
}

/** Options that take a value in the next word, and whether operands come before the program. */
export interface Prefix {
  readonly valued?: readonly string[];
  /**
   * The options that take no value in the next word. Where they are declared, any other option may take one: nobody can tell
   * where the program begins, so the script is opaque, and each word is tried.
   */
  readonly flags?: readonly string[];
  readonly operands?: number;
  /** `NAME=value` words before the program. */
  readonly assigns?: boolean;
}

/** Words that are tried as the beginning of a program. */
const CANDIDATES_MAX = 16;

/** The program begins at the first word that is neither an option, an option's value nor a leading operand. */
export function prefix({ valued = [], flags, operands = 0, assigns = false }: Prefix): Unwrap {
  return (args) => {
    let left = operands;
    for (let at = 0; at < args.length; at += 1) {
      const arg = args[at] ?? "";
      if (arg === "--") return rest(args, at + 1 + left);
      if (flags?.includes(arg) === true) continue;
      if (takesNext(arg, valued)) at += 1;
      else if (arg.startsWith("-") && arg !== "-") {
        if (flags !== undefined && !isFlag(arg, { valued, flags })) {
          return [{ hidden: true }, ...anywhere(args.slice(at + 1))];
        }
      } else if (assigns && /^[A-Za-z_][A-Za-z0-9_]*=/.test(arg)) continue;
      else if (left > 0) left -= 1;
      else return rest(args, at);
    }
    return [];
  };
}

/** Whether the next word is an option's value: of a letter alone or at a cluster's end, or of a long name, also abbreviated. */
function takesNext(arg: string, valued: readonly string[]): boolean {
  if (valued.includes(arg)) return true;
  if (arg.startsWith("--")) return arg.length > 2 && valued.some((name) => name.startsWith(arg));
  if (!/^-[A-Za-z0-9]{2,16}$/.test(arg)) return false;
  const first = [...arg.slice(1)].findIndex((letter) => valued.includes(`-${letter}`));
  return first === arg.length - 2;
}

/** Whether the option is known and the next word is not its value: a flag, several in a cluster, or an option with its value. */
function isFlag(
  arg: string,
  { valued, flags }: { readonly valued: readonly string[]; readonly flags: readonly string[] },
): boolean {
  if (arg === "--help" || arg === "--version") return true;
  if (arg.startsWith("--")) return arg.includes("=") || flags.some((name) => name.startsWith(arg));
  for (const letter of arg.slice(1)) {
    // The rest of the word is the value.
    if (valued.includes(`-${letter}`)) return true;
    if (!flags.includes(`-${letter}`)) return false;
  }
  return true;
}

/** Where the program begins is not told by the words before it: each of them is tried. */
export function anywhere(args: readonly string[]): readonly Wrapped[] {
  return args
    .slice(0, CANDIDATES_MAX)
    .flatMap((arg, at) => (/^[A-Za-z0-9_./][A-Za-z0-9_./+-]*$/.test(arg) ? rest(args, at) : []));
}

export function rest(args: readonly string[], from: number): readonly Wrapped[] {
  const argv = args.slice(from);
  return argv.length === 0 ? [] : [{ argv }];
}

/** A shell's own options: `-c` in a cluster makes the first operand a script. */
export function shell(dialect: "bash" | "other"): Unwrap {
  return (args, { input }) => {
    let takesText = false;
    for (let at = 0; at < args.length; at += 1) {
      const arg = args[at] ?? "";
      if (arg.startsWith(UNKNOWN)) return [{ hidden: true }];
      const isOption = /^[-+]./.test(arg) && arg !== "--";
      if (isOption && !arg.startsWith("--") && arg.startsWith("-") && arg.includes("c")) takesText = true;
      if (isOption && /^--(?:rcfile|init-file)$/.test(arg)) at += 1;
      // Each `o` of a cluster takes a word of its own.
      else if (isOption && !arg.startsWith("--")) at += arg.replace(/[^oO]/g, "").length;
      if (isOption) continue;
      const first = arg === "--" || arg === "-" ? at + 1 : at;
      const operand = args[first];
      if (takesText) return operand === undefined ? [] : [{ script: operand, dialect, words: args.slice(first + 1) }];
      if (operand !== undefined && !/^\/dev\/(?:stdin|fd\/0)$/.test(operand)) return [];
      break;
    }
    return takesText ? [] : input.map((script) => ({ script, dialect }));
  };
}

/** Behind `:::` stand command lines of their own where no program is named; else they come in, or nobody sees them. */
export function parallelLines(args: readonly string[], { input }: GivenInput): readonly Wrapped[] {
  const marker = args.findIndex((arg) => /^:::?:?\+?$/.test(arg));
  const before = marker === -1 ? args : args.slice(0, marker);
  if (prefix(PARALLEL)(before, { input: [] }).length > 0) return [];
  if (marker !== -1) return args.slice(marker + 1).map(asScript);
  if (args.some((arg) => /^(?:--version|--help|-V|-h)$/.test(arg))) return [];
  return input.length === 0 ? [{ hidden: true }] : input.map(asScript);
}

/** Of a program that does many things, what stands behind the word that says to start another one. */
export function afterVerb(verbs: RegExp, options: Prefix = {}): Unwrap {
  return (args, given) => {
    const verb = args.findIndex((arg) => verbs.test(arg));
    if (verb === -1) return [];
    const marker = args.indexOf("--", verb);
    return marker === -1 ? prefix(options)(args.slice(verb + 1), given) : rest(args, marker + 1);
  };
}

/** All words behind the options as one script, as `eval`, `ssh` and `watch` join them. */
export function joined(options: Prefix): Unwrap {
  const skip = prefix(options);
  return (args, given) => skip(args, given).map((found) => ("argv" in found ? asScript(found.argv.join(" ")) : found));
}

/** `sudo -s` and `sudo -i` start a shell on what comes in. */
export function loginShell(args: readonly string[], { input }: GivenInput): readonly Wrapped[] {
  const isShell = args.some((arg) => /^-[a-zA-Z]*[si]|^--(?:shell|login)$/.test(arg));
  return isShell ? input.map(asScript) : [];
}

/** `su -c text`, `runuser -c text`, `script -c text`. */
export function commandOption(args: readonly string[]): readonly Wrapped[] {
  return args.flatMap((arg, at) => {
    const next = args[at + 1];
    const clustered = /^-[a-zA-Z]*c$/.test(arg) || arg === "--command" || arg === "--session-command";
    if (clustered && next !== undefined) return [asScript(next)];
    const long = /^--(?:session-)?command=/.exec(arg);
    if (long !== null) return [asScript(arg.slice(long[0].length))];
    return /^-c./.test(arg) ? [asScript(arg.slice(2))] : [];
  });
}

/** The operand that a program takes for a command: `rsync -e`, `ssh -o ProxyCommand=`, `vim -c '!x'`, `sort --compress-program`. */
export function named(pattern: RegExp, strip: RegExp = /^$/): Unwrap {
  return (args) =>
    args.flatMap((arg, at) => {
      const match = pattern.exec(arg);
      if (match === null) return [];
      const own = arg.slice(match[0].length);
      const script = (own === "" ? (args[at + 1] ?? "") : own).replace(strip, "");
      return script === "" ? [] : [{ script, dialect: "bash" as const }];
    });
}

const STARTS_PROGRAMS = /system|exec|spawn|popen|subprocess|shell|qx|`/i;
const TEXTS_MAX = 32;

/** In code that starts programs, its texts may be their command lines. */
export function textsOfCode(args: readonly string[], { input }: GivenInput): readonly Wrapped[] {
  const code = [...args, ...input].filter((text) => STARTS_PROGRAMS.test(text));
  return code.flatMap(textsIn).slice(0, TEXTS_MAX).map(asScript);
}

/** What stands between quotes, without looking at anything else of the language; also the words of a list, joined. */
function textsIn(code: string): readonly string[] {
  const texts: string[] = [];
  for (let at = 0; at < code.length && texts.length < TEXTS_MAX; at += 1) {
    const mark = code[at] ?? "";
    if (!"\"'`".includes(mark)) continue;
    const end = code.indexOf(mark, at + 1);
    if (end === -1) break;
    texts.push(code.slice(at + 1, end));
    at = end;
  }
  const words = texts.filter((text) => text !== "" && !/\s/.test(text));
  return [...texts.filter((text) => /\s/.test(text)), ...(words.length > 1 ? [words.join(" ")] : [])];
}

export const PARALLEL: Prefix = {
  valued: words(
    "-a -C -d -E -I -j -J -L -n -N -P -s -S --arg-file --arg-file-sep --arg-sep --basefile --bf --block --block-size --colsep",
    "--compress-program --decompress-program --delay --delimiter --env --halt --halt-on-error --header --id --joblog --jobs",
    "--limit --load --max-args --max-chars --max-procs --max-replace-args --memfree --memsuspend --nice --process-slot-var",
    "--profile --recend --recstart --results --retries --return --rpl --semaphorename --semaphoretimeout --slf --ssh",
    "--sshdelay --sshlogin --sshloginfile --tagstring --tempdir --timeout --tmpdir --trc --trim --wd --workdir",
  ),
  flags: words(
    "-0 -i -k -l -m -p -q -r -t -u -v -x -X --bar --bg --bibtex --cat --citation --cleanup --color --compress --dry-run --eta",
    "--fg --fifo --files --group --interactive --keep-order --lb --line-buffer --link --no-notice --no-run-if-empty --null",
    "--pipe --pipepart --plus --progress --quote --regexp --resume --resume-failed --retry-failed --round-robin",
    "--shellquote --shuf --silent --tag --tmux --transfer --tty --ungroup --verbose --wait --will-cite --xapply --xargs",
  ),
};
const WORDS_MAX = 64;
const XARGS: Prefix = {
  valued: words(
    "-I -n -P -L -s -a -d -E -J -R -S --max-args --max-procs --max-chars --arg-file --delimiter --process-slot-var",
  ),
  // The values of some may only stand in the same word.
  flags: words(
    "-0 -e -i -l -o -p -r -t -x --eof --exit --interactive --max-lines --no-run-if-empty --null --open-tty --replace",
    "--show-limits --verbose",
  ),
};

/** The sign that the words of the input replace; `""` when they come at the end. */
function signOf(args: readonly string[], valued: readonly string[]): string {
  for (const [at, arg] of args.entries()) {
    if (!arg.startsWith("-") && !takesNext(args[at - 1] ?? "", valued)) return "";
    const own = /^-[0-9rtpxo]{0,8}([Ii])(.{0,64})$/.exec(arg);
    if (own !== null) return own[2] || (own[1] === "I" ? (args[at + 1] ?? "") : "{}");
    if (/^--rep[lace]{0,4}(?:=|$)/.test(arg)) return arg.split("=", 2)[1] || "{}";
  }
  return "";
}

/** A program that is started for the words of its input. */
function forEachItem(options: Prefix): Unwrap {
  const skip = prefix(options);
  return (args, given) => withItems(skip(args, given), signOf(args, options.valued ?? []), given);
}

export const xargs = forEachItem(XARGS);
export const parallel = forEachItem(PARALLEL);

/** The program gets the words of its input at its end or where the sign stands; mostly nobody sees them here. */
function withItems(wrapped: readonly Wrapped[], sign: string, given: GivenInput): readonly Wrapped[] {
  const words = [[UNKNOWN], ...given.input.map((text) => text.split(/\s+/, WORDS_MAX).filter((word) => word !== ""))];
  return wrapped.flatMap((found) => {
    if (!("argv" in found)) return [found];
    return words.map(
      (some): Wrapped => ({
        argv: sign === "" ? [...found.argv, ...some] : found.argv.map((word) => word.replaceAll(sign, some.join(" "))),
      }),
    );
  });
}

const ENV: Prefix = {
  valued: words("-u -C -a -P --unset --chdir --argv0"),
  flags: words("-0 -i -v --block-signal --debug --default-signal --ignore-environment --ignore-signal --null"),
  assigns: true,
};
/** `--split-string`, also abbreviated. */
const SPLITS = /^--s(?:p(?:l(?:i(?:t[a-z-]{0,8})?)?)?)?(?:=|$)/;

/** `env -S 'text'` splits a text into words; everything else is a prefix. */
export function env(args: readonly string[], given: GivenInput): readonly Wrapped[] {
  const [at] = valuesOf(args, "-C", "--chdir");
  const found = behindEnv(args, given);
  return at === undefined ? found : found.map((one) => ("argv" in one ? { ...one, at } : one));
}

function behindEnv(args: readonly string[], given: GivenInput): readonly Wrapped[] {
  const split = args.findIndex((arg) => /^-[a-zA-Z]*S/.test(arg) || SPLITS.test(arg));
  if (split === -1) {
    // A dash alone leaves the environment empty; behind the program's name it is the program's own.
    const dash = args.indexOf("-");
    const isOwn = dash !== -1 && prefix(ENV)(args.slice(0, dash), given).length === 0;
    return prefix(ENV)(isOwn ? args.toSpliced(dash, 1) : args, given);
  }
  const arg = args[split] ?? "";
  const sign = arg.startsWith("--") ? arg.indexOf("=") : arg.indexOf("S");
  const own = sign === -1 ? "" : arg.slice(sign + 1);
  const text = [...(own === "" ? [] : [own]), ...args.slice(split + 1)].join(" ");
  return [asScript(text)];
}
