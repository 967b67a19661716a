import { type Call, has, isOne, names, operandsOf, pathsIn, type ShellDirectories, words } from "./call.ts";
import { findsSecrets, knowsWrites, readsSecrets, tarOptions, writtenBy, XXD_VALUED } from "./effects.ts";
import { awkIsPlain, readSed } from "./filters.ts";
import { gitCall, isPlainSetting, readsConfig, readsOnlyGit, startsPrograms, VERBS_THAT_READ } from "./git.ts";
import {
  contactsMetadata,
  INTERPRETERS,
  isShell,
  opensReverseShell,
  opensSocket,
  PRINTERS,
  runsWhatIsFetched,
} from "./network.ts";
import { isCatastrophic, isDisk, isForeign, isProtected, isStartedFrom, locationOf, plainPath } from "./paths.ts";
import type { ShellScript } from "./script.ts";
import { choosesLoading, DECLARERS } from "./unclear.ts";
import { INSIDE, UNKNOWN } from "./words.ts";
import { findStarts } from "./wrappers.ts";

type PathCheck = (path: string, directories: ShellDirectories) => boolean;

export const PATH_TESTS = {
  "root or home": isCatastrophic,
  "device file": isDisk,
  "system file": isProtected,
  "shell history": (path) => /(?:^|\/)\.(?:bash|zsh|sh|python|mysql|psql|node_repl|ash)_history$/.test(path),
  "outside the workspace": (path, directories) => locationOf(path, directories) === "outside",
  "not named": (path) => path.startsWith(UNKNOWN) || path === `./${INSIDE}`,
  "start file": isStartedFrom,
  "work tree": (path) => WORK_TREE.test(path),
} as const satisfies Readonly<Record<string, PathCheck>>;

export type PathTest = keyof typeof PATH_TESTS;

type CallCheck = (call: Call, script: ShellScript) => boolean;

