import { sha256Hex } from "../../../core/digest.ts";
import { errorText } from "../../../core/error-text.ts";
import { type Fault, StartupError } from "../../../core/errors.ts";
import { listed, nearest } from "../../../core/nearest.ts";
import type { KindReport } from "../../../core/target-kind.ts";
import type { GrpcTarget, Json, Tool } from "../../../core/types.ts";
import { fieldBudget } from "../codec/answer-reader.ts";
import { type Difference, type EncodedMessage, MessageCodec } from "../codec/message-codec.ts";
import {
  type Comments,
  type Declarations,
  type FieldShape,
  type MessageShape,
  type MethodDeclaration,
  reachable,
  type ValueShape,
} from "./declarations.ts";
import { declarationsOf, readDescriptorSet, readFileDescriptor } from "./file-descriptors.ts";
import { readProtoFiles } from "./proto-files.ts";
import { listShape, outputSchemaNotes } from "./schema-faults.ts";

/** Source of one system's contract: proto files, a descriptor set, or the answers of its reflection service. */
export interface ProtoSource {
  /** Folders in which imports are searched. Every `.proto` file below them is loaded when `protoFiles` is omitted. */
  readonly protoDirs?: readonly string[];
  /** The files to load, absolute or relative to one of the folders. */
  readonly protoFiles?: readonly string[];
  /** A serialized `FileDescriptorSet` with all imports, and the path of its file. */
  readonly descriptorSet?: { readonly bytes: Uint8Array; readonly path: string };
  /** True when the server describes the contract; its answers are in `reflected`. */
  readonly reflection?: boolean | undefined;
  readonly reflected?: readonly Uint8Array[];
  /** The expected value of `Contract.sha256()` once all tools are bound. */
  readonly contractSha256?: string | undefined;
  /** Full names of the messages that a google.protobuf.Any may hold. */
  readonly anyTypes?: readonly string[];
}

export interface Method {
  /** The HTTP/2 path: `/package.Service/Method`. */
  readonly path: string;
  readonly responseStream: boolean;
  readonly requestShape: MessageShape;
  readonly responseShape: MessageShape;
  readonly request: {
    encode(input: unknown): EncodedMessage | Difference;
    /** Returns the bytes of a message that `encode` has returned. */
    bytes(message: unknown): Buffer;
  };
  readonly response: {
    decode(bytes: Buffer): Json;
    /** Decodes the messages of a stream, which share the limits of one message. */
    decodeAll(messages: readonly Buffer[]): readonly Json[];
  };
}

type ContractOrigin = "proto files" | "descriptor set" | "reflection";

/** The contract of one system. For an unsupported method, `method` returns the reason as text. */
export class Contract {
  readonly system: string;
  readonly origin: ContractOrigin;
  readonly pin: string | undefined;
  readonly #declarations: Declarations;
  readonly #codec: MessageCodec;
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
    this.#declarations = readDeclarations(system, source);
    this.#codec = new MessageCodec(this.#declarations, source.anyTypes);
    const { problems } = this.#codec.anyTypes;
    if (problems.length > 0) throw new StartupError(problems.map((text) => `systems.${system}.anyTypes: ${text}`));
  }

  method({ grpc }: GrpcTarget): Method | string {
    const service = serviceOf(grpc);
    const path = `/${service}/${grpc.method}`;
    const known = this.#methods.get(path);
    if (known !== undefined) return known;
    const method = this.#resolve(service, grpc.method);
    this.#methods.set(path, method);
    return method;
  }

  /** Returns the hash of the part of the contract that the methods requested so far use. */
  sha256(): string {
    return contractSha256(this.#used.values(), this.#codec.anyTypes.shapes);
  }

  #resolve(service: string, name: string): Method | string {
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
    return this.#callable(`/${service}/${name}`, declared);
  }

  #callable(path: string, declared: MethodDeclaration): Method | string {
    const codec = this.#codec;
    const request = this.#declarations.messages.get(declared.request);
    const response = this.#declarations.messages.get(declared.response);
    if (request === undefined || response === undefined) return `${path.slice(1)} has a message of unknown type`;
    const unsupported = [...reachable(request, response)].flatMap((message) => message.unsupported);
    if (unsupported.length > 0) return listed(unsupported);
    this.#used.set(path, { path, declared, request, response });
    return {
      path,
      responseStream: declared.responseStream,
      requestShape: request,
      responseShape: response,
      request: {
        encode: (input) => codec.encode(input, request),
        bytes: (message) => codec.bytes(message, request),
      },
      response: {
        decode: (bytes) => codec.decode(bytes, response),
        decodeAll: (messages) => {
          const budget = fieldBudget();
          return messages.map((bytes) => codec.decode(bytes, response, budget));
        },
      },
    };
  }
}

export function serviceOf(grpc: GrpcTarget["grpc"]): string {
  return grpc.package === "" ? grpc.service : `${grpc.package}.${grpc.service}`;
}

