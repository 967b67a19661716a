import { byName, type Call, optionsIn, valuesOf } from "./call.ts";
import { awkIsPlain } from "./filters.ts";
import { isPlainSetting } from "./git.ts";
import { INSIDE, UNKNOWN } from "./words.ts";

/** A command that a wrapper starts: another argv, a script, or a program that its arguments do not show. */
export type Wrapped =
  | {
      readonly argv: readonly string[];
      /** Working directory, relative to that of the wrapper. */
      readonly at?: string;
    }
  | WrappedScript
  | { readonly hidden: true };

export interface WrappedScript {
  readonly script: string;
  readonly dialect: "bash" | "other";
}

type Unwrap = (args: readonly string[], input: readonly string[]) => readonly Wrapped[];

function asScript(script: string): Wrapped {
  return { script, dialect: "bash" };
}

/** The arguments of a wrapper before its program. In lists, `-abc` is three letters and `--name` a long option. */
interface Prefix {
  /** Options that take the next word. */
  readonly valued?: string | undefined;
  /**
   * Options without a value. When the list is given, an option that is in neither list may take a value: the program is unknown,
   * and every later word is tried as its start.
   */
  readonly flags?: string | undefined;
  /** Number of operands before the program. */
  readonly operands?: number | undefined;
  /** True when `NAME=value` may come before the program. */
  readonly assigns?: boolean;
}

/** Maximum number of words that are tried as the start of a program. */
const CANDIDATES_MAX = 16;
const ITEM_WORDS_MAX = 64;
const TEXTS_MAX = 32;

/** Reads the program that begins after the wrapper's options, their values and its operands. */
function prefix({ valued: valuedList = "", flags: flagList, operands = 0, assigns = false }: Prefix): Unwrap {
  const valued = optionsIn(valuedList);
  const flags = flagList === undefined ? undefined : optionsIn(flagList);
  return (args) => {
    let left = operands;
    for (let at = 0; at < args.length; at += 1) {
      const arg = args[at] ?? "";
      if (arg === "--") return rest(args, at + 1 + left);
      if (flags?.includes(arg) === true) continue;
      if (takesNext(arg, valued)) at += 1;
      else if (arg.startsWith("-") && arg !== "-") {
        if (flags !== undefined && !isFlag(arg, valued, flags))
          return [{ hidden: true }, ...anywhere(args.slice(at + 1), [])];
      } else if (assigns && /^[A-Za-z_][A-Za-z0-9_]*=/.test(arg)) continue;
      else if (left > 0) left -= 1;
      else return rest(args, at);
    }
    return [];
  };
}

/** Returns whether the next word is the value of this option: a letter at the end of a cluster, or a long name. */
function takesNext(arg: string, valued: readonly string[]): boolean {
  if (valued.includes(arg)) return true;
  if (arg.startsWith("--")) return arg.length > 2 && valued.some((name) => name.startsWith(arg));
  if (!/^-[A-Za-z0-9]{2,16}$/.test(arg)) return false;
  return [...arg.slice(1)].findIndex((letter) => valued.includes(`-${letter}`)) === arg.length - 2;
}

/** Returns whether the option is known and the next word is not its value. */
function isFlag(arg: string, valued: readonly string[], flags: readonly string[]): boolean {
  if (arg === "--help" || arg === "--version") return true;
  if (arg.startsWith("--")) return arg.includes("=") || flags.some((name) => name.startsWith(arg));
  for (const letter of arg.slice(1)) {
    if (valued.includes(`-${letter}`)) return true;
    if (!flags.includes(`-${letter}`)) return false;
  }
  return true;
}

/** Tries every word as the start of the program. */
const anywhere: Unwrap = (args) =>
  args
    .slice(0, CANDIDATES_MAX)
    .flatMap((arg, at) => (/^[A-Za-z0-9_./][A-Za-z0-9_./+-]*$/.test(arg) ? rest(args, at) : []));

function rest(args: readonly string[], from: number): readonly Wrapped[] {
  const argv = args.slice(from);
  return argv.length === 0 ? [] : [{ argv }];
}

