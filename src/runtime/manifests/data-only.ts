import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  Parser,
  visit,
  type YAMLMap,
} from "yaml";
import type { DefineTool } from "../../core/define-tool.ts";
import { type Fault, ManifestError } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { isVisible } from "../../core/json-schema/schema.ts";
import { zodFromJson } from "../../core/json-schema/zod.ts";
import { type DeclaredKind, declaredTarget } from "../../core/target-kind.ts";
import type { Tool } from "../../core/types.ts";

/** Largest manifest (UTF-16 units). The schema of a large API's answer takes about 100,000. */
const CHARACTERS_MAX = 1_048_576;
const DEPTH_MAX = 64;
const FAULTS_MAX = 50;

/** Characters that YAML readers interpret differently, such as the further line ends of YAML 1.1. */
const AMBIGUOUS = /\r(?!\n)|[\u0085\u2028\u2029]|[^\t\n\r\P{Cc}]/u;

/** Fields whose texts are data: values that are sent, compared or matched, not read by an approver or a model. */
const DATA_FIELDS: readonly unknown[] = ["input", "output", "examples"];

interface Build {
  readonly define: DefineTool;
  readonly kinds: readonly DeclaredKind[];
}

/** A tool, or everything that keeps the file from being one, in operators' terms. */
type DataOnlyTool = Located | { readonly problems: readonly string[] };

interface Located {
  readonly tool: Tool;
  /** Returns the line of an error that is found later, such as one in the service's contract. */
  readonly lineOf: (fault: Fault) => number | undefined;
}

/** A YAML file that holds JSON only, or everything that keeps it from that, each with its line. */
type PlainYaml = ReadYaml | { readonly problems: readonly string[] };

interface ReadYaml {
  readonly value: unknown;
  /** Returns the line of a fault's field, or of the part of the file nearest to it. */
  readonly lineOf: (fault: Fault) => number | undefined;
}

/** Reads YAML that anybody reads in the same way. `dataFields`: top-level fields whose texts may hold hidden characters. */
export function readPlainYaml(source: string, dataFields: readonly unknown[]): PlainYaml {
  const lines = new LineCounter();
  const document = parse(source, lines);
  if (document instanceof Error) return { problems: [document.message] };
  const unclear = unclearParts(document, lines, dataFields);
  if (unclear.length > 0) return { problems: unclear };
  return { value: document.toJS(), lineOf: (fault) => lineOf(document, fault, lines) };
}

/** Reads a manifest that is a YAML file. Nothing in it is run; its schemas are JSON Schemas. */
export function readDataOnly(source: string, build: Build): DataOnlyTool {
  const read = readPlainYaml(source, DATA_FIELDS);
  if ("problems" in read) return read;
  const { value: manifest } = read;
  if (!isTable(manifest)) return { problems: ["must be a table: name, description, …"] };
  try {
    const tool = toolOf(manifest, build);
    return { tool, lineOf: (fault) => lineIn(source, fault) };
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    const problems = error.faults.slice(0, FAULTS_MAX).map((fault) => {
      const line = read.lineOf(fault);
      return `${line === undefined ? "" : `line ${line}: `}tool ${error.tool}: ${fault.field}: ${fault.message}`;
    });
    return { problems };
  }
}

/** @throws {ManifestError} listing every error */
function toolOf(manifest: Readonly<Record<string, unknown>>, { define, kinds }: Build): Tool {
  const input = zodFromJson("input", manifest["input"]);
  const output = zodFromJson("output", manifest["output"]);
  const faults = [...input.faults, ...output.faults, ...codeFaults(manifest, kinds)];
  const isSound = faults.length === 0;
  try {
    return define({
      ...manifest,
      // A policy of which every line is a comment releases nothing.
      ...(manifest["outputPolicy"] === null && { outputPolicy: {} }),
      ...(isSound ? { input: input.schema, output: output.schema } : { input: undefined, output: undefined }),
    } as unknown as Parameters<DefineTool>[0]) as Tool;
  } catch (error) {
    if (isSound || !(error instanceof ManifestError)) throw error;
    const others = error.faults.filter(({ field }) => field !== "input" && field !== "output");
    const isKnown = (field: string): boolean => faults.some((fault) => `${field}.`.startsWith(`${fault.field}.`));
    throw new ManifestError(error.tool, [...faults, ...others.filter(({ field }) => !isKnown(field))]);
  }
}

