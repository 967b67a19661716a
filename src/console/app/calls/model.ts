import { AUDIT_FIELDS, type LineMembers, NOT_LOGGED } from "../../../core/audit-fields.ts";
import { storyOf } from "../../../core/call-story.ts";
import { headlineText, membersHeadline } from "../../../core/headline.ts";
import { asString } from "../../../core/json.ts";
import type { Json } from "../../../core/types.ts";
import { members } from "../api.ts";

/** Lines of the audit as the console reads them. Whoever can write the directory can write a line: no member is certain. */

export type Line = LineMembers;

const { sub, iss, tool, classification, system, decision, code, duration, traceId, count } = AUDIT_FIELDS;

/** The members of a call's line that lists show. */
export type CallShown = ReturnType<typeof callOf>;

export function callOf(line: Line) {
  const timestamp = asString(line["timestamp"]) ?? "";
  const id = traceId.read(line);
  return {
    /** Distinguishes the rows of a list. */
    key: asString(line["hash"]) ?? `${timestamp} ${asString(line["id"]) ?? id ?? JSON.stringify(line["seq"] ?? null)}`,
    timestamp,
    traceId: id,
    sub: sub.read(line),
    iss: iss.read(line),
    tool: tool.read(line),
    classification: classification.read(line),
    system: system.read(line),
    decision: decision.read(line) ?? "unknown",
    code: code.read(line),
    durationMs: line["count"] === undefined ? duration.read(line) : undefined,
    /** The replica that wrote the line. */
    instance: asString(line["instance"]),
    /** Number of refusals that the line sums up. */
    count: count.read(line),
    line,
  };
}

const VERDICTS: Readonly<Record<string, readonly [words: string, tone: string]>> = {
  ALLOWED: ["allowed", "good"],
  DENIED: ["denied", "warn"],
  ERROR: ["error", "bad"],
  PENDING: ["asked a person", "plain"],
  DRY_RUN: ["dry run", "plain"],
};

/** Returns the words and the tone of a decision. */
export function verdictOf(decision: string): readonly [words: string, tone: string] {
  return Object.hasOwn(VERDICTS, decision) ? (VERDICTS[decision] ?? [decision, "plain"]) : [decision, "plain"];
}

const ARGUMENTS_CHARACTERS_MAX = 120;

/** Returns the arguments of a call that the log holds, on one line; undefined when it holds none. */
export function argumentsOf(line: Line): string | undefined {
  const logged = Object.entries(members(members(line["request"])["args"])).filter(([, value]) => value !== NOT_LOGGED);
  if (logged.length === 0) return undefined;
  return headlineText(membersHeadline(Object.fromEntries(logged) as Json, "argument", ARGUMENTS_CHARACTERS_MAX));
}

/** Returns why a call was refused, or asks a person: the rules in words, or else what the agent was told. */
export function whyOf(line: Line): string | undefined {
  if (line["decision"] === "ALLOWED") return undefined;
  const texts = storyOf(line, []).decisions.flatMap(({ meanings }) => meanings.map(({ text }) => text));
  return texts.length > 0 ? texts.join(" ") : asString(members(line["denial"])["reason"]);
}

/** Returns a duration in words: `0.4 ms`, `12 ms`, `3.2 s`, `4 min 10 s`. */
export function durationText(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

export interface StageShown {
  readonly name: string;
  readonly ms: number;
  /** Milliseconds before it began. */
  readonly startMs: number;
}

/** Returns the stages of a call, one after another. */
export function stagesOf(line: Line): readonly StageShown[] {
  let startMs = 0;
  return Object.entries(members(line["stages"])).flatMap(([name, ms]) => {
    if (typeof ms !== "number" || !(ms >= 0)) return [];
    const stage = { name, ms, startMs };
    startMs += ms;
    return [stage];
  });
}

/** An event in the story of a call: a line of the journal, or a call's own line. */
export interface StoryEvent {
  readonly key: string;
  readonly timestamp: string;
  readonly what: string;
  readonly who: string | undefined;
  readonly tone: string;
  /** Text that the person or the agent wrote. */
  readonly said: string | undefined;
  /** The call whose own line this is. */
  readonly callId: string | undefined;
  /** The replica that wrote the line. */
  readonly instance: string | undefined;
  readonly line: Line;
}

const JOURNAL_WORDS: Readonly<Record<string, string>> = {
  intent: "The change was announced",
  "approval.asked": "An approval was requested",
  "approval.voted": "An approver voted",
  "approval.expired": "The request expired",
  "approval.cancelled": "The request was cancelled",
  "approval.revoked": "The approval was revoked",
  "approval.claimed": "A call used the approval",
  "approval.settled": "The approval is used up",
  "approval.forged": "Somebody tried to decide who may not",
  "approval.refused": "An operator was not allowed to decide",
  "approval.shown": "An operator read the request",
  "approval.relayed": "A decision came by a webhook",
  "grant.created": "The approval was remembered for further calls",
  "grant.used": "A run of the bounded grant was counted",
  "grant.revoked": "The remembered approval was revoked",
  "task.created": "A task was created for the call",
  "task.cancelled": "The task was cancelled",
};
const VOTE_WORDS: Readonly<Record<string, string>> = { approve: "Approved", deny: "Denied" };

/**
 * Returns everything that happened, oldest first. Both lists arrive in the order of the log, and keep it: a line after a later one,
 * written after the clock was set back, counts at the time of the later one.
 */
export function eventsOf(calls: readonly Line[], journal: readonly Line[]): readonly StoryEvent[] {
  const own = calls.map((line): StoryEvent => {
    const { key, timestamp, decision, code, sub, traceId, instance } = callOf(line);
    const [words, tone] = verdictOf(decision);
    const ended = `The call ended: ${words}${code === undefined ? "" : `, ${code}`}`;
    const what = decision === "PENDING" ? "The call asked a person" : ended;
    return { key, timestamp, what, who: sub, tone, said: undefined, callId: traceId, instance, line };
  });
  const others = journal.map((line, at): StoryEvent => {
    const type = asString(line["type"]) ?? "unknown";
    const decision = asString(line["decision"]) ?? "";
    const decider = asString(members(line["decider"])["subject"]);
    const isBad = decision === "deny" || /expired|revoked|forged|refused/.test(type);
    return {
      key: asString(line["hash"]) ?? `journal ${at}`,
      timestamp: asString(line["timestamp"]) ?? "",
      what:
        (type === "approval.voted" ? wordsFor(VOTE_WORDS, decision) : undefined) ??
        wordsFor(JOURNAL_WORDS, type) ??
        type,
      who: asString(line["sub"]) ?? decider ?? asString(line["subject"]),
      tone: isBad ? "bad" : toneOfVote(decision),
      said: asString(line["reason"]),
      callId: undefined,
      instance: asString(line["instance"]),
      line,
    };
  });
  // Of the same millisecond, the journal's lines are first: a call's own line is written when the call ends.
  return merged(others, own);
}

function merged(first: readonly StoryEvent[], second: readonly StoryEvent[]): readonly StoryEvent[] {
  const timed = [first, second].flatMap((events) => {
    let latest = "";
    return events.map((event) => {
      if (event.timestamp > latest) latest = event.timestamp;
      return { event, latest };
    });
  });
  return timed
    .sort((one, other) => Number(one.latest > other.latest) - Number(one.latest < other.latest))
    .map(({ event }) => event);
}

function wordsFor(words: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(words, key) ? words[key] : undefined;
}

function toneOfVote(decision: string): string {
  return decision === "approve" ? "good" : "plain";
}
