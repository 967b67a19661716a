import { z } from "zod";
import type { ReadonlyDeep } from "./readonly.ts";

/** The tenants of a service, for its operators: `GET /tenants`. */
export const tenantListing = z.object({
  tenants: z.array(
    z.object({
      name: z.string(),
      tools: z.int().describe("Number of its registered tools."),
      callsInFlight: z.int(),
      audit: z.enum(["ok", "failing"]).describe("`failing`: its calls are refused, since they cannot be recorded."),
      halted: z
        .boolean()
        .describe("Whether a halt stops all of its calls: its own, the service's, or one that names it."),
      configuration: z
        .object({
          generation: z.int().describe("Number of its configuration in use, counted from 1 at the start."),
          since: z.iso.datetime(),
          problems: z
            .int()
            .describe("Problems of its part in the last reload; above 0, its previous configuration is in use."),
        })
        .optional()
        .describe("Left out where the configuration is never reloaded."),
    }),
  ),
});

export type TenantListing = ReadonlyDeep<z.output<typeof tenantListing>>;
export type TenantShown = TenantListing["tenants"][number];
