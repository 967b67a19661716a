import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { CustomerAnswer, CustomerId, CustomerStatus, customerMaster, customerPolicy, line } from "./schemas.ts";

/** OFFBOARDED cannot be taken back and BLOCKED stops a customer's money: both need a second permission and a person's yes. */
function isDestructive({ status }: { readonly status: z.output<typeof CustomerStatus> }): boolean {
  return status === "OFFBOARDED" || status === "BLOCKED";
}

export const updateCustomerStatus = defineTool({
  name: "update_customer_status",
  description:
    "Move a customer to another status. OFFBOARDED is final; OFFBOARDED and BLOCKED need a person's approval.",
  classification: "write",
  permissions: {
    required: ["customer-data:write"],
    elevatedIf: { when: isDestructive, required: ["customer-data:status:destructive"] },
  },
  approval: { needsApproval: isDestructive },
  input: z.strictObject({
    customerId: CustomerId,
    status: CustomerStatus,
    reason: line(500).optional().describe("Why; kept by the service"),
  }),
  target: customerMaster("UpdateCustomerStatus"),
  output: CustomerAnswer,
  outputPolicy: customerPolicy("customer"),
  examples: {
    accepts: [
      { customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000003", status: "ACTIVE" },
      { customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001", status: "OFFBOARDED", reason: "Account closed on request" },
    ],
    rejects: [
      { customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001" },
      { customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001", status: "offboarded" },
      { customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001", status: 5 },
    ],
  },
});
