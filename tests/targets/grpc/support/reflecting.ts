import { Server, ServerCredentials, type ServerDuplexStream, status } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import protobuf from "protobufjs";
import type { CertificateSet } from "../../../../src/cli/development/certificates.ts";
import { KINDS_FOLDER } from "./kinds.ts";

const { request: REQUEST, response: RESPONSE } = (() => {
  const root = protobuf.parse(`syntax = "proto3";
    message Request { string file_by_filename = 3; string file_containing_symbol = 4; string list_services = 7; }
    message Response { Files file_descriptor_response = 4; Services list_services_response = 6; Failure error_response = 7; }
    message Files { repeated bytes file_descriptor_proto = 1; }
    message Services { repeated Service service = 1; }
    message Service { string name = 1; }
    message Failure { int32 error_code = 1; string error_message = 2; }`).root;
  return { request: root.lookupType("Request"), response: root.lookupType("Response") };
})();

export interface ReflectionRequest {
  readonly fileByFilename?: string;
  readonly fileContainingSymbol?: string;
  readonly listServices?: string;
}

/** An answer: fields of a `ServerReflectionResponse`, raw bytes, nothing, or the end of the stream. */
export type ReflectionAnswer = object | Uint8Array | "silence" | "end" | "unimplemented";

export const notFound = { errorResponse: { errorCode: status.NOT_FOUND, errorMessage: "\u001b[31mno such thing" } };

export interface Reflecting {
  readonly port: number;
  readonly requests: readonly ReflectionRequest[];
  close(): void;
}

interface ReflectingOptions {
  readonly version?: "v1" | "v1alpha";
  readonly certificates?: CertificateSet;
  readonly answer: (request: ReflectionRequest) => ReflectionAnswer;
}

const asIs = (bytes: Buffer): Buffer => bytes;

/** Starts a server whose reflection service gives configurable answers. */
export async function startReflecting({
  version = "v1",
  certificates,
  answer,
}: ReflectingOptions): Promise<Reflecting> {
  const requests: ReflectionRequest[] = [];
  const server = new Server({ "grpc.max_send_message_length": 64_000_000 });
  const method = {
    path: `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
    requestStream: true,
    responseStream: true,
    ...{ requestSerialize: asIs, requestDeserialize: asIs, responseSerialize: asIs, responseDeserialize: asIs },
  };
  const talk = (stream: ServerDuplexStream<Buffer, Buffer>): void => {
    stream.on("error", () => {});
    stream.on("data", (bytes: Buffer) => {
      const request = REQUEST.toObject(REQUEST.decode(bytes)) as ReflectionRequest;
      requests.push(request);
      const reply = answer(request);
      if (reply === "end") stream.end();
      else if (reply === "unimplemented") stream.emit("error", { code: status.UNIMPLEMENTED });
      else if (reply instanceof Uint8Array) stream.write(Buffer.from(reply));
      else if (reply !== "silence") stream.write(Buffer.from(RESPONSE.encode(RESPONSE.fromObject(reply)).finish()));
    });
    stream.on("end", () => stream.end());
  };
  server.addService({ ServerReflectionInfo: method }, { ServerReflectionInfo: talk });
  return { port: await bound(server, certificates), requests, close: () => server.forceShutdown() };
}

/** Serves the same files with @grpc/reflection: renamed, and without the field names of the proto files. */
export async function startLossy(): Promise<Pick<Reflecting, "port" | "close">> {
  const definition = loadSync("kinds.proto", { includeDirs: [KINDS_FOLDER], keepCase: false, longs: String });
  const server = new Server();
  new ReflectionService(definition).addToServer(server);
  return { port: await bound(server, undefined), close: () => server.forceShutdown() };
}

function bound(server: Server, certificates: CertificateSet | undefined): Promise<number> {
  const pair = certificates && {
    cert_chain: Buffer.from(certificates.server.cert),
    private_key: Buffer.from(certificates.server.key),
  };
  const credentials =
    certificates === undefined || pair === undefined
      ? ServerCredentials.createInsecure()
      : ServerCredentials.createSsl(Buffer.from(certificates.rootCert), [pair], true);
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", credentials, (error, port) => (error ? reject(error) : resolve(port)));
  });
}

/** Returns the answers of a correct server that has only these files. */
export function knowing(
  files: readonly { readonly name: string; readonly bytes: Uint8Array }[],
  services: readonly string[],
  symbolFile: string,
): (request: ReflectionRequest) => ReflectionAnswer {
  const one = (name: string): ReflectionAnswer => {
    const file = files.find((known) => known.name === name);
    return file === undefined ? notFound : { fileDescriptorResponse: { fileDescriptorProto: [file.bytes] } };
  };
  return ({ fileByFilename, fileContainingSymbol }) => {
    if (fileByFilename !== undefined && fileByFilename !== "") return one(fileByFilename);
    if (fileContainingSymbol) return services.includes(fileContainingSymbol) ? one(symbolFile) : notFound;
    return { listServicesResponse: { service: services.map((name) => ({ name })) } };
  };
}
