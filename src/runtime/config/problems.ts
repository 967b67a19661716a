import type { z } from "zod";
import { hint } from "../../core/nearest.ts";

interface ConfigProblem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Converts Zod's issues to messages for somebody who writes YAML and has never seen the schema. */
export function configProblems(issues: readonly z.core.$ZodIssue[]): readonly ConfigProblem[] {
  return issues.flatMap((issue) => problemsOf(issue));
}

function problemsOf(issue: z.core.$ZodIssue): readonly ConfigProblem[] {
  const { path } = issue;
  switch (issue.code) {
    case "invalid_type":
      return [{ path, message: typeMessage(issue) }];
    case "invalid_value":
      return [{ path, message: ownMessage(issue) ?? `must be one of ${issue.values.map(String).join(", ")}` }];
    case "invalid_key":
      return [{ path, message: `is not a usable key: it ${issue.issues[0]?.message ?? "is not allowed"}` }];
    case "unrecognized_keys":
      return unknownKeys(issue);
    case "too_small":
    case "too_big":
      return [{ path, message: boundMessage(issue) }];
    case "invalid_union":
      return unionProblems(issue);
    default:
      return [{ path, message: issue.message }];
  }
}

/** Writes the message for unknown keys, one line for each. Pass it to `safeParse`: only there are the known keys available. */
export function configMessage(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code !== "unrecognized_keys") return undefined;
  const { shape = {} } = (issue.inst?._zod.def ?? {}) as { readonly shape?: object };
  return issue.keys.map((key) => `is not a known key${hint(key, Object.keys(shape))}`).join("\n");
}

function unknownKeys({ path, keys, message }: z.core.$ZodIssueUnrecognizedKeys): readonly ConfigProblem[] {
  const messages = message.split("\n");
  return keys.map((key, at) => ({ path: [...path, key], message: messages[at] ?? message }));
}

const KINDS: Readonly<Record<string, string>> = {
  array: "a list: [first, second], or lines that begin with -",
  object: "a table of keys and values",
  record: "a table of keys and values",
  number: "a number, without quotes",
  int: "a whole number",
  boolean: "true or false, without quotes",
  string: "text: put it in quotes",
};

function typeMessage(issue: z.core.$ZodIssueInvalidType): string {
  const { message } = issue;
  const kind = KINDS[issue.expected];
  if (ownMessage(issue) !== undefined || kind === undefined) return message;
  // Omits the advice on quotes: there is no value yet.
  if (message.endsWith("received undefined")) return `is missing; it is ${kind.split(/, without|: put/, 1)[0]}`;
  return `must be ${kind}${message.endsWith("received null") ? " (it is empty)" : ""}`;
}

const COUNTED: Readonly<Record<string, readonly [string, string]>> = {
  string: ["character", "characters"],
  array: ["entry", "entries"],
};

function boundMessage(issue: z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig): string {
  if (!issue.message.startsWith("Too ")) return issue.message;
  const [words, count] = issue.code === "too_small" ? ["at least", issue.minimum] : ["at most", issue.maximum];
  const units = COUNTED[issue.origin];
  return units === undefined
    ? `must be ${words} ${count}`
    : `must have ${words} ${count} ${units[count === 1 ? 0 : 1]}`;
}

/** Returns the schema's own message, or undefined when the message is one of Zod's. */
function ownMessage({ message }: z.core.$ZodIssue): string | undefined {
  return message.startsWith("Invalid ") ? undefined : message;
}

function unionProblems(issue: z.core.$ZodIssueInvalidUnion): readonly ConfigProblem[] {
  const shapes = issue.errors.map((errors) =>
    configProblems(errors).map(({ path, message }) => ({ path: [...issue.path, ...path], message })),
  );
  const depth = (problems: readonly ConfigProblem[]): number => Math.max(0, ...problems.map(({ path }) => path.length));
  const [closest] = [...shapes].sort((a, b) => depth(b) - depth(a));
  if (closest === undefined || depth(closest) <= issue.path.length) {
    return [{ path: issue.path, message: ownMessage(issue) ?? "has the wrong shape: see the example in README.md" }];
  }
  return closest;
}

/** Formats a path, such as `jwt.issuers[0].jwksUri`. */
export function fieldOf(path: readonly PropertyKey[]): string {
  const field = path.reduce<string>(
    (before, part) =>
      typeof part === "number" ? `${before}[${part}]` : `${before}${before === "" ? "" : "."}${String(part)}`,
    "",
  );
  return field === "" ? "(top level)" : field;
}
