import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { CustomerAnswer, CustomerId, customerMaster, customerPolicy } from "./schemas.ts";

export const getCustomer = defineTool({
  name: "get_customer",
  description: "Get one customer by id. Personal data is masked or left out.",
  classification: "read",
  permissions: { required: ["customer-data:read"] },
  input: z.strictObject({ customerId: CustomerId }),
  target: customerMaster("GetCustomer"),
  output: CustomerAnswer,
  outputPolicy: customerPolicy("customer"),
  examples: {
    accepts: [{ customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001" }],
    rejects: [{}, { customerId: "1" }, { customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001", fields: "*" }],
  },
});
