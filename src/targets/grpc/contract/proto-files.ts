import { readdirSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import protobuf from "protobufjs";
import apiJson from "protobufjs/google/protobuf/api.json" with { type: "json" };
import descriptorJson from "protobufjs/google/protobuf/descriptor.json" with { type: "json" };
import sourceContextJson from "protobufjs/google/protobuf/source_context.json" with { type: "json" };
import typeJson from "protobufjs/google/protobuf/type.json" with { type: "json" };
import { errorText } from "../../../core/error-text.ts";
import { isBelow } from "../../../core/target-kind.ts";
import {
  type Comments,
  type Declarations,
  DeclaredMessage,
  type EnumShape,
  enumShape,
  jsonNameOf,
  type MethodDeclaration,
  type ProtoScalar,
  type ReadField,
  scalarShape,
  type ValueShape,
} from "./declarations.ts";

const PROTO_FILES_MAX = 2_000;
const PROTO_DEPTH_MAX = 32;

/** Google's own files that protobufjs contains but does not offer to imports by itself. */
const BUNDLED = [
  ["google/protobuf/api.proto", apiJson],
  ["google/protobuf/descriptor.proto", descriptorJson],
  ["google/protobuf/source_context.proto", sourceContextJson],
  ["google/protobuf/type.proto", typeJson],
] as const;
for (const [name, json] of BUNDLED) protobuf.common(name, json);

/** Returns the declarations of one proto text that imports nothing. */
export function declarationsOfText(text: string): Declarations {
  return declarationsOf(protobuf.parse(text, { keepCase: true }).root.resolveAll());
}

export function descriptorDeclarations(): Declarations {
  return declarationsOf(protobuf.Root.fromJSON(descriptorJson).resolveAll());
}

/** Parses `protoFiles`, or else every `.proto` file below the folders. Errors name the file. Adds to `comments`, if given. */
export function readProtoFiles(
  protoDirs: readonly string[],
  protoFiles?: readonly string[],
  comments?: Comments,
): Declarations {
  const folders = protoDirs.map((folder) => resolve(folder));
  const files = protoFiles ?? folders.flatMap((folder) => filesBelow(folder));
  if (files.length === 0) throw new Error("no .proto file there");
  if (files.length > PROTO_FILES_MAX) throw new Error(`more than ${PROTO_FILES_MAX} .proto files`);
  const root = new protobuf.Root();
  root.resolvePath = (origin, target) => {
    if (origin === "" && isAbsolute(target)) return target;
    const searched = origin === "" ? folders : [...folders, dirname(origin)];
    const found = searched.map((folder) => resolve(folder, target)).find(isFile);
    // A contract may come from somebody who must not choose which files of this machine are read.
    const isInside = found === undefined || origin === "" || folders.some((folder) => isBelow(found, folder));
    if (!isInside) throw new Error(`${target} leaves the contract's folder; ${origin} imports it`);
    if (found === undefined) throw new Error(`${target} was not found${origin === "" ? "" : `; ${origin} imports it`}`);
    return found;
  };
  try {
    const options = { keepCase: true, alternateCommentMode: comments !== undefined };
    return declarationsOf(root.loadSync([...files], options).resolveAll(), comments);
  } catch (error) {
    throw withFileName(error);
  }
}

const OTHER_PARSER =
  "if protoc accepts the file, make a descriptorSet of it and name that instead: " +
  "the parser for proto files does not know every construct, such as a group in an extend block";

/** Adds the name of the file being parsed to an error: only some messages of protobufjs contain it. */
function withFileName(error: unknown): Error {
  const { parse } = protobuf as unknown as { readonly parse: { filename: string | null } };
  const { filename } = parse;
  parse.filename = null;
  const text = errorText(error);
  if (filename === null) return new Error(text);
  return new Error(`${text.includes(filename) ? text : `${filename}: ${text}`}; ${OTHER_PARSER}`);
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

function filesBelow(folder: string, depth = 0): readonly string[] {
  if (depth > PROTO_DEPTH_MAX) throw new Error(`${folder}: folders nest deeper than ${PROTO_DEPTH_MAX}`);
  // Skips names with a leading dot: a mounted ConfigMap keeps a second copy of each file in such a folder.
  const names = readdirSync(folder).filter((name) => !name.startsWith("."));
  return names.sort().flatMap((name) => {
    const path = join(folder, name);
    const status = statSync(path);
    if (status.isDirectory()) return filesBelow(path, depth + 1);
    return status.isFile() && name.endsWith(".proto") ? [path] : [];
  });
}

/** Returns the declarations in a parsed and resolved tree with the field names of the proto files (`keepCase`). */
function declarationsOf(root: protobuf.NamespaceBase, comments?: Comments): Declarations {
  const messages = new Map<string, DeclaredMessage>();
  const services = new Map<string, ReadonlyMap<string, MethodDeclaration>>();
  const types: protobuf.Type[] = [];
  const enums = new Map<string, EnumShape>();
  const todo: protobuf.ReflectionObject[] = [root];
  for (let object = todo.pop(); object !== undefined; object = todo.pop()) {
    const fullName = nameOf(object);
    if (object instanceof protobuf.Type) {
      types.push(object);
      messages.set(fullName, new DeclaredMessage(fullName));
    }
    if (object instanceof protobuf.Enum) {
      enums.set(fullName, enumShape(fullName, Object.entries(object.values), isClosed(object)));
    }
    if (object instanceof protobuf.Service) services.set(fullName, methodsOf(object));
    if (comments !== undefined) addComments(object, comments);
    if (object instanceof protobuf.Namespace) todo.push(...object.nestedArray);
  }
  const shapeOf = ({ resolvedType, type }: protobuf.Field): ValueShape | undefined => {
    if (resolvedType === null) return scalarShape(type as ProtoScalar);
    const message = messages.get(nameOf(resolvedType));
    return message === undefined ? enums.get(nameOf(resolvedType)) : { kind: "message", message };
  };
  for (const type of types) {
    messages.get(nameOf(type))?.fill(type.fieldsArray.flatMap((field) => fieldOf(field, shapeOf(field))));
  }
  return { messages, services };
}

function addComments(object: protobuf.ReflectionObject, comments: Comments): void {
  const add = (name: string, { comment }: protobuf.ReflectionObject): void => {
    if (comment) comments.set(`${nameOf(object)}.${name}`, comment);
  };
  if (object instanceof protobuf.Type) for (const field of object.fieldsArray) add(jsonName(field), field);
  if (object instanceof protobuf.Service) for (const method of object.methodsArray) add(method.name, method);
}

/** Reads the resolved features of an enum, which the types of protobufjs do not declare. */
function isClosed(declared: protobuf.Enum): boolean {
  const { _features } = declared as unknown as { readonly _features: { readonly enum_type?: string } };
  return _features.enum_type === "CLOSED";
}

function nameOf(object: protobuf.ReflectionObject): string {
  return object.fullName.startsWith(".") ? object.fullName.slice(1) : object.fullName;
}

function fieldOf(field: protobuf.Field, value: ValueShape | undefined): readonly ReadField[] {
  // Extensions are not supported and ignored.
  if (field.declaringField) return [];
  const name = jsonName(field);
  if (value === undefined) return [{ name, reason: `has the unknown type ${field.type}` }];
  // A map inherits the features of its file, but it and its values stay length-prefixed.
  if (field.delimited && !field.map) return [{ name, reason: "is a group, which this version does not support" }];
  const label = labelOf(field);
  const isOptional = field.getOption("proto3_optional") === true;
  return [
    {
      name,
      number: field.id,
      label,
      ...(field instanceof protobuf.MapField && { key: field.keyType as ProtoScalar }),
      value,
      presence: label === "single" && (isOptional || (value.kind !== "message" && Boolean(field.hasPresence))),
      required: field.required,
      packed: field.packed,
      ...(field.partOf && !isOptional && { oneof: jsonNameOf(field.partOf.name) }),
    },
  ];
}

function jsonName(field: protobuf.Field): string {
  const named: unknown = field.getOption("json_name");
  return typeof named === "string" ? named : jsonNameOf(field.name);
}

function labelOf(field: protobuf.Field): "single" | "repeated" | "map" {
  if (field.map) return "map";
  return field.repeated ? "repeated" : "single";
}

function methodsOf(service: protobuf.Service): ReadonlyMap<string, MethodDeclaration> {
  return new Map(
    service.methodsArray.map((method) => [
      method.name,
      {
        name: method.name,
        request: method.resolvedRequestType === null ? "" : nameOf(method.resolvedRequestType),
        response: method.resolvedResponseType === null ? "" : nameOf(method.resolvedResponseType),
        requestStream: method.requestStream === true,
        responseStream: method.responseStream === true,
      },
    ]),
  );
}
