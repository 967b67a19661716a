import { type Client, type ClientDuplexStream, type Metadata, status } from "@grpc/grpc-js";
import { errorText } from "../../../core/error-text.ts";
import { StartupError } from "../../../core/errors.ts";
import { listed, nearest } from "../../../core/nearest.ts";
import type { Tool } from "../../../core/types.ts";
import { asIs, makeClient } from "../../../egress/grpc/client.ts";
import {
  resolveEndpoints,
  type ServerAddress,
  type SystemEndpoints,
  type SystemEndpointsOptions,
} from "../../../egress/grpc/endpoints.ts";
import { fieldBudget } from "../codec/answer-reader.ts";
import { MessageCodec } from "../codec/message-codec.ts";
import { systemMetadata } from "../metadata.ts";
import { type ProtoSource, serviceOf } from "./contract.ts";
import { DESCRIPTOR_BYTES_MAX, DESCRIPTOR_FILES_MAX, readFileDescriptor } from "./file-descriptors.ts";
import { declarationsOfText } from "./proto-files.ts";

/** Maximum size of one answer: a file with everything that it imports. */
const ANSWER_BYTES_MAX = 16_777_216;
/** Maximum number of fields in all answers of one server: a few hundred megabytes when decoded. */
const FIELDS_MAX = 2_000_000;
const TIMEOUT_MS = 15_000;
const SERVICES_LISTED_MAX = 1_000;

/** Reflection services in the order of attempts; v1alpha existed before v1. */
const PATHS = [
  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
] as const;

const MESSAGES = `syntax = "proto3";
message Request { oneof message_request {
  string file_by_filename = 3; string file_containing_symbol = 4; string list_services = 7;
} }
message Response { Files file_descriptor_response = 4; Services list_services_response = 6; }
message Files { repeated bytes file_descriptor_proto = 1; }
message Services { repeated Service service = 1; }
message Service { string name = 1; }`;

type ReflectionRequest =
  | { readonly fileByFilename: string }
  | { readonly fileContainingSymbol: string }
  | { readonly listServices: string };

interface Answer {
  /** The files are in base64. */
  readonly fileDescriptorResponse: { readonly fileDescriptorProto: readonly string[] } | null;
  readonly listServicesResponse: { readonly service: readonly { readonly name: string }[] } | null;
}

interface ReflectionOptions {
  readonly endpoints: Pick<SystemEndpoints, "servers" | "credentials">;
  readonly metadata: Metadata;
  /** `all`: those that the server lists, without gRPC's own. */
  readonly services: readonly string[] | "all";
  readonly timeoutMs?: number;
}

/** A failed reflection, with the server's gRPC status if there is one. The message is only for the operator. */
class ReflectionFailed extends Error {
  override readonly name = "ReflectionFailed";
  readonly code: number | undefined;

  constructor(message: string, code?: number) {
    super(message);
    this.code = code;
  }
}

/**
 * Requests the files that declare these services, and all their imports, from a server's reflection service (v1, else
 * v1alpha). Limited in files, bytes and time.
 *
 * @returns serialized `FileDescriptorProto`s
 * @throws {Error} that says what the server lacks, or that it cannot be reached
 */
export async function reflectedFiles(options: ReflectionOptions): Promise<readonly Uint8Array[]> {
  let failure = new Error("there is no endpoint");
  for (const server of options.endpoints.servers) {
    try {
      return await fromServer(server, options);
    } catch (error) {
      failure = error instanceof Error ? error : new Error(String(error));
      // All endpoints serve the same service: try another one only when this one is unavailable.
      if (!(error instanceof ReflectionFailed) || error.code !== status.UNAVAILABLE) break;
    }
  }
  throw failure;
}

async function fromServer(server: ServerAddress, options: ReflectionOptions): Promise<readonly Uint8Array[]> {
  const client = makeClient(server, options.endpoints.credentials, {
    "grpc.max_receive_message_length": ANSWER_BYTES_MAX,
  });
  try {
    for (const path of PATHS) {
      const found = await fromService(client, path, options);
      if (found !== "unimplemented") return found;
    }
    throw new ReflectionFailed("has no reflection service, neither v1 nor v1alpha");
  } finally {
    client.close();
  }
}

type Stream = ClientDuplexStream<Buffer, Buffer>;

async function fromService(
  client: Client,
  path: string,
  { metadata, services, timeoutMs = TIMEOUT_MS }: ReflectionOptions,
): Promise<readonly Uint8Array[] | "unimplemented"> {
  const stream: Stream = client.makeBidiStreamRequest(path, asIs, asIs, metadata);
  let hasTimedOut = false;
  const timer = setTimeout(() => {
    hasTimedOut = true;
    stream.cancel();
  }, timeoutMs);
  try {
    return await new ReflectionSession(stream).collect(services);
  } catch (error) {
    if (hasTimedOut) throw new ReflectionFailed(`did not answer within ${timeoutMs} ms`, status.DEADLINE_EXCEEDED);
    if (error instanceof ReflectionFailed) throw error;
    const code = codeOf(error);
    if (code === status.UNIMPLEMENTED) return "unimplemented";
    throw new ReflectionFailed(reasonOf(code), code);
  } finally {
    clearTimeout(timer);
    stream.cancel();
  }
}

function codeOf(error: unknown): number | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : undefined;
}

