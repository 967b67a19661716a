import type { Fault } from "../errors.ts";
import { type SchemaField, schemaFields } from "../schema/fields.ts";
import type { FieldAction, Tool } from "../types.ts";
import { decidingPattern } from "./explain.ts";
import { element, joinPath, otherKey, type Step } from "./field-path.ts";
import { compilePolicy } from "./output-policy.ts";
import { namesPersonalData } from "./personal-names.ts";
import { compileScan } from "./scan-policy.ts";

/** Of each kind of note; the rest is counted. */
const NAMED_MAX = 10;
/** Fields for which a line to write is worked out: there may be several to one line. */
const TELLING_MAX = 100;

type Described = Pick<Tool, "output" | "outputPolicy" | "scan">;
type Node = ReturnType<typeof compilePolicy>["root"];

interface Field extends SchemaField {
  /** In pattern notation. */
  readonly path: string;
  readonly node: Node;
}

/**
 * What of a tool's output protection does what it says and may still not be what was meant, each with what to write. Empty when
 * there is nothing to say. `namesSecret`: whether a field's name says that a credential stands in it.
 */
export function policyNotes(tool: Described, namesSecret: (name: string) => boolean): readonly Fault[] {
  const { root } = compilePolicy(tool.outputPolicy, tool.output);
  const found = schemaFields(tool.output);
  if (found.some(({ steps }) => steps.length === 0)) return [BARE_VALUE];
  const fields = found.map((field) => ({ ...field, path: pathOf(field.steps), node: follow(root, field.steps) }));
  return [
    ...uncovered(fields),
    ...sensitive(tool, fields, namesSecret),
    ...loose(tool, fields, namesSecret),
    ...unread(tool, fields),
  ];
}

const BARE_VALUE: Fault = {
  field: "output",
  message: "may be a bare value, which no pattern can name: it becomes null; write z.object({ … }) around it",
};

function pathOf(steps: readonly Step[]): string {
  return steps.reduce<string>((path, step) => joinPath(path, shown(step)), "");
}

function shown(step: Step): string {
  if (step === element) return "[]";
  return step === otherKey ? "*" : String(step);
}

function follow(root: Node, steps: readonly Step[]): Node {
  return steps.reduce<Node>((node, step) => {
    if (step === element) return node.element.node;
    return (typeof step === "string" ? (node.keys.get(step) ?? node.other) : node.other).node;
  }, root);
}

function uncovered(fields: readonly Field[]): readonly Fault[] {
  const isCovered = ({ node, kind }: Field): boolean => node.action !== undefined || (kind === "open" && !node.barren);
  const covered = new Set(fields.filter(isCovered).flatMap(({ steps }) => prefixes(steps)));
  const paths = fields
    .filter((field) => !isCovered(field))
    .map(({ steps, path }) => prefixes(steps).find((prefix) => !covered.has(prefix)) ?? path);
  if (paths.length === 0) return [];
  const message = `no pattern covers ${listed(paths)}: stripped from every answer; write "redact" if that is meant, else "allow" or "mask"`;
  return [{ field: "outputPolicy", message }];
}

/** From the shortest to the path itself. */
function prefixes(steps: readonly Step[]): readonly string[] {
  return steps.map((_, index) => pathOf(steps.slice(0, index + 1)));
}

