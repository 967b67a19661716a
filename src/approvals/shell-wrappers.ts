import { awkReach } from "./shell-filters.ts";
import { INSIDE, UNKNOWN } from "./shell-word.ts";

/** What stands behind a wrapper: the argv of another program, the text of another script, or something nobody can read. */
export type Wrapped =
  | { readonly argv: readonly string[] }
  | { readonly script: string; readonly dialect: "bash" | "other" }
  | { readonly hidden: true };

type Unwrap = (args: readonly string[], given: Given) => readonly Wrapped[];

interface Given {
  /** Texts that come in on standard input: here-documents, here-strings, what `echo` says. */
  readonly input: readonly string[];
}

/** Options that take a value in the next word, and whether operands come before the program. */
interface Prefix {
  readonly valued?: readonly string[];
  readonly operands?: number;
  /** `NAME=value` words before the program. */
  readonly assigns?: boolean;
}

/** The program begins at the first word that is neither an option, an option's value nor a leading operand. */
function prefix({ valued = [], operands = 0, assigns = false }: Prefix): Unwrap {
  return (args) => {
    let left = operands;
    for (let at = 0; at < args.length; at += 1) {
      const arg = args[at] ?? "";
      if (arg === "--") return rest(args, at + 1 + left);
      if (valued.includes(arg)) at += 1;
      else if (arg.startsWith("-") && arg !== "-") continue;
      else if (assigns && /^[A-Za-z_][A-Za-z0-9_]*=/.test(arg)) continue;
      else if (left > 0) left -= 1;
      else return rest(args, at);
    }
    return [];
  };
}

function rest(args: readonly string[], from: number): readonly Wrapped[] {
  const argv = args.slice(from);
  return argv.length === 0 ? [] : [{ argv }];
}

/** A shell's own options: `-c` in a cluster makes the first operand a script. */
function shell(dialect: "bash" | "other"): Unwrap {
  return (args, { input }) => {
    let takesText = false;
    for (let at = 0; at < args.length; at += 1) {
      const arg = args[at] ?? "";
      if (arg.startsWith(UNKNOWN)) return [{ hidden: true }];
      const isOption = /^[-+]./.test(arg) && arg !== "--";
      if (isOption && !arg.startsWith("--") && arg.startsWith("-") && arg.includes("c")) takesText = true;
      if (isOption && /^(?:[-+][oO]|--rcfile|--init-file)$/.test(arg)) at += 1;
      else if (isOption && /^[-+][A-Za-z]*[oO]$/.test(arg)) at += 1;
      if (isOption) continue;
      const operand = arg === "--" || arg === "-" ? args[at + 1] : arg;
      if (takesText) return operand === undefined ? [] : [{ script: operand, dialect }];
      if (operand !== undefined && !/^\/dev\/(?:stdin|fd\/0)$/.test(operand)) return [];
      break;
    }
    return takesText ? [] : input.map((script) => ({ script, dialect }));
  };
}

/** All words behind the options as one script, as `eval`, `ssh` and `watch` join them. */
function joined({ valued = [], operands = 0 }: Prefix): Unwrap {
  const skip = prefix({ valued, operands });
  return (args, given) =>
    skip(args, given).map((found) =>
      "argv" in found ? { script: found.argv.join(" "), dialect: "bash" as const } : found,
    );
}

/** Every `-exec … ;` and `-exec … +` of `find`. */
function findActions(args: readonly string[]): readonly Wrapped[] {
  const first = args.findIndex((arg) => arg.startsWith("-"));
  const starts = args.slice(0, first === -1 ? 0 : first);
  const isBelow = (start: string) => /^[A-Za-z0-9_.]/.test(start) && !start.split("/").includes("..");
  const met = starts.every(isBelow) && !starts.some((start) => start.includes(UNKNOWN)) ? `./${INSIDE}` : UNKNOWN;
  return args.flatMap((arg, at) => {
    if (!/^-(?:exec|execdir|ok|okdir)$/.test(arg)) return [];
    const tail = args.slice(at + 1);
    const end = tail.findIndex((word) => word === ";" || word === "+");
    const argv = (end === -1 ? tail : tail.slice(0, end)).map((word) => word.replaceAll("{}", met));
    return argv.length === 0 ? [] : [{ argv }];
  });
}

