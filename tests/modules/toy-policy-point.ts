import type { PolicyPoint } from "safe-tool-call";

const FROZEN: readonly string[] = ["refund"];
const AMOUNT_MAX = 100;

/** A policy point of a build: forbids the tools on a list, and lets a person decide about large amounts. */
export const spending: PolicyPoint = {
  name: "spending",
  stage: "elevation",
  decide({ tool, input }) {
    if (FROZEN.includes(tool.name)) {
      return {
        verdict: "deny",
        reasons: [`${tool.name} is frozen`],
        message: "This tool is frozen: ask the operators.",
      };
    }
    const { amount = 0 } = input as { readonly amount?: number };
    if (amount <= AMOUNT_MAX) return { verdict: "allow" };
    return { verdict: "requireApproval", reasons: [`an amount above ${AMOUNT_MAX}`] };
  },
};
