import { defineTool, grpcMethod } from "safe-tool-call";
import { z } from "zod";

/** Lets the agent hear, filtered, what the service says of its failures. */
export const toldCustomer = defineTool({
  name: "case_told_customer",
  description: "Get one customer by id, and hear why not",
  classification: "read",
  permissions: { required: ["case:run"] },
  input: z.strictObject({ customerId: z.guid() }),
  target: grpcMethod(
    "customer-master-service",
    "org.finca.threesixone.customerdata.customermasterservice.proto.v1.CustomerMasterService",
    "GetCustomer",
  ),
  errors: "filtered",
  output: z.object({ customer: z.object({ status: z.string() }) }),
  outputPolicy: { "customer.status": "allow" },
});