export const CALL_TESTS = {
  "removes all that it finds in the root or a home": ({ args, directories }) => {
    const narrowed = args.some(
      (arg, at) =>
        SELECTS.test(arg) && !/^[*.?]*$/.test(args[at + 1] ?? "") && !/^(?:!|-not)$/.test(args[at - 1] ?? ""),
    );
    return removesFound(args) && !narrowed && findStarts(args).some((start) => isCatastrophic(start, directories));
  },
  "removes what it finds": ({ args }) => removesFound(args) || args.some((arg) => arg.startsWith(UNKNOWN)),
  "moves the root or a home": ({ args, directories }) =>
    operandsOf(args)
      .slice(0, -1)
      .some((path) => isCatastrophic(path, directories)),
  "clears the root or a home": ({ args, directories }) =>
    args.some((arg) => arg.startsWith("--del")) && isCatastrophic(args.at(-1) ?? "", directories),
  "makes a file system": ({ program, args, directories }) => {
    if (!isFileSystemMaker(program)) return false;
    const operands = operandsOf(args, "-t -L -b -O -F");
    const areImages = operands.every((path) => /^(?:workspace|scratch)$/.test(locationOf(path, directories)));
    return !(operands.length > 0 && areImages) && !(args.length > 0 && args.every((arg) => LISTINGS.has(arg)));
  },
  "prepares a file system": (call) => isFileSystemMaker(call.program) && call.args.length > 0 && !isVersion(call),
  "signals every process": ({ args }) => args.length > 1 && args.lastIndexOf("-1") > 0,
  "sets the shell's history": ({ program, args, variables }) =>
    [...variables, ...(DECLARERS.has(program) ? args : [])].some((set) =>
      /^HIST(?:FILE=(?:\/dev\/null)?$|(?:FILE)?SIZE=0$)/.test(set),
    ),
  "starts itself again and again": (call, { bodies }) => call.inside !== undefined && isBomb(call.inside, bodies),
  "opens a reverse shell": opensReverseShell,
  "runs what it fetches": runsWhatIsFetched,
  "contacts the metadata service": contactsMetadata,
  "opens a socket": opensSocket,
  "chooses what is loaded": choosesLoading,
  "is a file": ({ spelled }) => spelled.includes("/") && !SYSTEM_PROGRAM.test(plainPath(spelled, NOWHERE)),
  "starts programs in its script": ({ program, args }) =>
    /^g?sed$/.test(program) ? !readSed(args).isPlain : !awkIsPlain(args),
  "is plain": ({ program, args }) =>
    program === "sed" ? readSed(args).isPlain && !readSed(args).inPlace : awkIsPlain(args),
  "lists an archive": ({ args }) => {
    const letters = tarOptions(args).map(([letter]) => letter);
    return (
      letters.includes("t") &&
      !letters.some((letter) => /[cxruAdIF]/.test(letter)) &&
      !args.some((arg) => TAR_STARTS.test(arg))
    );
  },
  "starts programs as tar": ({ args }) =>
    args.some((arg) => TAR_STARTS.test(arg)) ||
    tarOptions(args).some(([letter, value]) => /[IF]/.test(letter) || (letter === "f" && /^[^/]{1,255}:/.test(value))),
  "prints only to the terminal": ({ args }) =>
    operandsOf(args).every((path) => /^\/dev\/(?:null|stdout|stderr|tty)$/.test(path)),
  "has one operand at most": ({ program, args }) =>
    operandsOf(args, program === "xxd" ? XXD_VALUED : "-f -s -w").length < 2 && !(program === "xxd" && has(args, "-r")),
  "has no operand": ({ args }) => operandsOf(args).length === 0,
  "sets the clock": ({ args }) =>
    args.some((arg) => /^(?:-[Ru]*s|--s)/.test(arg)) ||
    operandsOf(args, "-d -f -r --date --file --reference").some((operand) => !operand.startsWith("+")),
  "asks the installer": ({ program, args }) => queriesInstaller(program, args),
  "installs packages": installsPackages,
  "changes settings of packages": setsPackages,
  "names an address": ({ args }) => args.some((arg) => /^[^/]{0,64}[a-z]{2,8}:\/\//.test(arg)),
  "stays on this machine": (call) => isVersion(call) || copiesHere(call),
  "runs code": runsCode,
  "runs a project's code": runsProject,
  "starts a shell": (call) =>
    (isShell(call) && call.args.length > 0 && !isVersion(call) && !/^(?:\.|source)$/.test(call.program)) ||
    (isOne(call, INTERPRETERS) && !isVersion(call)),
  "asks for the version": isVersion,
  "opens files to everybody": ({ args }) =>
    args.some(
      (arg) => /^[0-7]{0,4}[2367]$|^0{0,4}[2-7][0-7]{3}$/.test(arg) || arg.split(",", 16).some(opensToEverybody),
    ),
  "only shows the network": ({ args }) =>
    /^(?:a|addr|address|link|route|r|neigh)$/.test(operandsOf(args)[0] ?? "") &&
    /^(?:a|addr|address|link|route|r|neigh|-br|-brief|-[46sj])$/.test(args[0] ?? "") &&
    !args.some((arg) => /^(?:add|del|delete|set|flush|change|replace)$/.test(arg)),
  "has no arguments": ({ args }) => args.length === 0,
  "has arguments": ({ args }) => args.length > 0,
  "only prints": (call) => isOne(call, PRINTERS),
  "runs commands of SQLite": runsDotCommands,
  "reads secrets": readsSecrets,
  "finds secrets": findsSecrets,
  "writes an unnamed path outside": (call) => unnamedTargets(call).some((path) => isForeign(path, call.directories)),
  "writes an unnamed start file": (call) => unnamedTargets(call).some((path) => isStartedFrom(path, call.directories)),
  "writes files": (call) => writtenBy(call).some((path) => locationOf(path, call.directories) !== "harmless"),
  "git only reads": ({ args }) => readsOnlyGit(args),
  "git starts programs": ({ args }) => startsPrograms(gitCall(args)),
  "git names an address": ({ args }) => givesAddress(args),
  "git gets settings": ({ args }) => gitSets(args),
  "git has this verb": ({ args }) =>
    gitCall(args).verb === "" || GIT_CHANGES.has(gitCall(args).verb) || VERBS_THAT_READ.has(gitCall(args).verb),
} as const satisfies Readonly<Record<string, CallCheck>>;

export type CallTestName = keyof typeof CALL_TESTS;

/** Tests of `find` that select only some of the files. */
const SELECTS =
  /^-(?:i?name|i?path|i?regex|i?wholename|[acm]time|[acm]min|size|newer.*|user|group|perm|empty|nouser|inum|links)$/;
const REMOVER = /(?:^|\/)(?:rm|unlink|shred|srm|wipe)$/;

function removesFound(args: readonly string[]): boolean {
  return args.some(
    (arg, at) => arg === "-delete" || (/^-(?:exec|ok)(?:dir)?$/.test(arg) && REMOVER.test(args[at + 1] ?? "")),
  );
}

const LISTINGS = names("-V --version --help -h -l --list -p --print print list info");

function isFileSystemMaker(program: string): boolean {
  return program.startsWith("mkfs") || /^(?:mkdosfs|mke2fs|mkswap)$/.test(program);
}

type Bodies = ShellScript["bodies"];

const bombs = new WeakMap<Bodies, Map<string, boolean>>();

/** Returns whether a function calls itself in the background, or twice in one pipeline. Recursion alone is harmless. */
function isBomb(name: string, bodies: Bodies): boolean {
  const known = bombs.get(bodies) ?? new Map<string, boolean>();
  bombs.set(bodies, known);
  const before = known.get(name);
  if (before !== undefined) return before;
  const again = [...(bodies.get(name) ?? [])].filter(
    ({ spelled }) => spelled === name || calls(bodies, { from: spelled, goal: name, seen: new Set([name]) }),
  );
  const pipes = again.flatMap(({ pipe }) => (pipe === undefined ? [] : [pipe]));
  const forks = again.some(({ background }) => background) || new Set(pipes).size < pipes.length;
  known.set(name, forks);
  return forks;
}

/** Returns whether the function `from` calls `goal`, also through other functions. */
function calls(
  bodies: Bodies,
  { from, goal, seen }: { readonly from: string; readonly goal: string; readonly seen: Set<string> },
): boolean {
  if (seen.has(from)) return false;
  seen.add(from);
  return [...(bodies.get(from) ?? [])].some(
    ({ spelled }) => spelled === goal || (bodies.has(spelled) && calls(bodies, { from: spelled, goal, seen })),
  );
}

/** Makes only absolute paths known. */
const NOWHERE: ShellDirectories = { cwd: undefined, home: undefined };

/** Matches `/bin/ls`, `/usr/local/bin/git`. */
const SYSTEM_PROGRAM = /^\/(?:usr\/(?:local\/)?)?s?bin\/[^/]+$|^\/opt\/homebrew\/bin\/[^/]+$/;

const TAR_STARTS = /^--(?:checkpoint-a|to-c|use-c|info-s|new-v|rsh-c|rmt-c)/;

/** Returns whether an installer only shows information, according to its verb or its first option. */
function queriesInstaller(program: string, args: readonly string[]): boolean {
  const [first = ""] = args;
  if (/^(?:dpkg|rpm|pacman|yay)$/.test(program))
    return /^(?:-[lLsSpWI]|-q[a-z]{0,8}|-Q[a-z]{0,8}|-Ss|-Si|--list|--status|--query|--listfiles)$/.test(first);
  return INSTALLER_QUERIES.has(operandsOf(args)[0] ?? "") || /^(?:--version|--help)$/.test(first);
}

const INSTALLER_QUERIES = names(`list search show info policy depends rdepends madison deps uses desc contents provides
  repolist check-update outdated leaves doctor config home log`);
const PACKAGE_VERBS = names(`i in ins install add ci un uninstall remove rm update upgrade up link unlink publish get
  sync download require create init self-update tool venv`);
const PACKAGE_LISTS = names(`ls list ll la view info show outdated audit why search freeze config root prefix bin whoami
  help metadata tree version versions current which index`);
/** Words before a verb such as `list`. */
const PACKAGE_NOUNS = names(`toolchain component target plugin plugins python cache store env profile channel registry
  self pm`);
const PACKAGE_CHECKS = /^(?:go (?:env|vet|fmt|doc)|cargo fmt|(?:pip|poetry|pdm|uv) check|conda env|bun pm)$/;

function installsPackages(call: Call): boolean {
  const { program, args } = call;
  if (/^(?:npm|pnpm|yarn)$/.test(program) && args.includes("audit") && (args.includes("fix") || has(args, "--fix")))
    return true;
  if (/^(?:ls|list|ll|la|view|info|show|outdated|why|search|help|tree|config|audit)$/.test(args[0] ?? "")) return false;
  // Without arguments yarn installs.
  if (program === "yarn" && operandsOf(args).length === 0 && !isVersion(call)) return true;
  return args.some((arg) => PACKAGE_VERBS.has(arg) || arg.startsWith(UNKNOWN));
}

/** Returns whether a call changes a setting of a package manager: settings name servers, shells and programs. */
function setsPackages({ program, args }: Call): boolean {
  const [verb = "", what = ""] = operandsOf(args);
  if (program === "go") return verb === "env" && has(args, "-wu");
  if (verb === "env" && /^(?:conda|pnpm)$/.test(program)) return !/^(?:list|ls|export)?$/.test(what);
  if (verb !== "config") return false;
  return /^(?:set|edit|delete|unset|fix)$/.test(what) || (program === "poetry" && what !== "" && !has(args, "--list"));
}

function runsProject(call: Call): boolean {
  const [verb, what = ""] = call.args.filter((arg) => !arg.startsWith("-"));
  if (verb === undefined || PACKAGE_VERBS.has(verb) || isVersion(call)) return false;
  if (PACKAGE_NOUNS.has(verb) && /^(?:list|ls|show|status)$/.test(what)) return false;
  // `npm version patch` runs scripts of the project.
  if (verb === "version" && what !== "") return /^(?:npm|pnpm|yarn)$/.test(call.program);
  return !PACKAGE_LISTS.has(verb) && !PACKAGE_CHECKS.test(`${call.family} ${verb}`);
}

function runsCode(call: Call): boolean {
  const { program, args } = call;
  if (program === "source" || program === ".") return true;
  if (program === "eval") return args.length > 0;
  if (isOne(call, INTERPRETERS)) return !isVersion(call);
  if (program === "busybox" || program === "toybox" || !isShell(call)) return false;
  if (args.some((arg) => /^--(?:rcfile|init-file)(?:=|$)/.test(arg))) return true;
  return !args.some((arg) => /^-[a-zA-Z]*c/.test(arg)) && !isVersion(call);
}

/** Returns whether a clause of a mode (`o+w` of `u+x,o+w`) lets everybody write, or sets the setuid, setgid or sticky bit. */
function opensToEverybody(clause: string): boolean {
  return /^[ugoa]{0,8}[+=][rwxX]{0,8}[st]|^[ugo]{0,4}[oa][ugo]{0,4}[+=][rxX]{0,4}w/.test(clause);
}

/** Returns whether `rsync` copies between two folders of this machine. */
function copiesHere({ program, args }: Call): boolean {
  const starts = args.some((arg) => /^--(?:rsh|rsync-path|daemon|config|files-from)|^-[a-zA-Z]{0,16}[eM]/.test(arg));
  return program === "rsync" && !starts && !args.some((arg) => arg.includes(":") || arg.includes(UNKNOWN));
}

const DOT_COMMANDS = words("shell system import output once load save backup archive cd excel clone log read restore");
const SQL_CODE = /load_extension|writefile|readfile|edit\(/i;

/** Returns whether SQLite gets commands, in its arguments or its input, that start programs or write files. */
function runsDotCommands({ args, input, readsInput }: Call): boolean {
  if (args.some((arg) => /^--?(?:init$|A)/.test(arg)) || [...args, ...input].some(isDotCommand)) return true;
  const operands = operandsOf(args, "-cmd -separator -newline -nullvalue -vfs -mmap -maxsize");
  return readsInput && input.length === 0 && operands.length < 2 && !args.includes("-cmd");
}

function isDotCommand(arg: string): boolean {
  if (SQL_CODE.test(arg)) return true;
  return arg.split("\n", 64).some((line) => {
    const name = /^\s{0,16}\.([a-z]{1,16})/.exec(line)?.[1];
    return name !== undefined && DOT_COMMANDS.some((command) => command.startsWith(name));
  });
}

/** Returns the arguments of a program without a rule for its writes: it may write each of them. */
function unnamedTargets(call: Call): readonly string[] {
  if (knowsWrites(call) || call.program === "git") return [];
  return call.args.flatMap(pathsIn).filter((word) => !/\s/.test(word));
}

/** Programs that print their version for `-v` or `-V` alone; for others it means verbose output: `pytest -v`. */
const SHORT_VERSIONS = names(`node nodejs perl ruby php lua java javac deno bun npm npx pnpm yarn gem bundle rustc tsc
  tsx jest vitest gulp grunt make gmake gradle gradlew mvn mvnw git docker podman terraform tofu curl ssh openssl psql
  mysql redis-cli sqlite3 gcc g++ cc clang nginx ffmpeg ffprobe convert magick tmux screen cargo uv composer pip eslint
  prettier vim nvim bash-completion wget mocha`);
const NO_SHORT_VERSION = /^(?:cargo|uv|composer|pip|wget|psql|mocha):-v$/;
/** Programs with the verbs `version` and `help`; `node help` runs a file. */
const WORD_VERSIONS = names(`go docker podman nerdctl kubectl oc helm terraform tofu pulumi vault consul nomad npm pip
  pipx poetry conda gem bundle cargo git gh glab openssl az aws gcloud minikube kind flux istioctl argocd hugo rustup
  deno`);
const PYTHONS = names("python pypy ipython");

/** Returns whether the call only prints the version or the help of the program: `python --version`, `go help`. */
function isVersion(call: Call): boolean {
  const [asked = "", ...rest] = call.args;
  if (call.readsInput || !rest.every((arg) => /^--(?:client|short)(?:=true)?$/.test(arg))) return false;
  if (/^--(?:version|help)$/.test(asked)) return true;
  if (isShell(call)) return false;
  if (asked === "version" || asked === "help") return isOne(call, WORD_VERSIONS);
  if (asked === "-V" && isOne(call, PYTHONS)) return true;
  const isShort = /^-(?:v|V|version)$/.test(asked) && isOne(call, SHORT_VERSIONS);
  return isShort && !NO_SHORT_VERSION.test(`${call.family}:${asked}`);
}

const GIT_CHANGES = names(`add commit merge rebase cherry-pick revert checkout switch restore reset rm mv branch tag
  stash apply am pull fetch push clone init remote config worktree submodule notes bisect clean gc prune reflog
  update-index write-tree commit-tree read-tree format-patch symbolic-ref update-ref sparse-checkout bundle archive
  maintenance repack pack-refs replace mergetool difftool filter-branch rerere lfs flow hash-object mktree mktag
  unpack-objects instaweb daemon request-pull send-email ls-remote`);

/** Matches a path that means all of the work tree, and with it every change that is not committed. */
const WORK_TREE = /^(?::(?:\([a-z,]{0,64}\)|[/!^])?)?(?:\.?\/?|(?:\*{1,2}\/?){1,2})$/;

function givesAddress(all: readonly string[]): boolean {
  const [remote = ""] = operandsOf(gitCall(all).args, "-o --push-option -b --branch --depth -j --origin");
  return /[/:@~\0]|\.\./.test(remote);
}

/** Returns whether `git config` changes a setting that is not known to be plain: many settings name programs and servers. */
function gitSets(all: readonly string[]): boolean {
  const { verb, args } = gitCall(all);
  if (verb !== "config" || readsConfig(args)) return false;
  const operands = operandsOf(args, "-f --file --blob --type --default -t");
  const [name = "", value = ""] = /^(?:set|unset)$/.test(operands[0] ?? "") ? operands.slice(1) : operands;
  return has(args, "-fe --global --system --file --edit") || !isPlainSetting(`${name}=${value}`);
}
