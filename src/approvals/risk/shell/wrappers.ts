import { isPlainSetting } from "../git-call.ts";
import { byName, names, words } from "../names.ts";
import { awkReach } from "./awk.ts";
import { findStarts, isAction } from "./find.ts";
import { startsForEach, tarActions } from "./starters.ts";
import {
  afterVerb,
  anywhere,
  asScript,
  commandOption,
  env,
  type GivenInput,
  joined,
  loginShell,
  named,
  PARALLEL,
  type Prefix,
  parallel,
  parallelLines,
  prefix,
  rest,
  shell,
  textsOfCode,
  type Unwrap,
  type Wrapped,
  xargs,
} from "./unwrap.ts";
import { INSIDE, UNKNOWN } from "./word.ts";

/** Every `-exec … ;` and `-exec … +` of `find`. */
function findActions(args: readonly string[]): readonly Wrapped[] {
  const starts = findStarts(args);
  const isBelow = (start: string) => /^[A-Za-z0-9_.]/.test(start) && !start.split("/").includes("..");
  const met = starts.every(isBelow) && !starts.some((start) => start.includes(UNKNOWN)) ? `./${INSIDE}` : UNKNOWN;
  return args.flatMap((arg, at) => {
    if (!isAction(arg)) return [];
    const tail = args.slice(at + 1);
    const end = tail.findIndex((word) => word === ";" || word === "+");
    const argv = (end === -1 ? tail : tail.slice(0, end)).map((word) => word.replaceAll("{}", met));
    // With `-execdir` it stands where the file lies.
    const isThere = arg.endsWith("dir") && met === UNKNOWN;
    return argv.length === 0 ? [] : [isThere ? { argv, at: UNKNOWN } : { argv }];
  });
}

/** `fd … -x program …`: everything behind the option is the program's. */
function fdActions(args: readonly string[]): readonly Wrapped[] {
  const at = args.findIndex((arg) => startsForEach(arg));
  if (at === -1) return [];
  const own = /^--exec(?:-batch)?=(.{1,256})$/.exec(args[at] ?? "")?.[1];
  const argv = [...(own === undefined ? [] : [own]), ...args.slice(at + 1)];
  return argv.length === 0 ? [] : [{ argv: argv.map((word) => word.replaceAll("{}", UNKNOWN)) }];
}

/** `--to-command=x`, `--checkpoint-action=exec=x`, `-I x`: tar starts programs. */
function tar(args: readonly string[]): readonly Wrapped[] {
  return tarActions(args).map(({ value }) => asScript(value.replace(/^exec=/, "")));
}

/** The first operand of `trap`; `-` and the empty text take a trap away. */
function trapped(args: readonly string[]): readonly Wrapped[] {
  const script = args[0] === "--" ? args[1] : args[0];
  return script === undefined || script === "-" || script === "" || script === "-p" ? [] : [asScript(script)];
}

/** Git runs `!text` of an alias in a shell, and programs that its settings name. */
function git(args: readonly string[]): readonly Wrapped[] {
  return args.flatMap((arg, at) => {
    const setting = /^[A-Za-z][A-Za-z0-9.-]*=/.exec(arg);
    const value = setting === null ? arg : arg.slice(setting[0].length);
    const runs = args[at - 1] === "foreach" || args[at - 1] === "--exec" || args[at - 1] === "-x";
    if (value.startsWith("!")) return [asScript(value.slice(1))];
    if (args[at - 1] === "-c" && setting !== null) return isPlainSetting(arg) ? [] : [asScript(value)];
    const own = /^--(?:exe[c]?|extc[md]{0,2}|tree-filter|index-filter|msg-filter)=/.exec(arg);
    if (own !== null) return [asScript(arg.slice(own[0].length))];
    if (arg === "run" && args[at - 1] === "bisect") return rest(args, at + 1);
    return runs ? [asScript(arg)] : [];
  });
}

/** `docker exec box cmd`, `docker run image cmd`, `kubectl exec pod -- cmd`. */
function container(args: readonly string[]): readonly Wrapped[] {
  const verb = args.findIndex((arg) => /^(?:exec|run|debug)$/.test(arg));
  if (verb === -1) return [];
  const marker = args.indexOf("--", verb);
  const valued = words("-e --env -u --user -w --workdir -v --volume --name -n --namespace -c");
  return marker === -1 ? prefix({ valued, operands: 1 })(args.slice(verb + 1), { input: [] }) : rest(args, marker + 1);
}

/** A word that is a command line, whichever it is. */
function lines(args: readonly string[]): readonly Wrapped[] {
  return args.flatMap((arg) => (/\s/.test(arg) ? [asScript(arg)] : []));
}

const letters = (all: string): readonly string[] => [...all].map((letter) => `-${letter}`);

