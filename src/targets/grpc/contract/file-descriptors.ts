import { type FieldBudget, fieldBudget } from "../codec/answer-reader.ts";
import { MessageCodec } from "../codec/message-codec.ts";
import {
  type Comments,
  type Declarations,
  DeclaredMessage,
  type EnumShape,
  enumShape,
  jsonNameOf,
  type MethodDeclaration,
  PROTO_SCALARS,
  type ProtoScalar,
  type ReadField,
  scalarShape,
  type ValueShape,
} from "./declarations.ts";
import { descriptorDeclarations } from "./proto-files.ts";

export const DESCRIPTOR_FILES_MAX = 2_000;
export const DESCRIPTOR_BYTES_MAX = 33_554_432;
/** Maximum fields of all descriptors in a set. A set of the maximum size from protoc has fewer. */
const DESCRIPTOR_FIELDS_MAX = 16_000_000;
const MESSAGE_DEPTH_MAX = 64;

interface Descriptor<Options extends object = object> {
  readonly name?: string;
  readonly options?: (Options & { readonly features?: FeatureSet | null }) | null;
}

interface FieldDescriptor extends Descriptor<{ readonly packed?: boolean }> {
  readonly number?: number;
  readonly label?: string;
  readonly type?: string;
  readonly typeName?: string;
  readonly jsonName?: string;
  readonly oneofIndex?: number;
  readonly proto3Optional?: boolean;
}

interface EnumDescriptor extends Descriptor {
  readonly value: readonly { readonly name?: string; readonly number?: number }[];
}

interface MessageDescriptor extends Descriptor<{ readonly mapEntry?: boolean }> {
  readonly field: readonly FieldDescriptor[];
  readonly nestedType: readonly MessageDescriptor[];
  readonly enumType: readonly EnumDescriptor[];
  readonly oneofDecl: readonly Descriptor[];
}

interface MethodDescriptor extends Descriptor {
  readonly inputType?: string;
  readonly outputType?: string;
  readonly clientStreaming?: boolean;
  readonly serverStreaming?: boolean;
}

interface FileDescriptor extends Descriptor {
  readonly package?: string;
  readonly dependency: readonly string[];
  readonly messageType: readonly MessageDescriptor[];
  readonly enumType: readonly EnumDescriptor[];
  readonly service: readonly (Descriptor & { readonly method: readonly MethodDescriptor[] })[];
  readonly syntax?: string;
  readonly edition?: string;
  readonly sourceCodeInfo?: {
    readonly location: readonly {
      readonly path: readonly number[];
      readonly leadingComments?: string;
      readonly trailingComments?: string;
    }[];
  } | null;
}

let known: MessageCodec | undefined;

function decode(bytes: Uint8Array, name: string, budget: FieldBudget): unknown {
  known ??= new MessageCodec(descriptorDeclarations());
  return known.decode(bytes, known.shape(name), budget);
}

export function readFileDescriptor(bytes: Uint8Array, budget = fieldBudget()): FileDescriptor {
  return decode(bytes, "google.protobuf.FileDescriptorProto", budget) as FileDescriptor;
}

/** Reads a serialized `FileDescriptorSet`. Throws when the bytes are not valid, or hold no file. */
export function readDescriptorSet(bytes: Uint8Array): readonly FileDescriptor[] {
  if (bytes.length > DESCRIPTOR_BYTES_MAX) throw new Error(`more than ${DESCRIPTOR_BYTES_MAX} bytes`);
  const set = decode(bytes, "google.protobuf.FileDescriptorSet", fieldBudget(DESCRIPTOR_FIELDS_MAX));
  const { file: files } = set as { readonly file: readonly FileDescriptor[] };
  if (!files.some((file) => (file.name ?? "").endsWith(".proto"))) throw new Error("is not a descriptor set");
  return files;
}

