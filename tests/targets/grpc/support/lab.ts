import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  loadPackageDefinition,
  Server,
  ServerCredentials,
  type ServiceClientConstructor,
  status,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { type CertificateSet, DEVELOPMENT_SERVER_NAME } from "../../../../src/cli/development/certificates.ts";
import type { GrpcSystem } from "../../../../src/targets/grpc/handler.ts";

export const LAB_PROTO_FOLDER = import.meta.dir;

/** A gRPC server in this process whose methods do what the tests need. */
export interface Lab {
  readonly port: number;
  /** Resolves when a `Hang` call has started; `hangCancelled`, when one was cancelled. */
  hangBegun(): Promise<void>;
  hangCancelled(): Promise<void>;
  streamBegun(): Promise<void>;
  /** Number of calls that have reached a method. */
  calls(): number;
  /** Sets the answer of the health service: a number of grpc.health.v1, or that the service is unknown. */
  setHealth(health: number | "unknown service"): void;
  close(): void;
}

export interface LabOptions {
  readonly certificates?: CertificateSet;
  readonly port?: number;
  readonly health?: boolean;
}

/** Ends normally, with an error, or never, as the request says. */
const list =
  (begun: Turnstile, cancelled: Turnstile): handleServerStreamingCall<ListRequest, unknown> =>
  (call) => {
    const { items = 0, labelBytes = 0, ending = "" } = call.request;
    begun.pass();
    call.on("cancelled", cancelled.pass);
    let sent = 0;
    const more = (): void => {
      while (sent < items && !call.cancelled) {
        sent += 1;
        if (!call.write({ label: String(sent).padEnd(labelBytes, "x") })) return void call.once("drain", more);
      }
      if (ending === "") call.end();
      if (ending !== "" && ending !== "hang")
        call.emit("error", { code: status[ending as "ABORTED"], details: ending });
    };
    more();
  };

interface ListRequest {
  readonly items?: number;
  readonly labelBytes?: number;
  readonly ending?: string;
}

const same = (bytes: Buffer): Buffer => bytes;

const HEALTH = {
  Check: {
    path: "/grpc.health.v1.Health/Check",
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  },
} as const;

interface Turnstile {
  readonly pass: () => void;
  readonly passed: () => Promise<void>;
}

/** Counts events that may occur before or after a caller waits for them. */
function turnstile(): Turnstile {
  let ready = 0;
  const waiting: (() => void)[] = [];
  return {
    pass: () => {
      const next = waiting.shift();
      if (next === undefined) ready += 1;
      else next();
    },
    passed: () => {
      if (ready === 0) return new Promise((resolve) => waiting.push(resolve));
      ready -= 1;
      return Promise.resolve();
    },
  };
}

function serverCredentials(certificates: CertificateSet | undefined): ServerCredentials {
  if (certificates === undefined) return ServerCredentials.createInsecure();
  const { cert, key } = certificates.server;
  const pair = { cert_chain: Buffer.from(cert), private_key: Buffer.from(key) };
  return ServerCredentials.createSsl(Buffer.from(certificates.rootCert), [pair], true);
}

type Unary = handleUnaryCall<Record<string, never>, unknown>;

export async function startLab({ certificates, port = 0, health = false }: LabOptions = {}): Promise<Lab> {
  const begun = turnstile();
  const cancelled = turnstile();
  const streamed = turnstile();
  let calls = 0;
  const definition = loadSync("lab.proto", { includeDirs: [LAB_PROTO_FOLDER], oneofs: true });
  const lab = (loadPackageDefinition(definition) as unknown as { lab: { v1: { Lab: ServiceClientConstructor } } }).lab;
  const methods: Record<string, Unary> = {
    Echo: ({ request }, callback) => callback(null, request),
    Fail: ({ request }, callback) =>
      callback({ code: Number(request["code"]) as status, details: String(request["text"]) }),
    Hang: (call) => {
      call.on("cancelled", cancelled.pass);
      begun.pass();
    },
    Blob: ({ request }, callback) => {
      const { payload = "", answerBytes = 0 } = request as unknown as { payload?: string; answerBytes?: number };
      callback(null, { payload: "x".repeat(answerBytes), receivedBytes: payload.length });
    },
    Inspect: (call, callback) => {
      const texts = Object.entries(call.metadata.getMap()).map(([key, value]) => [key, value.toString()]);
      const peer = call.getAuthContext().sslPeerCertificate?.fingerprint256 ?? "";
      callback(null, { headers: { ...Object.fromEntries(texts), "lab-peer": peer, "lab-port": String(bound) } });
    },
    Keys: (_call, callback) => callback(null, {}),
  };
  const server = new Server({
    "grpc.max_receive_message_length": 16_000_000,
    "grpc.max_send_message_length": 16_000_000,
  });
  const counted = Object.entries(methods).map(([name, method]): [string, Unary] => [
    name,
    (call, callback) => {
      calls += 1;
      method(call, callback);
    },
  ]);
  const streams = { Watch: () => undefined, Upload: () => undefined, List: list(streamed, cancelled) };
  server.addService(lab.v1.Lab.service, { ...Object.fromEntries(counted), ...streams });
  let healthy: number | "unknown service" = 1;
  if (health) {
    server.addService(HEALTH, {
      Check: ((_call, callback) =>
        healthy === "unknown service"
          ? callback({ code: status.NOT_FOUND, details: "?" })
          : callback(null, Buffer.from([8, healthy]))) satisfies handleUnaryCall<Buffer, Buffer>,
    });
  }
  const bound: number = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, serverCredentials(certificates), (error, boundPort) =>
      error ? reject(error) : resolve(boundPort),
    );
  });
  return {
    port: bound,
    hangBegun: begun.passed,
    hangCancelled: cancelled.passed,
    streamBegun: streamed.passed,
    calls: () => calls,
    setHealth: (now) => {
      healthy = now;
    },
    close: () => server.forceShutdown(),
  };
}

export function labSystem(port: number, changes: Partial<GrpcSystem> = {}): GrpcSystem {
  return {
    endpoint: `127.0.0.1:${port}`,
    protoDirs: [LAB_PROTO_FOLDER],
    maxMessageBytes: 4_194_304,
    ...(changes.tls === undefined && { plaintext: true }),
    ...changes,
  };
}

/** TLS settings that the server accepts. */
export function labTls({ rootCert, client }: CertificateSet): NonNullable<GrpcSystem["tls"]> {
  return {
    rootCert: Buffer.from(rootCert),
    clientCert: Buffer.from(client.cert),
    clientKey: Buffer.from(client.key),
    serverName: DEVELOPMENT_SERVER_NAME,
  };
}
