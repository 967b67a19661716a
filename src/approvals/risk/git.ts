import { high, names, type ShellRule } from "./rule.ts";
import { has, type Invocation, operandsOf } from "./shell-invocation.ts";
import { UNKNOWN } from "./shell-word.ts";

interface GitCall {
  /** Before the verb. */
  readonly globals: readonly string[];
  readonly verb: string;
  readonly args: readonly string[];
}

const GLOBALS_WITH_VALUE = names("-C -c --git-dir --work-tree --namespace --config-env --exec-path --super-prefix");

function gitCall(args: readonly string[]): GitCall {
  let at = 0;
  while (at < args.length && (args[at] ?? "").startsWith("-")) at += GLOBALS_WITH_VALUE.has(args[at] ?? "") ? 2 : 1;
  return { globals: args.slice(0, at), verb: args[at] ?? "", args: args.slice(at + 1) };
}

const READS = names(
  "status log diff show rev-parse ls-files ls-tree blame annotate describe shortlog cat-file grep merge-base name-rev",
  "count-objects check-ignore check-attr whatchanged for-each-ref rev-list diff-tree diff-index diff-files version help",
  "show-ref cherry range-diff verify-commit verify-tag var show-branch fsck merge-tree patch-id stripspace",
);

const CHANGES = names(
  "add commit merge rebase cherry-pick revert checkout switch restore reset rm mv branch tag stash apply am pull fetch push",
  "clone init remote config worktree submodule notes bisect clean gc prune reflog update-index write-tree commit-tree read-tree",
  "format-patch symbolic-ref update-ref sparse-checkout bundle archive maintenance repack pack-refs replace mergetool difftool",
  "filter-branch rerere lfs flow hash-object mktree mktag unpack-objects instaweb daemon request-pull send-email ls-remote",
);

/** Verbs that list when they are given nothing, or only this. */
const LISTS: ReadonlyMap<string, RegExp> = new Map([
  ["branch", /^(?:-[arvl]+|--(?:list|all|remotes|verbose|show-current|merged|no-merged|contains|sort=.*|format=.*))$/],
  ["tag", /^(?:-l|-n[0-9]*|--(?:list|sort=.*|format=.*|contains|merged))$/],
  ["remote", /^(?:-v|--verbose|show|get-url)$/],
  ["stash", /^(?:list|show)$/],
  ["worktree", /^list$/],
  ["config", /^(?:-l|--(?:list|get|get-all|get-regexp|show-origin|local|global|name-only)|get|list)$/],
  ["reflog", /^(?:show|--.*)$/],
  ["notes", /^(?:list|show)$/],
  ["submodule", /^(?:status|summary)$/],
  ["bisect", /^(?:log|view|visualize)$/],
  ["symbolic-ref", /^(?:--short|HEAD)$/],
]);

const WRITES_OUTPUT = /^--output(?:=|$)|^--ext-diff|^--textconv|^-O|^--open-files-in-pager|^--filters/;

/** Whether a call of git only looks at the repository. */
export function readsOnlyGit(all: readonly string[]): boolean {
  const { globals, verb, args } = gitCall(all);
  if (verb === "") return true;
  if (startsOthers(globals, verb, args) || args.some((arg) => arg.startsWith(UNKNOWN) || WRITES_OUTPUT.test(arg)))
    return false;
  if (READS.has(verb)) return true;
  const lists = LISTS.get(verb);
  if (lists === undefined) return false;
  const [first] = args;
  if (first === undefined) return verb !== "stash" && verb !== "bisect" && verb !== "submodule" && verb !== "notes";
  return lists.test(first) || (verb === "config" && args.length === 1 && !first.startsWith("-"));
}

/** Settings that only change how things look. */
const PLAIN_SETTING =
  /^(?:color\.|user\.(?:name|email)=|advice\.|log\.|diff\.(?:context|algorithm|renames|noprefix|mnemonicprefix)=|core\.(?:quotepath|autocrlf|abbrev|ignorecase|precomposeunicode)=|core\.pager=(?:cat)?$|pager\.[a-z]+=false|init\.defaultbranch=|commit\.gpgsign=|tag\.gpgsign=|gc\.auto=|merge\.conflictstyle=|pull\.(?:rebase|ff)=|push\.default=|column\.|safe\.directory=|rebase\.autostash=|fetch\.prune=|http\.version=)/i;

/** Settings through which git starts programs, or takes more settings or other servers. */
const POWERFUL_SETTING =
  /^(?:alias\.|core\.(?:pager|editor|hookspath|sshcommand|fsmonitor|gitproxy|askpass|worktree)|.*\.(?:textconv|command|cmd|driver|helper|program|clean|smudge|process|uploadpack|receivepack|proxy|insteadof|pushinsteadof|url|pushurl|vcs|tool|path)$|include\.|includeif\.|credential\.|gpg\.|sequence\.editor|pager\.|filter\.|protocol\.|uploadpack\.|http\.)/i;

const EXECUTES =
  /^--(?:exec|exec-path|upload-pack|receive-pack|ext-diff|textconv|open-files-in-pager|extcmd|tool|filters|upload-archive)(?:=|$)/;