/** Reads a shell's arguments: `-c` in a cluster makes the first operand a script; without operands the input is one. */
function shell(dialect: "bash" | "other"): Unwrap {
  return (args, input) => {
    let takesText = false;
    for (let at = 0; at < args.length; at += 1) {
      const arg = args[at] ?? "";
      if (arg.startsWith(UNKNOWN)) return [{ hidden: true }];
      if (/^[-+]./.test(arg) && arg !== "--") {
        if (/^--(?:rcfile|init-file)$/.test(arg)) at += 1;
        // Each `o` in a cluster takes one more word.
        else if (!arg.startsWith("--")) at += arg.replace(/[^oO]/g, "").length;
        takesText ||= /^-[^-]*c/.test(arg);
        continue;
      }
      const first = arg === "--" || arg === "-" ? at + 1 : at;
      const operand = args[first];
      if (takesText) return operand === undefined ? [] : [{ script: operand, dialect }];
      if (operand !== undefined && !/^\/dev\/(?:stdin|fd\/0)$/.test(operand)) return [];
      break;
    }
    return takesText ? [] : input.map((script) => ({ script, dialect }));
  };
}

function afterVerb(verbs: RegExp, options: Prefix = {}): Unwrap {
  const skip = prefix(options);
  return (args, input) => {
    const verb = args.findIndex((arg) => verbs.test(arg));
    if (verb === -1) return [];
    const marker = args.indexOf("--", verb);
    return marker === -1 ? skip(args.slice(verb + 1), input) : rest(args, marker + 1);
  };
}

/** Joins all words after the options to one script, as `eval`, `ssh` and `watch` do. */
function joined(options: Prefix): Unwrap {
  const skip = prefix(options);
  return (args, input) => skip(args, input).map((found) => ("argv" in found ? asScript(found.argv.join(" ")) : found));
}

/** Reads the script after `-c`: `su -c text`, `script -c text`. */
const commandOption: Unwrap = (args) =>
  args.flatMap((arg, at) => {
    const next = args[at + 1];
    const isNamed = /^-[a-zA-Z]*c$/.test(arg) || arg === "--command" || arg === "--session-command";
    if (isNamed && next !== undefined) return [asScript(next)];
    const own = /^(?:--(?:session-)?command=|-c(?=.))/.exec(arg);
    return own === null ? [] : [asScript(arg.slice(own[0].length))];
  });

/** Reads the value of an option that is a command: `rsync -e`, `ssh -o ProxyCommand=`, `vim -c '!x'`. */
function named(pattern: RegExp, strip: RegExp = /^$/): Unwrap {
  return (args) =>
    args.flatMap((arg, at) => {
      const match = pattern.exec(arg);
      if (match === null) return [];
      const own = arg.slice(match[0].length);
      const script = (own === "" ? (args[at + 1] ?? "") : own).replace(strip, "");
      return script === "" ? [] : [asScript(script)];
    });
}

const STARTS_PROGRAMS = /system|exec|spawn|popen|subprocess|shell|qx|`/i;

/** Reads quoted texts in code of another language that starts programs: they may be command lines. */
const textsOfCode: Unwrap = (args, input) =>
  [...args, ...input]
    .filter((text) => STARTS_PROGRAMS.test(text))
    .flatMap(textsIn)
    .slice(0, TEXTS_MAX)
    .map(asScript);

function textsIn(code: string): readonly string[] {
  const texts: string[] = [];
  for (let at = 0; at < code.length && texts.length < TEXTS_MAX; at += 1) {
    const quote = code[at] ?? "";
    if (!"\"'`".includes(quote)) continue;
    const end = code.indexOf(quote, at + 1);
    if (end === -1) break;
    texts.push(code.slice(at + 1, end));
    at = end;
  }
  // The words of a list, joined: `["rm", "-rf", "/"]`.
  const parts = texts.filter((text) => text !== "" && !/\s/.test(text));
  return [...texts.filter((text) => /\s/.test(text)), ...(parts.length > 1 ? [parts.join(" ")] : [])];
}

/**
 * Reads a program that is started for the words of the input, which are usually unknown. They are appended to its arguments or
 * replace a placeholder.
 */
function forEachItem(options: Prefix): Unwrap {
  const skip = prefix(options);
  const valued = optionsIn(options.valued ?? "");
  return (args, input) => {
    const placeholder = placeholderIn(args, valued);
    const items = [[UNKNOWN], ...input.map((text) => text.split(/\s+/, ITEM_WORDS_MAX).filter((word) => word !== ""))];
    return skip(args, input).flatMap((found) => {
      if (!("argv" in found)) return [found];
      return items.map((item): Wrapped => {
        if (placeholder === "") return { argv: [...found.argv, ...item] };
        return { argv: found.argv.map((word) => word.replaceAll(placeholder, item.join(" "))) };
      });
    });
  };
}

