import type { AuditActivity } from "../../../core/api/audit.ts";
import type { HaltListed } from "../../../core/api/halts.ts";
import type { CallerName } from "../caller.tsx";
import type { Sourced } from "../calls/fleet.tsx";
import { sumOf } from "../halting.tsx";
import { compareNames, hasWords } from "../words.ts";

/** The activity of agents, as the pages show it. */

/** `GET /audit/activity`. */
export type ShownActivity = AuditActivity & Sourced & { readonly warnings?: readonly string[] };

type Calls = AuditActivity["all"]["day"];

/** Returns how many calls were refused or failed. */
export function refusedIn({ DENIED = 0, ERROR = 0 }: Calls): number {
  return DENIED + ERROR;
}

/** A row of the list of agents. */
export interface AgentRow extends CallerName {
  /** Missing where a halted agent made no call in the last day. */
  readonly lastAt: string | null;
  readonly hour: number;
  readonly day: number;
  /** Calls of the day that were refused or failed. */
  readonly refused: number;
  /** Calls of the day that asked a person. */
  readonly asked: number;
  readonly isHalted: boolean;
}

/** Returns the callers of the last day and those that are halted. */
export function agentRows(
  { callers }: Pick<AuditActivity, "callers">,
  halts: readonly HaltListed[],
): readonly AgentRow[] {
  const keyOf = ({ sub, iss }: CallerName): string => JSON.stringify([sub, iss ?? ""]);
  const halted = new Map(
    halts
      .filter(({ subject, tenant }) => subject !== undefined && tenant === undefined)
      .map(({ subject = "", issuer = "" }) => [keyOf({ sub: subject, iss: issuer }), { sub: subject, iss: issuer }]),
  );
  const rows = callers.map(({ sub, iss, lastAt, hour, day }): AgentRow => {
    const key = keyOf({ sub, iss });
    const isHalted = halted.delete(key);
    const counts = { hour: sumOf(hour), day: sumOf(day), refused: refusedIn(day), asked: day["PENDING"] ?? 0 };
    return { sub, iss, lastAt, ...counts, isHalted };
  });
  const silent = [...halted.values()].map(
    (name): AgentRow => ({ ...name, lastAt: null, hour: 0, day: 0, refused: 0, asked: 0, isHalted: true }),
  );
  return [...rows, ...silent];
}

/** Columns by which the list is sorted, each with its order. */
export const SORTS = {
  name: (one: AgentRow, other: AgentRow) => compareNames(one.sub, other.sub),
  lastAt: (one: AgentRow, other: AgentRow) => (other.lastAt ?? "").localeCompare(one.lastAt ?? ""),
  hour: (one: AgentRow, other: AgentRow) => other.hour - one.hour,
  day: (one: AgentRow, other: AgentRow) => other.day - one.day,
  refused: (one: AgentRow, other: AgentRow) => other.refused - one.refused,
} as const;

export type Sort = keyof typeof SORTS;

/** Returns the rows whose name or issuer has the words, sorted. Rows that are equal by the column are sorted by name. */
export function shownRows(rows: readonly AgentRow[], wanted: string, sort: Sort): readonly AgentRow[] {
  return rows
    .filter(({ sub, iss = "" }) => hasWords([sub, iss], wanted))
    .toSorted((one, other) => SORTS[sort](one, other) || SORTS.name(one, other));
}