function reasonOf(code: number | undefined): string {
  if (code === undefined) return "gave an invalid reflection answer";
  if (code === status.UNAVAILABLE) return "cannot be reached, or one side does not trust the other's certificate";
  if (code === status.RESOURCE_EXHAUSTED) return `gave an answer of more than ${ANSWER_BYTES_MAX} bytes`;
  return `ended with ${status[code] ?? code}`;
}

/** Returns false for gRPC's services about the server itself, such as its health. */
function isOwn(service: string): boolean {
  return !service.startsWith("grpc.");
}

class ReflectionSession {
  readonly #stream: Stream;
  readonly #answers: AsyncIterator<Buffer>;
  readonly #files = new Map<string, Uint8Array>();
  readonly #wanted = new Set<string>();
  readonly #codec = new MessageCodec(declarationsOfText(MESSAGES));
  readonly #budget = fieldBudget(FIELDS_MAX);
  #bytes = 0;

  constructor(stream: Stream) {
    this.#stream = stream;
    // Without a listener, an error that arrives while nothing is being read would end the process.
    stream.on("error", () => {});
    this.#answers = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  async collect(services: readonly string[] | "all"): Promise<readonly Uint8Array[]> {
    for (const service of services === "all" ? (await this.#listed()).filter(isOwn) : services) {
      if (!(await this.#add({ fileContainingSymbol: service }))) throw await this.#missing(service);
    }
    for (const name of this.#wanted) {
      if (this.#files.has(name)) continue;
      // Many servers lack files that only options need. Missing files of messages are detected later.
      await this.#add({ fileByFilename: name });
    }
    return [...this.#files.values()];
  }

  async #add(request: ReflectionRequest): Promise<boolean> {
    const answer = await this.#request(request);
    const files = answer.fileDescriptorResponse?.fileDescriptorProto ?? [];
    for (const file of files) {
      const bytes = Buffer.from(file, "base64");
      this.#bytes += bytes.length;
      const { name = "", dependency } = this.#withinBudget(() => readFileDescriptor(bytes, this.#budget));
      if (!this.#files.has(name)) this.#files.set(name, bytes);
      for (const imported of dependency) this.#wanted.add(imported);
      if (Math.max(this.#files.size, this.#wanted.size) > DESCRIPTOR_FILES_MAX) {
        throw new ReflectionFailed(`describes more than ${DESCRIPTOR_FILES_MAX} files`);
      }
      if (this.#bytes > DESCRIPTOR_BYTES_MAX) {
        throw new ReflectionFailed(`describes more than ${DESCRIPTOR_BYTES_MAX} bytes of files`);
      }
    }
    return files.length > 0;
  }

  async #request(request: ReflectionRequest): Promise<Answer> {
    this.#stream.write(this.#codec.bytes(request, this.#codec.shape("Request")));
    const next = await this.#answers.next();
    if (next.done === true) throw new ReflectionFailed("ended without an answer");
    const read = () => this.#codec.decode(next.value, this.#codec.shape("Response"), this.#budget);
    return this.#withinBudget(read) as unknown as Answer;
  }

  #withinBudget<Read>(read: () => Read): Read {
    try {
      return read();
    } catch (error) {
      throw this.#budget.left < 0 ? new ReflectionFailed(`describes more than ${FIELDS_MAX} parts of files`) : error;
    }
  }

  async #listed(): Promise<readonly string[]> {
    const answer = await this.#request({ listServices: "*" });
    return (answer.listServicesResponse?.service ?? []).slice(0, SERVICES_LISTED_MAX).map(({ name }) => name);
  }

  async #missing(service: string): Promise<ReflectionFailed> {
    const names = await this.#listed();
    return new ReflectionFailed(`has no service ${service}; it has ${listed(nearest(service, names))}`);
  }
}

export type ReflectingSystem = ProtoSource &
  SystemEndpointsOptions & { readonly metadata?: Readonly<Record<string, string>> };

/**
 * Adds to each system with `reflection` the files for the services that the tools name. Systems without tools are not
 * contacted. Adds errors to `problems`, and returns undefined then.
 */
export async function withReflection<System extends ReflectingSystem>(
  systems: ReadonlyMap<string, System>,
  tools: readonly Pick<Tool, "target">[],
  problems: string[],
): Promise<ReadonlyMap<string, System> | undefined> {
  const before = problems.length;
  const described = [...systems].map(async ([name, system]): Promise<readonly [string, System]> => {
    if (system.reflection !== true) return [name, system];
    const targets = tools.flatMap(({ target }) => ("grpc" in target && target.system === name ? [target.grpc] : []));
    const services = [...new Set(targets.map(serviceOf))];
    if (services.length === 0) return [name, { ...system, reflected: [] }];
    try {
      return [name, { ...system, reflected: await filesOfSystem(name, system, services) }];
    } catch (error) {
      const hint = "if it cannot be reached at a start, name a descriptorSet file instead";
      if (error instanceof StartupError) problems.push(...error.problems);
      else problems.push(`systems.${name}.reflection: the service ${errorText(error)}; ${hint}`);
      return [name, system];
    }
  });
  const all = new Map(await Promise.all(described));
  return problems.length > before ? undefined : all;
}

/**
 * Requests the files that declare these services of a system.
 *
 * @throws {Error} that says what the server lacks, or that it cannot be reached
 */
export function filesOfSystem(
  name: string,
  system: ReflectingSystem,
  services: readonly string[] | "all",
): Promise<readonly Uint8Array[]> {
  return reflectedFiles({
    endpoints: resolveEndpoints(`systems.${name}`, system),
    metadata: systemMetadata(name, system.metadata),
    services,
  });
}
