import { listedMembers, viewLabel } from "../../../core/approval-view.ts";
import { quotedCommand, quotedText } from "../../../core/headline.ts";
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

/** Reads the plan in a view. A view of an unknown form is shown whole. */
export function planOf(view: unknown): PlanShown {
  const all = members(view);
  const target = members(all["target"]);
  const { title, main, used } = mainOf(all, target);
  const isRepeated = used.target.includes("arguments") && isEqual(target["arguments"], all["arguments"]);
  const rest = without(all, [...used.view, ...(isRepeated ? ["arguments"] : [])]);
  const more = [
    ...listedMembers(rest, "console").map((name) => part(words(viewLabel(name)), rest[name])),
    ...Object.entries(without(target, [...used.target, "system", "kind"])).map(([name, value]) =>
      part(`Target: ${words(name)}`, value),
    ),
  ];
  const isUnknown = typeof view !== "object" || view === null || Array.isArray(view);
  return { title, main: isUnknown ? [part("View", view)] : main, more };
}

interface Main {
  readonly title: string;
  readonly main: readonly PlanPart[];
  readonly used: { readonly view: readonly string[]; readonly target: readonly string[] };
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
  const script = words.length > 2 && words.includes("-c") ? words.at(-1) : undefined;
  const before = script === undefined ? words : words.slice(0, -1);
  const isPlain = before.every((word) => typeof word === "string");
  const command = isPlain ? quotedCommand(before as readonly string[]) : planLines(before);
  const environment = members(view["environment"]);
  const hasEnvironment = Object.keys(environment).length > 0;
  return {
    title: script === undefined ? "Command" : "Shell script",
    main: [
      ...(script === undefined ? [] : [part("Script", script)]),
      { label: script === undefined ? "Command line" : "Run by", value: command },
      ...("workingDir" in view ? [part("In the directory", view["workingDir"])] : []),
      ...(hasEnvironment
        ? [
            {
              label: "Environment",
              value: Object.entries(environment).map(([name, value]) => `${name}=${plain(value)}`),
            },
          ]
        : []),
    ],
    used: { view: ["command", "workingDir", ...(hasEnvironment ? ["environment"] : [])], target: [] },
  };
}

function httpOf(target: Members): Main {
  const { method, url, headers, body } = target;
  return {
    title: "HTTP request",
    main: [
      { label: "Request", value: [`${plain(method)} ${plain(url)}`] },
      ...("headers" in target
        ? [
            {
              label: "Headers",
              value: Object.entries(members(headers)).map(([name, value]) => `${name}: ${plain(value)}`),
            },
          ]
        : []),
      ...(body === undefined ? [] : [part("Body", body)]),
    ],
    used: { view: [], target: ["method", "url", "headers", "body"] },
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
      { label: "Tool of the server", value: `${plain(target["tool"])} on ${plain(target["system"])}` },
      part("Arguments", target["arguments"] ?? null),
    ],
    used: { view: [], target: ["tool", "arguments"] },
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
 * Returns JSON as indented lines. Strings keep their characters except quotes, and each member has a line of its own, so that no
 * string can look like a member.
 */
export function planLines(value: unknown): readonly string[] {
  return linesAt(value, "", 0);
}

function linesAt(value: unknown, indent: string, depth: number): readonly string[] {
  if (typeof value === "string") return [quotedText(value)];
  const short = shortened(value);
  if (short !== undefined)
    return [quotedText(short.value), `${indent}… ${short.omission} …`, `${indent}${quotedText(short.end)}`];
  if (typeof value !== "object" || value === null || depth > DEPTH_MAX) return [JSON.stringify(value) ?? "null"];
  const inner = `${indent}  `;
  const isList = Array.isArray(value);
  const entries: readonly (readonly [string, unknown])[] = isList
    ? value.map((item) => ["", item] as const)
    : Object.entries(value).map(([name, item]) => [`${nameText(name)}: `, item] as const);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) return [`${open}${close}`];
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
