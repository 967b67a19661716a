import { computed, signal } from "@preact/signals";
import type { ApprovalTerms } from "../../../core/api/approvals.ts";
import { nameInSentence } from "../../../core/printable.ts";
import type { ApprovalScope } from "../../../core/types.ts";
import { request } from "../api.ts";
import { hrefOf } from "../route.ts";
import { announce, errorOf, navigate, notify } from "../state.ts";
import { adviceFor, counted, OFFLINE, UNREADABLE } from "../words.ts";
import { loadShown, put, refresh, requestOf, shown } from "./inbox.ts";
import { coverageOf, isPending, type ListedRequest, outcomeOf } from "./model.ts";

/** Delay before a decision is sent, in which it can be taken back. */
export const UNDO_MS = 5_000;
/** A decision that could not be sent for longer is dropped: the computer slept, and nobody remembers it. */
const LATE_MS_MAX = 60_000;

export interface DecisionMade {
  readonly decision: "approve" | "deny";
  readonly scope?: ApprovalScope | undefined;
  /** The grant of scope `bounded`. */
  readonly grant?: ApprovalTerms | undefined;
  readonly reason?: string | undefined;
  readonly answer?: string | undefined;
  /** Values for which the approver vouches in later calls as well. */
  readonly vouch?: readonly string[] | undefined;
}

interface Subject {
  readonly id: string;
  readonly tool: string;
  /** The content that was read; a denial counts whatever the request says. */
  readonly viewDigest?: string | undefined;
}

/** A decision on its way, about one request or several. */
export interface Outgoing extends DecisionMade {
  readonly number: number;
  readonly subjects: readonly Subject[];
  /** Time at which it is sent, in the browser's Unix milliseconds. */
  readonly sendAt: number;
  readonly isSending: boolean;
}

export const outgoing = signal<readonly Outgoing[]>([]);
/** The one that `u` takes back. */
export const lastUndoable = computed(() => outgoing.value.findLast(({ isSending }) => !isSending));

let lastNumber = 0;

export function outgoingFor(id: string): Outgoing | undefined {
  return outgoing.value.find(({ subjects }) => subjects.some((subject) => subject.id === id));
}

/** Sends a decision after the time in which it can be undone. A page that is left sends nothing. */
export function decideSoon(subjects: readonly Subject[], made: DecisionMade): void {
  const free = subjects.filter(({ id }) => outgoingFor(id) === undefined);
  if (free.length === 0) return;
  lastNumber += 1;
  const number = lastNumber;
  const one: Outgoing = { ...made, number, subjects: free, sendAt: Date.now() + UNDO_MS, isSending: false };
  outgoing.value = [...outgoing.value, one];
  announce(`${sentence(one)}. Press u to undo.`);
  setTimeout(() => void send(number), UNDO_MS);
}

/** Takes back the last decision that was not sent yet. Returns whether there was one. */
export function undo(number = lastUndoable.value?.number): boolean {
  const one = outgoing.value.find((other) => other.number === number && !other.isSending);
  if (one === undefined) return false;
  remove(one.number);
  notify("done", `Undone: nothing was sent about ${about(one)}.`);
  const [subject] = one.subjects;
  // The next request may be open by now.
  if (subject !== undefined && one.subjects.length === 1) navigate(hrefOf("approvals", [subject.id]));
  return true;
}

/** Drops every decision that was not sent yet, for a session that has ended. */
export function dropAll(): void {
  outgoing.value = [];
}

function remove(number: number): void {
  outgoing.value = outgoing.value.filter((one) => one.number !== number);
}

async function send(number: number): Promise<void> {
  const one = outgoing.value.find((other) => other.number === number);
  if (one === undefined) return;
  if (Date.now() - one.sendAt > LATE_MS_MAX) {
    remove(number);
    notify("problem", `Nothing was sent about ${about(one)}: the page was asleep. Decide again.`);
    return;
  }
  outgoing.value = outgoing.value.map((other) => (other === one ? { ...other, isSending: true } : other));
  const sent: ListedRequest[] = [];
  const failures: Failure[] = [];
  for (const subject of one.subjects) {
    // The session may have ended: the next one can be another person's.
    if (!outgoing.value.some((other) => other.number === number)) break;
    const result = await sendOne(subject, one);
    if ("state" in result) sent.push(result);
    else failures.push(result);
    if ("isOffline" in result) break;
  }
  remove(number);
  notifyFailures(one, failures, one.subjects.length - sent.length);
  if (sent.length > 0) notify("done", doneText(one, sent));
  await refresh();
}