function startsOthers(globals: readonly string[], verb: string, args: readonly string[]): boolean {
  const settings = globals.flatMap((arg, at) => (arg === "-c" ? [globals[at + 1] ?? ""] : []));
  if (settings.some((setting) => !PLAIN_SETTING.test(setting))) return true;
  if (globals.some((arg) => /^--(?:exec-path=|config-env|git-dir|work-tree)/.test(arg))) return true;
  if (args.some((arg) => EXECUTES.test(arg) && !/^--exec-path$/.test(arg))) return true;
  if (verb === "grep" && args.some((arg) => /^-O/.test(arg))) return true;
  if (verb === "rebase" && has(args, "x")) return true;
  if (/^(?:fetch|clone|ls-remote)$/.test(verb) && args.some((arg) => /^-u./.test(arg) || arg === "-u")) return true;
  return (
    /^(?:filter-branch|difftool|mergetool|daemon|instaweb|send-email)$/.test(verb) ||
    names("foreach run").has(args[0] ?? "")
  );
}

function isGit({ program }: Invocation): boolean {
  return program === "git";
}

function destroys({ args: all }: Invocation): boolean {
  const { verb, args } = gitCall(all);
  const at = (word: string): boolean => args[0] === word;
  switch (verb) {
    case "push":
      return (
        has(args, "fd", "--force", "--force-with-lease", "--delete", "--mirror", "--prune") ||
        args.some((arg) => /^[+:]./.test(arg))
      );
    case "reset":
      return has(args, "", "--hard", "--merge", "--keep");
    case "clean":
      return has(args, "fdxX", "--force") && !has(args, "n", "--dry-run");
    case "checkout":
    case "switch":
      return has(args, "f", "--force", "--discard-changes");
    case "branch":
      return (
        args.some((arg) => /^-[a-zA-Z]*[DMC]/.test(arg)) || (has(args, "d", "--delete") && has(args, "f", "--force"))
      );
    case "stash":
      return at("drop") || at("clear");
    case "reflog":
      return at("expire") || at("delete");
    case "update-ref":
      return has(args, "d", "--delete", "--stdin");
    case "worktree":
    case "remote":
      return at("remove") || at("rm") || at("prune");
    case "rm":
      return has(args, "rf", "--force") && !args.includes("--cached");
    case "gc":
      return args.some((arg) => arg.startsWith("--prune"));
    default:
      return verb === "prune" || verb === "filter-branch" || verb === "replace";
  }
}

function reachesElsewhere({ args: all }: Invocation): boolean {
  const { verb, args } = gitCall(all);
  const [remote = ""] = operandsOf(args, ["-o", "--push-option", "-b", "--branch", "--depth", "-j", "--origin"]);
  if (verb === "clone" || verb === "send-email" || verb === "lfs" || verb === "daemon") return true;
  if (verb === "remote") return /^(?:add|set-url|update|rename)$/.test(args[0] ?? "");
  if (verb === "submodule") return /^(?:add|update|sync|init)$/.test(args[0] ?? "");
  if (verb === "archive") return args.some((arg) => arg.startsWith("--remote"));
  return /^(?:push|fetch|pull|ls-remote)$/.test(verb) && /[/:@~\0]|\.\./.test(remote);
}

function setsPower({ args: all }: Invocation): boolean {
  const { verb, args } = gitCall(all);
  if (verb !== "config") return false;
  const isReading = LISTS.get("config")?.test(args[0] ?? "") === true && !/^--(?:local|global)$/.test(args[0] ?? "");
  if (isReading) return false;
  return (
    has(args, "", "--global", "--system", "--file", "--edit") ||
    operandsOf(args).some((arg) => POWERFUL_SETTING.test(arg) || arg.includes(UNKNOWN))
  );
}

function isUnknownVerb({ args: all }: Invocation): boolean {
  const { verb } = gitCall(all);
  return verb !== "" && !READS.has(verb) && !CHANGES.has(verb);
}

export const GIT_RULES: readonly ShellRule[] = [
  high({
    name: "git-destroys",
    note: "Throws away commits or work that git would otherwise keep.",
    when: (run) => isGit(run) && destroys(run),
    matches: [
      "git push --force",
      "git reset --hard HEAD~3",
      "git clean -fdx",
      "git -C x push -f",
      "git push origin :main",
      "git branch -D x",
    ],
    misses: [
      "git push origin main",
      "git reset HEAD x",
      "git clean -n",
      "git log --grep='push --force'",
      "git branch -d x",
    ],
  }),
  high({
    name: "git-starts-programs",
    note: "Makes git start a program that it is told by name.",
    when: (run) => {
      const { globals, verb, args } = gitCall(run.args);
      return isGit(run) && startsOthers(globals, verb, args);
    },
    matches: [
      "git -c core.pager='sh x' log",
      "git -c alias.x='!rm -rf ~' x",
      "git rebase --exec make main",
      "git bisect run ./x.sh",
      "git --exec-path=. log",
    ],
    misses: ["git -c color.ui=false log", "git log --grep=exec", "git rebase main", "git -C sub status"],
  }),
  high({
    name: "git-reaches-elsewhere",
    note: "Sends to or takes from a repository that the command itself names.",
    when: (run) => isGit(run) && reachesElsewhere(run),
    matches: ["git clone https://x/y", "git remote add o git@h:x", "git push https://h/x main", "git fetch ../other"],
    misses: ["git push origin main", "git fetch", "git remote -v", "git pull origin feature/x"],
  }),
  high({
    name: "git-settings",
    note: "Changes settings through which git starts programs or trusts servers.",
    when: (run) => isGit(run) && setsPower(run),
    matches: ["git config alias.x '!sh'", "git config core.hooksPath .x", "git config --global user.name x"],
    misses: ["git config user.name x", "git config --get core.pager", "git config --list"],
  }),
  high({
    name: "git-unknown-verb",
    note: "An alias or an extension of git: what it runs is not told by the command.",
    when: (run) => isGit(run) && isUnknownVerb(run),
    matches: ["git up", "git $x", "git my-alias"],
    misses: ["git", "git --version", "git status", "git commit -m up"],
  }),
];
