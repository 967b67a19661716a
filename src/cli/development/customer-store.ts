import { status } from "@grpc/grpc-js";
import { type CustomerRecord, type CustomerStatus, customerIdOf, initialCustomers } from "./customers.ts";

export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly code: status;

  constructor(code: status, details: string) {
    super(details);
    this.code = code;
  }
}

export interface ListQuery {
  readonly pageSize: number;
  readonly pageToken: string;
  readonly nameContains: string;
  readonly status: string;
}

export interface CustomerPage {
  readonly customers: readonly CustomerRecord[];
  readonly nextPageToken: string;
}

export type CustomerChanges = {
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
export class CustomerStore {
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
      phone: "",
      nationalId: "",
      taxNumber: "",
      dateOfBirth: "",
      address: null,
      annualIncome: null,
      netWorth: null,
      employerName: "",
      employerAddress: null,
      nextOfKin: null,
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

  #tick(): CustomerRecord["updatedAt"] {
    this.#writes += 1;
    return { seconds: String(FIRST_WRITE_SECONDS + this.#writes), nanos: 0 };
  }
}