/** The reason why a decision does not count. */
interface Failure {
  readonly text: string;
  readonly more?: string | undefined;
  /** True where the service cannot be reached: further requests would not reach it either. */
  readonly isOffline?: true;
}

const FAILURES_NAMED = 3;

/** Shows one notice, however many requests it is about: otherwise the last ones would displace the first. */
function notifyFailures({ subjects }: Outgoing, failures: readonly Failure[], undecided: number): void {
  const [first] = failures;
  if (first === undefined) return;
  if (subjects.length === 1) notify("problem", first.text, first.more);
  else {
    const texts = [...new Set(failures.map(({ text }) => text))];
    const more = texts.slice(0, FAILURES_NAMED).join(" ");
    notify("problem", `${undecided} of ${counted(subjects.length, "request")} were not denied.`, more);
  }
}

async function sendOne({ id, tool, viewDigest }: Subject, made: Outgoing): Promise<ListedRequest | Failure> {
  const { decision, scope, grant, reason, answer, vouch } = made;
  try {
    const { approval } = await request<{ readonly approval: ListedRequest }>(
      "POST",
      `/approvals/${encodeURIComponent(id)}/decisions`,
      {
        body: {
          decision,
          ...(decision === "approve" && { scope: scope ?? "once", grant, viewDigest }),
          ...(reason !== undefined && reason !== "" && { reason }),
          ...(answer !== undefined && { answer }),
          ...(vouch !== undefined && vouch.length > 0 && { vouch }),
        },
      },
    );
    put([approval]);
    if (shown.value?.id === id) await loadShown(id);
    return approval;
  } catch (error) {
    return explain({ id, tool }, error);
  }
}

/** Says why a decision does not count: most often because somebody else has decided meanwhile. */
async function explain({ id, tool }: Subject, error: unknown): Promise<Failure> {
  const { code, status, message } = errorOf(error);
  if (status === 401) return { text: `Your decision on ${tool} was not sent: your session has ended.` };
  if (code === OFFLINE || code === UNREADABLE) {
    const why = code === OFFLINE ? "the service cannot be reached" : "the answer cannot be read";
    const text = `Your decision on ${tool} was not confirmed: ${why}.`;
    const more = "It may have arrived all the same: look at the request once the service can be reached.";
    return { text, more, ...(code === OFFLINE && { isOffline: true }) };
  }
  if (shown.value?.id === id) await loadShown(id);
  await refresh({ whole: true });
  const now = requestOf(id);
  if ([404, 409, 410].includes(status) && now !== undefined && !isPending(now)) {
    const by = now.decidedBy === undefined ? "" : ` by ${nameInSentence(now.decidedBy.sub)}`;
    const more = now.decisionReason === undefined ? undefined : `Reason: ${now.decisionReason}`;
    return { text: `Your decision on ${tool} does not count: ${outcomeOf(now).toLowerCase()}${by} before.`, more };
  }
  return { text: `Your decision on ${tool} does not count: ${message} (${code})`, more: adviceFor(code) };
}

function doneText(one: Outgoing, sent: readonly ListedRequest[]): string {
  const [first] = sent;
  if (sent.length !== 1 || first === undefined) return `Denied: ${counted(sent.length, "request")}.`;
  if (isPending(first)) {
    const missing = (first.quorum?.missing ?? []).map(
      ({ policy, stage, have, needed }) => `${policy}, ${stage}: ${have} of ${needed}`,
    );
    return `Counted: ${first.tool} still needs ${missing.join("; ")}.`;
  }
  return `${one.answer === undefined ? outcomeOf(first) : "Answered"}${coveredBy(one)}: ${first.tool}.`;
}

/** A decision that is about to be sent. */
export function sentence(one: Outgoing): string {
  if (one.decision === "deny") return `Denying ${about(one)}`;
  if (one.answer !== undefined) return `Answering ${about(one)}`;
  return `Approving ${about(one)}${coveredBy(one)}`;
}

function coveredBy({ scope, grant, vouch = [] }: Outgoing): string {
  return `${coverageOf(scope, grant)}${vouch.length === 0 ? "" : `, with ${counted(vouch.length, "value")} vouched for`}`;
}

function about({ subjects }: Outgoing): string {
  const [first] = subjects;
  return subjects.length === 1 && first !== undefined ? first.tool : counted(subjects.length, "request");
}