/** Returns the placeholder that the words of the input replace; `""` when they are appended. */
function placeholderIn(args: readonly string[], valued: readonly string[]): string {
  for (const [at, arg] of args.entries()) {
    if (!arg.startsWith("-") && !takesNext(args[at - 1] ?? "", valued)) return "";
    const own = /^-[0-9rtpxo]{0,8}([Ii])(.{0,64})$/.exec(arg);
    if (own !== null) return own[2] || (own[1] === "I" ? (args[at + 1] ?? "") : "{}");
    if (/^--rep[lace]{0,4}(?:=|$)/.test(arg)) return arg.split("=", 2)[1] || "{}";
  }
  return "";
}

const PARALLEL: Prefix = {
  valued: `-aCdEIjJLnNPsS --arg-file --arg-file-sep --arg-sep --basefile --bf --block --block-size --colsep
    --compress-program --decompress-program --delay --delimiter --env --halt --halt-on-error --header --id --joblog
    --jobs --limit --load --max-args --max-chars --max-procs --max-replace-args --memfree --memsuspend --nice
    --process-slot-var --profile --recend --recstart --results --retries --return --rpl --semaphorename
    --semaphoretimeout --slf --ssh --sshdelay --sshlogin --sshloginfile --tagstring --tempdir --timeout --tmpdir --trc
    --trim --wd --workdir`,
  flags: `-0iklmpqrtuvxX --bar --bg --bibtex --cat --citation --cleanup --color --compress --dry-run --eta --fg --fifo
    --files --group --interactive --keep-order --lb --line-buffer --link --no-notice --no-run-if-empty --null --pipe
    --pipepart --plus --progress --quote --regexp --resume --resume-failed --retry-failed --round-robin --shellquote
    --shuf --silent --tag --tmux --transfer --tty --ungroup --verbose --wait --will-cite --xapply --xargs`,
};
const isParallelStart = prefix(PARALLEL);

/** Reads a call of `parallel` without a program: the words after `:::`, or the lines of the input, are command lines. */
const parallelLines: Unwrap = (args, input) => {
  const marker = args.findIndex((arg) => /^:::?:?\+?$/.test(arg));
  if (isParallelStart(marker === -1 ? args : args.slice(0, marker), []).length > 0) return [];
  if (marker !== -1) return args.slice(marker + 1).map(asScript);
  if (args.some((arg) => /^(?:--version|--help|-V|-h)$/.test(arg))) return [];
  return input.length === 0 ? [{ hidden: true }] : input.map(asScript);
};

const readEnv = prefix({
  valued: "-uCaP --unset --chdir --argv0",
  flags: "-0iv --block-signal --debug --default-signal --ignore-environment --ignore-signal --null",
  assigns: true,
});
/** Matches `--split-string` and its abbreviations. */
const SPLITS = /^--s(?:p(?:l(?:i(?:t[a-z-]{0,8})?)?)?)?(?:=|$)/;

const env: Unwrap = (args, input) => {
  const [at] = valuesOf(args, "-C --chdir");
  const found = splitEnv(args, input);
  return at === undefined ? found : found.map((one) => ("argv" in one ? { ...one, at } : one));
};

/** `env -S 'text'` splits a text into words; everything else is a prefix. */
const splitEnv: Unwrap = (args, input) => {
  const split = args.findIndex((arg) => /^-[a-zA-Z]*S/.test(arg) || SPLITS.test(arg));
  if (split === -1) {
    // A dash alone is an option of env; after the program it belongs to the program.
    const dash = args.indexOf("-");
    const isOwn = dash !== -1 && readEnv(args.slice(0, dash), input).length === 0;
    return readEnv(isOwn ? args.toSpliced(dash, 1) : args, input);
  }
  const arg = args[split] ?? "";
  const end = arg.startsWith("--") ? arg.indexOf("=") : arg.indexOf("S");
  const own = end === -1 ? "" : arg.slice(end + 1);
  return [asScript([...(own === "" ? [] : [own]), ...args.slice(split + 1)].join(" "))];
};

