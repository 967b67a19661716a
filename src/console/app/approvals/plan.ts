import { listedMembers, viewLabel } from "../../../core/approval-view.ts";
import { quotedCommand, quotedText } from "../../../core/headline.ts";
import { SHELL_ARGV } from "../../../core/shell-script.ts";
import { members } from "../api.ts";

/** The plan in a request's view, in parts that a person can read. */

/** A part of a plan: lines of the display, or one text with line ends of its own. */
export interface PlanPart {
  readonly label: string;
  readonly value: string | readonly string[];
  readonly as?: "diff";
  /** The service sends only the start and the end of a very long text: this is what it says about the rest. */
  readonly omission?: string;
  /** Shown before the value and after `omission`. */
  readonly end?: string;
}

export interface PlanShown {
  readonly title: string;
  /** The parts that an approver decides about: nothing is approved before all of them were on the page. */
  readonly main: readonly PlanPart[];
  /** Everything else in the plan. */
  readonly more: readonly PlanPart[];
}

const COMPACT_CHARACTERS_MAX = 160;

/** Returns whether a part is short enough to stand next to its label. */
export function isCompact({ value, end, as }: PlanPart): boolean {
  if (end !== undefined || as !== undefined) return false;
  const [line = "", ...others] = typeof value === "string" ? [value] : value;
  return others.length === 0 && line.length <= COMPACT_CHARACTERS_MAX && !line.includes("\\u{a}");
}

type Members = Readonly<Record<string, unknown>>;

/**
 * Reads the plan in a view. A view of an unknown form is shown whole. `isQuestion`: the call wants an answer from the approver.
 */
export function planOf(view: unknown, { isQuestion = false } = {}): PlanShown {
  const all = members(view);
  const target = members(all["target"]);
  const { title, main, more: folded = [], used } = (isQuestion ? questionOf(all) : undefined) ?? mainOf(all, target);
  const isRepeated = used.target.includes("arguments") && isEqual(target["arguments"], all["arguments"]);
  const rest = without(all, [...used.view, ...(isRepeated ? ["arguments"] : [])]);
  const more = [
    ...folded,
    ...listedMembers(rest, "console").map((name) => part(words(viewLabel(name)), rest[name])),
    ...Object.entries(without(target, [...used.target, "system", "kind"])).map(([name, value]) =>
      part(`Target: ${words(name)}`, value),
    ),
    ...(typeof all["description"] === "string" ? [part("The tool's description", all["description"])] : []),
  ];
  const isUnknown = typeof view !== "object" || view === null || Array.isArray(view);
  return { title, main: isUnknown ? [part("View", view)] : main, more };
}

interface Main {
  readonly title: string;
  readonly main: readonly PlanPart[];
  /** Parts that are the same for every call of the kind. */
  readonly more?: readonly PlanPart[];
  readonly used: { readonly view: readonly string[]; readonly target: readonly string[] };
}

/** Returns a question to a person; undefined where the arguments are not those of one. */
function questionOf({ arguments: args }: Members): Main | undefined {
  const { question, context, choices, ...others } = members(args);
  if (typeof question !== "string" || Object.keys(others).length > 0) return undefined;
  return {
    title: "Question",
    main: [part("Question", question), ...(context === undefined ? [] : [part("Context", context)])],
    // The answers to choose from are where the answer is given.
    more: choices === undefined ? [] : [part("Choices", choices)],
    used: { view: ["arguments"], target: [] },
  };
}

/** Variables that the service sets itself for every command: manifests cannot set the first five, and the others have one value. */
const STANDARD_NAMES: ReadonlySet<string> = new Set(["PATH", "HOME", "LANG", "LC_ALL", "TZ"]);
const STANDARD_LINES: ReadonlySet<string> = new Set([
  ...["TERM=dumb", "NO_COLOR=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"],
  ...["accept: application/json, text/*;q=0.5", "content-type: application/json"],
  "accept: application/graphql-response+json, application/json;q=0.9",
]);

