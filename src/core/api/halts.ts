import { z } from "zod";
import type { ReadonlyDeep } from "./readonly.ts";

/** What a halt can name. */
export const HALT_KINDS = ["all", "tool", "system", "caller", "session"] as const;

/** A halt in force. */
const halt = z.object({
  id: z.string(),
  kind: z.enum(HALT_KINDS),
  tool: z.string().optional(),
  system: z.string().optional(),
  issuer: z.string().optional(),
  subject: z.string().optional(),
  session: z.string().optional(),
  tenant: z.string().optional().describe("The halt stops calls of this tenant of the service, and no others."),
  reason: z.string(),
  cancelRunning: z.boolean(),
  setBy: z.object({ issuer: z.string(), subject: z.string() }),
  setAt: z.string(),
  until: z.string().optional(),
});

/** A halt in the list. A tenant's operators see halts of the service that stop its calls, but not who set them. */
const listed = halt.extend({
  reason: halt.shape.reason.optional(),
  setBy: halt.shape.setBy.optional(),
  ofService: z
    .literal(true)
    .optional()
    .describe(
      "The service's operators have set the halt, and only they can lift it. Its `reason` is shown where it names this tenant; a caller or session is not named otherwise. `setBy` is missing.",
    ),
});

/** A halt that was set: `POST /halts`. */
export const haltSet = z.object({ halt, notes: z.array(z.string()).default([]) });

/** A halt that was lifted: `DELETE /halts/:id`. */
export const haltLifted = z.object({ halt: halt.extend({ lifted: z.literal(true) }) });

/** The halts in force: `GET /halts`. */
export const haltListing = z.object({
  halts: z.array(listed),
  state: z.object({
    scope: z.enum(["process", "shared"]).describe("`process`: there is no store that other processes share."),
    status: z
      .enum(["ok", "stale", "unknown"])
      .describe("`stale`: not read for some seconds. `unknown`: never read, and not on disk."),
    active: z.int(),
  }),
  tenants: z.array(z.string()).optional().describe("The tenants of this service, of which a halt can name one."),
});

export type HaltShown = ReadonlyDeep<z.output<typeof halt>>;
export type HaltListed = ReadonlyDeep<z.output<typeof listed>>;
export type HaltSet = ReadonlyDeep<z.output<typeof haltSet>>;
export type HaltLifted = ReadonlyDeep<z.output<typeof haltLifted>>;
export type HaltListing = ReadonlyDeep<z.output<typeof haltListing>>;
