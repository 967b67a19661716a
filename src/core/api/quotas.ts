import { z } from "zod";
import type { ReadonlyDeep } from "./readonly.ts";

const use = z.object({
  quota: z.string(),
  issuer: z.string().optional().describe("Of the caller, where the quota is per caller."),
  subject: z.string().optional(),
  tool: z.string().optional().describe("Where the quota is per tool."),
  system: z.string().optional().describe("Where the quota is per system."),
  unit: z.enum(["calls", "bytes", "cost"]),
  used: z.number().describe("In the current window, with what processes have taken in advance."),
  limit: z.number().optional().describe("Absent when the quota is no longer configured."),
  window: z.enum(["hour", "day", "month"]).optional(),
  startsAt: z.int().describe("When the window began, in milliseconds since 1970."),
  endsAt: z.int(),
});

/** Quotas and their use: `GET /quotas`. */
export const quotaListing = z.object({
  quotas: z
    .array(
      z.object({
        name: z.string(),
        per: z.array(z.enum(["caller", "tool", "system"])),
        calls: z.int().optional(),
        bytes: z.int().optional(),
        cost: z.number().optional(),
        window: z.enum(["hour", "day", "month"]),
        when: z.record(z.string(), z.unknown()).optional(),
      }),
    )
    .describe("The quotas in force, as the configuration has them."),
  use: z.array(use).describe("By quota, the largest use first."),
  cursor: z.string().optional().describe("For the next page; absent on the last."),
});

export type QuotaListing = ReadonlyDeep<z.output<typeof quotaListing>>;
