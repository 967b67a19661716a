import { readsOnlyGit } from "./git.ts";
import { isOne, names } from "./rule.ts";
import { awkReach, sedReach } from "./shell-filters.ts";
import { has, type Invocation, operandsOf } from "./shell-invocation.ts";
import { isShell } from "./shell-network.ts";
import { TRANSPARENT } from "./shell-wrappers.ts";

/** Programs that look and change nothing, whatever their options. */
const READERS = names(
  "ls dir vdir cat tac nl head tail wc cut tr comm paste join fold fmt column expand unexpand rev grep egrep fgrep zgrep",
  "stat du df pwd echo printf true false : test [ [[ basename dirname realpath readlink seq cal whoami id groups who w uptime",
  "uname arch nproc free ps pgrep pidof lsof lsblk lscpu lsmod lspci lsusb lsns locale getconf which type whereis",
  "hash jq od hexdump strings md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum base64 base32 basenc",
  "diff diff3 cmp expr factor numfmt look sleep tput clear tsort cd pushd popd dirs export declare typeset local readonly",
  "return exit break continue shift wait jobs read mapfile readarray let unset getopts umask ulimit times set history zcat bzcat xzcat",
  "getent cloc tokei scc nm objdump readelf size file exa eza vmstat iostat ss netstat apropos whatis bc caller logname tty",
  "man less more yes printenv shopt trap info help watch mount crontab",
);

/** Programs that look, unless one of these options is given. */
const READERS_UNLESS: ReadonlyMap<string, (args: readonly string[]) => boolean> = new Map([
  ["sort", (args: readonly string[]) => has(args, "o", "--output", "--compress-program")],
  ["uniq", (args: readonly string[]) => operandsOf(args, ["-f", "-s", "-w"]).length > 1],
  ["date", (args: readonly string[]) => has(args, "s", "--set")],
  ["hostname", (args: readonly string[]) => operandsOf(args).length > 0 || has(args, "F", "--file")],
  ["rg", (args: readonly string[]) => args.some((arg) => /^--(?:pre|hostname-bin)(?:=|$)/.test(arg))],
  ["ag", (args: readonly string[]) => args.some((arg) => arg.startsWith("--pager"))],
  ["ack", (args: readonly string[]) => args.some((arg) => arg.startsWith("--pager"))],
  ["bat", (args: readonly string[]) => args.some((arg) => arg.startsWith("--pager"))],
  ["tree", (args: readonly string[]) => has(args, "oR", "--output")],
  ["shuf", (args: readonly string[]) => has(args, "o", "--output")],
  ["xxd", (args: readonly string[]) => has(args, "r") || operandsOf(args, ["-l", "-s", "-c", "-g"]).length > 1],
  ["yq", (args: readonly string[]) => has(args, "i", "--inplace")],
  [
    "dmesg",
    (args: readonly string[]) => has(args, "cCDEn", "--clear", "--read-clear", "--console-off", "--console-level"),
  ],
  [
    "journalctl",
    (args: readonly string[]) => has(args, "", "--vacuum-size", "--vacuum-time", "--rotate", "--flush", "--sync"),
  ],
  [
    "tar",
    (args: readonly string[]) =>
      !/^-?[zjJv]*t[zjJvf]*$/.test(args[0] ?? "") || args.some((arg) => /^-[IFC]|^--/.test(arg)),
  ],
  ["unzip", (args: readonly string[]) => !has(args, "lvZ")],
  ["find", (args: readonly string[]) => args.some((arg) => /^-(?:delete|f(?:print|ls)|ok)/.test(arg))],
  ["fd", () => false],
  ["sed", (args: readonly string[]) => sedReach(args) !== "reads"],
  ["awk", (args: readonly string[]) => awkReach(args) !== "reads"],
  ["gawk", (args: readonly string[]) => awkReach(args) !== "reads"],
  ["mawk", (args: readonly string[]) => awkReach(args) !== "reads"],
  ["git", (args: readonly string[]) => !readsOnlyGit(args)],
]);

const VERSION = /^(?:--version|--help|-V|-v|version|help)$/;
/** What has other uses for such words. */
const NO_VERSION = names("rm mv cp kill pkill");

/** Whether a program only looks: nothing is written, sent or started. Redirections are judged apart. */
export function isReading(run: Invocation, functions: ReadonlySet<string>): boolean {
  const { program, spelled, args } = run;
  if (program === "" || functions.has(spelled)) return true;
  if (TRANSPARENT.has(program) || READERS.has(program)) return true;
  const unless = READERS_UNLESS.get(program);
  if (unless !== undefined) return !unless(args);
  return isVersion(run);
}

/** `python --version` and its like. */
export function isVersion(run: Invocation): boolean {
  // To a shell `-v` says to read on, loudly.
  const asked = isShell(run) ? /^--(?:version|help)$/ : VERSION;
  return run.args.length === 1 && asked.test(run.args[0] ?? "") && !isOne(run, NO_VERSION) && !run.readsInput;
}