/**
 * Returns the declarations of the files, with all names resolved. Throws for a name that is declared twice. Adds to `comments`, if
 * given, what the files still have: protoc leaves comments out unless `--include_source_info` is given.
 */
export function declarationsOf(files: readonly FileDescriptor[], comments?: Comments): Declarations {
  if (files.length > DESCRIPTOR_FILES_MAX) throw new Error(`more than ${DESCRIPTOR_FILES_MAX} files`);
  const reader = new Reader();
  const unique = new Map(files.map((file) => [file.name ?? "", file]));
  for (const file of unique.values()) reader.index(file);
  if (comments !== undefined) for (const file of unique.values()) addComments(file, comments);
  return reader.declarations();
}

function addComments(file: FileDescriptor, comments: Comments): void {
  const texts = new Map(
    (file.sourceCodeInfo?.location ?? []).map((at) => [at.path.join("."), at.leadingComments ?? at.trailingComments]),
  );
  const add = (name: string, path: string): void => {
    const text = texts.get(path);
    if (text !== undefined) comments.set(name, text);
  };
  // The paths consist of the numbers of fields in descriptor.proto, and of indexes.
  const addFields = (message: MessageDescriptor, fullName: string, path: string): void => {
    for (const [at, field] of message.field.entries()) add(`${fullName}.${jsonName(field)}`, `${path}.2.${at}`);
    for (const [at, nested] of message.nestedType.entries()) {
      addFields(nested, qualified(fullName, nested.name), `${path}.3.${at}`);
    }
  };
  const scope = file.package ?? "";
  for (const [index, message] of file.messageType.entries()) {
    addFields(message, qualified(scope, message.name), `4.${index}`);
  }
  for (const [index, { name, method: methods }] of file.service.entries()) {
    const service = qualified(scope, name);
    for (const [at, method] of methods.entries()) add(`${service}.${method.name ?? ""}`, `6.${index}.2.${at}`);
  }
}

function jsonName({ jsonName: declared, name = "" }: FieldDescriptor): string {
  return declared ?? jsonNameOf(name);
}

interface IndexedMessage {
  readonly message: DeclaredMessage;
  readonly descriptor: MessageDescriptor;
  readonly features: Features;
}

class Reader {
  readonly #messages = new Map<string, IndexedMessage>();
  readonly #enums = new Map<string, EnumShape>();
  readonly #services = new Map<string, readonly MethodDescriptor[]>();