const XARGS = ["-I", "-i", "-n", "-P", "-L", "-l", "-s", "-a", "-d", "-E", "-J", "-R", "-S"];
const WORDS_MAX = 64;
const XARGS_LONG = [
  "--max-args",
  "--max-procs",
  "--max-lines",
  "--max-chars",
  "--arg-file",
  "--delimiter",
  "--replace",
];

/** The program gets the words of its input at its end or where the sign stands; mostly nobody sees them here. */
function xargs(args: readonly string[], given: Given): readonly Wrapped[] {
  const at = args.findIndex((arg) => /^-[Ii]$/.test(arg));
  const sign = (at === -1 ? args.find((arg) => /^-[Ii]./.test(arg))?.slice(2) : args[at + 1]) ?? "";
  const words = [[UNKNOWN], ...given.input.map((text) => text.split(/\s+/, WORDS_MAX).filter((word) => word !== ""))];
  return prefix({ valued: [...XARGS, ...XARGS_LONG] })(args, given).flatMap((found) => {
    if (!("argv" in found)) return [found];
    return words.map(
      (some): Wrapped => ({
        argv: sign === "" ? [...found.argv, ...some] : found.argv.map((word) => word.replaceAll(sign, some.join(" "))),
      }),
    );
  });
}

/** `env -S 'text'` splits a text into words; everything else is a prefix. */
function env(args: readonly string[], given: Given): readonly Wrapped[] {
  const split = args.findIndex((arg) => /^-[a-zA-Z]*S/.test(arg) || arg.startsWith("--split-string"));
  if (split === -1) return prefix({ valued: ["-u", "-C", "--unset", "--chdir"], assigns: true })(args, given);
  const arg = args[split] ?? "";
  const own = arg.startsWith("--")
    ? arg.slice("--split-string".length).replace(/^=/, "")
    : arg.slice(arg.indexOf("S") + 1);
  const text = [...(own === "" ? [] : [own]), ...args.slice(split + 1)].join(" ");
  return [{ script: text, dialect: "bash" }];
}

/** `su -c text`, `runuser -c text`, `script -c text`. */
function commandOption(args: readonly string[]): readonly Wrapped[] {
  return args.flatMap((arg, at) => {
    const next = args[at + 1];
    const clustered = /^-[a-zA-Z]*c$/.test(arg) || arg === "--command" || arg === "--session-command";
    if (clustered && next !== undefined) return [{ script: next, dialect: "bash" as const }];
    const long = /^--(?:session-)?command=/.exec(arg);
    if (long !== null) return [{ script: arg.slice(long[0].length), dialect: "bash" as const }];
    return /^-c./.test(arg) ? [{ script: arg.slice(2), dialect: "bash" as const }] : [];
  });
}

/** `--to-command=x`, `--checkpoint-action=exec=x`, `-I x`: tar starts programs. */
function tar(args: readonly string[]): readonly Wrapped[] {
  return args.flatMap((arg, at) => {
    const value = arg.includes("=") ? arg.slice(arg.indexOf("=") + 1) : (args[at + 1] ?? "");
    const isAction =
      /^--(?:checkpoint-action|to-command|use-compress-program|info-script|new-volume-script|rsh-command)\b/;
    if (isAction.test(arg)) return [{ script: value.replace(/^exec=/, ""), dialect: "bash" as const }];
    return /^-[IF]$/.test(arg) ? [{ script: value, dialect: "bash" as const }] : [];
  });
}

