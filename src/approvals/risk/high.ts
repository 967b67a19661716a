import { isMaker } from "./banned.ts";
import { names } from "./names.ts";
import { isReading, isVersion } from "./reads.ts";
import { high, type ShellRule } from "./rule.ts";
import { awkReach } from "./shell/awk.ts";
import { choosesLoading } from "./shell/environment.ts";
import { removesMet } from "./shell/find.ts";
import { has, type Invocation, isOne, operandsOf } from "./shell/invocation.ts";
import { isForeign, isStartedFrom, reachOf } from "./shell/place.ts";
import { namedBy, opensSecrets, takesSecrets } from "./shell/secret-readers.ts";
import { sedReach } from "./shell/sed.ts";
import { startsProgram } from "./shell/starters.ts";
import { INSIDE, UNKNOWN } from "./shell/word.ts";
import { knowsWrites, writtenBy } from "./shell/writes.ts";

const DESTROYERS = names("dd truncate shred wipe srm fallocate wipefs sgdisk fdisk parted cryptsetup");

/** What a program does with a place that it is told is not known of every program: one outside the workspace is taken for its target. */
function mayWriteOutside(run: Invocation, functions: ReadonlySet<string>): boolean {
  if (isReading(run, functions) || knowsWrites(run) || run.program === "git") return false;
  return placesOf(run, functions).some((word) => isForeign(word, run.standing));
}

/** What it writes, or of a program of which that is not known, whatever it names. */
function placesOf(run: Invocation, functions: ReadonlySet<string>): readonly string[] {
  if (isReading(run, functions) || knowsWrites(run) || run.program === "git") return writtenBy(run);
  return [...writtenBy(run), ...run.args.flatMap(namedBy).filter((word) => !/\s/.test(word))];
}

/** `/bin/ls`, `/usr/local/bin/git`. */
const FOLDERS = /^\/(?:usr\/(?:local\/)?)?s?bin\/[^/]+$|^\/opt\/homebrew\/bin\/[^/]+$/;

/** A file that is run, not a program of the system. */
function runsFile({ spelled }: Invocation): boolean {
  return spelled.includes("/") && !FOLDERS.test(normal(spelled));
}

/** `/usr/./bin/../bin/rm` is what it is. */
function normal(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/", 64)) {
    if (part === "" || part === ".") continue;
    if (part === ".." && parts.length > 0) parts.pop();
    else parts.push(part);
  }
  return path.startsWith("/") ? `/${parts.join("/")}` : parts.join("/");
}

function removes({ program, args, standing }: Invocation): boolean {
  if (program === "find") return args.some((arg, at) => arg.startsWith(UNKNOWN) || removesMet(arg, args[at + 1] ?? ""));
  if (program === "rsync") return args.some((arg) => arg.startsWith("--del") || arg === "--remove-source-files");
  if (program !== "rm") return false;
  // What `find` or a loop meets is as little named here as what nobody knows.
  const blind = operandsOf(args).some((path) => path.startsWith(UNKNOWN) || path === `./${INSIDE}`);
  return (
    blind || has(args, "rR", "--recursive") || operandsOf(args).some((path) => reachOf(path, standing) === "outside")
  );
}

function changesLanguage({ program, args }: Invocation): boolean {
  if (program === "alias") return args.some((arg) => arg.includes("="));
  if (program === "enable" || program === "bind" || program === "complete") return args.length > 0;
  if (program === "shopt")
    return args.some((arg) => /^(?:expand_aliases|extdebug|sourcepath|lastpipe|cdable_vars)$/.test(arg));
  return program === "hash" && has(args, "p");
}

function filterStarts({ family, program, args }: Invocation): boolean {
  if (program === "sed" || program === "gsed") return sedReach(args) === "starts";
  return /^(?:awk|gawk|mawk|nawk)$/.test(family) && awkReach(args) === "starts";
}

