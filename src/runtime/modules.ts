import { DETECTOR_RULES } from "../detection/rules/rules.ts";

/** What is built in, one property per kind of part. */
export const MODULES = {
  /** Tables of rules for secrets and personal data, one line per table. */
  detectorRules: DETECTOR_RULES,
};

export type Modules = typeof MODULES;
