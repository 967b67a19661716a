import { z } from "zod";
import { bounded } from "../database/operations.ts";
import { APPROVER, REQUEST } from "./source-index.ts";

/** Longest time for which rows are kept, in milliseconds: ten years. */
const LASTING_MS_MAX = 315_576_000_000;

/** Maximum number of carriers of one call: its caller, and the services that act for it. */
export const CARRIERS_MAX = 16;

export const caller = { issuer: bounded.claim, subject: bounded.claim };
export const carrier = { ...caller, session: bounded.claim };
/** Labels of an answer or a text. */
export const labels = z.array(z.enum(["private", "untrusted"])).max(2);
/** Returns the schema of at most `max` bytes. */
export const bytes = (max: number) =>
  z.instanceof(Uint8Array).refine(({ byteLength }) => byteLength <= max, "is too long");
export const lastMs = z.int().positive().max(LASTING_MS_MAX);

export const markRows = z.array(
  z.looseObject({ session: z.string(), mark: z.string(), since: z.int(), until: z.int() }),
);
export const storedPage = z.looseObject({
  texts: z.array(
    z.looseObject({
      seq: z.int(),
      until: z.int(),
      tool: z.string(),
      traceId: z.string(),
      system: z.string(),
      labels: z.array(z.string()),
      prints: z.instanceof(Uint8Array),
    }),
  ),
  isMore: z.boolean(),
});
/** The texts with which the input was not compared yet. */
export const newerPage = storedPage.extend({ outcome: z.literal("newer") });

/** Name of a tool. Rows of people's own statements have names that no caller may use. */
export const answerTool = bounded.name.refine((tool) => tool !== REQUEST && tool !== APPROVER, "is not a tool");