const PLAIN = prefix({});
const BARE = prefix({ flags: [] });
const TIMED = prefix({
  valued: words("-f -o --format --output"),
  flags: words("-a -p -q -v -V --append --portability --quiet --verbose"),
});
const SUDO: Prefix = {
  valued: words(
    "-a -c -u -g -h -p -C -T -r -t -U -D -R --auth-type --chdir --chroot --close-from --command-timeout --group --host",
    "--login-class --other-user --prompt --role --type --user",
  ),
  flags: words(
    "-A -B -b -E -e -H -i -K -k -L -l -N -n -P -S -s -V -v --askpass --background --bell --edit --list --login --no-update",
    "--non-interactive --preserve-env --preserve-groups --remove-timestamp --reset-timestamp --set-home --shell --stdin",
    "--validate",
  ),
  assigns: true,
};
const NAMESPACES = words(
  "-C -f -i -m -n -p -T -u -U --cgroup --fork --ipc --keep-caps --mount --net --pid --time --user --uts",
);
const UNSHARE: Prefix = {
  valued: words(
    "-G -l -R -S -w --boottime --load-interp --map-group --map-groups --map-user --map-users --monotonic --owner",
    "--propagation --root --setgid --setgroups --setuid --wd",
  ),
  flags: [
    ...NAMESPACES,
    ...words("-c -r --forward-signals --kill-child --map-auto --map-current-user --map-root-user --mount-proc"),
  ],
};
const NSENTER: Prefix = {
  valued: words("-G -N -S -t -W --net-socket --setgid --setuid --target --wdns"),
  flags: [
    ...NAMESPACES,
    ...words("-a -e -F -r -w -Z --all --env --follow-context --no-fork --preserve-credentials --root --wd"),
  ],
};
const CHRT: Prefix = {
  valued: words("-T -P -D --sched-deadline --sched-period --sched-runtime"),
  flags: words(
    "-a -b -d -f -i -m -o -p -r -R -v --all-tasks --batch --deadline --fifo --idle --max --other --pid --reset-on-fork --rr",
    "--verbose",
  ),
  operands: 1,
};
const TASKSET = words("-a -c -p --all-tasks --cpu-list --pid");
const FLOCK: Prefix = {
  valued: words("-w -E --conflict-exit-code --length --start --timeout --wait"),
  flags: words(
    "-c -e -F -n -o -s -u -x --close --command --exclusive --nb --no-fork --nonblock --shared --unlock --verbose",
  ),
  operands: 1,
};
const WATCH: Prefix = {
  valued: words("-n -q -s --equexit --interval --shotsdir"),
  flags: words(
    "-b -C -c -d -e -f -g -p -r -t -w -x --beep --chgexit --color --differences --errexit --exec --follow --no-color",
    "--no-rerun --no-title --no-wrap --precise",
  ),
};
const STRACE: Prefix = {
  valued: [
    ...letters("abeEIoOpPsSuUX"),
    ...words(
      "--argv0 --attach --columns --env --output --string-limit --summary-columns --summary-sort-by --trace --user",
    ),
  ],
  flags: [
    ...letters("AcCdDfFhiknNqrtTvVwxyYzZ"),
    ...words(
      "--decode-fds --follow-forks --no-abbrev --output-separately --quiet --summary --summary-only --syscall-times",
    ),
  ],
};
const LTRACE: Prefix = { valued: letters("aADeFlnopsuwx"), flags: letters("bcCfhiLrStTV") };
const SSH: Prefix = {
  valued: letters("BbcDEeFIiJLlmOoPpQRSWw"),
  flags: letters("46AaCfGgKkMNnqsTtVvXxYy"),
  operands: 1,
};

