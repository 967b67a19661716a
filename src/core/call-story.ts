import { AUDIT_FIELDS, type LineMembers } from "./audit-fields.ts";
import { tablesIn } from "./data-flow.ts";
import { type Approving, approvingOf, type RuleMeaning, reasonMeanings, ruleMeanings } from "./decision-words.ts";
import { quotedText } from "./headline.ts";
import { asString, isTable } from "./json.ts";
import { nameInSentence } from "./printable.ts";
import { refusalSentence } from "./refusal-words.ts";
import { STAGES } from "./refusals.ts";

/** The decision of a policy about a call. */
interface PolicyDecision {
  readonly does: "denies" | "asks";
  /** Several when more than one rule matches the call: at least one of them does this, and the line does not say which. */
  readonly meanings: readonly RuleMeaning[];
}

/** A person's vote. */
interface Vote {
  readonly approves: boolean;
  readonly subject: string;
  readonly issuer: string | undefined;
  readonly text: string;
  /** Text that the person wrote. */
  readonly comment: string | undefined;
}

/** Story of a call, in sentences: who decided about it and why, and how it ended. */
export interface CallStory {
  /** Policies that denied the call, or asked a person. */
  readonly decisions: readonly PolicyDecision[];
  readonly votes: readonly Vote[];
  readonly approving: Approving | undefined;
  /** Says that nothing objected; undefined where something did. */
  readonly noObjection: string | undefined;
  /** How the call ended, and whether anything ran. */
  readonly outcome: string;
}

/** Returns the story of a call. `line`: the call's audit line. `journal`: the lines of the journal about the call. */
export function storyOf(line: LineMembers, journal: readonly LineMembers[]): CallStory {
  const decision = AUDIT_FIELDS.decision.read(line) ?? "unknown";
  const code = AUDIT_FIELDS.code.read(line);
  const denial = members(line["denial"]);
  const approval = members(line["approval"]);
  const by = asString(approval["by"]);
  const votes = votesOf(asString(approval["id"]), journal);
  const approving = approvingOf(by, scopeOf(votes, by));
  const found = reasonsOf(line);
  const isAsked = approving?.people.length !== undefined && approving.people.length > 0;
  const asksByDefault = found.length === 0 && (isAsked || votes.length > 0 || code === "APPROVAL_REQUIRED");
  const decisions: readonly PolicyDecision[] = asksByDefault
    ? [{ does: "asks", meanings: ruleMeanings(["default"]) }]
    : found;
  const refusal = code === undefined ? undefined : refusalSentence(code, denial["details"]);
  const isDenied = decisions.some(({ does }) => does === "denies");
  return {
    decisions,
    votes: votes.map(({ vote }) => vote),
    approving,
    noObjection: decisions.length > 0 || approving !== undefined ? undefined : noObjectionOf(decision),
    outcome: outcomeOf(line, by, isDenied ? undefined : refusal) + foundLater(line, journal),
  };
}

/** Returns the story as lines of text. */
export function storyLines(line: LineMembers, journal: readonly LineMembers[]): readonly string[] {
  const { decisions, votes, approving, noObjection, outcome } = storyOf(line, journal);
  const caller = asString(members(line["caller"])["sub"]) ?? "unknown";
  const session = asString(members(line["request"])["session"]);
  const inSession = session === undefined ? "" : ` in the session ${session}`;
  return [
    `${caller} asked to run ${AUDIT_FIELDS.tool.read(line) ?? "(no tool)"}${inSession}.`,
    ...(noObjection === undefined ? [] : [noObjection]),
    ...decisions.flatMap(({ does, meanings: [only, ...others] }) =>
      only === undefined || others.length === 0
        ? [`${does}: ${only?.text ?? "a rule"}`]
        : [`${does}, because of at least one of these rules:`, ...[only, ...others].map(({ text }) => `- ${text}`)],
    ),
    ...(approving === undefined ? [] : [approving.text]),
    ...votes.filter(({ approves }) => !approves).map(({ text }) => text),
    ...votes.flatMap(({ subject, comment }) =>
      comment === undefined ? [] : [`${nameInSentence(subject)}: ${quotedText(comment)}`],
    ),
    outcome,
  ];
}

