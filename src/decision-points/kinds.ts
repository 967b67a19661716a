import { authzen } from "./authzen/kind.ts";
import { cedar } from "./cedar/kind.ts";

/** The kinds of decision points that every build has. */
export const DECISION_POINTS = [authzen, cedar] as const;
