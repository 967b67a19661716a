import type { Tool } from "../core/types.ts";
import type { Config } from "../runtime/config/config.ts";
import { table } from "./output.ts";

/** Who may call a tool, as far as the configuration knows; what tokens list is known to their issuers alone. */
export interface MatrixRow {
  readonly tool: string;
  readonly system: string;
  readonly classification: Tool["classification"];
  readonly category: Tool["category"];
  /** All of them are needed. */
  readonly permissions: readonly string[];
  /** Needed as well, for some inputs. */
  readonly elevated: readonly string[];
  /** Whether a call asks a person: in every mode, or as the session's mode and grants say. Rules of the operators can only add. */
  readonly asks: "always" | "by mode" | "no";
  /** Those to whom `jwt.issuers[].subjectPermissions` gives the permissions, elevated ones aside. */
  readonly subjects: readonly string[];
}

/** Tool × permission × classification × category, by the tools' names. */
export function matrixOf(tools: readonly Tool[], { jwt }: Pick<Config, "jwt">): readonly MatrixRow[] {
  const known = jwt.issuers
    .filter(({ operators }) => !operators)
    .flatMap(({ subjectPermissions = {} }) => Object.entries(subjectPermissions));
  const rows = tools.map(({ name, target, classification, category, permissions, approval }) => ({
    ...{ tool: name, system: target.system, classification, category },
    permissions: permissions.required,
    elevated: permissions.elevatedIf?.required ?? [],
    asks: asks({ classification, category, approval }),
    subjects: known
      .filter(([, held]) => permissions.required.every((permission) => held.includes(permission)))
      .map(([subject]) => subject)
      .sort(),
  }));
  return rows.sort((a, b) => (a.tool < b.tool ? -1 : 1));
}

function asks({
  classification,
  category,
  approval,
}: Pick<Tool, "classification" | "category" | "approval">): MatrixRow["asks"] {
  if (classification === "destructive" || category === "ask" || approval.required === true) return "always";
  return category === "read" ? "no" : "by mode";
}

export function matrixTable(rows: readonly MatrixRow[]): string {
  const list = (names: readonly string[]): string => names.join(" ") || "-";
  const heads = ["TOOL", "SYSTEM", "CLASSIFICATION", "CATEGORY", "ASKS", "PERMISSIONS", "ELEVATED", "SUBJECTS"];
  const lines = rows.map((row) => [
    ...[row.tool, row.system, row.classification, row.category, row.asks],
    ...[list(row.permissions), list(row.elevated), list(row.subjects)],
  ]);
  return table([heads, ...lines]);
}