/** Git runs `!text` of an alias in a shell, and programs that its settings name. */
function git(args: readonly string[]): readonly Wrapped[] {
  return args.flatMap((arg, at) => {
    const setting = /^[A-Za-z][A-Za-z0-9.-]*=/.exec(arg);
    const value = setting === null ? arg : arg.slice(setting[0].length);
    const runs = args[at - 1] === "foreach" || args[at - 1] === "--exec" || args[at - 1] === "-x";
    if (value.startsWith("!")) return [{ script: value.slice(1), dialect: "bash" as const }];
    if (args[at - 1] === "-c" && setting !== null) return [{ script: value, dialect: "bash" as const }];
    if (arg === "run" && args[at - 1] === "bisect") return rest(args, at + 1);
    return runs ? [{ script: arg, dialect: "bash" as const }] : [];
  });
}

/** `docker exec box cmd`, `docker run image cmd`, `kubectl exec pod -- cmd`. */
function container(args: readonly string[]): readonly Wrapped[] {
  const verb = args.findIndex((arg) => /^(?:exec|run|debug)$/.test(arg));
  if (verb === -1) return [];
  const marker = args.indexOf("--", verb);
  const valued = [
    "-e",
    "--env",
    "-u",
    "--user",
    "-w",
    "--workdir",
    "-v",
    "--volume",
    "--name",
    "-n",
    "--namespace",
    "-c",
  ];
  return marker === -1 ? prefix({ valued, operands: 1 })(args.slice(verb + 1), { input: [] }) : rest(args, marker + 1);
}

/** The operand that a program takes for a command: `rsync -e`, `ssh -o ProxyCommand=`, `vim -c '!x'`, `sort --compress-program`. */
function named(pattern: RegExp, strip: RegExp = /^$/): Unwrap {
  return (args) =>
    args.flatMap((arg, at) => {
      const match = pattern.exec(arg);
      if (match === null) return [];
      const own = arg.slice(match[0].length);
      const script = (own === "" ? (args[at + 1] ?? "") : own).replace(strip, "");
      return script === "" ? [] : [{ script, dialect: "bash" as const }];
    });
}

/** `sudo -s` and `sudo -i` start a shell on what comes in. */
function loginShell(args: readonly string[], { input }: Given): readonly Wrapped[] {
  const isShell = args.some((arg) => /^-[a-zA-Z]*[si]|^--(?:shell|login)$/.test(arg));
  return isShell ? input.map((script) => ({ script, dialect: "bash" as const })) : [];
}

