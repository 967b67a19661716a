import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { configSchema, environmentOverrides } from "../../src/runtime/config/config.ts";
import { MODULES } from "../../src/runtime/modules.ts";
import { withSection } from "../support/generated-section.ts";
import { MEANINGS } from "./configuration-meanings.ts";
import { PROJECT } from "./documents.ts";

/**
 * The reference of the configuration in docs/configuration.md, made of the schema: keys, values and defaults are the schema's, the
 * words are its comments'. Run as a program it writes the page; a test compares.
 */
export const PAGE = join(PROJECT, "docs/configuration.md");

/** What `z.toJSONSchema` says of a value. */
interface Shape {
  readonly description?: string;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  readonly items?: Shape;
  readonly additionalProperties?: Shape | boolean;
  readonly anyOf?: readonly Shape[];
}

interface Row {
  readonly key: string;
  readonly value: string;
  readonly fallback: string;
  readonly says: string;
}

/** The tables and their headings: the configuration itself, then the entries under `systems` of each kind of target. */
const SECTIONS: readonly { readonly at: string; readonly title?: string; readonly schema: z.ZodType }[] = [
  { at: "", schema: configSchema },
  ...MODULES.targetKinds.flatMap(({ name, systems: { schema, named = {} } = {} }) => [
    ...(schema === undefined
      ? []
      : [{ at: `systems.<${name}>`, title: `\`systems.<name>\`, kind \`${name}\``, schema }]),
    ...Object.entries(named).map(([system, entry]) => ({
      at: `systems.${system}`,
      title: `\`systems.${system}\``,
      schema: entry,
    })),
  ]),
];
/** Keys whose schema stands in a file of its own. */
const FILES: Readonly<Record<string, string>> = {
  approvals: "approvals",
  dataFlow: "data-flow",
  "audit.export": "export",
  commands: "workspace",
  workspace: "workspace",
  jwt: "jwt",
  "limits.quotas": "quotas",
  bindings: "roles",
  decisionPoints: "decision-points",
  console: "listeners",
  "server.console": "listeners",
  "server.operatorsOnAgentPort": "listeners",
  ...Object.fromEntries(
    ["port", "socket", "socketMode", "tls", "allowedHosts", "allowedOrigins", "resource", "resourceScopes"].map(
      (key) => [`server.${key}`, "listeners"],
    ),
  ),
};

export function configurationReference(): string {
  const tables = SECTIONS.map(({ at, title, schema }) => {
    const shape = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Shape;
    const rows = rowsOf(shape, at, "config");
    const lines = rows.map(({ key, value, fallback, says }) => `| \`${key}\` | ${value} | ${fallback} | ${says} |`);
    const heading = title === undefined ? [] : [`### ${title}`, ""];
    return [...heading, "| key | value | default | says |", "|---|---|---|---|", ...lines].join("\n");
  });
  const overrides = environmentOverrides.map(({ variable, path }) => `| \`${variable}\` | \`${path.join(".")}\` |`);
  const variables = ["### Environment variables", "", "| variable | replaces |", "|---|---|", ...overrides].join("\n");
  return [...tables, variables].join("\n\n");
}

/** The page with this reference in its place. */
export function withReference(page: string): string {
  return withSection(page, "docs:configuration", configurationReference());
}

function rowsOf(shape: Shape, at: string, file: string): readonly Row[] {
  return Object.entries(shape.properties ?? {}).flatMap(([name, inner]) => {
    const key = at === "" ? name : `${at}.${name}`;
    const source = FILES[key] ?? file;
    if (key === "systems" || (inner.type === undefined && isNever(key))) return [];
    const item = inner.type === "array" ? inner.items : undefined;
    const below = item?.properties !== undefined ? { shape: item, at: `${key}[]` } : { shape: inner, at: key };
    if (below.shape.properties !== undefined) return rowsOf(below.shape, below.at, source);
    const fallback = fallbackOf(inner, shape.required?.includes(name) === true);
    return [{ key, value: kindOf(inner, name), fallback, says: meaningOf(inner, key, source) }];
  });
}

function fallbackOf(shape: Shape, isRequired: boolean): string {
  if (shape.default !== undefined) return `\`${JSON.stringify(shape.default)}\``;
  return isRequired ? "**required**" : "";
}

/** A key that may never be written. */
function isNever(key: string): boolean {
  return key === "audit.enabled";
}

function kindOf(shape: Shape, name: string): string {
  const { type, items, minimum, maximum, anyOf } = shape;
  if (shape.const !== undefined) return `\`${JSON.stringify(shape.const)}\``;
  if (shape.enum !== undefined) return shape.enum.map((value) => `\`${String(value)}\``).join(" ");
  if (anyOf !== undefined) return anyOf.map((each) => kindOf(each, name)).join(" or ");
  if (type === "array") return `list of ${items === undefined ? "values" : kindOf(items, name)}`;
  if (type === "integer") return `${minimum ?? ""}–${maximum ?? ""}${unitOf(name)}`;
  if (type === "number") return `${minimum ?? ""}–${maximum ?? ""}`;
  if (type === "object") return "table";
  if (type === "boolean") return "`true` or `false`";
  return type === "string" ? "text" : "anything";
}

const UNITS: readonly (readonly [RegExp, string])[] = [
  [/Bytes(Max)?$|^bytesMax$/, " bytes"],
  [/Ms(Max)?$/, " ms"],
  [/Seconds(Max)?$/, " s"],
  [/Days$/, " days"],
  [/PerMinute(Max)?$/, " a minute"],
];

function unitOf(name: string): string {
  return UNITS.find(([suffix]) => suffix.test(name))?.[1] ?? "";
}

/** The schema's description, the table's words, or the comment in the schema's file. */
function meaningOf({ description }: Shape, key: string, file: string): string {
  const path = key.split(".");
  const block = (path.at(-2) ?? "").replace("[]", "");
  const words = description ?? MEANINGS[key] ?? commentsOf(file).get(`${block} ${path.at(-1)}`) ?? "";
  return words.replaceAll("|", "\\|");
}

/** In a file, what stands over `key:` inside the constant that is named as its section, or in a part of it. */
function commentsOf(file: string): ReadonlyMap<string, string> {
  const source = readFileSync(join(PROJECT, "src/runtime/config", `${file}.ts`), "utf8");
  const found = new Map<string, string>();
  let block = "";
  for (const [, constant, comment, key] of source.matchAll(
    /^(?:export )?const (\w+)\b|^ +\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n +(\w+):/gm,
  )) {
    if (constant !== undefined) block = BLOCKS[constant] ?? constant;
    else if (key !== undefined) found.set(`${block} ${key}`, plain(comment ?? ""));
  }
  return found;
}

/** Constants that are named otherwise than the section they describe. */
const BLOCKS: Readonly<Record<string, string>> = {
  sections: "",
  issuer: "issuers",
  section: "jwt",
  clientCertificate: "clientCertificates",
  listenerKeys: "server",
  consoleListener: "console",
  consoleSection: "oidc",
  agent: "agents",
  webhook: "webhooks",
  policy: "policies",
  required: "require",
  escalation: "escalate",
  stage: "stages",
  subject: "subjects",
  quota: "quotas",
  caller: "callers",
  rule: "rules",
  binding: "bindings",
  decisionPoint: "decisionPoints",
};

function plain(comment: string): string {
  return comment.replaceAll(/\s*\n\s*\*?\s*/g, " ").trim();
}

if (import.meta.main) writeFileSync(PAGE, withReference(readFileSync(PAGE, "utf8")));
