import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type Command, flagOf, loadCommands, usageOf } from "../../src/cli/command.ts";
import { COMMANDS } from "../../src/cli/commands.ts";
import { EXIT } from "../../src/cli/output.ts";
import { AUDIT_FIELDS } from "../../src/core/audit-fields.ts";
import { REFUSALS } from "../../src/core/refusals.ts";
import type { StateOperations } from "../../src/database/operations.ts";
import { listenersOf } from "../../src/http/endpoint.ts";
import { openApiDocument } from "../../src/http/openapi.ts";
import { APPROVAL_INPUTS, type ApprovalMethodName, approvalMethodName } from "../../src/hub/methods/approval-inputs.ts";
import { stateMethods } from "../../src/hub/methods/state.ts";
import { CONSOLE_ENDPOINTS, ENDPOINTS } from "../http/server-parts.ts";
import { PROJECT } from "../support/world.ts";
import { exportsOf, type Signature } from "./declarations.ts";
import { schemaMembers } from "./schema-members.ts";

/**
 * Everything that users of a version rely on, derived from its sources: docs/compatibility.md says what is promised. Run as a
 * program, this file writes `golden.json`; a test compares.
 */
export const GOLDEN = join(import.meta.dir, "golden.json");

/** By section and name. */
export type Surface = Readonly<Record<string, Readonly<Record<string, Signature>>>>;

const read = (path: string): string => readFileSync(join(PROJECT, path), "utf8");
const sorted = <T>(entries: Iterable<readonly [string, T]>): Readonly<Record<string, T>> =>
  Object.fromEntries([...entries].toSorted(([one], [other]) => (one < other ? -1 : 1)));

export async function publicSurface(): Promise<Surface> {
  return {
    library: exportsOf(join(PROJECT, "src/index.ts")),
    "audit line": exportsOf(join(PROJECT, "src/audit/entry.ts"))["AuditEntry"] as Readonly<Record<string, string>>,
    "audit fields": auditFields(),
    "TypeScript client": typescriptClient(),
    "Python client": pythonClient(),
    endpoints: endpoints(),
    "schemas of answers": answerSchemas(),
    refusals: sorted(
      Object.entries(REFUSALS).map(([code, { decision, http, retryable, stage }]) => [
        code,
        `${http} ${stage} ${decision}, retryable: ${retryable}`,
      ]),
    ),
    mcp: mcp(),
    "requests of members to a hub": requestsToHub(),
    configuration: schemaMembers(JSON.parse(read("docs/configuration.schema.json"))),
    "tools in YAML": schemaMembers(JSON.parse(read("docs/tool.schema.json"))),
    commands: commands(await loadCommands(COMMANDS)),
    "exit codes": sorted(Object.entries(EXIT).map(([name, code]) => [name, String(code)])),
  };
}

/** Where queries, CSV and OCSF have the members of a line. */
function auditFields(): Readonly<Record<string, string>> {
  const rows = Object.entries(AUDIT_FIELDS) as readonly [
    string,
    { readonly filter?: { readonly param: string }; readonly csv?: string; readonly ocsf?: string },
  ][];
  return sorted(
    rows.map(([name, { filter, csv, ocsf }]) => {
      const places = [filter && `filter ${filter.param}`, csv && `CSV ${csv}`, ocsf && `OCSF unmapped.${ocsf}`];
      return [name, places.filter((place) => place !== undefined).join(", ")] as const;
    }),
  );
}

function typescriptClient(): Readonly<Record<string, Signature>> {
  const { exports } = JSON.parse(read("clients/typescript/package.json")) as {
    readonly exports: Readonly<Record<string, string | { readonly default: string }>>;
  };
  const modules = Object.entries(exports).flatMap(([name, target]) => {
    if (typeof target === "string") return [];
    const file = target.default.replace("./dist/", "clients/typescript/src/").replace(/\.js$/, ".ts");
    return Object.entries(exportsOf(join(PROJECT, file))).map(([key, value]) => [`${name} ${key}`, value] as const);
  });
  return sorted(modules);
}

const PYTHON = "clients/python/src/safe_tool_call";

/** The public functions, classes and methods of the Python client's public modules, with their parameters. */
function pythonClient(): Readonly<Record<string, string>> {
  const files = ["", "adapters/"].flatMap((folder) =>
    readdirSync(join(PROJECT, PYTHON, folder))
      .filter((name) => name.endsWith(".py"))
      .map((name) => `${folder}${name}`),
  );
  const found = files.flatMap((file) => {
    const text = read(`${PYTHON}/${file}`);
    const exported = /^__all__ = \[(.*?)\]/ms.exec(text)?.[1] ?? "";
    const names = [...exported.matchAll(/"(\w+)"/g)].map(([, name = ""]) => [`${file} exports ${name}`, ""] as const);
    return file.includes("/_") || file.startsWith("_") ? names : [...names, ...pythonSignatures(file, text)];
  });
  return sorted(found);
}

function pythonSignatures(file: string, text: string): readonly (readonly [string, string])[] {
  let owner = "";
  const found: (readonly [string, string])[] = [];
  for (const [, indent = "", kind, name = "", rest = ""] of text.matchAll(
    /^( {4})?(?:async )?(def|class) (\w+)((?:\[[^\]]*\])?(?:\([\s\S]*?\))?(?: -> [^\n]*)?):$/gm,
  )) {
    if (indent === "") owner = kind === "class" ? name : "";
    const path = indent === "" ? name : `${owner}.${name}`;
    const isPublic = !/(^|\.)_(?!_init__$)/.test(path) && (indent === "" || owner !== "");
    if (isPublic) found.push([`${file} ${path}`, `${kind}${rest.replace(/\s+/g, " ")}`]);
  }
  return found;
}

