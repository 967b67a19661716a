import type { DetectorRule } from "../../src/detection/rules/rule.ts";

/** A detector rule of a build: the badge numbers of one company. */
export const badgeNumber: DetectorRule = {
  id: "badge-number",
  anchors: ["badge"],
  after: "[ :]{1,3}([A-Z]{2}-[0-9]{6})",
  matches: ["the badge «KX-204817» opens the door"],
  misses: ["a badge of honour", "the badge KX-2 is short"],
};
