import { z } from "zod";
import type { DecisionPointKind } from "../../src/decision-points/kind.ts";

const settings = z.strictObject({ max: z.int().describe("Largest amount.") });

/** A kind of decision point: denies calls with an amount above a limit. */
export const ceiling: DecisionPointKind<"ceiling", typeof settings> = {
  key: "ceiling",
  settings,
  isRemote: false,
  async open({ max }) {
    return {
      evaluate({ args }) {
        const amount = args?.["amount"];
        const allows = typeof amount === "number" && amount <= max;
        return { allows, reasons: allows ? [] : [`above ${max}`] };
      },
      preview: ({ args }) => ({ amount: args?.["amount"] ?? null, max }),
      close() {},
    };
  },
};