function listed(paths: readonly string[]): string {
  const all = [...new Set(paths)];
  const more = all.length - NAMED_MAX;
  return all.slice(0, NAMED_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function sensitive(
  tool: Described,
  fields: readonly Field[],
  namesSecret: (name: string) => boolean,
): readonly Fault[] {
  const telling = fields.flatMap((field) => {
    if (field.node.action !== "allow" || field.kind === "closed") return [];
    const name = field.steps.find((step) => typeof step === "string" && whatIn(step, field, namesSecret) !== undefined);
    const what = typeof name === "string" ? whatIn(name, field, namesSecret) : undefined;
    if (name === undefined || what === undefined) return [];
    return [{ field, what, prefix: field.steps.slice(0, field.steps.indexOf(name) + 1) }];
  });
  const messages = new Set(
    telling.slice(0, TELLING_MAX).map(({ field, what, prefix }) => {
      const line = protecting(tool, field, { prefix, action: what === "a secret" ? "redact" : "mask" });
      return `${pathOf(prefix)} is ${what} by its name, and allowed; unless it must leave, write ${line}`;
    }),
  );
  return bounded([...messages].map((message) => ({ field: "outputPolicy", message })));
}

function whatIn(
  name: string,
  { kind }: Field,
  namesSecret: (name: string) => boolean,
): "a secret" | "personal data" | undefined {
  if (kind !== "number" && namesSecret(name)) return "a secret";
  return namesPersonalData(name) ? "personal data" : undefined;
}

interface Protection {
  /** The way to what has the telling name. */
  readonly prefix: readonly Step[];
  readonly action: FieldAction;
}

/** The line that keeps the field in: for all that the name holds where that wins over what is written, else for the field. */
function protecting({ outputPolicy, output }: Described, field: Field, { prefix, action }: Protection): string {
  const wide = pathOf(prefix);
  const wins = (path: string): boolean => {
    try {
      const { root } = compilePolicy({ ...outputPolicy, [path]: action }, output);
      return follow(root, field.steps).action === action;
    } catch {
      // A key that no pattern can spell, or one pattern too many.
      return false;
    }
  };
  return `"${wins(wide) ? wide : field.path}": "${action}"`;
}

function bounded(notes: readonly Fault[]): readonly Fault[] {
  const more = notes.length - NAMED_MAX;
  if (more <= 0) return notes;
  return [...notes.slice(0, NAMED_MAX), { field: "outputPolicy", message: `and ${more} more of that kind` }];
}

function loose(
  { outputPolicy }: Described,
  fields: readonly Field[],
  namesSecret: (name: string) => boolean,
): readonly Fault[] {
  const byPattern = new Map<string, { readonly open: string[]; readonly described: string[] }>();
  for (const field of fields) {
    const { steps, kind, node, path } = field;
    const pattern = node.action === "allow" ? decidingPattern(outputPolicy, steps, "allow") : undefined;
    if (pattern === undefined || !(pattern === "*" || pattern.endsWith(".*"))) continue;
    const found = byPattern.get(pattern) ?? { open: [], described: [] };
    byPattern.set(pattern, found);
    if (kind === "open") found.open.push(path);
    else if (!steps.some((step) => typeof step === "string" && whatIn(step, field, namesSecret)))
      found.described.push(path);
  }
  return [...byPattern]
    .filter(([, { open }]) => open.length > 0)
    .map(([pattern, { open, described }]) => {
      const instead = described.slice(0, NAMED_MAX).map((path) => `"${path}": "allow"`);
      const write = instead.length === 0 ? "" : `, such as ${instead.join(", ")}`;
      const message = `"${pattern}": "allow" lets out whatever the target puts into ${listed(open)}, which the schema does not describe; write in its place the fields that may leave${write}`;
      return { field: "outputPolicy", message };
    });
}

function unread({ scan }: Described, fields: readonly Field[]): readonly Fault[] {
  const compiled = compileScan(scan);
  const levelAt = (steps: readonly Step[]) => (typeof compiled === "string" ? compiled : compiled(steps.map(shown)));
  const paths = fields
    .filter(({ kind, node, steps }) => {
      const isFree = kind === "text" || kind === "open";
      return isFree && node.action === "allow" && levelAt(steps) === "off";
    })
    .map(({ path }) => path);
  if (paths.length === 0) return [];
  const message = `off for ${listed(paths)}, where any text may stand: a secret in it leaves; write "secrets", or leave it out`;
  return [{ field: "scan", message }];
}