/** Returns the paths from which a call of `find` searches. */
export function findStarts(args: readonly string[]): readonly string[] {
  const from = args.findIndex((arg) => /^[-!(]/.test(arg) && !/^-(?:[HLP]|D|O.*)$/.test(arg));
  const starts = (from === -1 ? args : args.slice(0, from)).filter((arg) => !arg.startsWith("-"));
  return starts.length === 0 ? ["."] : starts;
}

/** Reads every `-exec … ;` and `-exec … +` of `find`. */
const findActions: Unwrap = (args) => {
  const starts = findStarts(args);
  const isBelow = (start: string) =>
    /^[A-Za-z0-9_.]/.test(start) && !start.includes(UNKNOWN) && !/(?:^|\/)\.\.(?:\/|$)/.test(start);
  const met = starts.every(isBelow) ? `./${INSIDE}` : UNKNOWN;
  return args.flatMap((arg, at) => {
    if (!/^-(?:exec|ok)(?:dir)?$/.test(arg)) return [];
    const tail = args.slice(at + 1);
    const end = tail.findIndex((word) => word === ";" || word === "+");
    const argv = (end === -1 ? tail : tail.slice(0, end)).map((word) => word.replaceAll("{}", met));
    // `-execdir` runs in the folder of the file.
    return argv.length === 0 ? [] : [arg.endsWith("dir") && met === UNKNOWN ? { argv, at: UNKNOWN } : { argv }];
  });
};

/** Matches `-x`, `-X` and their long names, alone or in a cluster of `fd`. */
export const FD_EXEC = /^(?:-[HIsigFLapul01qrvV]*[xX]|--exec(?:-batch)?(?:=|$))/;

/** Reads `fd … -x program …`: everything after the option belongs to the program. */
const fdActions: Unwrap = (args) => {
  const at = args.findIndex((arg) => FD_EXEC.test(arg));
  if (at === -1) return [];
  const own = /^--exec(?:-batch)?=(.{1,256})$/.exec(args[at] ?? "")?.[1];
  return rest(
    [...(own === undefined ? [] : [own]), ...args.slice(at + 1)].map((word) => word.replaceAll("{}", UNKNOWN)),
    0,
  );
};

/** Reads aliases (`!text`), which git runs in a shell, and settings and options that name a program. */
const git: Unwrap = (args) =>
  args.flatMap((arg, at) => {
    const before = args[at - 1] ?? "";
    const setting = /^[A-Za-z][A-Za-z0-9.-]*=/.exec(arg);
    const value = setting === null ? arg : arg.slice(setting[0].length);
    if (value.startsWith("!")) return [asScript(value.slice(1))];
    if (before === "-c" && setting !== null) return isPlainSetting(arg) ? [] : [asScript(value)];
    const own = /^--(?:exe[c]?|extc[md]{0,2}|tree-filter|index-filter|msg-filter)=/.exec(arg);
    if (own !== null) return [asScript(arg.slice(own[0].length))];
    if (arg === "run" && before === "bisect") return rest(args, at + 1);
    return /^(?:foreach|--exec|-x)$/.test(before) ? [asScript(arg)] : [];
  });

/** Reads words that contain whitespace as command lines. */
const lines: Unwrap = (args) => args.flatMap((arg) => (/\s/.test(arg) ? [asScript(arg)] : []));
const inputLines: Unwrap = (_args, input) => input.map(asScript);

const SSH: Prefix = { valued: "-BbcDEeFIiJLlmOoPpQRSWw", flags: "-46AaCfGgKkMNnqsTtVvXxYy", operands: 1 };
const PROXY = named(/^(?:-o)?(?:Proxy|Local)Command=/i);

/** Options of `unshare` and `nsenter` for namespaces. */
const NAMESPACES = "-CfimnpTuU --cgroup --fork --ipc --keep-caps --mount --net --pid --time --user --uts";

/**
 * Programs whose arguments are options, operands and then another program: the options that take the next word, those without
 * a value, and the number of operands.
 */
const PREFIXES: readonly (readonly [programs: string, valued: string, flags?: string, operands?: number])[] = [
  ["nohup builtin catchsegv errno dbus-run-session eatmydata", "", ""],
  ["setsid", "", "-cfw --ctty --fork --wait"],
  ["unbuffer", "", "-p"],
  ["chronic", "", "-ev"],
  ["torify torsocks tsocks ts linux32 linux64 busybox toybox", ""],
  ["exec", "-a", "-cl"],
  ["time gtime", "-fo --format --output", "-apqvV --append --portability --quiet --verbose"],
  ["nice", "-n --adjustment", "-0123456789"],
  ["ionice", "-cnpPu --class --classdata --pid --pgid --uid", "-t --ignore"],
  [
    "chrt",
    "-TPD --sched-deadline --sched-period --sched-runtime",
    "-abdfimoprRv --all-tasks --batch --deadline --fifo --idle --max --other --pid --reset-on-fork --rr --verbose",
    1,
  ],
  ["taskset", "", "-acp --all-tasks --cpu-list --pid", 1],
  ["timeout gtimeout", "-sk --signal --kill-after", "-fpv --foreground --preserve-status --verbose", 1],
  ["stdbuf", "-ioe --input --output --error", ""],
  ["chroot", "--groups --userspec", "--skip-chdir", 1],
  [
    "unshare",
    `-GlRSw --boottime --load-interp --map-group --map-groups --map-user --map-users --monotonic --owner --propagation
      --root --setgid --setgroups --setuid --wd`,
    `${NAMESPACES} -cr --forward-signals --kill-child --map-auto --map-current-user --map-root-user --mount-proc`,
  ],
  [
    "nsenter",
    "-GNStW --net-socket --setgid --setuid --target --wdns",
    `${NAMESPACES} -aeFrwZ --all --env --follow-context --no-fork --preserve-credentials --root --wd`,
  ],
  [
    "strace",
    `-abeEIoOpPsSuUX --argv0 --attach --columns --env --output --string-limit --summary-columns --summary-sort-by
      --trace --user`,
    `-AcCdDfFhiknNqrtTvVwxyYzZ --decode-fds --follow-forks --no-abbrev --output-separately --quiet --summary
      --summary-only --syscall-times`,
  ],
  ["ltrace", "-aADeFlnopsuwx", "-bcCfhiLrStTV"],
];

/** Other programs that start commands. All readers of a row are used. */
const READERS: readonly (readonly [programs: string, ...readers: readonly Unwrap[]])[] = [
  [
    `fakeroot caffeinate pkexec proot proxychains proxychains4 dumb-init tini gosu su-exec run0 dzdo please ifne nocache
      lckdo trickle schroot systemd-nspawn s6-setuidgid valgrind perf numactl cgexec ssh-agent rlwrap logsave setuidgid
      envuidgid envdir softlimit chpst runcon setarch i386 xvfb-run dbus-launch faketime cpulimit aa-exec schedtool
      run-one start-stop-daemon ld.so ld-linux.so ld-linux-x86-64.so ld-linux-aarch64.so ld-musl-x86_64.so pipenv
      systemd-cat daemon daemonize`,
    anywhere,
  ],
  ["command", (args, input) => (/^-[pvV]*[vV]/.test(args[0] ?? "") ? [] : prefix({})(args, input))],
  ["prlimit setpriv capsh systemd-run systemd-inhibit firejail bwrap", anywhere, commandOption],
  ["hyperfine", lines, anywhere],
  ["sg", commandOption, joined({ operands: 1 })],
  [
    "flock",
    prefix({
      valued: "-wE --conflict-exit-code --length --start --timeout --wait",
      flags: "-ceFnosux --close --command --exclusive --nb --no-fork --nonblock --shared --unlock --verbose",
      operands: 1,
    }),
    commandOption,
  ],
  [
    "sudo doas",
    prefix({
      valued: `-acughpCTrtUDR --auth-type --chdir --chroot --close-from --command-timeout --group --host --login-class
        --other-user --prompt --role --type --user`,
      flags: `-ABbEeHiKkLlNnPSsVv --askpass --background --bell --edit --list --login --no-update --non-interactive
        --preserve-env --preserve-groups --remove-timestamp --reset-timestamp --set-home --shell --stdin --validate`,
      assigns: true,
    }),
    (args, input) => (args.some((arg) => /^-[a-zA-Z]*[si]|^--(?:shell|login)$/.test(arg)) ? input.map(asScript) : []),
  ],
  ["su runuser script", commandOption, anywhere],
  ["env", env],
  [
    "xargs gxargs",
    forEachItem({
      valued: "-InPLsadEJRS --max-args --max-procs --max-chars --arg-file --delimiter --process-slot-var",
      flags: `-0eiloprtx --eof --exit --interactive --max-lines --no-run-if-empty --null --open-tty --replace
        --show-limits --verbose`,
    }),
  ],
  ["parallel sem", forEachItem(PARALLEL), joined(PARALLEL), parallelLines],
  [
    "watch",
    joined({
      valued: "-nqs --equexit --interval --shotsdir",
      flags: `-bCcdefgprtwx --beep --chgexit --color --differences --errexit --exec --follow --no-color --no-rerun
        --no-title --no-wrap --precise`,
    }),
  ],
  ["eval", joined({})],
  [
    "trap",
    (args) => {
      const script = args[0] === "--" ? args[1] : args[0];
      return script === undefined || /^(?:|-|-p)$/.test(script) ? [] : [asScript(script)];
    },
  ],
  ["find gfind", findActions],
  ["fd fdfind", fdActions],
  ["compgen complete", named(/^-C/)],
  ["mapfile readarray", named(/^-[tOsnu]{0,4}C/)],
  ["split", named(/^--fil[ter]{0,3}=?/)],
  ["bash sh dash ash rbash ksh mksh posh yash git-shell", shell("bash")],
  ["zsh fish csh tcsh nu xonsh elvish pwsh powershell", shell("other")],
  [
    "npm pnpm yarn bun uv poetry pipenv pdm hatch rye pixi conda mamba bundle asdf mise nvm pyenv rbenv rustup volta nix guix",
    afterVerb(/^(?:exec|run|x|dlx|develop|shell)$/),
    named(/^(?:-c|--call=?|--run=?)$/),
  ],
  ["toolbox distrobox flatpak devbox op doppler aws-vault chamber dotenvx", afterVerb(/^(?:exec|run|enter)$/)],
  ["adb", afterVerb(/^shell$/), lines],
  ["tmux screen", lines],
  ["vagrant", commandOption],
  ["expect gdb sqlite3 psql", named(/^(?:[.:]?!|\\!|\.?(?:shell|system|spawn)\s)/)],
  ["ssh", joined(SSH), PROXY],
  ["scp sftp", PROXY],
  ["rsync", named(/^(?:-[a-zA-Z]*e|--rsh=?|--rsync-path=?)/)],
  [
    "tar gtar bsdtar",
    named(/^--(?:checkpoint-a|to-c|use-c|info-s|new-v|rsh)[a-z-]{0,24}(?:=|$)|^-[a-zA-Z]{0,16}[IF]/, /^exec=/),
  ],
  ["git", git],
  [
    "docker podman nerdctl kubectl oc crictl lxc",
    afterVerb(/^(?:exec|run|debug)$/, {
      valued: "-euwvnc --env --user --workdir --volume --name --namespace",
      operands: 1,
    }),
  ],
  ["vim vi nvim view ex ed nano emacs", named(/^(?:-c|--cmd=?|\+)/, /^:?!/)],
  ["less more man", named(/^(?:-P|--pager=?|\+[^!]{0,64}!)/)],
  ["python pypy perl ruby node nodejs deno php lua tclsh rscript", textsOfCode],
  ["awk gawk mawk nawk", (args, input) => (awkIsPlain(args) ? [] : textsOfCode(args, input))],
  ["source .", (args, input) => (/^\/dev\/(?:stdin|fd\/0)$/.test(args[0] ?? "") ? input.map(asScript) : [])],
  ["at batch", inputLines],
  ["entr", prefix({ assigns: true }), commandOption, named(/^-[acdnprz]{0,8}s/)],
  [
    "nodemon watchexec direnv dotenv cross-env npx bunx pnpx tsx uvx pipx concurrently",
    prefix({ assigns: true }),
    named(/^(?:-c$|--call(?:=|$))/),
  ],
];

/** Readers of the commands that a program starts, by program. */
const WRAPPERS = byName<readonly Unwrap[]>([
  ...PREFIXES.map(([programs, valued, flags, operands]) => [programs, [prefix({ valued, flags, operands })]] as const),
  ...READERS.map(([programs, ...readers]) => [programs, readers] as const),
]);

export const WRAPPER_NAMES: readonly string[] = [...WRAPPERS.keys()];

export function wrappedBy({ program, family, args, input }: Call): readonly Wrapped[] {
  // bash reads `time` as a keyword; other shells start a program with these options.
  if (program.startsWith("-")) return startedBy("time", [program, ...args], input);
  const found = startedBy(program, args, input);
  return found.length > 0 || family === program ? found : startedBy(family, args, input);
}

function startedBy(name: string, args: readonly string[], input: readonly string[]): readonly Wrapped[] {
  return (WRAPPERS.get(name) ?? []).flatMap((unwrap) => unwrap(args, input));
}
