import { dataFlowSentences, vouchableSentences } from "./data-flow.ts";
import type { Json } from "./types.ts";

/**
 * The members of what an approver sees, one row each, in the order in which a terminal lists them. How the terminal and the console
 * show a member is derived from its row; both list a member without a row, which another version of the service may send, last.
 */

type Display = "console" | "terminal";

interface ViewMember {
  /** Default: the member's name. */
  readonly label?: string;
  /** Displays that show the member in a form of their own. The others list it with the plan. */
  readonly ownForm?: readonly Display[];
  /** Says the value in sentences, which displays show with the reasons for asking; undefined for a value of another form. */
  readonly sentences?: (value: unknown) => readonly string[] | undefined;
  /** True when every character matters: text that is not plain ASCII is also shown in ASCII. */
  readonly isExact?: true;
}

const BOTH = ["console", "terminal"] as const;

const VIEW_MEMBERS = {
  tool: { ownForm: BOTH },
  description: { ownForm: BOTH },
  classification: { ownForm: BOTH },
  category: { ownForm: BOTH },
  risk: { ownForm: BOTH },
  rules: { ownForm: BOTH },
  notes: { ownForm: BOTH },
  requester: { ownForm: BOTH },
  reason: { ownForm: BOTH },
  headline: { ownForm: BOTH },
  command: { ownForm: ["terminal"], isExact: true },
  workingDir: { ownForm: ["terminal"], isExact: true },
  environment: { isExact: true },
  files: { isExact: true },
  message: {},
  arguments: {},
  target: { ownForm: ["console"], isExact: true },
  confinement: { ownForm: ["console"] },
  grant: {},
  toolMessage: { ownForm: ["console"] },
  dataFlow: { label: "data flow", sentences: dataFlowSentences },
  vouchable: { label: "later calls", ownForm: ["console"], sentences: vouchableSentences },
} as const satisfies Readonly<Record<string, ViewMember>>;

/** A view, or a part of it. */
export type ApprovalView = { readonly [Name in keyof typeof VIEW_MEMBERS]?: Json };

const ROWS: ReadonlyMap<string, ViewMember> = new Map(Object.entries(VIEW_MEMBERS));

export function viewLabel(name: string): string {
  return ROWS.get(name)?.label ?? name;
}

export function isExactMember(name: string): boolean {
  return ROWS.get(name)?.isExact === true;
}

/** Returns the members of a view that the display lists with the plan, in the order of the rows. */
export function listedMembers(view: object, display: Display): readonly string[] {
  return [...new Set([...ROWS.keys(), ...Object.keys(view)])].filter((name) => {
    const { ownForm, sentences } = ROWS.get(name) ?? {};
    return Object.hasOwn(view, name) && sentences === undefined && ownForm?.includes(display) !== true;
  });
}

/** Returns the members of a view that the display says in sentences. */
export function saidMembers<Value>(view: Readonly<Record<string, Value>>, display: Display) {
  return [...ROWS].flatMap(([name, { sentences, ownForm }]) =>
    sentences !== undefined && Object.hasOwn(view, name) && ownForm?.includes(display) !== true
      ? [{ label: viewLabel(name), value: view[name], sentences: sentences(view[name]) }]
      : [],
  );
}