function noObjectionOf(decision: string): string {
  return decision === "ALLOWED"
    ? "Every policy allowed the call, and no approval was needed."
    : "No policy denied the call, and nobody was asked: it ended for another reason.";
}

function outcomeOf(line: LineMembers, by: string | undefined, refusal: string | undefined): string {
  switch (line["decision"]) {
    case "ALLOWED":
      return by === "idempotency-key"
        ? "The call returned the result of the earlier call with the same key."
        : "The call ran and was answered.";
    case "PENDING":
      return "The call waits until a person decides.";
    case "DRY_RUN":
      return `A dry run: nothing ran and nobody was asked.${refusal === undefined ? "" : ` ${refusal}`}`;
    default: {
      const ran = mayHaveRun(asString(members(line["denial"])["stage"])) ? "" : " Nothing ran.";
      return `${refusal ?? "The call was refused."}${ran}`;
    }
  }
}

/** Words for a system's later answer, by the `outcome` of the journal's line. */
const FINDINGS: ReadonlyMap<string, string> = new Map([
  ["committed", "the change was made"],
  ["aborted", "the change was not made"],
]);

/** Returns a sentence with the system's later answer about an interrupted change; empty when there is none. */
function foundLater(line: LineMembers, journal: readonly LineMembers[]): string {
  const found = journal.find((one) => one["type"] === "change.resolved" && one["traceId"] === line["traceId"]);
  if (found === undefined) return "";
  const [system, transaction] = ["system", "transaction"].map((key) =>
    nameInSentence(asString(found[key]) ?? "unknown"),
  );
  const said = FINDINGS.get(asString(found["outcome"]) ?? "") ?? "it is no longer known whether the change was made";
  return ` The service asked ${system} later: ${said} (transaction ${transaction}).`;
}

function mayHaveRun(stage: string | undefined): boolean {
  return stage !== undefined && Object.hasOwn(STAGES, stage)
    ? STAGES[stage as keyof typeof STAGES].run === "possible"
    : false;
}

function reasonsOf(line: LineMembers): readonly PolicyDecision[] {
  const all = tablesIn(line["decisionReasons"]).map((reason): PolicyDecision => {
    const verdict = asString(reason["verdict"]) ?? "";
    const point = asString(reason["point"]) ?? "unknown";
    const meanings = reasonMeanings({ point, verdict, reason: asString(reason["reason"]) ?? "" });
    return { does: verdict === "deny" ? "denies" : "asks", meanings };
  });
  return [...new Map(all.map((decision) => [JSON.stringify(decision), decision])).values()];
}

interface Voted {
  readonly vote: Vote;
  readonly scope: string | undefined;
}

function votesOf(id: string | undefined, journal: readonly LineMembers[]): readonly Voted[] {
  return journal.flatMap((line): readonly Voted[] => {
    const decision = asString(line["decision"]);
    const isOwn = id === undefined || line["id"] === undefined || line["id"] === id;
    if (line["type"] !== "approval.voted" || decision === undefined || !isOwn) return [];
    const decider = members(line["decider"]);
    const subject = asString(decider["subject"]) ?? "somebody";
    const approves = decision === "approve";
    const scope = asString(line["scope"]);
    const text = approves
      ? (approvingOf(`human:${subject}`, scope)?.text ?? "")
      : `Denied by ${nameInSentence(subject)}.`;
    const vote = { approves, subject, issuer: asString(decider["issuer"]), text, comment: asString(line["reason"]) };
    return [{ vote, scope }];
  });
}

/** Returns the scope of the vote that approved the call last. */
function scopeOf(votes: readonly Voted[], by: string | undefined): string | undefined {
  return by?.startsWith("human:") === true ? votes.findLast(({ vote }) => vote.approves)?.scope : undefined;
}

function members(value: unknown): LineMembers {
  return isTable(value) ? value : {};
}
