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
import {
  type CustomerRecord,
  type CustomerStatus,
  customerIdOf,
  initialCustomers,
  KNOWN_CUSTOMERS,
} from "./customers.ts";

interface CustomerMasterOptions {
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

/** Maps customer ids to the misbehaviour that they cause in every method. */
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
      const failure = error instanceof ServiceError ? error : new ServiceError(status.INTERNAL, "unexpected");
      callback({ code: failure.code, details: failure.message });
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

class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly code: status;

  constructor(code: status, details: string) {
    super(details);
    this.code = code;
  }
}

interface ListQuery {
  readonly pageSize: number;
  readonly pageToken: string;
  readonly nameContains: string;
  readonly status: string;
}

interface CustomerPage {
  readonly customers: readonly CustomerRecord[];
  readonly nextPageToken: string;
}

type CustomerChanges = {
  readonly [Key in Exclude<
    keyof CustomerRecord,
    "customerId" | "legacyId" | "status" | "accountIds" | "externalReferences" | "createdAt" | "updatedAt"
  >]?: CustomerRecord[Key];
};

const PAGE_SIZE_DEFAULT = 20;
const PAGE_SIZE_MAX = 100;
const CUSTOMERS_MAX = 10_000;
const FIRST_WRITE_SECONDS = 1_767_225_600;
const CREATED_FROM = 0x1000;

const MOVES: Readonly<Record<CustomerStatus, readonly CustomerStatus[]>> = {
  PENDING: ["ACTIVE", "BLOCKED", "OFFBOARDED"],
  ACTIVE: ["DORMANT", "BLOCKED", "OFFBOARDED"],
  DORMANT: ["ACTIVE", "BLOCKED", "OFFBOARDED"],
  BLOCKED: ["ACTIVE", "OFFBOARDED"],
  OFFBOARDED: [],
};

function isStatus(name: string): name is CustomerStatus {
  return Object.hasOwn(MOVES, name);
}

function offsetOf(token: string): number {
  if (token === "") return 0;
  const offset = /^after-([1-9]\d{0,5})$/.exec(Buffer.from(token, "base64url").toString("latin1"))?.[1];
  if (offset === undefined) throw new ServiceError(status.INVALID_ARGUMENT, "page_token was not issued here");
  return Number(offset);
}

function tokenOf(offset: number): string {
  return Buffer.from(`after-${offset}`, "latin1").toString("base64url");
}

/** Stores customers in memory until the process ends. Ids and times are counters, so that every run gives the same results. */
class CustomerStore {
  readonly #customers = new Map(initialCustomers().map((customer) => [customer.customerId, customer]));
  #writes = 0;

  /** Accepts a UUID in upper or lower case (RFC 9562, section 4). */
  get(customerId: string): CustomerRecord {
    const found = this.#customers.get(customerId.toLowerCase());
    if (found === undefined) throw new ServiceError(status.NOT_FOUND, `no customer ${customerId}`);
    return found;
  }

  getLegacy(legacyId: string): CustomerRecord {
    const found = [...this.#customers.values()].find((customer) => customer.legacyId === legacyId);
    if (found === undefined) throw new ServiceError(status.NOT_FOUND, `no customer with legacy id ${legacyId}`);
    return found;
  }

  list(query: ListQuery): CustomerPage {
    if (query.pageSize < 0 || query.pageSize > PAGE_SIZE_MAX) {
      throw new ServiceError(status.INVALID_ARGUMENT, `page_size must be between 1 and ${PAGE_SIZE_MAX}`);
    }
    const size = query.pageSize === 0 ? PAGE_SIZE_DEFAULT : query.pageSize;
    const start = offsetOf(query.pageToken);
    const wanted = query.nameContains.toLowerCase();
    const matching = [...this.#customers.values()].filter(
      (customer) =>
        customer.fullName.toLowerCase().includes(wanted) &&
        (!isStatus(query.status) || customer.status === query.status),
    );
    const end = start + size;
    return { customers: matching.slice(start, end), nextPageToken: end < matching.length ? tokenOf(end) : "" };
  }

  create(changes: CustomerChanges): CustomerRecord {
    if (this.#customers.size >= CUSTOMERS_MAX) throw new ServiceError(status.RESOURCE_EXHAUSTED, "the store is full");
    if (!changes.fullName) throw new ServiceError(status.INVALID_ARGUMENT, "full_name is required");
    if (!changes.email?.includes("@"))
      throw new ServiceError(status.INVALID_ARGUMENT, "email is not an e-mail address");
    this.#demandFree(changes);
    const time = this.#tick();
    const number = CREATED_FROM + this.#writes;
    const created: CustomerRecord = {
      ...changes,
      fullName: changes.fullName,
      email: changes.email,
      customerId: customerIdOf(number),
      legacyId: "",
      status: "PENDING",
      accountIds: [],
      externalReferences: [],
      createdAt: time,
      updatedAt: time,
    };
    this.#customers.set(created.customerId, created);
    return created;
  }

  update(customerId: string, changes: CustomerChanges): CustomerRecord {
    const before = this.get(customerId);
    if (before.status === "OFFBOARDED") {
      throw new ServiceError(status.FAILED_PRECONDITION, `${before.fullName} has been offboarded`);
    }
    if (changes.email !== undefined && !changes.email.includes("@")) {
      throw new ServiceError(status.INVALID_ARGUMENT, "email is not an e-mail address");
    }
    this.#demandFree(changes, before.customerId);
    const updated: CustomerRecord = { ...before, ...changes, updatedAt: this.#tick() };
    this.#customers.set(before.customerId, updated);
    return updated;
  }

  moveTo(customerId: string, wanted: string): CustomerRecord {
    const before = this.get(customerId);
    if (!isStatus(wanted)) throw new ServiceError(status.INVALID_ARGUMENT, "status is required");
    if (before.status === wanted) return before;
    if (!MOVES[before.status].includes(wanted)) {
      throw new ServiceError(
        status.FAILED_PRECONDITION,
        `${before.fullName} cannot move from ${before.status} to ${wanted}`,
      );
    }
    const updated: CustomerRecord = { ...before, status: wanted, updatedAt: this.#tick() };
    this.#customers.set(before.customerId, updated);
    return updated;
  }

  #demandFree({ email, nationalId }: CustomerChanges, except = ""): void {
    const taken = [...this.#customers.values()].some(
      (other) =>
        other.customerId !== except &&
        ((email !== undefined && other.email.toLowerCase() === email.toLowerCase()) ||
          (nationalId !== undefined && nationalId !== "" && other.nationalId === nationalId)),
    );
    if (taken) throw new ServiceError(status.ALREADY_EXISTS, "the e-mail address or national id is taken");
  }

  #tick(): NonNullable<CustomerRecord["updatedAt"]> {
    this.#writes += 1;
    return { seconds: String(FIRST_WRITE_SECONDS + this.#writes), nanos: 0 };
  }
}
