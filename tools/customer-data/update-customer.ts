import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { ChangeableFields, CustomerAnswer, CustomerId, customerMaster, customerPolicy } from "./schemas.ts";

export const updateCustomer = defineTool({
  name: "update_customer",
  description: "Change the given fields of a customer and leave the others as they are.",
  classification: "write",
  permissions: { required: ["customer-data:write"] },
  approval: { needsApproval: () => false },
  input: z.strictObject({
    customerId: CustomerId,
    ...ChangeableFields,
    fullName: ChangeableFields.fullName.optional(),
    email: ChangeableFields.email.optional(),
  }),
  target: customerMaster("UpdateCustomer"),
  output: CustomerAnswer,
  outputPolicy: customerPolicy("customer"),
  examples: {
    accepts: [
      { customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001", phone: "+447700900125" },
      {
        customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001",
        fullName: "John Smith",
        email: "john.smith@example.com",
        taxNumber: "GB-000001-7",
        address: { line1: "7 Station Road", city: "Leeds", postalCode: "10137", country: "GB" },
        annualIncome: { currency: "EUR", minorUnits: 3_715_000 },
        netWorth: { currency: "EUR", minorUnits: 13_730_000 },
        employerName: "Northern Rail Works",
        employerAddress: { line1: "357 Station Road", city: "Leeds", country: "GB" },
        nextOfKin: { fullName: "Jane Smith", relationship: "sister" },
      },
    ],
    rejects: [
      { phone: "+447700900125" },
      { customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001", status: "BLOCKED" },
      { customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001", nationalId: "QQ000001C" },
    ],
  },
});
