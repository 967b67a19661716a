import { BANS } from "../approvals/risk/bans.ts";
import { GIT } from "../approvals/risk/git.ts";
import { HIGH_RISK } from "../approvals/risk/high-risk.ts";
import { CHANGES, READ_ONLY } from "../approvals/risk/read-only.ts";

/** What a build contains, one line each. */
export const MODULES = {
  /** Tables of rules about shell commands. */
  shellRules: {
    Denied: BANS,
    "High risk": HIGH_RISK,
    Git: GIT,
    Changes: CHANGES,
    "Reads only": READ_ONLY,
  },
} as const;

export type Modules = typeof MODULES;
