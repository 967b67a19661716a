import { readsOnlyGit } from "./git-call.ts";
import { looksOnly } from "./looks.ts";
import { byName, names, words } from "./names.ts";
import { awkReach } from "./shell/awk.ts";
import { has, type Invocation, isOne, operandsOf } from "./shell/invocation.ts";
import { isShell } from "./shell/network.ts";
import { type Options, optionsOf } from "./shell/options.ts";
import { sedReach } from "./shell/sed.ts";
import { startsForEach, tarActions, tarOptions } from "./shell/starters.ts";
import { TRANSPARENT } from "./shell/wrappers.ts";
import { XXD_VALUED } from "./shell/writes.ts";

/** Programs that look and change nothing, whatever their options. */
const READERS = names(
  "ls dir vdir cat tac nl head tail wc cut tr comm paste join fold fmt column expand unexpand rev grep egrep fgrep zgrep",
  "stat du df pwd echo printf true false : test [ [[ basename dirname realpath readlink seq cal whoami id groups who w uptime",
  "uname arch nproc free ps pgrep pidof lsblk lscpu lsmod lspci lsusb lsns locale getconf which type whereis",
  "hash jq od hexdump strings md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum base64 base32 basenc",
  "diff diff3 cmp expr factor numfmt look sleep tput clear tsort cd pushd popd dirs export declare typeset local readonly",
  "return exit break continue shift wait jobs read mapfile readarray let unset getopts umask ulimit times set zcat bzcat xzcat",
  "getent tokei nm objdump readelf size exa eza pstree findmnt namei getfacl zipinfo zdiff zcmp bzgrep xzgrep compgen vmstat iostat ss netstat apropos whatis bc caller logname tty",
  "alias top lsb_release sw_vers apt-cache dpkg-query mountpoint lsattr getfattr addr2line locate plocate man less more yes printenv shopt trap help watch mount crontab ip last lastlog",
);

/** The machine's clock is set by an option, or by an operand that is no format. */
export function setsClock(args: readonly string[]): boolean {
  const { options, operands } = optionsOf(args, DATE);
  return (
    options.some(({ name }) => name === "s" || name === "set") || operands.some((operand) => !operand.startsWith("+"))
  );
}

const DATE: Options = {
  ...{ letters: "Ru", valued: "dfrs", attached: "I", longs: ["universal", "utc", "rfc-email", "iso-8601", "rfc-3339"] },
  valuedLongs: ["date", "file", "reference", "set"],
};

function listsArchive(args: readonly string[]): boolean {
  const names = tarOptions(args).map(({ name }) => name);
  const changes = names.some((name) =>
    /^(?:[cxruAd]|extract|get|create|append|update|concatenate|catenate|delete)$/.test(name),
  );
  return names.some((name) => name === "t" || name === "list") && !changes && tarActions(args).length === 0;
}

const ASKS = names(
  "list search show info policy depends rdepends madison deps uses desc contents provides repolist check-update",
  "outdated leaves doctor config home log",
);

/** Asks the installer what there is: by its verb, or by the first option of those that have none. */
export function asksInstaller(program: string, args: readonly string[]): boolean {
  const [first = ""] = args;
  if (/^(?:dpkg|rpm|pacman|yay)$/.test(program))
    return /^(?:-[lLsSpWI]|-q[a-z]{0,8}|-Q[a-z]{0,8}|-Ss|-Si|--list|--status|--query|--listfiles)$/.test(first);
  return ASKS.has(operandsOf(args)[0] ?? "") || /^(?:--version|--help)$/.test(first);
}

/** Logs of the system are thrown away, or their keys made. */
export const JOURNAL_CHANGES = words(
  "--vacuum-size --vacuum-time --vacuum-files --rotate --flush --relinquish-var --setup-keys --update-catalog",
  "--cursor-file",
);

/** Prints what is packed, tests it or tells its size: the file stays as it is. */
const staysPacked = (args: readonly string[]): boolean =>
  !has(args, "clt", "--stdout", "--to-stdout", "--list", "--test");

/** What is written there is shown, or gone. */
const NOT_KEPT = /^\/dev\/(?:null|stdout|stderr|tty)$/;