interface Operation {
  readonly parameters?: readonly { readonly in: string; readonly name: string; readonly required?: boolean }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema?: unknown }>> };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, { schema?: unknown }>> }>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> };
}

const ALL = [...ENDPOINTS, ...CONSOLE_ENDPOINTS];
const openApi = openApiDocument(ALL.map((endpoint) => ({ path: endpoint.path, endpoint }))) as Document;

function endpoints(): Readonly<Record<string, Signature>> {
  const listeners = new Map(
    ALL.map((endpoint) => [
      `${endpoint.method} ${endpoint.path.replace(/:(\w+)/g, "{$1}")}`,
      listenersOf(endpoint).join(", "),
    ]),
  );
  return sorted(
    Object.entries(openApi.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => {
        const name = `${method.toUpperCase()} ${path}`;
        return [name, { "": listeners.get(name) ?? "", ...membersOfOperation(operation) }] as const;
      }),
    ),
  );
}

function membersOfOperation({ parameters = [], requestBody, responses }: Operation): Readonly<Record<string, string>> {
  const sent = parameters.map((each) => [`${each.in} ${each.name}`, each.required === true ? "required" : ""] as const);
  const schemas = [
    ...Object.entries(requestBody?.content ?? {}).map(([type, { schema }]) => [`body ${type}`, schema] as const),
    ...Object.entries(responses).flatMap(([status, { content = {} }]) =>
      Object.entries(content).map(([type, { schema }]) => [`${status} ${type}`, schema] as const),
    ),
  ];
  const members = schemas.flatMap(([at, schema]) =>
    Object.entries(schemaMembers(schema)).map(([path, type]) => [`${at} ${path}`.trim(), type] as const),
  );
  return sorted([...sent, ...members]);
}

function answerSchemas(): Readonly<Record<string, Signature>> {
  return sorted(Object.entries(openApi.components.schemas).map(([name, schema]) => [name, schemaMembers(schema)]));
}

/** The methods, versions, members of `_meta` and tools that the adapter's sources name. */
function mcp(): Readonly<Record<string, string>> {
  const files = ["src/core/mcp.ts", ...readdirSync(join(PROJECT, "src/mcp")).map((name) => `src/mcp/${name}`)];
  const text = files
    .filter((name) => name.endsWith(".ts"))
    .map(read)
    .join("\n");
  const words =
    /"((?:tools|tasks|server|notifications|elicitation|subscriptions)\/[\w/]+|initialize|ping|20\d\d-\d\d-\d\d|(?:find|call)_tools?|[a-z.-]+\.[a-z]+\/[\w-]+)"/g;
  return sorted(
    [...new Set([...text.matchAll(words)].map(([, word = ""]) => word))].map((word) => [word, ""] as const),
  );
}

/** A hub answers members of the version before: what it takes from them may grow, and nothing becomes required. */
function requestsToHub(): Readonly<Record<string, Signature>> {
  const approvals = Object.entries(APPROVAL_INPUTS).map(
    ([name, input]) => [approvalMethodName(name as ApprovalMethodName), input] as const,
  );
  // The operations are only named: none runs.
  const state = stateMethods({} as StateOperations).map(({ name, input }) => [name, input] as const);
  return sorted(
    [...approvals, ...state].map(([name, input]) => {
      const schema = z.toJSONSchema(input as z.ZodType, { io: "input", unrepresentable: "any" });
      return [name, schemaMembers(schema)] as const;
    }),
  );
}

function commands(all: readonly Command[]): Readonly<Record<string, Signature>> {
  return sorted(
    all
      .filter(({ run }) => run !== undefined)
      .map(({ name, arguments: positional, options, exits }) => {
        const usage = Object.entries(positional).map(([key, one]) => usageOf(key, one));
        const flags = Object.entries(options).map(([key, { kind, short, isRequired, fallback, many, excludes }]) => {
          const details = [
            kind === undefined ? "flag" : `<${kind.choices?.join("|") ?? kind.placeholder}>`,
            short && `-${short}`,
            isRequired === true && "required",
            fallback !== undefined && `default ${JSON.stringify(fallback)}`,
            many,
            excludes !== undefined && `not with ${flagOf(excludes)}`,
          ];
          return [flagOf(key), details.filter((each) => typeof each === "string").join(", ")] as const;
        });
        const codes = Object.entries(exits).map(([code, meaning]) => [`exit ${code}`, meaning] as const);
        return [`stc ${[name, ...usage].join(" ")}`, { ...sorted(flags), ...sorted(codes) }] as const;
      }),
  );
}

/** Returns what was added, removed or changed, one line each. */
export function differences(before: Surface, now: Surface): readonly string[] {
  const [old, current] = [flat(before), flat(now)];
  const names = [...new Set([...old.keys(), ...current.keys()])].sort();
  return names.flatMap((name) => {
    const [was, is] = [old.get(name), current.get(name)];
    if (was === is) return [];
    if (was === undefined) return [`added: ${name}: ${is}`];
    return is === undefined ? [`removed: ${name}: ${was}`] : [`changed: ${name}: ${was} => ${is}`];
  });
}

function flat(value: unknown, path: readonly string[] = []): ReadonlyMap<string, string> {
  if (typeof value === "string") return new Map([[path.filter((each) => each !== "").join(" > "), value]]);
  return new Map(Object.entries(value as object).flatMap(([key, inner]) => [...flat(inner, [...path, key])]));
}

if (import.meta.main) writeFileSync(GOLDEN, `${JSON.stringify(await publicSurface(), undefined, 2)}\n`);