/** Returns the lines that say something about this call, and those that every such call has. */
function apart(
  label: string,
  lines: readonly string[],
): { readonly own: readonly PlanPart[]; readonly more: readonly PlanPart[] } {
  const isStandard = (line: string): boolean =>
    STANDARD_LINES.has(line) || (line.includes("=") && STANDARD_NAMES.has(line.slice(0, line.indexOf("="))));
  const own = lines.filter((line) => !isStandard(line));
  const standard = lines.filter(isStandard);
  return {
    own: own.length === 0 ? [] : [{ label, value: own }],
    more: standard.length === 0 ? [] : [{ label: `Standard ${label.toLowerCase()}`, value: standard }],
  };
}

function mainOf(view: Members, target: Members): Main {
  if (Array.isArray(view["command"])) return commandOf(view, view["command"]);
  switch (target["kind"]) {
    case "http":
      return httpOf(target);
    case "grpc":
      return grpcOf(view, target);
    case "mcp":
      return mcpOf(target);
    case "sql":
      return queryOf(target);
    case "fs":
      return filesOf(view, target);
    default:
      return {
        title: "Function call",
        main: [part("Arguments", view["arguments"] ?? null)],
        used: { view: ["arguments"], target: [] },
      };
  }
}

function commandOf(view: Members, words: readonly unknown[]): Main {
  const isScript = words.length === SHELL_ARGV.length + 2 && SHELL_ARGV.every((token, at) => words[at + 1] === token);
  const script = isScript ? words.at(-1) : undefined;
  const before = script === undefined ? words : words.slice(0, -1);
  const isPlain = before.every((word) => typeof word === "string");
  const command = isPlain ? quotedCommand(before as readonly string[]) : planLines(before);
  const environment = members(view["environment"]);
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${plain(value)}`);
  const { own, more } = apart("Environment", variables);
  return {
    title: script === undefined ? "Command" : "Shell script",
    main: [
      ...(script === undefined ? [] : [part("Script", script)]),
      { label: script === undefined ? "Command line" : "Run by", value: command },
      ...("workingDir" in view ? [part("In the directory", view["workingDir"])] : []),
      ...own,
    ],
    more,
    used: { view: ["command", "workingDir", ...(variables.length > 0 ? ["environment"] : [])], target: [] },
  };
}

function httpOf(target: Members): Main {
  if (target["operation"] !== undefined) return operationOf(target);
  const { method, url, headers, body } = target;
  const fields = Object.entries(members(headers)).map(([name, value]) => `${name}: ${plain(value)}`);
  const { own, more } = apart("Headers", fields);
  return {
    title: "HTTP request",
    main: [
      { label: "Request", value: [`${plain(method)} ${plain(url)}`] },
      ...own,
      ...(body === undefined ? [] : [part("Body", body)]),
    ],
    more,
    used: { view: [], target: ["method", "url", ...(fields.length > 0 ? ["headers"] : []), "body"] },
  };
}

function operationOf(target: Members): Main {
  const { operation, documentSha256, method, url, headers, body } = target;
  const fields = Object.entries(members(headers)).map(([name, value]) => `${name}: ${plain(value)}`);
  const { own, more } = apart("Headers", fields);
  const { query, variables } = members(body);
  // A body of another form, such as one that the service has shortened, is shown as it is.
  const parts =
    query === undefined ? [part("Body", body)] : [part("Variables", variables ?? {}), part("Document", query)];
  return {
    title: "GraphQL request",
    main: [
      { label: "Operation", value: plain(operation) },
      { label: "Request", value: [`${plain(method)} ${plain(url)}`] },
      ...parts,
      ...own,
    ],
    more: [{ label: "SHA-256 of the document", value: plain(documentSha256) }, ...more],
    used: {
      view: [],
      target: ["operation", "documentSha256", "method", "url", ...(fields.length > 0 ? ["headers"] : []), "body"],
    },
  };
}

function grpcOf(view: Members, target: Members): Main {
  return {
    title: "gRPC call",
    main: [
      { label: "Method", value: plain(target["path"]) },
      { label: "At", value: plain(target["endpoint"]) },
      part("Message", view["message"] ?? null),
    ],
    used: { view: ["message"], target: ["path", "endpoint"] },
  };
}

function mcpOf(target: Members): Main {
  return {
    title: "MCP tool call",
    main: [
      { label: "Server's tool", value: `${plain(target["tool"])} on ${plain(target["system"])}` },
      part("Arguments", target["arguments"] ?? null),
    ],
    used: { view: [], target: ["tool", "arguments"] },
  };
}

function rowsOf(changes: string, matches: unknown): string {
  return matches === undefined
    ? `At most ${changes} change`
    : `${plain(matches)} match now; no more than ${changes} change`;
}

function queryOf(target: Members): Main {
  const { statement, parameters, user, changes, matches } = target;
  const isChange = changes !== undefined;
  const values = Array.isArray(parameters) ? parameters : [];
  return {
    title: isChange ? "Database change" : "Database query",
    main: [
      part("Statement", statement ?? null),
      { label: "At", value: `${plain(target["system"])}${user === undefined ? "" : `, as ${plain(user)}`}` },
      { label: "Values", value: values.map((value, at) => `$${at + 1} = ${value === null ? "NULL" : plain(value)}`) },
      ...(isChange ? [{ label: "Rows", value: rowsOf(plain(changes), matches) }] : []),
    ],
    used: { view: [], target: ["statement", "parameters", "user", "changes", "matches"] },
  };
}

function filesOf(view: Members, target: Members): Main {
  const { operation, path, diff } = target;
  if (!Array.isArray(diff)) {
    return {
      title: "File operation",
      main: [part("Arguments", view["arguments"] ?? null)],
      used: { view: ["arguments"], target: [] },
    };
  }
  return {
    title: "File change",
    main: [
      { label: operation === "write" ? "Writes" : plain(operation), value: plain(path) },
      { label: "Difference", value: diff.map(plain), as: "diff" },
    ],
    used: { view: [], target: ["operation", "path", "diff"] },
  };
}

const PATHS_SHOWN = 4;

/** Says whether a command reaches the network, and what it may write; undefined where nothing is started. */
export function confinementWords(view: unknown): { readonly isNone: boolean; readonly text: string } | undefined {
  const { confinement: level, target } = members(view);
  if (typeof level !== "string" || level === "not applicable") return undefined;
  if (level === "none") {
    return {
      isNone: true,
      text: "Not confined: it reaches the network, and writes what the service's user may write.",
    };
  }
  const { network, writes, temporaryDirectory } = members(members(target)["confinement"]);
  if (!Array.isArray(writes) || (network !== null && !Array.isArray(network)))
    return { isNone: false, text: `Confinement: ${level}` };
  const reached =
    network === null || network.length === 0
      ? "no network"
      : `the network at TCP port${network.length === 1 ? "" : "s"} ${network.map(plain).join(", ")}, of any host`;
  const paths = writes.map((path) => quotedCommand([plain(path)]));
  const more = paths.length > PATHS_SHOWN ? [`${paths.length - PATHS_SHOWN} more`] : [];
  const own = temporaryDirectory === true ? ["a temporary directory of its own"] : [];
  const written = [...paths.slice(0, PATHS_SHOWN), ...more, ...own];
  return {
    isNone: false,
    text: `Confined: it reaches ${reached}, and writes ${written.length === 0 ? "no file" : written.join(", ")}.`,
  };
}

function part(label: string, value: unknown): PlanPart {
  const short = shortened(value);
  if (short !== undefined) return { label, ...short };
  return { label, value: typeof value === "string" ? value : planLines(value) };
}

/** Reads what the service sends of a very long text. An object with other members is data of the call. */
function shortened(
  value: unknown,
): (Required<Pick<PlanPart, "omission" | "end">> & { readonly value: string }) | undefined {
  const { shortened: is, characters, sha256, begins, ends, ...others } = members(value);
  if (is !== true || !Number.isSafeInteger(characters) || Object.keys(others).length > 0) return undefined;
  // Sentences in the display's own words contain no text that an agent could have written.
  if (typeof sha256 !== "string" || !/^[0-9a-f]{64}$/.test(sha256)) return undefined;
  if (typeof begins !== "string" || typeof ends !== "string") return undefined;
  const left = Math.max(0, Number(characters) - begins.length - ends.length);
  const omission = `The service shows the start and the end of this text. About ${left} of ${characters} characters are not shown. SHA-256 of the whole text: ${sha256}`;
  return { value: begins, omission, end: ends };
}

function plain(value: unknown): string {
  return typeof value === "string" ? value : planLines(value).join(" ");
}

const DEPTH_MAX = 70;

/**
 * Returns JSON as indented lines. Strings keep their characters except quotes, and each member has a line of its own, except in
 * short plain values, so that no string can look like a member.
 */
export function planLines(value: unknown): readonly string[] {
  return linesAt(value, "", 0);
}

function linesAt(value: unknown, indent: string, depth: number): readonly string[] {
  if (typeof value === "string") return [quotedText(value)];
  const ends = shortened(value);
  if (ends !== undefined)
    return [quotedText(ends.value), `${indent}… ${ends.omission} …`, `${indent}${quotedText(ends.end)}`];
  if (typeof value !== "object" || value === null || depth > DEPTH_MAX) return [JSON.stringify(value) ?? "null"];
  const inner = `${indent}  `;
  const isList = Array.isArray(value);
  const entries: readonly (readonly [string, unknown])[] = isList
    ? value.map((item) => ["", item] as const)
    : Object.entries(value).map(([name, item]) => [`${nameText(name)}: `, item] as const);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) return [`${open}${close}`];
  // The members of the call itself have a line each.
  const short = depth > 0 ? shortLine(value) : undefined;
  if (short !== undefined) return [short];
  const lines = entries.flatMap(([label, item], at) => {
    const own = linesAt(item, inner, depth + 1);
    const comma = at < entries.length - 1 ? "," : "";
    return own.map((line, index) => {
      const start = index === 0 ? `${inner}${label}` : "";
      return `${start}${line}${index === own.length - 1 ? comma : ""}`;
    });
  });
  return [open, ...lines, `${indent}${close}`];
}

const SHORT_CHARACTERS_MAX = 72;

/**
 * Returns a short list or object on one line where no text in it can be read as two items or as a member: there are only words,
 * numbers and addresses in it.
 */
function shortLine(value: object): string | undefined {
  const isList = Array.isArray(value);
  const items = Object.entries(value).map(([name, item]) => ({ name: isList ? "" : `${nameText(name)}: `, item }));
  if (!items.every(({ name, item }) => /^(?:[\w.-]+: )?$/.test(name) && isPlain(item))) return undefined;
  const inside = items.map(({ name, item }) => `${name}${JSON.stringify(item)}`).join(", ");
  const line = isList ? `[${inside}]` : `{ ${inside} }`;
  return line.length <= SHORT_CHARACTERS_MAX ? line : undefined;
}

function isPlain(item: unknown): boolean {
  if (typeof item === "string") return /^[\w@.+:/ -]*$/.test(item);
  return typeof item === "number" || typeof item === "boolean" || item === null;
}

function nameText(name: string): string {
  return /^[\w.-]{1,64}$/.test(name) ? name : quotedText(name);
}

function without(all: Members, names: readonly string[]): Members {
  return Object.fromEntries(Object.entries(all).filter(([name]) => !names.includes(name)));
}

function isEqual(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Returns a member's name as words: `workingDir` is `Working dir`. */
export function words(name: string): string {
  const spaced = name
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .replace("sha256", "SHA-256");
  return `${spaced.charAt(0).toUpperCase()}${spaced.slice(1)}`;
}
