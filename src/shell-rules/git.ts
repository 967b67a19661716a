import { byName, has, names, operandsOf, pathArguments } from "./call.ts";
import { UNKNOWN } from "./words.ts";

export interface GitCall {
  readonly globals: readonly string[];
  readonly verb: string;
  readonly args: readonly string[];
}

const GLOBALS_WITH_VALUE = names("-C -c --git-dir --work-tree --namespace --config-env --exec-path --super-prefix");

export function gitCall(args: readonly string[]): GitCall {
  let at = 0;
  while (at < args.length && (args[at] ?? "").startsWith("-")) at += GLOBALS_WITH_VALUE.has(args[at] ?? "") ? 2 : 1;
  return { globals: args.slice(0, at), verb: args[at] ?? "", args: args.slice(at + 1) };
}

export const VERBS_THAT_READ = names(`status log diff show rev-parse ls-files ls-tree blame annotate describe shortlog
  cat-file grep merge-base name-rev count-objects check-ignore check-attr whatchanged for-each-ref rev-list diff-tree
  diff-index diff-files version help show-ref cherry range-diff verify-commit verify-tag var show-branch fsck merge-tree
  patch-id stripspace`);

/** Returns the first word that is not an option: `add` of `git remote -v add`. */
export function subcommandOf(args: readonly string[]): string {
  return args.find((arg) => !arg.startsWith("-")) ?? "";
}

const REFS_VALUED = "--sort --format --contains --no-contains --merged --no-merged --points-at --color --column";
const LISTS_REFS = "--list --contains --no-contains --merged --no-merged --points-at";

/** Returns whether `branch` or `tag` only lists: no option that creates, moves or deletes is given. */
function listsRefs(args: readonly string[], lists: string, changes: string): boolean {
  if (has(args, changes)) return false;
  return has(args, `${lists} ${LISTS_REFS}`) || operandsOf(args, REFS_VALUED).length === 0;
}

const BRANCH_CHANGES =
  "-dDmMcCfut --delete --move --copy --force --set-upstream-to --unset-upstream --edit-description --track";
const TAG_CHANGES = "-dasumFfev --delete --annotate --sign --local-user --message --file --force --edit --verify";

const CONFIG_VALUED = "-f --file --blob --type --default -t";
const CONFIG_CHANGES = "-e --add --unset --unset-all --replace-all --rename-section --remove-section --edit";
const CONFIG_READS = /^(?:-l|--list|--get(?:-all|-regexp|-urlmatch|-color|-colorbool)?)$/;

/** Returns whether `git config` only reads: one name is read, a name with a value is set. */
export function readsConfig(args: readonly string[]): boolean {
  if (has(args, CONFIG_CHANGES)) return false;
  if (args.some((arg) => CONFIG_READS.test(arg))) return true;
  const [first = "", ...rest] = operandsOf(args, CONFIG_VALUED);
  return (
    first === "get" ||
    first === "list" ||
    (!/^(?:edit|set|unset)$/.test(first) && rest.length === 0 && first.includes("."))
  );
}

/** Returns whether `git apply` only reports what it would change. */
function onlyReports(args: readonly string[]): boolean {
  return args.some((arg) => /^--(?:check|stat|numstat|summary)$/.test(arg)) && !args.some((arg) => /^--ap/.test(arg));
}

/** Returns whether `git lfs` only shows local state. */
function onlyShowsLfs(args: readonly string[]): boolean {
  return /^(?:ls-files|status|env|version)$/.test(args[0] ?? "");
}

/** Verbs that only read with certain arguments. */
const READING_FORMS = byName<(args: readonly string[]) => boolean>([
  ["branch", (args) => listsRefs(args, "-arl", BRANCH_CHANGES)],
  ["tag", (args) => listsRefs(args, "-ln", TAG_CHANGES)],
  ["remote", (args) => /^(?:|show|get-url)$/.test(subcommandOf(args))],
  ["stash", (args) => /^(?:list|show)$/.test(subcommandOf(args))],
  ["worktree", (args) => subcommandOf(args) === "list"],
  ["config", readsConfig],
  ["reflog", (args) => !/^(?:expire|delete|drop|write)$/.test(subcommandOf(args))],
  ["notes", (args) => /^(?:|list|show)$/.test(subcommandOf(args))],
  ["submodule", (args) => /^(?:|status|summary)$/.test(subcommandOf(args))],
  ["bisect", (args) => /^(?:log|terms)$/.test(subcommandOf(args))],
  ["clean", (args) => has(args, "-n --dry-run") && !has(args, "-i --interactive")],
  ["archive", (args) => args.length === 1 && /^(?:-l|--list)$/.test(args[0] ?? "")],
  ["apply", onlyReports],
  ["sparse-checkout", (args) => args.length === 1 && args[0] === "list"],
  ["lfs", onlyShowsLfs],
  ["symbolic-ref", (args) => operandsOf(args).length < 2 && !has(args, "-dm --delete")],
]);

