import { sha256Hex } from "../../../core/digest.ts";
import { errorText } from "../../../core/error-text.ts";
import { StartupError } from "../../../core/errors.ts";
import { listed, nearest } from "../../../core/nearest.ts";
import type { GrpcTarget } from "../../../core/types.ts";
import { RequestCodec } from "../codec/codec.ts";
import { AnyTypes } from "./any-types.ts";
import type { Declarations, MethodDeclaration } from "./declarations.ts";
import { declarationsOf, readDescriptorSet, readFileDescriptor } from "./file-descriptors.ts";
import { type FieldShape, type MessageShape, MessageShapes, reachable, type ValueShape } from "./message-shape.ts";
import { readProtoFiles } from "./proto-files.ts";
import { type ResponseCodec, WireTypes } from "./wire-types.ts";

/** Source of one system's contract: proto files, a descriptor set, or the answers of its reflection service. */
export interface ProtoSource {
  /** Folders in which imports are searched. Every `.proto` file below them is loaded when `protoFiles` is omitted. */
  readonly protoDirs?: readonly string[];
  /** The files to load, absolute or relative to one of the folders. */
  readonly protoFiles?: readonly string[];
  /** A serialized `FileDescriptorSet` with all imports, and the file that it came from. */
  readonly descriptorSet?: { readonly bytes: Uint8Array; readonly path: string };
  /** True when the server must be asked before the contract is created; its answers are in `reflected`. */
  readonly reflection?: boolean | undefined;
  /** Serialized `FileDescriptorProto`s. */
  readonly reflected?: readonly Uint8Array[];
  /** The expected value of `Contract.sha256()` once all tools are bound. */
  readonly contractSha256?: string | undefined;
  /** Full names of the messages that a google.protobuf.Any may hold. */
  readonly anyTypes?: readonly string[];
}

/** One callable method: one request, and one answer or a stream of answers. */
export interface Method {
  /** The HTTP/2 path: `/package.Service/Method`. */
  readonly path: string;
  readonly responseStream: boolean;
  readonly requestShape: MessageShape;
  readonly responseShape: MessageShape;
  readonly request: RequestCodec;
  readonly response: ResponseCodec;
}

/** Source of a contract, for the operator. */
type ContractOrigin = "proto files" | "descriptor set" | "reflection";

/** The contract of one system. For a method that this version cannot call, it returns the reason as text. */
export class Contract {
  readonly system: string;
  readonly origin: ContractOrigin;
  /** The hash that the configuration requires. */
  readonly pin: string | undefined;
  readonly #declarations: Declarations;
  readonly #shapes: MessageShapes;
  readonly #wire: WireTypes;
  readonly #anyTypes: AnyTypes;
  readonly #methods = new Map<string, Method | string>();
  readonly #used = new Map<string, UsedMethod>();

  /**
   * Reads and parses the source.
   *
   * @throws {StartupError} that names the system and the file
   */
  constructor(system: string, source: ProtoSource) {
    this.system = system;
    this.origin = originOf(source);
    this.pin = source.contractSha256;
    this.#declarations = read(system, source);
    this.#shapes = new MessageShapes(this.#declarations, source.anyTypes);
    this.#wire = new WireTypes(this.#declarations);
    this.#anyTypes = new AnyTypes(source.anyTypes ?? [], { shapes: this.#shapes, wire: this.#wire });
    const { problems } = this.#anyTypes;
    if (problems.length > 0) throw new StartupError(problems.map((text) => `systems.${system}.anyTypes: ${text}`));
  }

  /** Returns the method, or the reason why it cannot be called. */
  method({ grpc }: GrpcTarget): Method | string {
    const service = serviceOf(grpc);
    const path = `/${service}/${grpc.method}`;
    const known = this.#methods.get(path);
    if (known !== undefined) return known;
    const made = this.#make(service, grpc.method);
    this.#methods.set(path, made);
    return made;
  }

  /** Returns the hash of the contract, as far as it is used by the methods requested so far. */
  sha256(): string {
    return contractSha256(this.#used.values(), this.#anyTypes.shapes());
  }

  #make(service: string, name: string): Method | string {
    const { services } = this.#declarations;
    const methods = services.get(service);
    if (methods === undefined) {
      const [has, they] = this.origin === "proto files" ? ["have", "they have"] : ["has", "it has"];
      return `the ${this.origin} ${has} no service ${service}; ${they} ${listed(nearest(service, services.keys()))}`;
    }
    const declared = methods.get(name);
    if (declared === undefined) {
      return `${service} has no method ${name}; it has ${listed(nearest(name, methods.keys()))}`;
    }
    if (declared.requestStream) {
      return `${service}.${name} takes a stream of requests, which this version does not support`;
    }
    return this.#carried(`/${service}/${name}`, declared);
  }

