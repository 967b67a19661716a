import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { VALUES_SCHEMA_FILE, valuesSchema } from "../../deploy/helm/values-schema.ts";
import { MODULES } from "../../src/modules.ts";
import { configSchema, environmentOverrides } from "../../src/runtime/config/config.ts";
import { keysOfService, WRITABLE } from "../../src/runtime/config/tenant-sections.ts";
import { reloadedKeys } from "../../src/runtime/config/values.ts";
import { describeKeys } from "../../src/runtime/manifests/editor-schema.ts";
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
  { at: "", schema: configSchema(MODULES) },
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
  bundle: "bundle",
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

/** The file that editors read. */
export const SCHEMA_FILE = join(PROJECT, "docs/configuration.schema.json");

type Mutable = { -readonly [Key in keyof Shape]: Shape[Key] } & Record<string, unknown>;

/** Returns the JSON Schema (draft 7) of the configuration: structure and defaults of the Zod schema, words of the reference. */
export function configurationSchema(): Readonly<Record<string, unknown>> {
  const [whole, ...kinds] = SECTIONS.map(({ at, schema }) => ({ at, shape: describedSchema(schema, at) }));
  const { $schema, properties = {}, required = [], ...rest } = whole?.shape ?? {};
  const { jwt, tools, systems, tenants, ...sections } = properties as Record<string, Mutable>;
  const nameOf = (at: string): string => at.replace(/^systems\.<|>$/g, "");
  const definitions = kinds.filter(({ at }) => at.startsWith("systems.<")).map(({ at, shape }) => [nameOf(at), shape]);
  const ofKinds = definitions.map(([kind]) => ({ $ref: `#/definitions/${String(kind)}` }));
  const named = kinds.filter(({ at }) => !at.startsWith("systems.<"));
  const setting = { anyOf: [TEXT, { type: "boolean" }, { type: "array", items: TEXT }, TEXTS] };
  const lists = { type: ["object", "null"], description: LISTS, additionalProperties: setting };
  const namedSystems = named.map(({ at, shape }) => [at.slice("systems.".length), { anyOf: [shape, ...ofKinds] }]);
  return {
    $schema,
    $id: "urn:safe-tool-call:configuration",
    title: "Configuration of Safe Tool Call",
    ...rest,
    required: required.filter((key) => key !== "tools"),
    // A bundle may bring the tools.
    anyOf: [{ required: ["tools"] }, { required: ["bundle"] }],
    properties: {
      tools: { ...tools, items: TEXT },
      jwt: { anyOf: [jwt, issuerAlone(jwt)], description: "Who may call: the issuers of tokens, or one issuer alone." },
      systems: {
        ...{ type: ["object", "null"], description: systems?.description ?? SYSTEMS },
        properties: Object.fromEntries(namedSystems),
        additionalProperties: { anyOf: [...ofKinds, lists] },
      },
      // A section whose keys are all comments is null.
      ...Object.fromEntries(Object.entries(sections).map(([name, section]) => [name, orNull(section)])),
      tenants: tenantsSchema(tenants, properties),
    },
    definitions: Object.fromEntries(definitions),
  };
}

/** Returns the schema of the section `tenants`: a tenant has sections of the service, without the keys that are the service's own. */
function tenantsSchema(tenants: Mutable | undefined, properties: Readonly<Record<string, Shape>>): unknown {
  const sectionOf = (name: string): unknown => {
    const { required: _, ...section } = properties[name] ?? {};
    const left = keysOfService(name);
    if (left.size === 0) return { $ref: `#/properties/${name}` };
    const kept = Object.entries(section.properties ?? {}).filter(([key]) => !left.has(key));
    return orNull({ ...section, properties: Object.fromEntries(kept) } as Mutable);
  };
  const tenant = {
    type: ["object", "null"],
    additionalProperties: false,
    properties: Object.fromEntries(WRITABLE.map((name) => [name, sectionOf(name)])),
  };
  const patterns = Object.keys((tenants?.["patternProperties"] ?? {}) as object);
  return {
    ...{ type: ["object", "null"], description: tenants?.description, additionalProperties: false },
    patternProperties: Object.fromEntries(patterns.map((pattern) => [pattern, tenant])),
  };
}

const TEXT = { type: "string" } as const;
const TEXTS = { type: "object", additionalProperties: TEXT } as const;
const LISTS = "Lists and settings that manifests refer to.";
const SYSTEMS =
  "What the tools reach, by name: systems of one kind each, or lists and settings that manifests refer to.";

export function schemaContent(): string {
  return `${JSON.stringify(configurationSchema(), undefined, 2)}\n`;
}

/** The section `jwt` may be its only issuer. */
function issuerAlone(jwt: Mutable | undefined): unknown {
  return jwt?.properties?.["issuers"]?.items ?? {};
}

function orNull(shape: Mutable): unknown {
  return shape.type === "object" ? { ...shape, type: ["object", "null"] } : shape;
}

function describedSchema(schema: z.ZodType, at: string): Mutable {
  const shape = z.toJSONSchema(schema, {
    io: "input",
    target: "draft-7",
    unrepresentable: "any",
    override: ({ jsonSchema }) => describeKeys(jsonSchema),
  }) as Mutable;
  describe(shape, at, "config");
  if (at === "") return shape;
  const { $schema: _, ...part } = shape;
  return part;
}

/** Adds the words of the reference, with units, to every key. */
function describe(shape: Mutable, at: string, file: string): void {
  for (const [name, inner] of Object.entries(shape.properties ?? {}) as [string, Mutable][]) {
    const key = at === "" ? name : `${at}.${name}`;
    const source = FILES[key] ?? file;
    const unit = inner.type === "integer" ? unitOf(name).trim() : "";
    const says = meaningOf(inner, key, source).replaceAll("\\|", "|");
    const words = [says, ...(unit === "" ? [] : [`Unit: ${unit}.`])].filter((part) => part !== "").join(" ");
    if (words !== "") inner.description = words;
    if (inner.items?.properties !== undefined) describe(inner.items as Mutable, `${key}[]`, source);
    else describe(inner, key, source);
  }
}

/** The page on operating, whose table of what a reload applies is made of the schema's marks. */
export const OPERATING_PAGE = join(PROJECT, "docs/operating.md");

export function withReloadTable(page: string): string {
  const rows = reloadedKeys(configSchema(MODULES)).map(
    ({ key, adopts }) => `| \`${key}\` | ${adopts}${adopts && " "}|`,
  );
  return withSection(page, "docs:configuration", ["| key | what a reload applies |", "|---|---|", ...rows].join("\n"));
}

if (import.meta.main) {
  writeFileSync(PAGE, withReference(readFileSync(PAGE, "utf8")));
  writeFileSync(OPERATING_PAGE, withReloadTable(readFileSync(OPERATING_PAGE, "utf8")));
  writeFileSync(SCHEMA_FILE, schemaContent());
  writeFileSync(VALUES_SCHEMA_FILE, valuesSchema(schemaContent()));
}