/** Programs that start other programs, and how to find those. All of several ways are tried. */
const UNWRAP = byName<readonly Unwrap[]>([
  ["nohup builtin catchsegv errno dbus-run-session eatmydata", [BARE]],
  ["setsid", [prefix({ flags: words("-c -f -w --ctty --fork --wait") })]],
  ["unbuffer", [prefix({ flags: ["-p"] })]],
  ["chronic", [prefix({ flags: ["-e", "-v"] })]],
  ["torify torsocks tsocks ts linux32 linux64", [PLAIN]],
  ["fakeroot caffeinate pkexec proot proxychains proxychains4 dumb-init tini gosu su-exec", [anywhere]],
  ["run0 dzdo please ifne nocache lckdo trickle schroot systemd-nspawn s6-setuidgid", [anywhere]],
  ["command", [(args, given) => (/^-[pvV]*[vV]/.test(args[0] ?? "") ? [] : PLAIN(args, given))]],
  ["exec", [prefix({ valued: ["-a"], flags: ["-c", "-l"] })]],
  ["time gtime", [TIMED]],
  ["nice", [prefix({ valued: ["-n", "--adjustment"], flags: letters("0123456789") })]],
  [
    "ionice",
    [prefix({ valued: words("-c -n -p -P -u --class --classdata --pid --pgid --uid"), flags: ["-t", "--ignore"] })],
  ],
  ["chrt", [prefix(CHRT)]],
  ["taskset", [prefix({ flags: TASKSET, operands: 1 })]],
  ["prlimit setpriv capsh systemd-run systemd-inhibit firejail bwrap", [anywhere, commandOption]],
  [
    "valgrind perf numactl cgexec ssh-agent rlwrap logsave setuidgid envuidgid envdir softlimit chpst runcon",
    [anywhere],
  ],
  ["setarch i386 xvfb-run dbus-launch faketime cpulimit aa-exec schedtool run-one start-stop-daemon", [anywhere]],
  ["ld.so ld-linux.so ld-linux-x86-64.so ld-linux-aarch64.so ld-musl-x86_64.so pipenv", [anywhere]],
  ["hyperfine", [lines, anywhere]],
  ["sg", [commandOption, joined({ operands: 1 })]],
  [
    "timeout gtimeout",
    [
      prefix({
        valued: words("-s -k --signal --kill-after"),
        flags: words("-f -p -v --foreground --preserve-status --verbose"),
        operands: 1,
      }),
    ],
  ],
  ["stdbuf", [prefix({ valued: words("-i -o -e --input --output --error"), flags: [] })]],
  ["flock", [prefix(FLOCK), commandOption]],
  ["chroot", [prefix({ valued: words("--groups --userspec"), flags: ["--skip-chdir"], operands: 1 })]],
  ["unshare", [prefix(UNSHARE)]],
  ["nsenter", [prefix(NSENTER)]],
  ["strace", [prefix(STRACE)]],
  ["ltrace", [prefix(LTRACE)]],
  ["sudo doas", [prefix(SUDO), loginShell]],
  ["su runuser script", [commandOption, anywhere]],
  ["env", [env]],
  ["xargs gxargs", [xargs]],
  ["parallel sem", [parallel, joined(PARALLEL), parallelLines]],
  ["watch", [joined(WATCH)]],
  ["eval", [joined({})]],
  ["trap", [trapped]],
  ["find gfind", [findActions]],
  ["fd fdfind", [fdActions]],
  ["compgen complete", [named(/^-C/)]],
  ["mapfile readarray", [named(/^-[tOsnu]{0,4}C/)]],
  ["split", [named(/^--fil[ter]{0,3}=?/)]],
  ["bash sh dash ash rbash ksh mksh posh yash git-shell", [shell("bash")]],
  ["zsh fish csh tcsh nu xonsh elvish pwsh powershell", [shell("other")]],
  ["busybox toybox", [PLAIN]],
  [
    "npm pnpm yarn bun uv poetry pipenv pdm hatch rye pixi conda mamba bundle asdf mise nvm pyenv rbenv rustup volta nix guix",
    [afterVerb(/^(?:exec|run|x|dlx|develop|shell)$/), named(/^(?:-c|--call=?|--run=?)$/)],
  ],
  ["toolbox distrobox flatpak devbox op doppler aws-vault chamber dotenvx", [afterVerb(/^(?:exec|run|enter)$/)]],
  ["systemd-cat daemon daemonize", [anywhere]],
  ["adb", [afterVerb(/^shell$/), (args) => lines(args)]],
  ["tmux screen", [lines]],
  ["vagrant", [commandOption]],
  ["expect gdb sqlite3 psql", [named(/^(?:[.:]?!|\\!|\.?(?:shell|system|spawn)\s)/)]],
  ["ssh", [joined(SSH), named(/^(?:-o)?(?:Proxy|Local)Command=/i)]],
  ["scp sftp", [named(/^(?:-o)?(?:Proxy|Local)Command=/i)]],
  ["rsync", [named(/^(?:-[a-zA-Z]*e|--rsh=?|--rsync-path=?)/)]],
  ["tar gtar bsdtar", [tar]],
  ["git", [git]],
  ["docker podman nerdctl kubectl oc crictl lxc", [container]],
  ["vim vi nvim view ex ed nano emacs", [named(/^(?:-c|--cmd=?|\+)/, /^:?!/)]],
  ["less more man", [named(/^(?:-P|--pager=?|\+[^!]{0,64}!)/)]],
  ["python pypy perl ruby node nodejs deno php lua tclsh rscript", [textsOfCode]],
  ["awk gawk mawk nawk", [(args, given) => (awkReach(args) === "starts" ? textsOfCode(args, given) : [])]],
  ["source .", [(args, { input }) => (/^\/dev\/(?:stdin|fd\/0)$/.test(args[0] ?? "") ? input.map(asScript) : [])]],
  ["at batch", [(_args, { input }) => input.map(asScript)]],
  ["entr", [prefix({ assigns: true }), commandOption, named(/^-[acdnprz]{0,8}s/)]],
  [
    "nodemon watchexec direnv dotenv cross-env npx bunx pnpx tsx uvx pipx concurrently",
    [prefix({ assigns: true }), named(/^(?:-c$|--call(?:=|$))/)],
  ],
]);

/** What a program would start besides itself. */
export function wrappedBy(program: string, args: readonly string[], given: GivenInput): readonly Wrapped[] {
  // To bash `time` is a word of its own, to others a program with these options.
  if (program.startsWith("-")) return TIMED([program, ...args], given);
  return (UNWRAP.get(program) ?? []).flatMap((unwrap) => unwrap(args, given));
}

/** Programs that change nothing themselves: what counts is what they start. */
export const TRANSPARENT = names(
  "nohup setsid builtin command exec time gtime nice ionice timeout gtimeout stdbuf env xargs gxargs taskset chrt chronic",
  "unbuffer",
);