  #carried(path: string, declared: MethodDeclaration): Method | string {
    const request = this.#shapes.find(declared.request);
    const response = this.#shapes.find(declared.response);
    if (request === undefined || response === undefined) return `${path.slice(1)} has a message of unknown type`;
    const faults = [...reachable(request, response)].flatMap((message) => message.unsupported);
    if (faults.length > 0) return listed(faults);
    this.#used.set(path, { path, declared, request, response });
    return {
      path,
      responseStream: declared.responseStream,
      requestShape: request,
      responseShape: response,
      request: new RequestCodec(request, this.#wire.request(request), this.#anyTypes.sent),
      response: this.#wire.response(response, this.#anyTypes.received),
    };
  }
}

/** Returns the full name of the service. */
export function serviceOf(grpc: GrpcTarget["grpc"]): string {
  return grpc.package === "" ? grpc.service : `${grpc.package}.${grpc.service}`;
}

function originOf(source: ProtoSource): ContractOrigin {
  if (source.reflection === true) return "reflection";
  return source.descriptorSet === undefined ? "proto files" : "descriptor set";
}

function read(system: string, source: ProtoSource): Declarations {
  const { protoDirs = [], protoFiles, descriptorSet, reflection, reflected } = source;
  const given = [source.protoDirs ?? protoFiles, descriptorSet, reflection === true || undefined];
  if (given.filter((one) => one !== undefined).length !== 1) {
    throw new StartupError([`systems.${system}: needs exactly one of proto, descriptorSet and reflection`]);
  }
  try {
    if (reflection === true) return declarationsOf((reflected ?? []).map((bytes) => readFileDescriptor(bytes)));
    if (descriptorSet !== undefined) return declarationsOf(readDescriptorSet(descriptorSet.bytes));
    return readProtoFiles({ protoDirs, ...(protoFiles !== undefined && { protoFiles }) });
  } catch (error) {
    throw new StartupError([`systems.${system}.${placeOf(source)}: ${errorText(error)}`]);
  }
}

function placeOf({ protoDirs = [], protoFiles, descriptorSet, reflection }: ProtoSource): string {
  if (reflection === true) return "reflection";
  if (descriptorSet !== undefined) return `descriptorSet (${descriptorSet.path})`;
  return `proto (${(protoFiles ?? protoDirs).join(", ")})`;
}

/** Version of the hashed form; raised when the same contract would produce another hash. */
const FORM = "stc/grpc-contract/v1";

/** A method that some tool calls. */
interface UsedMethod {
  readonly path: string;
  readonly declared: MethodDeclaration;
  readonly request: MessageShape;
  readonly response: MessageShape;
}

/**
 * Returns the hex SHA-256 of the used part of a contract: the methods, and every message and enum that can occur in them. The
 * source, the order of its parts, comments, options and other methods make no difference; neither does packing, since a
 * reader accepts both forms.
 *
 * @param anyTypes the messages that an Any may hold
 */
function contractSha256(methods: Iterable<UsedMethod>, anyTypes: readonly MessageShape[]): string {
  const used = [...methods].sort((left, right) => compare(left.path, right.path));
  const messages = [...reachable(...used.flatMap(({ request, response }) => [request, response]), ...anyTypes)];
  const enums = new Map<string, ReadonlyMap<string, number>>();
  for (const { fields } of messages) {
    for (const { value } of fields.values()) if (value.kind === "enum") enums.set(value.fullName, value.numbers);
  }
  return sha256Hex(
    JSON.stringify([
      FORM,
      used.map(methodForm),
      messages.sort((left, right) => compare(left.fullName, right.fullName)).map(messageForm),
      [...enums].sort(([left], [right]) => compare(left, right)).map(([name, numbers]) => [name, enumForm(numbers)]),
      anyTypes.map(({ fullName }) => fullName).sort(compare),
    ]),
  );
}

function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

function methodForm({ path, declared, request, response }: UsedMethod): readonly unknown[] {
  return [path, request.fullName, response.fullName, declared.requestStream, declared.responseStream];
}

function messageForm({ fullName, fields, oneofOf, oneofs }: MessageShape): readonly unknown[] {
  const inOrder = [...fields].sort(([, left], [, right]) => left.number - right.number);
  return [
    fullName,
    inOrder.map(([name, field]) => {
      const oneof = oneofOf.get(name);
      return fieldForm(name, field, oneof !== undefined && oneofs.has(oneof) ? oneof : null);
    }),
  ];
}

function fieldForm(name: string, field: FieldShape, oneof: string | null): readonly unknown[] {
  return [field.number, name, field.label, field.key ?? null, typeForm(field.value), field.presence, oneof];
}

function typeForm(value: ValueShape): string {
  if (value.kind === "scalar") return value.proto;
  return value.kind === "enum" ? `.${value.fullName}` : `.${value.message.fullName}`;
}

function enumForm(numbers: ReadonlyMap<string, number>): readonly (readonly [string, number])[] {
  return [...numbers].sort(([left, one], [right, other]) => one - other || compare(left, right));
}