const CODE = "is code, which a YAML file cannot hold: write this tool as a TypeScript manifest";

/** Returns an error for each field that only code can fill. */
function codeFaults(manifest: Readonly<Record<string, unknown>>, kinds: readonly DeclaredKind[]): readonly Fault[] {
  const { permissions, approval } = manifest;
  const paths = [
    ...("handler" in manifest ? ["handler"] : []),
    ...(isTable(permissions) && "elevatedIf" in permissions ? ["permissions.elevatedIf"] : []),
    ...["needsApproval", "answer"].flatMap((key) => (isTable(approval) && key in approval ? [`approval.${key}`] : [])),
  ];
  const target = declaredTarget({ target: manifest["target"] }, kinds);
  if (target?.kind.data === false) paths.push(`target.${target.kind.key}`);
  return paths.map((field) => ({ field, message: CODE }));
}

function parse(source: string, lines: LineCounter): Document | Error {
  if (source.length > CHARACTERS_MAX) return new Error(`is longer than ${CHARACTERS_MAX} characters`);
  if (source.includes("\ufffd")) return new Error("must be UTF-8");
  const found = AMBIGUOUS.exec(source);
  if (found !== null)
    return new Error(
      `line ${lineAt(source, found.index)}: holds a control character or line end that YAML readers interpret differently`,
    );
  // Duplicate keys are found later: the library compares each key with every other one.
  const composer = new Composer({
    version: "1.2",
    schema: "core",
    merge: false,
    strict: true,
    uniqueKeys: false,
    stringKeys: true,
    logLevel: "error",
  });
  try {
    const [document, another] = composer.compose(tokensOf(source, lines), true, source.length);
    if (another !== undefined)
      return new Error(`line ${lines.linePos(another.range[0]).line}: holds multiple documents`);
    // Only the first error: later ones mostly follow from it.
    const [problem] = document?.errors ?? [];
    if (document !== undefined && problem === undefined) return document as Document;
    return new Error(`line ${lines.linePos(problem?.pos[0] ?? 0).line}: ${problem?.message ?? "is not YAML"}`);
  } catch (error) {
    if (error instanceof TooDeep) return error;
    throw error;
  }
}

class TooDeep extends Error {}

/** Returns the tokens of a text. Stops at a depth that the composer, which recurses, would take seconds to give up at. */
function* tokensOf(source: string, lines: LineCounter): Generator<CST.Token, void> {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(source)) {
    yield* parser.next(lexeme);
    if (parser.stack.length > DEPTH_MAX * 2) {
      throw new TooDeep(`line ${lines.linePos(parser.offset).line}: is nested more than ${DEPTH_MAX} levels deep`);
    }
  }
  yield* parser.end();
}

function lineAt(source: string, offset: number): number {
  return source.slice(0, offset).split("\n").length;
}

