import { fileURLToPath } from "node:url";
import {
  type handleUnaryCall,
  loadPackageDefinition,
  logVerbosity,
  Server,
  ServerCredentials,
  type ServiceClientConstructor,
  setLogVerbosity,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { DevelopmentCertificates } from "./certificates.ts";
import { type CustomerChanges, CustomerStore, type ListQuery, ServiceError } from "./customer-store.ts";
import { type CustomerRecord, KNOWN_CUSTOMERS } from "./customers.ts";

export interface CustomerMasterOptions {
  readonly certificates: Pick<DevelopmentCertificates, "rootCert" | "server">;
  readonly port: number;
}

export interface CustomerMaster {
  readonly port: number;
  close(): Promise<void>;
}

export const CUSTOMER_MASTER_PROTO_FOLDER = fileURLToPath(new URL("../../../proto", import.meta.url));

const SERVICE = "org.finca.threesixone.customerdata.customermasterservice.proto.v1.CustomerMasterService";
const MESSAGE_BYTES_MAX = 4_194_304;

const LEAK =
  "cannot proceed: John Smith <john.smith@example.com>, phone +447700900001, national id QQ000001C, 7 Station Road, Leeds";

type Request = Readonly<Record<string, unknown>> & { readonly customerId?: string };

/** Returns a customer that violates the contract: without id and status. */
function brokenCustomer(store: CustomerStore): unknown {
  return { ...store.get(KNOWN_CUSTOMERS.johnSmith), customerId: "", status: "CUSTOMER_STATUS_UNSPECIFIED" };
}

/** Customer ids that make any method misbehave, with the misbehaviour. */
const MISBEHAVIOURS: Readonly<Record<string, (store: CustomerStore) => unknown>> = {
  [KNOWN_CUSTOMERS.unavailable]: () => {
    throw new ServiceError(status.UNAVAILABLE, "the database is being moved");
  },
  [KNOWN_CUSTOMERS.leaksAsPrecondition]: () => {
    throw new ServiceError(status.FAILED_PRECONDITION, LEAK);
  },
  [KNOWN_CUSTOMERS.leaksAsInternal]: () => {
    throw new ServiceError(status.INTERNAL, LEAK);
  },
  [KNOWN_CUSTOMERS.breaksContract]: (store) => ({ customer: brokenCustomer(store) }),
};

/** Returns the fields of an update that were set. proto-loader omits unset optional fields and sets unset messages to null. */
function changesOf(request: Request): CustomerChanges {
  const { customerId: _, ...rest } = request;
  const set = Object.entries(rest).filter(([key, value]) => value !== null && !key.startsWith("_"));
  return Object.fromEntries(set);
}

type Method = (store: CustomerStore, request: Request) => unknown;

const single = (customer: CustomerRecord): unknown => ({ customer });

const METHODS: Readonly<Record<string, Method>> = {
  GetCustomer: (store, { customerId = "" }) => single(store.get(customerId)),
  GetLegacyCustomer: (store, request) => single(store.getLegacy(String(request["legacyId"]))),
  ListCustomers: (store, request) => store.list(request as unknown as ListQuery),
  CreateCustomer: (store, request) => single(store.create(changesOf(request))),
  UpdateCustomer: (store, request) => single(store.update(request.customerId ?? "", changesOf(request))),
  UpdateCustomerStatus: (store, request) => single(store.moveTo(request.customerId ?? "", String(request["status"]))),
};

function unary(store: CustomerStore, method: Method): handleUnaryCall<Request, unknown> {
  return ({ request }, callback) => {
    const { customerId = "" } = request;
    // Never answers: the call ends when the caller cancels it or its deadline passes.
    if (customerId === KNOWN_CUSTOMERS.hangs) return;
    try {
      const misbehave = Object.hasOwn(MISBEHAVIOURS, customerId) ? MISBEHAVIOURS[customerId] : undefined;
      callback(null, misbehave === undefined ? method(store, request) : misbehave(store));
    } catch (error) {
      const fault = error instanceof ServiceError ? error : new ServiceError(status.INTERNAL, "unexpected");
      callback({ code: fault.code, details: fault.message });
    }
  };
}

function findService(): ServiceClientConstructor["service"] {
  const definition = loadSync("customer_master_service.proto", {
    includeDirs: [CUSTOMER_MASTER_PROTO_FOLDER],
    keepCase: false,
    longs: String,
    enums: String,
    defaults: true,
    oneofs: true,
  });
  const found = SERVICE.split(".").reduce<unknown>(
    (at, part) => (typeof at === "object" && at !== null ? Reflect.get(at, part) : undefined),
    loadPackageDefinition(definition),
  );
  if (typeof found !== "function" || !("service" in found)) throw new Error(`the proto file has no ${SERVICE}`);
  return (found as ServiceClientConstructor).service;
}

/**
 * Starts a stand-in for the real customer master on 127.0.0.1: a real gRPC server that requires a client certificate, with
 * customers in memory. Some of `KNOWN_CUSTOMERS` make it misbehave.
 */
export function startCustomerMaster({ certificates, port }: CustomerMasterOptions): Promise<CustomerMaster> {
  const store = new CustomerStore();
  const server = new Server({
    "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
    "grpc.max_send_message_length": MESSAGE_BYTES_MAX,
  });
  const implementation: UntypedServiceImplementation = Object.fromEntries(
    Object.entries(METHODS).map(([name, method]) => [name, unary(store, method)]),
  );
  server.addService(findService(), implementation);
  const { rootCert, server: own } = certificates;
  const credentials = ServerCredentials.createSsl(rootCert, [{ cert_chain: own.cert, private_key: own.key }], true);
  return new Promise((resolve, reject) => {
    // Suppresses the line that grpc-js prints about a port in use, because our own message says what to do.
    setLogVerbosity(logVerbosity.NONE);
    server.bindAsync(`127.0.0.1:${port}`, credentials, (error, boundPort) => {
      setLogVerbosity(logVerbosity.ERROR);
      if (error) {
        reject(error);
        return;
      }
      resolve({ port: boundPort, close: async () => server.forceShutdown() });
    });
  });
}
