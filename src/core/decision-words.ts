import { asStrings, isTable } from "./json.ts";
import { nameInSentence } from "./printable.ts";
import { SHELL_RULE_NOTES } from "./shell-rule-notes.ts";

/**
 * Says in sentences which rule decided about a call, and who approved it. The names in them come from others: show the texts escaped.
 */

export interface RuleMeaning {
  /** The rule's name, as audit lines and approval requests have it, without `floor:`: its address on the console's page "Policy". */
  readonly rule: string;
  readonly text: string;
}

const FIXED: Readonly<Record<string, string>> = {
  default: "No rule lets this call run by itself, so a person decides.",
  destructive: "The tool is destructive: a person decides about each of its calls.",
  "approval.required": "The tool's manifest asks a person about each of its calls.",
  category: "The tool is of the category ask: a person decides about each of its calls.",
  "risk:high": "The risk of the call is high: a person decides about each such call.",
  "risk:critical": "The risk of the call is critical: a person decides about each such call.",
  "policy:data-flow":
    "What the caller has read decides: private data may leave, or untrusted text may direct the call.",
};

const FLOOR = "floor:";
const OPERATOR = "operator:";
const POINT = "policy:";

/** Returns what rules mean that ask a person about a call, or deny it, each once. `floor:a,b` names two of them. */
export function ruleMeanings(names: readonly string[]): readonly RuleMeaning[] {
  const rules = names.flatMap((name) => (name.startsWith(FLOOR) ? name.slice(FLOOR.length).split(",") : [name]));
  return [...new Set(rules)].map((rule) => ({ rule, text: ruleText(rule) }));
}

/** Returns the programs that notes of shell rules name: `Talks to the network (curl).` */
export function programsIn(notes: readonly string[]): readonly string[] {
  const beginnings = Object.values(SHELL_RULE_NOTES).map((note) => `${note.replace(/\.$/, "")} (`);
  const named = notes.flatMap((note) => {
    const beginning = beginnings.find((each) => note.startsWith(each));
    return beginning === undefined ? [] : note.slice(beginning.length).replace(/\)\.$/, "").split(", ");
  });
  return [...new Set(named)];
}

function ruleText(rule: string): string {
  if (Object.hasOwn(FIXED, rule)) return FIXED[rule] ?? rule;
  if (Object.hasOwn(SHELL_RULE_NOTES, rule)) return SHELL_RULE_NOTES[rule as keyof typeof SHELL_RULE_NOTES];
  if (rule.startsWith(OPERATOR))
    return `The operators' rule ${nameInSentence(rule.slice(OPERATOR.length))} matches the call.`;
  if (rule.startsWith(POINT))
    return `The decision point ${nameInSentence(rule.slice(POINT.length))} wants a person to decide.`;
  return `The rule ${nameInSentence(rule)} matches the call.`;
}

/** The parts of an approval request that say why it asks. */
interface AskingRequest {
  readonly view?: unknown;
  readonly rules?: readonly string[] | undefined;
}

const BY_DATA_FLOW = "The policy data-flow requires an approval: ";

/**
 * Returns what the rules of a request mean, and the notes of its view that say something else. A note that says more than a rule's
 * meaning is said in its place.
 */
export function askingReasons({ view, rules = [] }: AskingRequest) {
  const { rules: shown, notes } = isTable(view) ? view : {};
  const used = new Set<unknown>();
  const meanings = ruleMeanings([...asStrings(shown), ...rules]).map(({ rule, text }): RuleMeaning => {
    const beginning = rule === `${POINT}data-flow` ? BY_DATA_FLOW : `${text.replace(/\.$/, "")} (`;
    const note = asStrings(notes).find((each) => each === text || each.startsWith(beginning));
    if (note === undefined) return { rule, text };
    used.add(note);
    return { rule, text: note.startsWith(BY_DATA_FLOW) ? `Data flow: ${note.slice(BY_DATA_FLOW.length)}.` : note };
  });
  return { meanings, notes: Array.isArray(notes) ? notes.filter((note) => !used.has(note)) : notes };
}

/** What a policy point says about a call: one of `decisionReasons` of an audit line. */
interface PointReason {
  readonly point: string;
  readonly verdict: string;
  readonly reason: string;
}