/** Returns an error for everything that makes YAML more than JSON, or that hides what the file says. */
function unclearParts(document: Document, lines: LineCounter, dataFields: readonly unknown[]): readonly string[] {
  const problems: string[] = [];
  const report = (node: Node, message: string): void => {
    const at = node.range?.[0];
    const line = at === undefined ? "" : `line ${lines.linePos(at).line}: `;
    if (problems.length < FAULTS_MAX) problems.push(`${line}${message}`);
  };
  const { directives } = document;
  if (directives?.yaml.explicit === true || Object.keys(directives?.tags ?? {}).length > 1) {
    problems.push("directives (%YAML, %TAG) are not supported");
  }
  visit(document, {
    Node(key, node, path) {
      if (path.length > DEPTH_MAX * 2) {
        report(node, `is nested more than ${DEPTH_MAX} levels deep`);
        return visit.BREAK;
      }
      if (isAlias(node)) report(node, "YAML aliases (*name) are not supported: write the value out each time");
      else if (node.anchor !== undefined) report(node, "YAML anchors (&name) are not supported");
      if ((isScalar(node) || isCollection(node)) && node.tag !== undefined)
        report(node, "YAML tags (!name) are not supported");
      if (isMap(node)) for (const repeated of repeatedKeys(node)) report(repeated, "Map keys must be unique");
      if (!isScalar(node)) return undefined;
      const { value } = node;
      if (key === "key" && (value === "__proto__" || value === "<<")) report(node, `the key ${value} is not supported`);
      if (typeof value === "number" && !isExact(value))
        report(node, "is not a number that JSON keeps exactly: write it as a text");
      if (typeof value === "string" && !isVisible(value) && !isData(path, dataFields)) {
        report(node, "holds control or bidirectional characters");
      }
      return undefined;
    },
  });
  return problems;
}

function repeatedKeys({ items }: YAMLMap): readonly Node[] {
  const known = new Set<unknown>();
  return items.flatMap(({ key }) => {
    if (!isScalar(key)) return [];
    const isRepeated = known.has(key.value);
    known.add(key.value);
    return isRepeated ? [key] : [];
  });
}

function isExact(value: number): boolean {
  return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
}

/** Returns whether a position is inside one of the fields whose texts are data. */
function isData(path: readonly unknown[], dataFields: readonly unknown[]): boolean {
  const top = path.find((step) => isTable(step) && "key" in step && "value" in step);
  return isTable(top) && isScalar(top["key"]) && dataFields.includes(top["key"].value);
}

function lineIn(source: string, fault: Fault): number | undefined {
  const lines = new LineCounter();
  const document = parse(source, lines);
  return document instanceof Error ? undefined : lineOf(document, fault, lines);
}

/** Returns the line of a fault's field, or of the part of the file nearest to it. */
function lineOf(document: Document, { field, message }: Fault, lines: LineCounter): number | undefined {
  const quoted = /^"((?:[^"\\]|\\.){1,256})"/.exec(message)?.[1];
  let node: unknown = document.contents;
  let at: unknown = isCollection(node) ? node.items[0] : node;
  for (const step of [...stepsOf(field), ...(quoted === undefined ? [] : [quoted])]) {
    const found = memberOf(node, step);
    if (found === undefined) break;
    at = found.at;
    node = found.node;
  }
  const position = isTable(at) && "key" in at ? at["key"] : at;
  const offset = isScalar(position) || isCollection(position) ? position.range?.[0] : undefined;
  return offset === undefined ? undefined : lines.linePos(offset).line;
}

function stepsOf(field: string): readonly string[] {
  return [...field.matchAll(/\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|([^.[\]]+)/g)].map(
    (match) => match[1] ?? match[2] ?? match[3] ?? "",
  );
}

/** Returns the member of a table or list. A path may name the member of a value instead of its schema's. */
function memberOf(node: unknown, step: string): { readonly at: unknown; readonly node: unknown } | undefined {
  if (isSeq(node)) {
    const item: unknown = node.items[Number(step)];
    return item === undefined ? undefined : { at: item, node: item };
  }
  if (!isMap(node)) return undefined;
  const pairOf = (table: typeof node, key: string) =>
    table.items.find((pair) => isScalar(pair.key) && pair.key.value === key);
  const properties = pairOf(node, "properties")?.value;
  const pair = pairOf(node, step) ?? (isMap(properties) ? pairOf(properties, step) : undefined);
  return pair === undefined ? undefined : { at: pair, node: pair.value };
}
