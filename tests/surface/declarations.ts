import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Comment, parseSync } from "oxc-parser";

/** The signature of what a module exports: a text, or one per member of a class or an interface. */
export type Signature = string | Readonly<Record<string, string>>;

type Node = ReturnType<typeof parseSync>["program"]["body"][number];
type Declaration = Extract<Node, { type: "ExportNamedDeclaration" }>["declaration"];
type Declared = NonNullable<Declaration>;
type Members = Extract<Declared, { type: "ClassDeclaration" }>["body"]["body"];

interface Source {
  readonly path: string;
  readonly text: string;
  readonly body: readonly Node[];
  readonly comments: readonly Comment[];
}

const sources = new Map<string, Source>();

function sourceOf(path: string): Source {
  const known = sources.get(path);
  if (known !== undefined) return known;
  const text = readFileSync(path, "utf8");
  const { program, comments, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const source = { path, text, body: program.body, comments };
  sources.set(path, source);
  return source;
}

/** Returns what a module exports, with the signatures that its users see; values of constants are left out. */
export function exportsOf(path: string): Readonly<Record<string, Signature>> {
  const source = sourceOf(path);
  const found = source.body.flatMap((node): readonly (readonly [string, Signature])[] => {
    if (node.type !== "ExportNamedDeclaration") return [];
    if (node.declaration !== null) {
      return namesOf(node.declaration).map((name) => [name, signature(source, node.declaration as Declared, name)]);
    }
    const from = node.source === null ? source : sourceOf(join(dirname(path), node.source.value));
    return node.specifiers.map(({ local, exported }) => [textOf(exported), find(from, textOf(local))]);
  });
  return Object.fromEntries(found.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

const textOf = (name: { readonly type: string }): string =>
  "name" in name ? String(name.name) : String((name as { value?: unknown }).value);

interface Specifier {
  readonly local: { readonly type: string };
  readonly imported?: { readonly type: string };
}

/**
 * Returns the signature of what is declared in a module under a name, or imported into it.
 *
 * @throws {Error} when there is none and `otherwise` was not given: a name of the language
 */
function find(source: Source, name: string, otherwise?: Signature): Signature {
  for (const node of source.body) {
    const declared = node.type === "ExportNamedDeclaration" ? node.declaration : (node as Declared);
    if (declared !== null && namesOf(declared).includes(name)) return signature(source, declared, name);
    if (node.type === "ImportDeclaration" || (node.type === "ExportNamedDeclaration" && node.source !== null)) {
      const specifiers: readonly Specifier[] = node.specifiers;
      const specifier = specifiers.find(({ local }) => textOf(local) === name);
      const module = node.source?.value ?? "";
      if (specifier === undefined) continue;
      if (!module.startsWith(".")) return `from ${module}`;
      const { imported = specifier.local } = specifier;
      return find(sourceOf(join(dirname(source.path), module)), textOf(imported));
    }
  }
  if (otherwise !== undefined) return otherwise;
  throw new Error(`${source.path}: nothing is declared as ${name}`);
}

function namesOf(node: Declared | Node): readonly string[] {
  if (node.type === "VariableDeclaration") return node.declarations.map(({ id }) => textOf(id));
  return "id" in node && node.id !== null && node.id !== undefined ? [textOf(node.id as { type: string })] : [];
}

function signature(source: Source, node: Declared, name: string): Signature {
  const { start, end } = node;
  if (node.type === "TSInterfaceDeclaration") {
    const bases = node.extends.map(({ expression }) => expression);
    return membersOf(source, { head: between(source, start, node.body.start), members: node.body.body, bases });
  }
  if (node.type === "ClassDeclaration") {
    const bases = node.superClass === null ? [] : [node.superClass];
    return membersOf(source, { head: between(source, start, node.body.start), members: node.body.body, bases });
  }
  if (node.type === "TSTypeAliasDeclaration" && node.typeAnnotation.type === "TSTypeLiteral") {
    return membersOf(source, {
      head: between(source, start, node.typeAnnotation.start),
      members: node.typeAnnotation.members,
      bases: [],
    });
  }
  if (node.type === "FunctionDeclaration") return between(source, start, node.body?.start ?? end);
  if (node.type === "VariableDeclaration") {
    const declarator = node.declarations.find(({ id }) => textOf(id) === name);
    const { id, init } = declarator ?? {};
    if (id === undefined) throw new Error(name);
    const typed = `${node.kind} ${between(source, id.start, id.end)}`;
    return init?.type === "ArrowFunctionExpression"
      ? `${typed} = ${between(source, init.start, init.body.start)}`
      : typed;
  }
  return between(source, start, end);
}

interface Group {
  readonly head: string;
  /** What they inherit from. */
  readonly bases: readonly { readonly type: string }[];
  readonly members: readonly (
    | Members[number]
    | { readonly type: string; readonly start: number; readonly end: number }
  )[];
}

/** Members that a user can reach, each without its body or value. */
function membersOf(source: Source, { head, members, bases }: Group): Readonly<Record<string, string>> {
  const shown = members.flatMap((member): readonly (readonly [string, string])[] => {
    const { key, accessibility, value } = member as {
      key?: { type: string; start: number; end: number };
      accessibility?: string | null;
      value?: { type: string; start: number; body?: { start: number } | null } | null;
    };
    if (key?.type === "PrivateIdentifier" || accessibility === "private" || accessibility === "protected") return [];
    const end = value?.body?.start ?? (member.type === "PropertyDefinition" ? value?.start : undefined) ?? member.end;
    const text = between(source, member.start, end).replace(/ ?[=;,]$/, "");
    const name = key === undefined ? text : between(source, key.start, key.end);
    return [[name, text]];
  });
  const byName = new Map<string, string>();
  // Overloads have one name.
  for (const [name, text] of shown) byName.set(name, byName.has(name) ? `${byName.get(name)}; ${text}` : text);
  for (const base of bases) {
    const inherited = base.type === "Identifier" ? find(source, textOf(base), "") : "";
    if (typeof inherited === "string") continue;
    for (const [name, text] of Object.entries(inherited)) if (!byName.has(name)) byName.set(name, text);
  }
  byName.delete("");
  const sorted = [...byName].toSorted(([one], [other]) => (one < other ? -1 : 1));
  return { "": head, ...Object.fromEntries(sorted) };
}

/** Returns the text without comments, on one line. */
function between({ text, comments }: Source, start: number, end: number): string {
  let kept = "";
  let position = start;
  for (const comment of comments) {
    if (comment.start < position || comment.end > end) continue;
    kept += text.slice(position, comment.start);
    position = comment.end;
  }
  return (kept + text.slice(position, end)).replace(/\s+/g, " ").trim();
}
