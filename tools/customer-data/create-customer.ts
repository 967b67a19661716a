import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { ChangeableFields, CustomerAnswer, customerMaster, customerPolicy, IdentityFields } from "./schemas.ts";

export const createCustomer = defineTool({
  name: "create_customer",
  description: "Create a customer. It starts as PENDING; the e-mail address and the national id must not be taken.",
  classification: "write",
  additive: true,
  permissions: {
    required: ["customer-data:write"],
    elevatedIf: { when: () => true, required: ["customer-data:create"] },
  },
  approval: { needsApproval: () => false },
  input: z.strictObject({ ...ChangeableFields, ...IdentityFields }),
  target: customerMaster("CreateCustomer"),
  output: CustomerAnswer,
  outputPolicy: customerPolicy("customer"),
  examples: {
    accepts: [
      { fullName: "Ada Lovelace", email: "ada@example.com" },
      {
        fullName: "Ada Lovelace",
        email: "ada@example.com",
        phone: "+447700900123",
        nationalId: "QQ123456C",
        taxNumber: "GB-123456-7",
        dateOfBirth: "1815-12-10",
        address: { line1: "12 St James's Square", line2: "Flat 1", city: "London", postalCode: "SW1Y", country: "GB" },
        annualIncome: { currency: "GBP", minorUnits: 5_000_000 },
        netWorth: { currency: "GBP", minorUnits: -100 },
        employerName: "Analytical Engines",
        employerAddress: { line1: "1 Dorset Street", city: "London", country: "GB" },
        nextOfKin: { fullName: "Byron Lovelace", relationship: "son", phone: "+447700900124" },
      },
    ],
    rejects: [
      {},
      { fullName: "Ada Lovelace" },
      { fullName: "Ada Lovelace", email: "ada" },
      { fullName: "Ada\u0000", email: "ada@example.com" },
      { fullName: "Ada Lovelace", email: "ada@example.com", status: "ACTIVE" },
      { fullName: "Ada Lovelace", email: "ada@example.com", dateOfBirth: "1815-02-30" },
    ],
  },
});