/** Returns what the reason of a policy point means. */
export function reasonMeanings({ point, verdict, reason }: PointReason): readonly RuleMeaning[] {
  switch (point) {
    case "risk":
      return ruleMeanings([reason]);
    case "permissions":
      return [{ rule: point, text: lackingSentence([reason]) }];
    case "elevation":
      return [{ rule: point, text: `With these arguments, the call needs more: ${lackingSentence([reason])}` }];
    case "halts": {
      const text = reason.startsWith("halt ")
        ? `Operators have halted such calls: ${reason}.`
        : `Whether operators have halted such calls could not be checked: ${reason}.`;
      return [{ rule: point, text }];
    }
    case "tenant":
      return [{ rule: point, text: `The token names another tenant, or none: ${reason}.` }];
    case "data-flow":
      return [{ rule: `${POINT}${point}`, text: `Data flow: ${reason}.` }];
    default: {
      const does = verdict === "deny" ? "denies the call" : "wants a person to decide";
      return [{ rule: `${POINT}${point}`, text: `The decision point ${nameInSentence(point)} ${does}: ${reason}.` }];
    }
  }
}

function lackingSentence(missing: readonly string[]): string {
  return `The caller's token lacks the permission${missing.length === 1 ? "" : "s"} ${missing.join(", ")}.`;
}

/** Returns the permissions that the details of a refusal name as missing, in a sentence; undefined when there are none. */
export function missingPermissionsSentence(details: unknown): string | undefined {
  const missing = isTable(details) ? asStrings(details["missingPermissions"]) : [];
  return missing.length === 0 ? undefined : lackingSentence(missing);
}

const HUMAN = "human:";
const NEXT_HUMAN = `, ${HUMAN}`;

const BY_RULE: Readonly<Record<string, string>> = {
  "category:read": "Approved by the rule for tools that only read: nobody is asked.",
  needsApproval: "Approved by the tool's manifest, which asks nobody about such a call.",
  "mode:yolo": "Approved by the mode of the session: yolo asks nobody.",
  "mode:autoEdit": "Approved by the mode of the session: autoEdit asks nobody about tools that write.",
  callback: "Approved by the program that this service is built into.",
  "callback:amended": "Approved, with other arguments, by the program that this service is built into.",
  "idempotency-key": "Nothing ran again: an earlier call with the same Idempotency-Key was answered.",
};

interface Person {
  readonly subject: string;
  /** Undefined in lines that do not name it. */
  readonly issuer: string | undefined;
}

/** Who or what let a call run. */
export interface Approving {
  /** Whoever approved it, if people did. */
  readonly people: readonly Person[];
  /** The grant that covered it, if one did. */
  readonly grant?: string;
  readonly text: string;
}

/** What an approval covers, by its scope. */
const SCOPE_WORDS: Readonly<Record<string, string>> = {
  once: "for this call alone",
  session: "for this session",
  bounded: "for this call and further ones within bounds",
};

/**
 * Returns who or what let a call run: `approval.by` of an audit line. `scope` is that of the people's decision, where it is known.
 * Undefined when nobody and nothing did: lines of an earlier version name the refusal's code there.
 */
export function approvingOf(by: string | undefined, scope?: string): Approving | undefined {
  if (by === undefined || /^[A-Z_]+$/.test(by)) return undefined;
  if (by.startsWith(HUMAN)) {
    const people = by.slice(HUMAN.length).split(NEXT_HUMAN).map(approverOf);
    const covered = scope !== undefined && Object.hasOwn(SCOPE_WORDS, scope) ? ` ${SCOPE_WORDS[scope]}` : "";
    return {
      people,
      text: `Approved by ${people.map(({ subject }) => nameInSentence(subject)).join(" and ")}${covered}.`,
    };
  }
  if (by.startsWith("grant:"))
    return { people: [], grant: by.slice("grant:".length), text: "Approved by an approval that a person gave before." };
  return {
    people: [],
    text: Object.hasOwn(BY_RULE, by) ? (BY_RULE[by] ?? by) : `Approved by the rule ${nameInSentence(by)}.`,
  };
}

function approverOf(person: string): Person {
  const at = person.indexOf("|");
  return at === -1
    ? { subject: person, issuer: undefined }
    : { issuer: person.slice(0, at), subject: person.slice(at + 1) };
}
