import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { CustomerAnswer, customerMaster, customerPolicy, LegacyId } from "./schemas.ts";

export const getLegacyCustomer = defineTool({
  name: "get_legacy_customer",
  description: "Get one customer by its id in the system before this one. Personal data is masked or left out.",
  classification: "read",
  permissions: { required: ["customer-data:read"] },
  input: z.strictObject({ legacyId: LegacyId }),
  inputPolicy: { legacyId: "allow" },
  target: customerMaster("GetLegacyCustomer"),
  output: CustomerAnswer,
  outputPolicy: customerPolicy("customer"),
  examples: { accepts: [{ legacyId: "LEG-000001" }], rejects: [{}, { legacyId: "" }, { legacyId: "a b" }] },
});
