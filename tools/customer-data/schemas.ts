import type { GrpcTarget, OutputFieldPolicy } from "safe-tool-call";
import { z } from "zod";

/** The schemas of `proto/customer_master_service.proto`, once for answers and once for arguments. */

const PACKAGE = "org.finca.threesixone.customerdata.customermasterservice.proto.v1";

export function customerMaster(method: string): GrpcTarget {
  return { system: "customer-master-service", grpc: { package: PACKAGE, service: "CustomerMasterService", method } };
}

export const CustomerStatus = z.enum(["ACTIVE", "PENDING", "DORMANT", "BLOCKED", "OFFBOARDED"]);

// Any hexadecimal 8-4-4-4-12: ids older than RFC 9562 have no valid version digit.
export const CustomerId = z.guid().describe("The customer's UUID");

export const LegacyId = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
  .describe("Id in the system before this one");

const Address = z.object({
  line1: z.string(),
  line2: z.string(),
  city: z.string(),
  region: z.string(),
  postalCode: z.string(),
  country: z.string(),
});

const Money = z.object({ currency: z.string(), minorUnits: z.string().regex(/^-?\d{1,19}$/) });

const NextOfKin = z.object({ fullName: z.string(), relationship: z.string(), phone: z.string() });

const ExternalReference = z.object({ system: z.string(), reference: z.string() });

/** An id that the service left empty, or a status it left unspecified, is no customer. */
export const Customer = z.object({
  customerId: CustomerId,
  legacyId: z.string(),
  status: CustomerStatus,
  fullName: z.string(),
  email: z.string(),
  phone: z.string(),
  nationalId: z.string(),
  taxNumber: z.string(),
  dateOfBirth: z.string(),
  address: Address.nullable(),
  annualIncome: Money.nullable(),
  netWorth: Money.nullable(),
  employerName: z.string(),
  employerAddress: Address.nullable(),
  nextOfKin: NextOfKin.nullable(),
  accountIds: z.array(z.string()),
  externalReferences: z.array(ExternalReference),
  createdAt: z.string().nullable(),
  updatedAt: z.string().nullable(),
});

export const CustomerAnswer = z.object({ customer: Customer });

/** What an agent sees of a customer that stands at `path`. What is not named here is stripped. */
export function customerPolicy(path: string): OutputFieldPolicy {
  const fields = {
    customerId: "allow",
    legacyId: "allow",
    status: "allow",
    fullName: "mask",
    email: "redact",
    phone: "redact",
    nationalId: "redact",
    taxNumber: "redact",
    dateOfBirth: "redact",
    address: "redact",
    annualIncome: "redact",
    netWorth: "redact",
    employerName: "redact",
    employerAddress: "redact",
    nextOfKin: "redact",
    accountIds: "allow",
    externalReferences: "allow",
    createdAt: "allow",
    updatedAt: "allow",
  } as const satisfies Record<keyof z.output<typeof Customer>, "allow" | "mask" | "redact">;
  return Object.fromEntries(Object.entries(fields).map(([field, action]) => [`${path}.${field}`, action]));
}

/** A line of text: no control characters. */
export function line(max: number): z.ZodString {
  return z
    .string()
    .min(1)
    .max(max)
    .regex(/^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]+$/);
}

const Phone = z
  .string()
  .regex(/^\+[1-9][0-9]{6,14}$/)
  .describe("E.164, such as +447700900001");

const AddressInput = z.strictObject({
  line1: line(200),
  line2: line(200).optional(),
  city: line(100),
  region: line(100).optional(),
  postalCode: line(20).optional(),
  country: z
    .string()
    .regex(/^[A-Z]{2}$/)
    .describe("ISO 3166-1 alpha-2"),
});

const MoneyInput = z.strictObject({
  currency: z
    .string()
    .regex(/^[A-Z]{3}$/)
    .describe("ISO 4217"),
  minorUnits: z.int().describe("In the currency's smallest unit, such as cents"),
});

const NextOfKinInput = z.strictObject({ fullName: line(200), relationship: line(50), phone: Phone.optional() });

/** What may be set when a customer is created; `ChangeableFields` may be changed later. */
export const ChangeableFields = {
  fullName: line(200),
  email: z.email().max(254),
  phone: Phone.optional(),
  taxNumber: line(32).optional(),
  address: AddressInput.optional(),
  annualIncome: MoneyInput.optional(),
  netWorth: MoneyInput.optional(),
  employerName: line(200).optional(),
  employerAddress: AddressInput.optional(),
  nextOfKin: NextOfKinInput.optional(),
};

export const IdentityFields = {
  nationalId: line(32).optional(),
  dateOfBirth: z.iso.date().optional(),
};
