import { type ChannelOptions, Client, type ClientDuplexStream, type Metadata, status } from "@grpc/grpc-js";
import protobuf from "protobufjs";
import { DESCRIPTOR_BYTES_MAX, DESCRIPTOR_FILES_MAX, readFileDescriptor } from "./file-descriptors.ts";
import { listed, nearest } from "./nearest.ts";
import type { Reach, ServerAddress } from "./tls-identity.ts";

/** The bound of one answer: a file with all that it imports. */
const ANSWER_BYTES_MAX = 16_777_216;
const TIMEOUT_MS = 15_000;
const CONNECT_TIMEOUT_MS = 5_000;
const SERVICES_LISTED_MAX = 1_000;

/** Asked in this order; the second is what servers spoke before the first was made. */
const PATHS = [
  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
] as const;

const TEXT = { type: "string" } as const;
const { ServerReflectionRequest: REQUEST, ServerReflectionResponse: RESPONSE } = (() => {
  const root = protobuf.Root.fromJSON({
    nested: {
      ServerReflectionRequest: {
        oneofs: { messageRequest: { oneof: ["fileByFilename", "fileContainingSymbol", "listServices"] } },
        fields: {
          fileByFilename: { ...TEXT, id: 3 },
          fileContainingSymbol: { ...TEXT, id: 4 },
          listServices: { ...TEXT, id: 7 },
        },
      },
      ServerReflectionResponse: {
        fields: {
          fileDescriptorResponse: { type: "Files", id: 4 },
          listServicesResponse: { type: "Services", id: 6 },
          errorResponse: { type: "Failure", id: 7 },
        },
      },
      Files: { fields: { fileDescriptorProto: { rule: "repeated", type: "bytes", id: 1 } } },
      Services: { fields: { service: { rule: "repeated", type: "Service", id: 1 } } },
      Service: { fields: { name: { ...TEXT, id: 1 } } },
      Failure: { fields: { errorCode: { type: "int32", id: 1 }, errorMessage: { ...TEXT, id: 2 } } },
    },
  });
  return {
    ServerReflectionRequest: root.lookupType("ServerReflectionRequest"),
    ServerReflectionResponse: root.lookupType("ServerReflectionResponse"),
  };
})();

type Question =
  | { readonly fileByFilename: string }
  | { readonly fileContainingSymbol: string }
  | { readonly listServices: string };

interface Answer {
  readonly fileDescriptorResponse?: { readonly fileDescriptorProto?: readonly Uint8Array[] };
  readonly listServicesResponse?: { readonly service?: readonly { readonly name?: string }[] };
  readonly errorResponse?: { readonly errorCode?: number };
}

export interface ReflectionOptions {
  readonly reach: Pick<Reach, "servers" | "credentials">;
  readonly metadata: Metadata;
  /** Full names of the services whose contracts are wanted. */
  readonly services: readonly string[];
}

/** What went wrong, with the gRPC status if the server gave one. Its text is the operator's alone. */
class ReflectionFailed extends Error {
  override readonly name = "ReflectionFailed";
  readonly code: number | undefined;

  constructor(message: string, code?: number) {
    super(message);
    this.code = code;
  }
}

/**
 * Asks a server's reflection service (v1, else v1alpha) for the files that declare these services, and for all that they
 * import. Bounded by files, bytes and time.
 *
 * @returns serialized `FileDescriptorProto`s
 * @throws {Error} which says what the server lacks, or that it cannot be reached
 */
export async function reflectedFiles(options: ReflectionOptions): Promise<readonly Uint8Array[]> {
  let failure = new Error("there is no endpoint");
  for (const server of options.reach.servers) {
    try {
      return await fromServer(server, options);
    } catch (error) {
      failure = error instanceof Error ? error : new Error(String(error));
      // Another endpoint is the same service: it is asked only where this one could not be.
      if (!(error instanceof ReflectionFailed) || error.code !== status.UNAVAILABLE) break;
    }
  }
  throw failure;
}

async function fromServer(server: ServerAddress, options: ReflectionOptions): Promise<readonly Uint8Array[]> {
  const client = new Client(server.address, options.reach.credentials, channelOptions(server));
  try {
    await connected(client, server);
    for (const path of PATHS) {
      const found = await fromService(client, path, options);
      if (found !== "unimplemented") return found;
    }
    throw new ReflectionFailed(`${server.address} has no reflection service, neither v1 nor v1alpha`);
  } finally {
    client.close();
  }
}

function channelOptions({ serverName }: ServerAddress): ChannelOptions {
  return {
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_http_proxy": 0,
    "grpc.enable_retries": 0,
    "grpc.enable_channelz": 0,
    "grpc.service_config_disable_resolution": 1,
    "grpc.max_receive_message_length": ANSWER_BYTES_MAX,
    ...(serverName !== undefined && {
      "grpc.ssl_target_name_override": serverName,
      "grpc.default_authority": serverName,
    }),
  };
}

/** A number of milliseconds from now; only grpc-js, which asks for a point in time, reads the clock. */
function connected(client: Client, { address }: ServerAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => client.close(), CONNECT_TIMEOUT_MS);
    client.waitForReady(Number.POSITIVE_INFINITY, (error) => {
      clearTimeout(timer);
      if (error === undefined) resolve();
      else reject(new ReflectionFailed(`${address} cannot be reached, or its certificate is not trusted`, status.UNAVAILABLE));
    });
  });
}
