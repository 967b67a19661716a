import { type Document, isAlias, isCollection, isMap, isScalar, parseDocument, visit, type YAMLMap } from "yaml";
import { canonical } from "../../core/digest.ts";
import type { Json } from "../../core/types.ts";
import { withoutByteOrderMark, withoutReturn } from "./contents.ts";
import { fileRefusal } from "./refusals.ts";

const YAML_CHARACTERS_MAX = 32_768;
const YAML_DEPTH_MAX = 32;
const VALUE_LIMITS = { depthMax: YAML_DEPTH_MAX, nodesMax: 10_000, bytesMax: YAML_CHARACTERS_MAX } as const;

/** Text that YAML readers interpret differently: some line breaks, and document markers. */
const AMBIGUOUS = /\r(?!\n)|[\u0085\u2028\u2029]|^(?:---|\.\.\.)/m;

export type Frontmatter = Readonly<Record<string, Json>>;

export interface FrontmatterChange {
  readonly set?: Readonly<Record<string, unknown>> | undefined;
  readonly unset?: readonly string[] | undefined;
}

/**
 * Returns the values of a text's frontmatter.
 *
 * @throws {Refusal} E_INVALID_FRONTMATTER when there is none, or it has aliases, tags or several documents
 */
export function readFrontmatter(text: string): Frontmatter {
  return valuesOf(parseYaml(partsOf(text).yaml));
}

/**
 * Returns the text with keys of its frontmatter set or removed. Comments, order and the body stay as they are.
 *
 * @throws {Refusal} E_INVALID_FRONTMATTER
 */
export function changeFrontmatter(text: string, { set = {}, unset = [] }: FrontmatterChange): string {
  const { opening, yaml, rest } = partsOf(text);
  const document = parseYaml(yaml);
  const wanted = new Map<string, unknown>(Object.entries(valuesOf(document)));
  for (const key of unset) {
    document.delete(key);
    wanted.delete(key);
  }
  const values = boundedValues(set);
  for (const key of Object.keys(set)) {
    if (key === "__proto__") throw invalid("A key __proto__ is refused.");
    const value = values[key];
    document.set(key, typeof value === "object" && value !== null ? document.createNode(value) : value);
    wanted.set(key, value);
  }
  const written = document.toString({ lineWidth: 0 });
  const changed = `${opening}${yaml.includes("\r\n") ? written.replaceAll("\n", "\r\n") : written}${rest}`;
  // Parse the written text again: it must have the intended values.
  if (!Bun.deepEquals(readFrontmatter(changed), Object.fromEntries(wanted))) {
    throw invalid("The values cannot be written as plain YAML.");
  }
  return changed;
}

function boundedValues(set: Readonly<Record<string, unknown>>): Frontmatter {
  try {
    const { value } = canonical(set, VALUE_LIMITS);
    return value as Frontmatter;
  } catch (error) {
    throw fileRefusal("E_INVALID_FRONTMATTER", { cause: error });
  }
}

/** Splits a text at its first line, `---`, and the next such line, with which `rest` begins. */
function partsOf(text: string): { readonly opening: string; readonly yaml: string; readonly rest: string } {
  const [first = ""] = text.split("\n", 1);
  const isOpen = withoutReturn(withoutByteOrderMark(first)) === "---";
  if (!isOpen) throw invalid("The file does not begin with frontmatter (a line ---).");
  const start = first.length + 1;
  for (let at = start; at < text.length; ) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline;
    if (withoutReturn(text.slice(at, end)) === "---") {
      if (at - start > YAML_CHARACTERS_MAX) break;
      return { opening: text.slice(0, start), yaml: text.slice(start, at), rest: text.slice(at) };
    }
    at = end + 1;
  }
  throw invalid(`The frontmatter does not end within ${YAML_CHARACTERS_MAX} characters (a second line ---).`);
}

function parseYaml(yaml: string): Document {
  if (AMBIGUOUS.test(yaml)) {
    throw invalid("Lines of the frontmatter must end with a newline, and none may begin with --- or with dots.");
  }
  let document: Document;
  try {
    document = parseDocument(yaml, {
      schema: "core",
      version: "1.2",
      uniqueKeys: false,
      logLevel: "silent",
      prettyErrors: false,
    });
  } catch (error) {
    throw fileRefusal("E_INVALID_FRONTMATTER", { cause: error });
  }
  const problem = problemOf(document);
  if (problem !== undefined) throw invalid(problem);
  return document;
}

/** Returns an error for YAML that is more than plain values: it could grow without limit, or be read differently. */
function problemOf(document: Document): string | undefined {
  if (document.errors.length > 0 || document.warnings.length > 0)
    return "The frontmatter is not one valid YAML document.";
  if (document.contents === null) return undefined;
  if (!isMap(document.contents)) return "The frontmatter must be a mapping of keys to values.";
  let problem: string | undefined;
  visit(document, (_key, node, ancestors) => {
    if (isAlias(node)) problem = "YAML aliases (*name) are refused: write the value out.";
    else if (isMap(node) && !hasPlainKeys(node)) problem = "Keys must be plain and unique.";
    else if ((isScalar(node) || isCollection(node)) && (node.anchor !== undefined || node.tag !== undefined)) {
      problem = "YAML anchors (&name) and tags (!name) are refused.";
    } else if (ancestors.length > YAML_DEPTH_MAX * 2)
      problem = `The frontmatter is nested deeper than ${YAML_DEPTH_MAX}.`;
    return problem === undefined ? undefined : visit.BREAK;
  });
  return problem;
}

/** Returns whether all keys are plain and unique. The parser's own check takes quadratic time. */
function hasPlainKeys({ items }: YAMLMap): boolean {
  const keys = items.map(({ key }) => (isScalar(key) && key.value !== null ? String(key.value) : undefined));
  return !keys.includes(undefined) && new Set(keys).size === keys.length;
}

function valuesOf(document: Document): Frontmatter {
  if (document.contents === null) return {};
  const values: unknown = document.toJS({ maxAliasCount: 0 });
  const text = JSON.stringify(values, (key, value: unknown) => {
    if (key === "__proto__" || key === "<<" || (typeof value === "number" && !Number.isFinite(value))) {
      throw invalid("The frontmatter contains a merge (<<), __proto__ or a value that is not JSON.");
    }
    return value;
  });
  return JSON.parse(text) as Frontmatter;
}

function invalid(message: string): ReturnType<typeof fileRefusal> {
  return fileRefusal("E_INVALID_FRONTMATTER", { message });
}
