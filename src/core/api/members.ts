import { z } from "zod";
import { BUNDLE_STATES } from "../bundle-states.ts";
import type { ReadonlyDeep } from "./readonly.ts";

/** The instances of members that this hub has heard of within the last hour: `GET /members`. */
export const memberListing = z.object({
  members: z.array(
    z.object({
      name: z.string().describe("Name in its certificate, or subject and issuer of its workload token."),
      tenant: z
        .string()
        .optional()
        .describe("Its tenant, for operators of the service. Left out for a member of the service itself."),
      instance: z.string().describe("Id of the log that it writes."),
      version: z.string().optional(),
      policyVersion: z.string().optional().describe("Of the configuration in use, as in its audit entries."),
      bundle: z
        .object({
          version: z.int().describe("Of the bundle in force."),
          digest: z.string().describe("The first characters."),
          state: z.enum(BUNDLE_STATES),
          fault: z.string().optional().describe("Why the last attempt to take one over failed."),
        })
        .optional()
        .describe("The fleet's bundle at this member."),
      connected: z.boolean().describe("Whether its stream from this hub is open."),
      lastContact: z.string(),
      inFlight: z.int().describe("Its requests that are not answered yet."),
    }),
  ),
});

export type MemberListing = ReadonlyDeep<z.output<typeof memberListing>>;
