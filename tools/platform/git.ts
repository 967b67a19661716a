import type { Lookup, LookupAttempt, ToolConfig } from "safe-tool-call";
import { z } from "zod";

const REF_CHARACTERS_MAX = 255;
const PATH_CHARACTERS_MAX = 1_024;

/** What shows nothing, or turns the text around it: a reader would see another name than git does. */
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\ufeff]|(?![\u200c\u200d])\p{Cf}/u;

/** Steps to an ancestor, as `~2` and `^` at the end of a name: the only part of git's revision language that is taken. */
const STEPS = /(?:~[0-9]{0,4}|\^[0-9]?){1,16}$/;

/**
 * A branch, a tag, a commit id of at least 7 digits, or HEAD, with steps to an ancestor behind it. The name is what
 * `git check-ref-format` allows: no ranges, `:`, `@{}`, `^{}`, which git forbids in names too.
 */
export const Ref = z
  .string()
  .max(REF_CHARACTERS_MAX)
  .regex(
    /^[A-Za-z0-9!"#$%&'()+,;<=>@\]_`{|}\u00a1-\ud7ff\ue000-\u{10ffff}][A-Za-z0-9!"#$%&'()+,;<=>@\]_`{|}\u00a1-\ud7ff\ue000-\u{10ffff}./-]*(?:~[0-9]{0,4}|\^[0-9]?){0,16}$/u,
    'must be a branch, tag or commit id, also with ~1 or ^ at its end; no space, control, leading "-", or any of : ? * [ \\',
  )
  .refine(isRefName, 'must be a name that git allows: no "..", "@{", ".lock", empty part, or "." or "/" at an end')
  .refine(
    (ref) => !STEPS.test(ref) || !/^[0-9a-f]{7,39}$|-g[0-9a-f]{4,64}$/i.test(baseOf(ref)),
    "must be a full commit id before ~ or ^, or a branch as refs/heads/<name>",
  )
  .describe(
    "A branch or tag (`main`, `origin/main`, `refs/heads/main`), a commit id (at least 7 hex digits), or HEAD; `~1` or `^` behind it for an ancestor",
  );

/** The name without its steps. */
function baseOf(ref: string): string {
  return ref.replace(STEPS, "");
}

function isRefName(stepped: string): boolean {
  const ref = baseOf(stepped);
  if (ref === "@" || ref.includes("..") || ref.includes("@{") || ref.endsWith(".") || UNSEEN.test(ref)) return false;
  return ref.split("/").every((part) => part !== "" && !part.startsWith(".") && !part.endsWith(".lock"));
}

/** A file of the repository, from its top: no empty part, `.`, `..` or `.git` in any disguise. */
export const RepositoryPath = z
  .string()
  .max(PATH_CHARACTERS_MAX)
  .regex(
    /^[A-Za-z0-9 !"#$%&'()*+,.;<=>?@[\]^_`{|}~\u00a0-\ud7ff\ue000-\u{10ffff}][A-Za-z0-9 !"#$%&'()*+,./:;<=>?@[\]^_`{|}~\u00a0-\ud7ff\ue000-\u{10ffff}-]*$/u,
    'must be relative, without control characters or "\\", and must not begin with "-", ":" or "/"',
  )
  .refine(isRepositoryPath, 'must have no empty, ".", ".." or ".git" part')
  .describe("A file's path from the top of the repository");

function isRepositoryPath(path: string): boolean {
  return (
    !UNSEEN.test(path) && path.split("/").every((part) => part !== "" && !/^\.{1,2}$/.test(part) && !isDotGit(part))
  );
}

/** `.git` as HFS+ and NTFS would also read it: any case, ignorable code points, trailing dots, spaces and streams, `git~1`. */
function isDotGit(part: string): boolean {
  const read = part
    .replace(/[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g, "")
    .normalize("NFKC")
    .toLowerCase();
  const [name = ""] = read.split(":");
  return /^(?:\.git|git~[0-9]+)$/.test(trimmedEnd(name));
}

function trimmedEnd(name: string): string {
  let end = name.length;
  while (end > 0 && (name[end - 1] === "." || name[end - 1] === " ")) end -= 1;
  return name.slice(0, end);
}

/** A full object id, SHA-1 or SHA-256. */
export const ObjectId = z.string().regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/);

const OBJECT_ID = /[0-9a-f]{40}|[0-9a-f]{64}/;

/** Before every verb: no pager, no lock, no program that the repository's own settings name, no magic in paths. */
const EVERY_CALL = [
  ...["--no-pager", "--no-optional-locks", "--literal-pathspecs"],
  ...["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.attributesFile=/dev/null"],
  ...["-c", "log.showSignature=false", "-c", "safe.bareRepository=explicit", "-c", "core.quotePath=false"],
  ...["-c", "advice.graftFileDeprecated=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false"],
];

/** Verbs that can show a difference are told not to run the repository's drivers and not to follow its taste. */
export const NO_DRIVERS = ["--no-ext-diff", "--no-textconv", "--no-color"] as const;

export const GIT_OPTIONS = [
  ...["--no-pager", "--no-optional-locks", "--literal-pathspecs", "-c"],
  ...["--verify", "--quiet", "--end-of-options"],
] as const;

/** The argv of one git verb. */
export function git(verb: string, ...args: readonly string[]): readonly string[] {
  return [...EVERY_CALL, verb, ...args];
}

/** Asks git for the one commit that `input[field]` names: a branch, else a tag, else a remote's branch or an id. */
export function commitId<Field extends string>(field: Field): Lookup<Readonly<Record<Field, string>>> {
  return (input) => revisions(input[field]).map(({ revision, answer }) => ({ args: resolve(revision), answer }));
}

interface Revision {
  readonly revision: string;
  readonly answer: RegExp;
}

function revisions(stepped: string): readonly Revision[] {
  const ref = baseOf(stepped);
  const steps = stepped.slice(ref.length);
  const named = (name: string): Revision => ({ revision: `${name}${steps}`, answer: answerOf(name) });
  if (ref === "HEAD" || /^refs\/(?:heads|tags|remotes)\//.test(ref)) return [named(ref)];
  const names = [`refs/heads/${ref}`, `refs/tags/${ref}`, ...remoteNames(ref)].map(named);
  if (!/^[0-9a-f]{7,64}$/i.test(ref)) return names;
  // The parent of an id has another one.
  const answer = steps === "" ? idThatStartsWith(ref.toLowerCase()) : OBJECT_ID;
  // A full id is that commit, even when somebody gives a branch the same name; a short one is a name first, as for git.
  if (ref.length === 40 || ref.length === 64) return [{ revision: stepped, answer }, ...names];
  return steps === "" ? [...names, { revision: ref, answer }] : names;
}

/** `origin/main`, and `remotes/origin/main` or `heads/main` as git's own lists print them. */
function remoteNames(ref: string): readonly string[] {
  if (!ref.includes("/")) return [];
  return /^(?:heads|tags|remotes)\//.test(ref) ? [`refs/remotes/${ref}`, `refs/${ref}`] : [`refs/remotes/${ref}`];
}

/** Git reads a name that does not exist and ends in `-g<digits>` as the object with those digits: that is no answer. */
function answerOf(name: string): RegExp {
  const digits = /-g([0-9a-f]{4,64})$/i.exec(name)?.[1];
  return digits === undefined ? OBJECT_ID : new RegExp(`(?!${digits.toLowerCase()})(?:${OBJECT_ID.source})`);
}

/** An id answers for itself alone: neither a remote branch with such a name nor a tag's object passes. */
function idThatStartsWith(digits: string): RegExp {
  const rest = [40, 64]
    .filter((length) => length >= digits.length)
    .map((length) => `[0-9a-f]{${length - digits.length}}`);
  return new RegExp(`${digits}(?:${rest.join("|")})`);
}

function resolve(revision: string): readonly string[] {
  return git("rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`);
}

/** Asks for the entry of a path in a commit's tree: `100644 blob <id>`, a tab and the path. */
export function fileEntry(commit: string, path: string): readonly LookupAttempt[] {
  return [
    {
      args: git("ls-tree", "-z", "--full-tree", commit, "--", path),
      answer: /(?:100[0-7]{3}|120000) blob (?:[0-9a-f]{40}|[0-9a-f]{64})\t[^\0]+\0?/,
    },
  ];
}

/** The object's id out of the answer to `fileEntry`. */
export function entryId(entry: string): string {
  return entry.slice(entry.indexOf(" blob ") + " blob ".length, entry.indexOf("\t"));
}

/** This repository alone, to be read; no program but git, and no network. What lies in its work tree is not looked at. */
export function gitConfinement(config: ToolConfig) {
  return ({ repo }: { readonly repo: string }) => ({ reads: [config.gitDirectory(repo)], runs: "command" }) as const;
}

/** Nothing of the machine's or the user's settings, no network, no replaced history, and exactly this repository. */
export function gitEnvironment(config: ToolConfig) {
  return ({ repo }: { readonly repo: string }): Readonly<Record<string, string>> => ({
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_NO_LAZY_FETCH: "1",
    GIT_ALLOW_PROTOCOL: "none",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_TERMINAL_PROMPT: "0",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_GRAFT_FILE: "/dev/null",
    GIT_LITERAL_PATHSPECS: "1",
    GIT_DIR: config.gitDirectory(repo),
    GIT_WORK_TREE: config.repository(repo),
  });
}