const WRITES_OUTPUT = /^--output(?:=|$)|^--ext-diff|^--textconv|^--filters|^--lost-found/;

export function readsOnlyGit(all: readonly string[]): boolean {
  const { globals, verb, args } = gitCall(all);
  if (verb === "") return true;
  if (startsPrograms({ globals, verb, args }) || args.some((arg) => arg.startsWith(UNKNOWN) || WRITES_OUTPUT.test(arg)))
    return false;
  if (args.length === 1 && args[0] === "--help") return true;
  return VERBS_THAT_READ.has(verb) || READING_FORMS.get(verb)?.(args) === true;
}

/** Settings that start no program and contact no server. */
const PLAIN_SETTINGS = [
  /^(?:color|advice|log|column)\./i,
  /^(?:user\.(?:name|email)|init\.defaultbranch|(?:commit|tag)\.gpgsign|gc\.auto|merge\.conflictstyle)=/i,
  /^(?:pull\.(?:rebase|ff)|push\.default|safe\.directory|rebase\.autostash|fetch\.prune|http\.version)=/i,
  /^diff\.(?:context|algorithm|renames|noprefix|mnemonicprefix)=/i,
  /^core\.(?:quotepath|autocrlf|eol|safecrlf|abbrev|ignorecase|precomposeunicode|filemode|longpaths|symlinks)=/i,
  /^core\.(?:compression|whitespace)=/i,
  /^branch\.[^=]{1,128}\.(?:merge|rebase|description)=/i,
  // A remote is given by its name, not by an address.
  /^branch\.[^=]{1,128}\.remote=(?:\.|[\w-][\w.-]{0,127})?$/i,
  /^(?:core\.pager=(?:cat)?|pager\.[a-z]+=false)$/i,
];

export function isPlainSetting(setting: string): boolean {
  return PLAIN_SETTINGS.some((plain) => plain.test(setting));
}

/** Matches options that name a program, also abbreviated. */
const PROGRAM_OPTION = /^--(?:exe|upload-[pa]|receive|op|extc|ext-d|textc|tool|filters)/;

/** Options that change which repository, programs or settings git uses. */
const OTHER_REPOSITORY = /^--(?:exec-path=|config-env|git-dir(?!=(?:\.\/)?\.git\/?$)|work-tree(?!=\.\/?$))/;

/** Returns whether the arguments make git start another program. */
export function startsPrograms({ globals, verb, args }: GitCall): boolean {
  const settings = globals.flatMap((arg, at) => (arg === "-c" ? [globals[at + 1] ?? ""] : []));
  if (!settings.every(isPlainSetting)) return true;
  if (globals.some((arg) => OTHER_REPOSITORY.test(arg))) return true;
  if (args.some((arg) => PROGRAM_OPTION.test(arg))) return true;
  if (/^(?:init|clone)$/.test(verb) && has(args, "--template")) return true;
  if (verb === "grep" && args.some((arg) => /^-[acdg-ln-zEF-IPR-Z]{0,16}O/.test(arg))) return true;
  if (verb === "rebase" && has(args, "-x")) return true;
  if (/^(?:fetch|clone|ls-remote)$/.test(verb) && args.some((arg) => /^-u./.test(arg) || arg === "-u")) return true;
  return (
    /^(?:filter-branch|difftool|mergetool|daemon|instaweb|send-email)$/.test(verb) ||
    (/^(?:submodule|bisect)$/.test(verb) && names("foreach run").has(subcommandOf(args)))
  );
}

/** Returns the files and folders that a call of git writes at paths in its arguments. */
export function writtenByGit(all: readonly string[]): readonly string[] {
  if (readsOnlyGit(all)) return writtenByVerb(all);
  const { globals } = gitCall(all);
  const elsewhere = globals.flatMap((arg, at) => (arg === "-C" ? [`${globals[at + 1] ?? ""}/.git/HEAD`] : []));
  return [...writtenByVerb(all), ...elsewhere];
}

/** Paths that verbs write, by their arguments. */
const WRITES = byName<(args: readonly string[]) => readonly string[]>([
  ["mv", pathArguments({ from: -1 })],
  ["apply am", pathArguments({ named: "--output --output-directory --directory" })],
  ["archive format-patch", pathArguments({ named: "--output --output-directory -o" })],
  [
    "init",
    pathArguments({
      from: 0,
      valued: "-b --initial-branch --template --object-format --separate-git-dir",
      named: "--separate-git-dir",
    }),
  ],
  ["clone bundle", pathArguments({ from: 1, to: 2, valued: "-b --branch --depth -o --origin -c" })],
  [
    "worktree",
    (args) => (/^(?:add|move)$/.test(subcommandOf(args)) ? operandsOf(args, "-b -B --reason").slice(1, 3) : []),
  ],
]);
const writtenByOthers = pathArguments({ named: "--output --output-directory" });

function writtenByVerb(all: readonly string[]): readonly string[] {
  const { verb, args } = gitCall(all);
  return (WRITES.get(verb) ?? writtenByOthers)(args);
}