function originOf(source: ProtoSource): ContractOrigin {
  if (source.reflection === true) return "reflection";
  return source.descriptorSet === undefined ? "proto files" : "descriptor set";
}

/**
 * Reads and parses the source of a system's contract. Adds to `comments`, if given.
 *
 * @throws {StartupError} that names the system and the file
 */
export function readDeclarations(system: string, source: ProtoSource, comments?: Comments): Declarations {
  const { protoDirs = [], protoFiles, descriptorSet, reflection, reflected } = source;
  const given = [source.protoDirs ?? protoFiles, descriptorSet, reflection === true || undefined];
  if (given.filter((one) => one !== undefined).length !== 1) {
    throw new StartupError([`systems.${system}: needs exactly one of proto, descriptorSet and reflection`]);
  }
  try {
    if (reflection === true) {
      const files = (reflected ?? []).map((bytes) => readFileDescriptor(bytes));
      return declarationsOf(files, comments);
    }
    if (descriptorSet !== undefined) return declarationsOf(readDescriptorSet(descriptorSet.bytes), comments);
    return readProtoFiles(protoDirs, protoFiles, comments);
  } catch (error) {
    throw new StartupError([`systems.${system}.${fieldOf(source)}: ${errorText(error)}`]);
  }
}

function fieldOf({ protoDirs = [], protoFiles, descriptorSet, reflection }: ProtoSource): string {
  if (reflection === true) return "reflection";
  if (descriptorSet !== undefined) return `descriptorSet (${descriptorSet.path})`;
  return `proto (${(protoFiles ?? protoDirs).join(", ")})`;
}

/** Version of the hashed form. Raise it when the same contract would get another hash. */
const HASH_VERSION = "stc/grpc-contract/v1";

interface UsedMethod {
  readonly path: string;
  readonly declared: MethodDeclaration;
  readonly request: MessageShape;
  readonly response: MessageShape;
}

/**
 * Returns the hex SHA-256 of the used part of a contract: the methods, and every message and enum that can occur in
 * them. Independent of the source, the order of its parts, comments, options and other methods; also of packing, since
 * readers accept both forms.
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
      HASH_VERSION,
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

function messageForm({ fullName, fields }: MessageShape): readonly unknown[] {
  const inOrder = [...fields].sort(([, left], [, right]) => left.number - right.number);
  return [fullName, inOrder.map(([name, field]) => fieldForm(name, field))];
}

function fieldForm(name: string, { number, label, key, value, presence, oneof }: FieldShape): readonly unknown[] {
  return [number, name, label, key ?? null, typeForm(value), presence, oneof ?? null];
}

function typeForm(value: ValueShape): string {
  if (value.kind === "scalar") return value.proto;
  return value.kind === "enum" ? `.${value.fullName}` : `.${value.message.fullName}`;
}

function enumForm(numbers: ReadonlyMap<string, number>): readonly (readonly [string, number])[] {
  return [...numbers].sort(([left, one], [right, other]) => one - other || compare(left, right));
}

export interface ContractReport extends Required<Pick<KindReport, "contracts" | "toolNotes">> {
  readonly problems: readonly string[];
}

/** Reports the contracts and how well the tools fit them, once all tools are bound: only used parts count. */
export function contractReport(contracts: readonly Contract[], tools: readonly Tool[]): ContractReport {
  const bySystem = new Map(contracts.map((contract) => [contract.system, contract]));
  const states = contracts.map((contract) => ({ contract, sha256: contract.sha256() }));
  return {
    contracts: states.map(({ contract: { system, origin, pin }, sha256 }) => ({
      system,
      origin,
      sha256,
      isPinned: pin !== undefined,
    })),
    toolNotes: tools.flatMap((tool) => notesOf(tool, bySystem).map((note) => ({ tool: tool.name, ...note }))),
    problems: states.flatMap(({ contract, sha256 }) => pinProblem(contract, sha256)),
  };
}

function pinProblem({ system, origin, pin }: Contract, sha256: string): readonly string[] {
  if (pin === undefined || pin === sha256) return [];
  const give = origin === "proto files" ? "give" : "gives";
  return [
    `systems.${system}.contractSha256: the contract is not the pinned one: pinned sha256:${pin}, the ${origin} now ${give} sha256:${sha256} for the tools that are registered; check what has changed in the messages or the tools; if it is correct, pin the new hash`,
  ];
}

function notesOf(tool: Tool, contracts: ReadonlyMap<string, Contract>): readonly Fault[] {
  const { target } = tool;
  if (!("grpc" in target)) return [];
  const method = contracts.get(target.system)?.method(target);
  if (typeof method !== "object") return [];
  const { responseStream, responseShape } = method;
  return outputSchemaNotes(tool.output, responseStream ? listShape(responseShape) : responseShape);
}