const STARTS_PROGRAMS = /system|exec|spawn|popen|subprocess|child_process|shell|qx|`/i;
const TEXTS_MAX = 32;

/** In code that starts programs, its texts may be their command lines. */
function textsOfCode(args: readonly string[], { input }: Given): readonly Wrapped[] {
  const code = [...args, ...input].filter((text) => STARTS_PROGRAMS.test(text));
  return code
    .flatMap(textsIn)
    .slice(0, TEXTS_MAX)
    .map((script) => ({ script, dialect: "bash" as const }));
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

const PLAIN = prefix({});
const SUDO = [
  "-u",
  "-g",
  "-h",
  "-p",
  "-C",
  "-T",
  "-r",
  "-t",
  "-U",
  "-D",
  "-R",
  "--user",
  "--group",
  "--host",
  "--prompt",
];
const SSH = [..."bcDEeFIiJLlmOopQRSWw"].map((letter) => `-${letter}`);

/** Programs that start other programs, and how to find those. `[` alternatives are tried all. */
const TABLE: readonly (readonly [programs: string, unwrap: readonly Unwrap[]])[] = [
  [
    "nohup setsid builtin catchsegv unbuffer fakeroot caffeinate pkexec proot chronic ts errno dbus-run-session",
    [PLAIN],
  ],
  ["eatmydata torify torsocks proxychains tsocks linux32 linux64 dumb-init tini gosu su-exec", [PLAIN]],
  ["command", [prefix({})]],
  ["exec", [prefix({ valued: ["-a"] })]],
  ["time gtime", [prefix({ valued: ["-f", "-o", "--format", "--output"] })]],
  ["nice", [prefix({ valued: ["-n", "--adjustment"] })]],
  ["ionice", [prefix({ valued: ["-c", "-n", "-p", "-P", "-u", "--class", "--classdata"] })]],
  ["chrt", [prefix({ valued: ["-T", "-P", "-D"], operands: 1 })]],
  ["taskset", [prefix({ operands: 1 }), prefix({ valued: ["-c"] })]],
  ["prlimit setpriv capsh systemd-run systemd-inhibit firejail bwrap", [PLAIN]],
  ["timeout gtimeout", [prefix({ valued: ["-s", "-k", "--signal", "--kill-after"], operands: 1 })]],
  ["stdbuf", [prefix({ valued: ["-i", "-o", "-e", "--input", "--output", "--error"] })]],
  ["flock", [prefix({ valued: ["-w", "-E", "--timeout", "--conflict-exit-code"], operands: 1 }), commandOption]],
  ["chroot unshare nsenter", [prefix({ operands: 1 }), PLAIN]],
  ["strace ltrace", [prefix({ valued: ["-e", "-o", "-p", "-s", "-u", "-E", "-P", "-a", "-S"] })]],
  ["sudo doas", [prefix({ valued: SUDO, assigns: true }), loginShell]],
  ["su runuser script", [commandOption, PLAIN]],
  ["env", [env]],
  ["xargs gxargs", [xargs]],
  ["parallel", [xargs, joined({ valued: ["-j", "-a", "--jobs", "-I"] })]],
  ["watch", [joined({ valued: ["-n", "--interval"] })]],
  ["eval", [joined({})]],
  [
    "trap",
    [
      (args) =>
        args[0] === undefined ? [] : [{ script: args[0] === "--" ? (args[1] ?? "") : args[0], dialect: "bash" }],
    ],
  ],
  ["find gfind fd fdfind", [findActions, named(/^(?:-x|-X|--exec|--exec-batch)$/)]],
  ["bash sh dash ash rbash ksh mksh posh yash git-shell", [shell("bash")]],
  ["zsh fish csh tcsh nu xonsh elvish pwsh powershell", [shell("other")]],
  ["busybox toybox", [PLAIN]],
  ["ssh", [joined({ valued: SSH, operands: 1 }), named(/^(?:-o)?(?:Proxy|Local)Command=/i)]],
  ["rsync", [named(/^(?:-[a-zA-Z]*e|--rsh=?|--rsync-path=?)/)]],
  ["tar gtar bsdtar", [tar]],
  ["git", [git]],
  ["docker podman nerdctl kubectl oc crictl lxc", [container]],
  ["vim vi nvim view ex ed nano emacs less more man", [named(/^(?:-c|--cmd=?|\+|-P|--pager=?)/, /^:?!/)]],
  ["python pypy perl ruby node nodejs deno php lua tclsh rscript", [textsOfCode]],
  ["awk gawk mawk nawk", [(args, given) => (awkReach(args) === "starts" ? textsOfCode(args, given) : [])]],
  ["at batch", [(_args, { input }) => input.map((script) => ({ script, dialect: "bash" as const }))]],
  [
    "entr nodemon watchexec direnv dotenv cross-env npx bunx pnpx tsx uvx pipx concurrently",
    [prefix({ assigns: true })],
  ],
];

const UNWRAP: ReadonlyMap<string, readonly Unwrap[]> = new Map(
  TABLE.flatMap(([programs, unwrap]) => programs.split(" ").map((program) => [program, unwrap] as const)),
);

/** What a program would start besides itself. */
export function wrappedBy(program: string, args: readonly string[], given: Given): readonly Wrapped[] {
  return (UNWRAP.get(program) ?? []).flatMap((unwrap) => unwrap(args, given));
}

/** Programs that change nothing themselves: what counts is what they start. */
export const TRANSPARENT: ReadonlySet<string> = new Set(
  "nohup setsid builtin command exec time gtime nice ionice timeout gtimeout stdbuf env xargs gxargs taskset chrt chronic unbuffer".split(
    " ",
  ),
);
