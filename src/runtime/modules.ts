import { riskPoint } from "../approvals/floor.ts";
import { elevation, permissions } from "../pipeline/permission-engine.ts";
import type { PolicyPoints } from "../pipeline/policy.ts";

/** What a build contains. Everything else is derived from these declarations. */
export interface Modules {
  readonly policyPoints: PolicyPoints;
}

export const MODULES: Modules = {
  policyPoints: {
    permissions,
    elevation,
    risk: riskPoint,
    others: [],
  },
};