/** What always asks. Each row says in its examples what it is about. */
export const HIGH: readonly ShellRule[] = [
  high({
    name: "removes-recursively",
    note: "Removes folders with all in them, files outside the workspace, or files that the command does not name.",
    when: removes,
    matches: [
      "rm -rf build",
      "rm --recursive x",
      "find . -name '*.log' -delete",
      "ls | xargs rm",
      "/bin/rm -fR x",
      "rm $f",
      "rm /srv/x",
    ],
    misses: ["rm file.txt", "rm -f a b", "rmdir empty", "find . -name '*.ts'", "git rm x", "rm -- -r"],
  }),
  high({
    name: "overwrites",
    note: "Overwrites, cuts or wipes files or devices.",
    when: (run) => (isOne(run, DESTROYERS) || isMaker(run.program)) && run.args.length > 0 && !isVersion(run),
    matches: ["dd if=a of=b", "truncate -s 0 x", "shred -u x"],
    misses: ["cat truncate.md", "dd --help", "git add x"],
  }),
  high({
    name: "runs-file",
    note: "Runs a file by its path: what is in it is not looked at.",
    when: runsFile,
    matches: ["./run.sh", "/tmp/git status", "~/bin/x", "../x", "env ./x", "find . -exec ./x {} +"],
    misses: ["/bin/ls", "/usr/bin/env ls", "cat ./run.sh", "/usr/./bin/ls"],
  }),
  high({
    name: "chooses-loading",
    note: "Sets a variable that decides which programs, libraries or settings are used.",
    when: choosesLoading,
    matches: [
      "PATH=. ls",
      "LD_PRELOAD=./x.so ls",
      "export GIT_SSH_COMMAND=x",
      "env NODE_OPTIONS=x ls",
      "BASH_ENV=x bash -c ls",
      "for PATH in ./x; do ls; done",
      "read -r PATH < f",
      "BASH_CMDS[ls]=./x",
      "PATH[0]=x; ls",
    ],
    misses: [
      "FOO=1 ls",
      "PAGER=cat git log",
      "NODE_ENV=test ls",
      "GIT_PAGER=cat git diff",
      "echo PATH=x",
      "IFS=, read -r a b",
      "for f in PATH; do echo $f; done",
    ],
  }),
  high({
    name: "changes-language",
    note: "Gives words another meaning for what follows.",
    when: changesLanguage,
    matches: ["alias ls=rm", "enable -f x y", "hash -p /tmp/x ls", "shopt -s expand_aliases"],
    misses: ["alias", "set -euo pipefail", "shopt -s nullglob", "hash"],
  }),
  high({
    name: "filter-starts-programs",
    note: "A script of sed or awk that starts programs, writes outside the workspace, or cannot be read.",
    when: filterStarts,
    matches: [
      "sed 's/x/y/e' f",
      "sed '1e ls' f",
      "awk 'BEGIN{system(\"ls\")}'",
      "awk '{print | \"sh\"}' f",
      "sed -f x f",
      "sed 'w /srv/x' f",
    ],
    misses: [
      "sed -n '1,5p' f",
      "sed s/exec/e/g f",
      "awk '{print $1}' f",
      "awk -F: '$3 > 5 {print $1}' f",
      "awk '/a|b/' f",
      "sed -i s/a/b/ f",
    ],
  }),
  high({
    name: "starts-programs",
    note: "An option that makes the program start another one.",
    when: startsProgram,
    matches: ["tar cf a b --checkpoint=1 --checkpoint-action=exec=ls", "rg --pre x y", "man -P x y", "vim -c ':!ls' x"],
    misses: ["tar czf a.tgz b", "rg pre x", "man ls", "sort x"],
  }),
  high({
    name: "writes-outside",
    note: "Writes outside the workspace, or where it cannot be told.",
    when: (run, { functions }) =>
      writtenBy(run).some((path) => reachOf(path, run.standing) === "outside") || mayWriteOutside(run, functions),
    matches: [
      "echo x > /etc/motd",
      "cp a ../b",
      "tee /srv/x",
      "touch /x",
      "echo x > $f",
      "mv a /opt/b",
      "cat a >| ~/../b",
      "gzip /etc/x",
      "frobnicate --output=/etc/x",
    ],
    misses: [
      "echo x > out.txt",
      "ls 2>/dev/null",
      "cp a b",
      "echo x > /tmp/x",
      "mkdir -p src/x",
      "cat < /etc/hosts",
      "ls 2>&1",
      "frobnicate --route=/api/users",
      "gcc -I/usr/include -o x x.c",
    ],
  }),
  high({
    name: "writes-start-files",
    note: "Writes a file by which git, a shell or an editor starts programs later.",
    when: (run, { functions }) => placesOf(run, functions).some((path) => isStartedFrom(path, run.standing)),
    matches: [
      "echo x >> .git/config",
      "cp x .git/hooks/pre-commit",
      "tee -a ~/.bashrc < x",
      "sed -i s/a/b/ ~/.profile",
      "cd .git && echo x > config",
    ],
    misses: [
      "cat .git/config",
      "ls .git/hooks",
      "echo x > .gitignore",
      "echo x > config",
      "cp .git/hooks/pre-commit.sample x",
      "cat ~/.bashrc",
    ],
  }),
  high({
    name: "reads-secrets",
    note: "Reads a place where keys and passwords usually lie, or looks for one.",
    when: (run) => takesSecrets(run) || opensSecrets(run),
    matches: [
      "cat /etc/shadow",
      "cat /proc/self/environ",
      "cp ~/.ssh/id_ed25519 x",
      "tar cf x ~/.aws/credentials",
      "sort < /etc/shadow",
      "cat /etc/shad*",
      "grep -e. /etc/shadow",
      "grep -r x ~/.ssh",
      "find / -name id_rsa -exec cat {} +",
      "find -L / -name id_rsa -exec cat {} +",
      "sed 'r /etc/shadow' f",
      "du --files0-from=/etc/shadow",
      "gpg -d x.gpg",
    ],
    misses: [
      "ls -l /etc/shadow",
      "grep -rn /etc/shadow docs",
      "cat *.md",
      "ls /etc",
      "cat /etc/hosts",
      "cat /proc/cpuinfo",
      "cat ~/.ssh/known_hosts",
      "echo shadow",
    ],
  }),
  high({
    name: "cannot-classify",
    note: "Cannot be told from the text what this runs.",
    of: ({ opaque }) => opaque.size > 0,
    matches: [
      "$x -rf y",
      'echo "a',
      "$(cat x)",
      "{rm,-r,x}",
      "/bin/r? x",
      `echo "\${x@P}"`,
      `echo \${!x}`,
      "zsh -c ls",
      "bash -c $x",
      "if",
    ],
    misses: [
      "ls $HOME",
      'echo "$(date)"',
      'for f in *; do cat "$f"; done',
      "ls {a,b}",
      `echo \${x:-y}`,
      "cat <<E\nhello\nE",
    ],
  }),
];