  index(file: FileDescriptor): void {
    const scope = file.package ?? "";
    const features = featuresOfFile(file);
    for (const message of file.messageType) this.#indexMessage(message, { scope, features, depth: 0 });
    for (const declared of file.enumType) this.#indexEnum(declared, { scope, features });
    for (const service of file.service) {
      setOnce(this.#services, qualified(scope, service.name), service.method);
    }
  }

  declarations(): Declarations {
    const known = [...this.#messages].filter(([, { descriptor }]) => descriptor.options?.mapEntry !== true);
    for (const [, message] of known) this.#fill(message);
    return {
      messages: new Map(known.map(([fullName, { message }]) => [fullName, message])),
      services: new Map([...this.#services].map(([name, methods]) => [name, this.#methods(name, methods)])),
    };
  }

  #indexMessage(
    descriptor: MessageDescriptor,
    at: { readonly scope: string; readonly features: Features; readonly depth: number },
  ): void {
    if (at.depth > MESSAGE_DEPTH_MAX) throw new Error(`messages nest deeper than ${MESSAGE_DEPTH_MAX}`);
    const fullName = qualified(at.scope, descriptor.name);
    const features = featuresIn(at.features, descriptor.options?.features);
    setOnce(this.#messages, fullName, { message: new DeclaredMessage(fullName), descriptor, features });
    const inner = { scope: fullName, features, depth: at.depth + 1 };
    for (const nested of descriptor.nestedType) this.#indexMessage(nested, inner);
    for (const nested of descriptor.enumType) this.#indexEnum(nested, inner);
  }

  #indexEnum(
    { name, value, options }: EnumDescriptor,
    at: { readonly scope: string; readonly features: Features },
  ): void {
    const fullName = qualified(at.scope, name);
    const isClosed = featuresIn(at.features, options?.features).enumType === "CLOSED";
    const values = value.map((one) => [plain(one.name), one.number ?? 0] as const);
    setOnce(this.#enums, fullName, enumShape(fullName, values, isClosed));
  }

  #fill({ message, descriptor, features }: IndexedMessage): void {
    const { fullName } = message;
    const fields = descriptor.field.map((field): ReadField => {
      const oneof = field.oneofIndex === undefined ? undefined : descriptor.oneofDecl[field.oneofIndex];
      const own = featuresIn(featuresIn(features, oneof?.options?.features), field.options?.features);
      return this.#field(field, { fullName, features: own, oneof: oneof?.name });
    });
    message.fill(fields);
  }

  #field(
    field: FieldDescriptor,
    at: { readonly fullName: string; readonly features: Features; readonly oneof: string | undefined },
  ): ReadField {
    const name = jsonName(field);
    const value = this.#value(field, at.fullName);
    if (typeof value === "string") return { name, reason: value };
    const entry = this.#mapEntry(value);
    if (entry !== undefined) return this.#map(field, entry, name);
    const isDelimited = field.type === "TYPE_GROUP" || at.features.messageEncoding === "DELIMITED";
    if (isDelimited && value.kind === "message")
      return { name, reason: "is a group, which this version does not support" };
    const isRepeated = field.label === "LABEL_REPEATED";
    const isOptional = field.proto3Optional === true;
    const isRequired = field.label === "LABEL_REQUIRED" || at.features.fieldPresence === "LEGACY_REQUIRED";
    const hasPresence =
      value.kind !== "message" && (at.features.fieldPresence !== "IMPLICIT" || at.oneof !== undefined);
    return {
      name,
      number: numberOf(field),
      label: isRepeated ? "repeated" : "single",
      value,
      presence: !isRepeated && (isOptional || hasPresence),
      required: isRequired,
      packed: field.options?.packed ?? at.features.repeatedFieldEncoding === "PACKED",
      ...(at.oneof !== undefined && !isOptional && { oneof: jsonNameOf(at.oneof) }),
    };
  }

  #mapEntry(value: ValueShape): IndexedMessage | undefined {
    const known = value.kind === "message" ? this.#messages.get(value.message.fullName) : undefined;
    return known?.descriptor.options?.mapEntry === true ? known : undefined;
  }

  #map(field: FieldDescriptor, { message, descriptor }: IndexedMessage, name: string): ReadField {
    const part = (number: number): ValueShape | string | undefined => {
      const declared = descriptor.field.find((one) => one.number === number);
      return declared && this.#value(declared, message.fullName);
    };
    const key = part(1);
    const value = part(2);
    const isKey = typeof key === "object" && key.kind === "scalar" && !NON_KEY_TYPES.has(key.proto);
    if (!isKey || value === undefined || field.label !== "LABEL_REPEATED") {
      return { name, reason: "is a malformed map" };
    }
    if (typeof value === "string") return { name, reason: value };
    if (this.#mapEntry(value) !== undefined) return { name, reason: "is a malformed map" };
    const number = numberOf(field);
    return { name, number, label: "map", key: key.proto, value, presence: false, required: false, packed: false };
  }

  #value(field: FieldDescriptor, scope: string): ValueShape | string {
    const scalar = SCALARS.get(field.type ?? "");
    if (scalar !== undefined) return scalarShape(scalar);
    const typeName = field.typeName ?? "";
    const names = candidates(typeName, scope);
    const ofEnum = names.flatMap((name) => this.#enums.get(name) ?? [])[0];
    const ofMessage = names.flatMap((name) => this.#messages.get(name) ?? [])[0];
    // With a relative name, the sender may also omit whether it is an enum or a message.
    if (ofEnum !== undefined && field.type !== "TYPE_MESSAGE") return ofEnum;
    if (ofMessage !== undefined && field.type !== "TYPE_ENUM") return { kind: "message", message: ofMessage.message };
    return `has the unknown type ${typeName}`;
  }

  #methods(service: string, methods: readonly MethodDescriptor[]): ReadonlyMap<string, MethodDeclaration> {
    const resolve = (name = ""): string => candidates(name, service).find((one) => this.#messages.has(one)) ?? name;
    return new Map(
      methods.map((method) => [
        method.name ?? "",
        {
          name: method.name ?? "",
          request: resolve(method.inputType),
          response: resolve(method.outputType),
          requestStream: method.clientStreaming === true,
          responseStream: method.serverStreaming === true,
        },
      ]),
    );
  }
}

/** Scalar types by their names in descriptor.proto. */
const SCALARS = new Map(PROTO_SCALARS.map((scalar) => [`TYPE_${scalar.toUpperCase()}`, scalar]));

const NON_KEY_TYPES: ReadonlySet<ProtoScalar> = new Set(["bytes", "float", "double"]);
const FIELD_NUMBER_MAX = 536_870_911;
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,255}$/;

function plain(name: string | undefined): string {
  if (name === undefined || !PLAIN_NAME.test(name)) throw new Error("a name is not a plain identifier");
  return name;
}

function qualified(scope: string, name: string | undefined): string {
  return scope === "" ? plain(name) : `${scope}.${plain(name)}`;
}

function numberOf({ number = 0 }: FieldDescriptor): number {
  if (number < 1 || number > FIELD_NUMBER_MAX) throw new Error(`there is no field number ${number}`);
  return number;
}

function setOnce<Value>(known: Map<string, Value>, fullName: string, value: Value): void {
  if (known.has(fullName)) throw new Error(`${fullName} is declared twice`);
  known.set(fullName, value);
}

/** Returns the full names to try: one after a leading dot; else those in each scope, from the innermost. */
function candidates(typeName: string, scope: string): readonly string[] {
  if (typeName.startsWith(".")) return [typeName.slice(1)];
  const parts = scope === "" ? [] : scope.split(".");
  return [...parts.map((_, index) => `${parts.slice(0, parts.length - index).join(".")}.${typeName}`), typeName];
}

interface Features {
  readonly fieldPresence: string;
  readonly repeatedFieldEncoding: string;
  readonly messageEncoding: string;
  readonly enumType: string;
}

type FeatureSet = Partial<Features>;

const PROTO2: Features = {
  fieldPresence: "EXPLICIT",
  repeatedFieldEncoding: "EXPANDED",
  messageEncoding: "LENGTH_PREFIXED",
  enumType: "CLOSED",
};
const EDITION: Features = { ...PROTO2, repeatedFieldEncoding: "PACKED", enumType: "OPEN" };
const PROTO3: Features = { ...EDITION, fieldPresence: "IMPLICIT" };

/** Both editions have the same features. */
const EDITIONS: ReadonlySet<string> = new Set(["EDITION_2023", "EDITION_2024"]);

/** Returns the features of a file. Throws for an unknown syntax or edition. */
function featuresOfFile({ name, syntax = "proto2", edition, options }: FileDescriptor): Features {
  if (syntax === "proto3") return PROTO3;
  if (syntax === "proto2") return PROTO2;
  if (syntax !== "editions" || !EDITIONS.has(edition ?? "")) {
    throw new Error(`${name ?? "a file"} has the unknown edition ${edition ?? syntax}`);
  }
  return featuresIn(EDITION, options?.features);
}

function featuresIn(around: Features, own: FeatureSet | null | undefined): Features {
  return own === undefined || own === null ? around : { ...around, ...own };
}
