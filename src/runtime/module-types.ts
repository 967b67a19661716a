import type { AuditExporter } from "../audit/export/receiver.ts";
import type { TargetKind } from "../core/target-kind.ts";
import type { ApprovalStore } from "../database/dialect.ts";
import type { DecisionPointKind } from "../decision-points/kind.ts";
import type { DetectorRule } from "../detection/rules/rule.ts";
import type { AssertionContext } from "../egress/assertion.ts";
import type { TokenSource } from "../pipeline/identity/token-sources.ts";
import type { PolicyPoints } from "../pipeline/policy-points.ts";
import type { ShellRule } from "../shell-rules/shell-rules.ts";
import type { CommandContext } from "../targets/command/kind.ts";
import type { FilesContext } from "../targets/files/kind.ts";
import type { McpContext } from "../targets/mcp/settings.ts";

export type KindContext = AssertionContext & CommandContext & FilesContext & McpContext;

/**
 * The parts from which a configuration is read and assembled. Programs hand them in: nothing here knows which parts a build
 * contains (`src/modules.ts`).
 */
export interface Modules {
  readonly targetKinds: readonly TargetKind<KindContext>[];
  readonly policyPoints: PolicyPoints;
  /** Kinds of decision points that the configuration may name. */
  readonly decisionPoints: readonly DecisionPointKind[];
  /** Tables of rules for secrets and personal data, by title. */
  readonly detectorRules: Readonly<Record<string, readonly DetectorRule[]>>;
  /** Tables of rules about shell commands, by title. */
  readonly shellRules: Readonly<Record<string, readonly ShellRule[]>>;
  readonly approvalStores: readonly ApprovalStore[];
  readonly auditExporters: readonly AuditExporter[];
  readonly tokenSources: readonly TokenSource[];
}
