import { readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { loadSync, type MethodDefinition, type Options, type PackageDefinition } from "@grpc/proto-loader";
import { StartupError } from "../../core/errors.ts";
import type { GrpcTarget } from "../../core/types.ts";
import { RequestCodec, ResponseCodec } from "./codec.ts";
import { type MessageShape, MessageShapes, reachable } from "./message-shape.ts";

/** Where the proto files of one system stand. */
export interface ProtoSource {
  /** Folders that imports are searched in. Every `.proto` below them is loaded when `protoFiles` is left out. */
  readonly protoDirs: readonly string[];
  /** The files to load, absolute or relative to one of the folders. */
  readonly protoFiles?: readonly string[];
}

/** One method, ready to be called: one request, and one answer or a stream of them. */
export interface Method {
  /** The HTTP/2 path: `/package.Service/Method`. */
  readonly path: string;
  readonly responseStream: boolean;
  readonly requestShape: MessageShape;
  readonly responseShape: MessageShape;
  readonly request: RequestCodec;
  readonly response: ResponseCodec;
}

const PROTO_FILES_MAX = 2_000;
const PROTO_DEPTH_MAX = 32;
const NAMES_SHOWN_MAX = 10;

const LOAD: Options = { keepCase: false, longs: String, enums: String, bytes: String, oneofs: true };

function filesBelow(folder: string, depth = 0): readonly string[] {
  if (depth > PROTO_DEPTH_MAX) throw new Error(`${folder}: folders nest deeper than ${PROTO_DEPTH_MAX}`);
  // Names with a leading dot are left out: a mounted ConfigMap keeps a second copy of each file in such a folder.
  const names = readdirSync(folder).filter((name) => !name.startsWith("."));
  return names.sort().flatMap((name) => {
    const path = join(folder, name);
    const status = statSync(path);
    if (status.isDirectory()) return filesBelow(path, depth + 1);
    return status.isFile() && name.endsWith(".proto") ? [path] : [];
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function load(system: string, source: ProtoSource, options: Options): PackageDefinition {
  const includeDirs = source.protoDirs.map((folder) => resolve(folder));
  const place = [...(source.protoFiles ?? source.protoDirs)].join(", ");
  try {
    const files = source.protoFiles ?? includeDirs.flatMap((folder) => filesBelow(folder));
    if (files.length === 0) throw new Error("no .proto file there");
    if (files.length > PROTO_FILES_MAX) throw new Error(`more than ${PROTO_FILES_MAX} .proto files`);
    return loadSync([...files], { ...options, includeDirs });
  } catch (error) {
    throw new StartupError([`systems.${system}.proto (${place}): ${messageOf(error)}`]);
  }
}

type ServiceMethods = Readonly<Record<string, MethodDefinition<object, object>>>;

function servicesOf(definitions: PackageDefinition): ReadonlyMap<string, ServiceMethods> {
  const services = new Map<string, ServiceMethods>();
  for (const [name, definition] of Object.entries(definitions)) {
    // proto-loader tells a service from a message by nothing but the missing `format` text.
    if (!("format" in definition && typeof definition.format === "string")) {
      services.set(name, definition as ServiceMethods);
    }
  }
  return services;
}

function listed(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const more = names.length > NAMES_SHOWN_MAX ? `, and ${names.length - NAMES_SHOWN_MAX} more` : "";
  return `${names.slice(0, NAMES_SHOWN_MAX).join(", ")}${more}`;
}

/** Those that share most three-letter pieces with the name come first. */
function nearest(name: string, known: readonly string[]): readonly string[] {
  const pieces = (text: string) =>
    new Set([...text.toLowerCase()].map((_, at) => text.toLowerCase().slice(at, at + 3)));
  const wanted = pieces(name);
  const score = (other: string) => [...pieces(other)].filter((piece) => wanted.has(piece)).length / (other.length + 1);
  return known.toSorted((left, right) => score(right) - score(left) || left.localeCompare(right));
}

/** The proto files of one system. A method that this version cannot call is told as a text. */
export class Contract {
  readonly #requests: ReadonlyMap<string, ServiceMethods>;
  readonly #responses: ReadonlyMap<string, ServiceMethods>;
  readonly #shapes: MessageShapes;
  readonly #methods = new Map<string, Method | string>();

  /** Reads and parses the files. Throws a `StartupError` that names the system and the file. */
  constructor(system: string, source: ProtoSource) {
    const requests = load(system, source, { ...LOAD, defaults: false });
    this.#shapes = new MessageShapes(requests);
    this.#requests = servicesOf(requests);
    // A second load, for proto-loader fixes per load whether unset fields are filled in: answers need them, for a
    // proto3 sender leaves zeros out; requests must not have them, or what was unset would be sent.
    this.#responses = servicesOf(load(system, source, { ...LOAD, defaults: true, json: true }));
  }

  /** The method, or why it cannot be called. */
  method({ grpc }: GrpcTarget): Method | string {
    const service = grpc.package === "" ? grpc.service : `${grpc.package}.${grpc.service}`;
    const path = `/${service}/${grpc.method}`;
    const known = this.#methods.get(path);
    if (known !== undefined) return known;
    const made = this.#make(service, grpc.method);
    this.#methods.set(path, made);
    return made;
  }

  #make(service: string, name: string): Method | string {
    const methods = this.#requests.get(service);
    if (methods === undefined) {
      return `the proto files have no service ${service}; they have ${listed(nearest(service, [...this.#requests.keys()]))}`;
    }
    const request = Object.hasOwn(methods, name) ? methods[name] : undefined;
    const response = this.#responses.get(service)?.[name];
    if (request === undefined || response === undefined) {
      return `${service} has no method ${name}; it has ${listed(nearest(name, Object.keys(methods)))}`;
    }
    if (request.requestStream) {
      return `${service}.${name} is a client-streaming method, which this version does not support`;
    }
    const shapes = this.#shapes.ofMethod(request.path);
    if (shapes === undefined) return `${service}.${name} has a message of unknown type`;
    const messages = [...reachable(shapes.request), ...reachable(shapes.response)];
    const faults = messages.flatMap((message) => message.unsupported);
    if (faults.length > 0) return listed(faults);
    return {
      path: request.path,
      responseStream: request.responseStream,
      requestShape: shapes.request,
      responseShape: shapes.response,
      request: new RequestCodec(shapes.request, {
        serialize: request.requestSerialize,
        deserialize: request.requestDeserialize,
      }),
      response: new ResponseCodec(shapes.response, response.responseDeserialize),
    };
  }
}
