import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { Customer, CustomerStatus, customerMaster, customerPolicy, line } from "./schemas.ts";

const PAGE_SIZE_MAX = 100;

export const listCustomers = defineTool({
  name: "list_customers",
  description:
    "List customers, oldest first, one page at a time. Give nextPageToken as pageToken for the next page; it is empty on the last.",
  classification: "read",
  permissions: { required: ["customer-data:read"] },
  input: z.strictObject({
    pageSize: z.int().min(1).max(PAGE_SIZE_MAX).optional(),
    pageToken: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,256}$/)
      .optional(),
    nameContains: line(100).optional().describe("Part of the full name, case ignored"),
    status: CustomerStatus.optional(),
  }),
  target: customerMaster("ListCustomers"),
  output: z.object({ customers: z.array(Customer).max(PAGE_SIZE_MAX), nextPageToken: z.string() }),
  outputPolicy: { ...customerPolicy("customers[]"), nextPageToken: "allow" },
  examples: {
    accepts: [{}, { pageSize: 20, pageToken: "YWZ0ZXItMjA", nameContains: "smith", status: "ACTIVE" }],
    rejects: [{ pageSize: 0 }, { pageSize: 101 }, { status: "CUSTOMER_STATUS_UNSPECIFIED" }, { nameContains: "" }],
  },
});
