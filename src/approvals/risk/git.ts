import {
  asksLfs,
  gitCall,
  isPlainSetting,
  readsConfig,
  startsOthers,
  subcommandOf,
  VERBS_THAT_READ,
} from "./git-call.ts";
import { byName, names } from "./names.ts";
import { high, type ShellRule } from "./rule.ts";
import { has, type Invocation, operandsOf } from "./shell/invocation.ts";

const CHANGES = names(
  "add commit merge rebase cherry-pick revert checkout switch restore reset rm mv branch tag stash apply am pull fetch push",
  "clone init remote config worktree submodule notes bisect clean gc prune reflog update-index write-tree commit-tree read-tree",
  "format-patch symbolic-ref update-ref sparse-checkout bundle archive maintenance repack pack-refs replace mergetool difftool",
  "filter-branch rerere lfs flow hash-object mktree mktag unpack-objects instaweb daemon request-pull send-email ls-remote",
);

function isGit({ program }: Invocation): boolean {
  return program === "git";
}

/** All of the work tree, and with it every change that was not committed. */
function takesAll(args: readonly string[]): boolean {
  return operandsOf(args).some((path) =>
    /^(?::(?:\([a-z,]{0,64}\)|[/!^])?)?(?:\.?\/?|(?:\*{1,2}\/?){1,2})$/.test(path),
  );
}

/** Whether it is said to do so whatever stands in the way. */
function forces(letters: string, ...names: readonly string[]): Judge {
  return (args) => has(args, letters, ...names);
}

type Judge = (args: readonly string[]) => boolean;

/** Verbs that throw something away, some only when they are told to. */
const DESTROYS = byName<Judge>([
  ["prune filter-branch replace", () => true],
  [
    "push",
    (args) =>
      has(args, "fd", "--force", "--force-with-lease", "--delete", "--mirror", "--prune") ||
      args.some((arg) => /^[+:]./.test(arg)),
  ],
  ["fetch pull", (args) => args.some((arg) => /^\+./.test(arg))],
  ["reset", forces("", "--hard", "--merge", "--keep")],
  ["clean", (args) => has(args, "fdxX", "--force") && !has(args, "n", "--dry-run")],
  ["checkout", (args) => has(args, "fB", "--force", "--force-create", "--discard-changes") || takesAll(args)],
  ["switch", (args) => has(args, "fC", "--force", "--force-create", "--discard-changes") || takesAll(args)],
  ["checkout-index", forces("f", "--force", "--prefix")],
  ["read-tree", forces("u", "--reset")],
  ["restore", (args) => takesAll(args) && !(has(args, "S", "--staged") && !has(args, "W", "--worktree"))],
  ["branch", (args) => args.some((arg) => /^-[a-zA-Z]*[DMCf]/.test(arg)) || has(args, "", "--force")],
  ["stash", (args) => /^(?:drop|clear)$/.test(subcommandOf(args))],
  ["reflog", (args) => /^(?:expire|delete)$/.test(subcommandOf(args))],
  ["update-ref", forces("d", "--delete", "--stdin")],
  ["worktree remote", (args) => /^(?:remove|rm|prune)$/.test(subcommandOf(args))],
  ["submodule", (args) => subcommandOf(args) === "deinit" && has(args, "f", "--force", "--all")],
  ["rm", (args) => has(args, "rf", "--force") && !args.includes("--cached")],
  ["gc", (args) => args.some((arg) => arg.startsWith("--prune"))],
]);

function destroys({ args: all }: Invocation): boolean {
  const { verb, args } = gitCall(all);
  return DESTROYS.get(verb)?.(args) === true;
}

function reachesElsewhere({ args: all }: Invocation): boolean {
  const { verb, args } = gitCall(all);
  const subcommand = subcommandOf(args);
  const [remote = ""] = operandsOf(args, ["-o", "--push-option", "-b", "--branch", "--depth", "-j", "--origin"]);
  if (/^(?:clone|send-email|daemon|request-pull)$/.test(verb)) return true;
  if (verb === "lfs") return !asksLfs(args);
  if (verb === "remote") return /^(?:add|set-url|update)$/.test(subcommand);
  if (verb === "submodule") return /^(?:add|update|sync|set-url)$/.test(subcommand);
  if (verb === "archive") return has(args, "", "--remote");
  return /^(?:push|fetch|pull|ls-remote)$/.test(verb) && /[/:@~\0]|\.\./.test(remote);
}

/** What is set, as `name=value`. */
function settingOf(args: readonly string[]): string {
  const words = operandsOf(args, ["-f", "--file", "--blob", "--type", "--default", "-t"]);
  const [name = "", value = ""] = /^(?:set|unset)$/.test(words[0] ?? "") ? words.slice(1) : words;
  return `${name}=${value}`;
}

/** Whatever is not known only to change how things look: there are too many settings that name programs and servers to list. */
function setsPower({ args: all }: Invocation): boolean {
  const { verb, args } = gitCall(all);
  if (verb !== "config") return false;
  if (readsConfig(args)) return false;
  return has(args, "fe", "--global", "--system", "--file", "--edit") || !isPlainSetting(settingOf(args));
}

function isUnknownVerb({ args: all }: Invocation): boolean {
  const { verb } = gitCall(all);
  return verb !== "" && !VERBS_THAT_READ.has(verb) && !CHANGES.has(verb);
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
      "git checkout -- .",
      "git checkout-index -f -a",
      "git read-tree -u --reset main",
      "git update-ref -d refs/heads/main",
      "git submodule deinit --all",
      "git reflog expire --all",
      "git stash clear",
      "git fetch origin +main:main",
    ],
    misses: [
      "git push origin main",
      "git reset HEAD x",
      "git clean -n",
      "git log --grep='push --force'",
      "git branch -d x",
      "git restore --staged .",
      "git checkout -- a.ts",
      "git submodule deinit lib",
      "git reflog show",
      "git stash pop",
      "git update-ref refs/heads/x main",
    ],
  }),
  high({
    name: "git-starts-programs",
    note: "Makes git start a program that it is told by name.",
    when: (run) => isGit(run) && startsOthers(gitCall(run.args)),
    matches: [
      "git -c core.pager='sh x' log",
      "git -c alias.x='!rm -rf ~' x",
      "git rebase --exec make main",
      "git bisect run ./x.sh",
      "git -c pager.log='false; ./x' log",
      "git -c branch.main.remote=https://x/y push",
      "git --exec-path=. log",
    ],
    misses: [
      "git -c color.ui=false log",
      "git -c pager.log=false log",
      "git log --grep=exec",
      "git rebase main",
      "git -C sub status",
    ],
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
    matches: [
      "git config alias.x '!sh'",
      "git config core.hooksPath .x",
      "git config --global user.name x",
      "git config diff.external ./x",
      "git config branch.main.remote https://x/y",
    ],
    misses: [
      "git config user.name x",
      "git config branch.main.remote origin",
      "git config --unset branch.main.remote",
      "git config --get core.pager",
      "git config --list",
    ],
  }),
  high({
    name: "git-unknown-verb",
    note: "An alias or an extension of git: what it runs is not told by the command.",
    when: (run) => isGit(run) && isUnknownVerb(run),
    matches: ["git up", "git $x", "git my-alias"],
    misses: ["git", "git --version", "git status", "git commit -m up"],
  }),
];
