import { z } from "zod";
import { bounded, NO_INPUT, type NoInput, type Operation } from "../database/operations.ts";
import { QUOTA_UNITS, QUOTA_WINDOWS, type QuotaPeriod } from "./rules.ts";
import {
  type Filled,
  fill,
  listUse,
  type QuotaUseFilter,
  readUse,
  resetUse,
  type StoredUse,
  sweepUse,
  type UseOrder,
  type UsePosition,
  type UseQuestion,
} from "./table.ts";

/** Rows that one transaction changes. */
export const BATCH_MAX = 32;
/** Most quotas of one configuration that apply to one call. */
const QUESTIONS_MAX = 1_024;
const PAGE_MAX = 1_024;

const amount = z.int().nonnegative();
const user = z.strictObject({
  issuer: bounded.claim,
  subject: bounded.claim,
  tool: bounded.name,
  system: bounded.name,
});
const quota = z.strictObject({
  name: bounded.name,
  unit: z.enum(QUOTA_UNITS),
  window: z.enum(QUOTA_WINDOWS),
  limit: amount,
});

const read = z.looseObject({ used: amount, startsAt: z.int(), endsAt: z.int() });

/** Takes from rows and adds to them. Repeated, it would do so twice. */
export const fillOrders: Operation<{ readonly orders: readonly UseOrder[] }, readonly Filled[]> = {
  name: "quotas.fill",
  kind: "write",
  input: z.strictObject({
    orders: z
      .array(
        z.strictObject({
          quota,
          user,
          givenBack: z.strictObject({ amount, startsAt: z.int(), epoch: z.int() }).optional(),
          owed: amount,
          wanted: amount,
          least: amount,
          inBlocks: z.boolean(),
          knownUse: amount,
        }),
      )
      .max(BATCH_MAX)
      .readonly(),
  }),
  output: z.array(read.extend({ granted: amount, epoch: z.int() })),
  run: ({ sql, now }, { orders }) => fill(sql, now, orders),
};

/** Reads what is used, of several quotas in their order. */
export const readUses: Operation<
  { readonly questions: readonly UseQuestion[] },
  readonly (QuotaPeriod & { readonly used: number })[]
> = {
  name: "quotas.read",
  kind: "read",
  input: z.strictObject({ questions: z.array(z.strictObject({ quota, user })).max(QUESTIONS_MAX).readonly() }),
  output: z.array(read),
  run: ({ sql, now }, { questions }) => readUse(sql, now, questions),
};

const filter = z.strictObject({
  quota: bounded.name.optional(),
  issuer: bounded.claim.optional(),
  subject: bounded.claim.optional(),
  tool: bounded.name.optional(),
  system: bounded.name.optional(),
});

interface UsePage {
  readonly filter: QuotaUseFilter;
  readonly after?: UsePosition | undefined;
  readonly limit: number;
}

export const listUses: Operation<UsePage, readonly StoredUse[]> = {
  name: "quotas.list",
  kind: "read",
  input: z.strictObject({
    filter,
    after: z.strictObject({ quota: bounded.name, used: z.int(), id: bounded.id }).optional(),
    limit: z.int().positive().max(PAGE_MAX),
  }),
  run: ({ sql, now }, page) => listUse(sql, now, page),
};

/** Returns the keys of the rows that were set to zero. */
export const resetUses: Operation<{ readonly filter: QuotaUseFilter; readonly after: string }, readonly string[]> = {
  name: "quotas.reset",
  kind: "write",
  input: z.strictObject({ filter, after: bounded.id }),
  run: ({ sql, now }, part) => resetUse(sql, now, part),
};

/** Returns how many rows were deleted. */
export const sweepUses: Operation<NoInput, number> = {
  name: "quotas.sweep",
  kind: "write",
  input: NO_INPUT,
  run: ({ sql, now }) => sweepUse(sql, now),
};