/** Programs that look, unless one of these options is given. */
const READERS_UNLESS = byName<(args: readonly string[]) => boolean>([
  ["sort", (args) => has(args, "o", "--output", "--compress-program")],
  ["uniq", (args) => operandsOf(args, ["-f", "-s", "-w"]).length > 1],
  ["tee", (args) => !operandsOf(args).every((path) => NOT_KEPT.test(path))],
  ["date", setsClock],
  ["dpkg", (args) => !asksInstaller("dpkg", args)],
  ["rpm", (args) => !asksInstaller("rpm", args)],
  ["history", (args) => has(args, "awcds")],
  ["file", (args) => has(args, "C", "--compile")],
  ["lsof", (args) => has(args, "D")],
  ["cloc", (args) => has(args, "", "--out", "--report-file", "--extract-with", "--write-lang-def", "--sql")],
  ["scc", (args) => has(args, "o", "--output", "--format-multi")],
  ["hostname", (args) => operandsOf(args).length > 0 || has(args, "F", "--file")],
  ["rg", (args) => args.some((arg) => /^--(?:pre|hostname-bin)(?:=|$)/.test(arg))],
  ["ag ack bat", (args) => args.some((arg) => arg.startsWith("--pager"))],
  ["tree", (args) => has(args, "oR", "--output")],
  ["shuf info time gtime", (args) => has(args, "o", "--output")],
  ["xxd", (args) => has(args, "r") || operandsOf(args, XXD_VALUED).length > 1],
  ["yq", (args) => has(args, "is", "--inplace", "--split-exp")],
  ["gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4", staysPacked],
  ["dmesg", (args) => has(args, "cCDEn", "--clear", "--read-clear", "--console-off", "--console-level")],
  ["journalctl", (args) => has(args, "", "--sync", ...JOURNAL_CHANGES)],
  ["tar", (args) => !listsArchive(args)],
  ["unzip", (args) => !has(args, "lvZp")],
  ["find", (args) => args.some((arg) => /^-(?:delete|f(?:print|ls)|ok)/.test(arg))],
  ["fd fdfind", (args) => args.some(startsForEach)],
  ["sed", (args) => sedReach(args) !== "reads"],
  ["awk gawk mawk", (args) => awkReach(args) !== "reads"],
  ["git", (args) => !readsOnlyGit(args)],
]);

/** Whether a program only looks: nothing is written, sent or started. Redirections are judged apart. */
export function isReading(run: Invocation, functions: ReadonlySet<string>): boolean {
  const { program, spelled, args } = run;
  if (program === "" || (functions.has(spelled) && run.mayCallFunction)) return true;
  const unless = READERS_UNLESS.get(program);
  if (unless !== undefined) return !unless(args);
  if (looksOnly(run)) return true;
  return TRANSPARENT.has(program) || READERS.has(program) || isVersion(run);
}

/** Any program understands these. */
const ABOUT = /^--(?:version|help)$/;
const ABOUT_SHORT = /^-(?:v|V|version)$/;
const ABOUT_WORD = names("version help");
/** Options of `version` that keep it where it is. */
const LOCALLY = /^--(?:client|short)(?:=true)?$/;
/** To others these letters say to talk more while they work: `pytest -v`. */
const SHORT_VERSIONS = names(
  "node nodejs perl ruby php lua java javac deno bun npm npx pnpm yarn gem bundle rustc tsc tsx jest vitest gulp grunt make gmake",
  "gradle gradlew mvn mvnw git docker podman terraform tofu curl ssh openssl psql mysql redis-cli sqlite3 gcc g++ cc clang nginx",
  "ffmpeg ffprobe convert magick tmux screen cargo uv composer pip eslint prettier vim nvim bash-completion wget mocha",
);
/** Nor are they words that every program knows: `node help` runs a file. */
const WORD_VERSIONS = names(
  "go docker podman nerdctl kubectl oc helm terraform tofu pulumi vault consul nomad npm pip pipx poetry conda gem bundle cargo",
  "git gh glab openssl az aws gcloud minikube kind flux istioctl argocd hugo rustup deno",
);
const PYTHONS = names("python pypy ipython");
/** Here a `v` alone means something else. */
const NO_SHORT_VERSION = /^(?:cargo|uv|composer|pip|wget|psql|mocha):-v$/;

/** `python --version` and its like: a question about the program itself. */
export function isVersion(run: Invocation): boolean {
  const [asked = "", ...rest] = run.args;
  if (run.readsInput || !rest.every((arg) => LOCALLY.test(arg))) return false;
  if (ABOUT.test(asked)) return true;
  if (isShell(run)) return false;
  if (ABOUT_WORD.has(asked)) return isOne(run, WORD_VERSIONS);
  if (asked === "-V" && isOne(run, PYTHONS)) return true;
  return ABOUT_SHORT.test(asked) && isOne(run, SHORT_VERSIONS) && !NO_SHORT_VERSION.test(`${run.family}:${asked}`);
}
