import { HIDDEN } from "../../approvals/operator-rules.ts";
import { Refusal } from "../../core/errors.ts";
import type { CallerContext } from "../../core/types.ts";
import type { Parts } from "../composition/assembly.ts";
import type { Config } from "../config/config.ts";
import { agentIssuers } from "../config/tenants.ts";
import { judge } from "./judge.ts";

/** What a subject may do with a tool; `~`: that depends on the arguments. */
type MatrixVerdict = "allow" | "ask" | "deny" | "~";

interface SubjectVerdict {
  readonly iss: string;
  readonly sub: string;
  readonly verdict: MatrixVerdict;
  /** Every verdict that some arguments have: `allow`, `ask`, or the code of a refusal. */
  readonly possible: readonly string[];
}

export interface VerdictRow {
  readonly tool: string;
  readonly subjects: readonly SubjectVerdict[];
}

/**
 * Returns what each subject of `jwt.issuers[].subjectPermissions` and of `bindings` may do with each tool in a session without a mode of its own, for
 * arguments that the input schema accepts.
 */
export async function verdictsOf(parts: Parts, config: Config): Promise<readonly VerdictRow[]> {
  const callers = agentIssuers(config)
    .flatMap(({ issuer, subjectPermissions = {} }) => {
      const bound = config.bindings.filter(
        (binding) => binding.operators !== true && (binding.issuer ?? issuer) === issuer,
      );
      const subjects = new Set([...Object.keys(subjectPermissions), ...bound.flatMap(({ subject = [] }) => subject)]);
      return [...subjects].map((subject) => agentOf(parts, { issuer, subject }));
    })
    .sort((one, other) => (one.subject < other.subject ? -1 : 1));
  const names = parts.registry.list().map(({ tool }) => tool.name);
  const args = { kind: "hidden", isAccepted: true, shown: HIDDEN } as const;
  const { mode } = config.approvals;
  const rows = names.sort().map(async (tool) => {
    const subjects = callers.map(async (caller) => {
      const asked = { tool, args, mode, caller: { ...caller, expiresAt: Number.MAX_SAFE_INTEGER } };
      const { verdicts } = await judge({ parts, config, asks: ({ isLocal }) => isLocal === true }, asked);
      const possible = [...verdicts].sort();
      return { iss: caller.issuer, sub: caller.subject, verdict: verdictIn(possible), possible };
    });
    return { tool, subjects: await Promise.all(subjects) };
  });
  return Promise.all(rows);
}

/** Returns an agent as the configuration alone knows it. One who is revoked has no permissions. */
function agentOf({ callers }: Parts, agent: { readonly issuer: string; readonly subject: string }): CallerContext {
  try {
    return callers.configuredAgent(agent);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ...agent, permissions: [], actors: [], expiresAt: 0 };
  }
}

function verdictIn(possible: readonly string[]): MatrixVerdict {
  const kinds = new Set(possible.map((one) => (one === "allow" || one === "ask" ? one : "deny")));
  const [only, another] = kinds;
  return only === undefined || another !== undefined ? "~" : only;
}
