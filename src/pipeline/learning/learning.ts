import { z } from "zod";
import type { RegisteredTool } from "../../core/evidence.ts";
import { isTable } from "../../core/json.ts";
import { compilePolicy } from "../../core/output-policy/output-policy.ts";
import { parseStrictJson } from "../../core/strict-json.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type { EpochMs, Json } from "../../core/types.ts";
import type { Detector } from "../../detection/sensitive.ts";
import type { AnswerObserver, ObserverSlot } from "../output-filter.ts";
import { isFieldName, ObservedForms, openPaths } from "./form.ts";
import { ObservedAnswers, type ObservedField } from "./observed.ts";
import { type Proposal, propose } from "./proposal.ts";

/** Tools that are observed at the same time, and results that are kept after their observation has ended. */
export const TOOLS_OBSERVED_MAX = 4;
/** How long the result of an observation can be read after its time is over. */
const KEPT_MS = 3_600_000;

export interface ObservationLimits {
  readonly seconds: number;
  readonly answers: number;
  /** Also describes what the output schema leaves open, and texts that are JSON. Then names of their fields can be read. */
  readonly describe?: boolean;
}

/** Why an observation ended. `changed`: a reload changed the tool, or removed it. */
type ObservationEnd = "time" | "answers" | "stopped" | "changed";

/** How far an observation is. */
export interface ObservationProgress {
  readonly tool: string;
  readonly state: "observing" | "ended";
  readonly ended: ObservationEnd | null;
  readonly answersSeen: number;
  readonly answersMax: number;
  readonly remainingMs: number;
}

/** The observations, and the policy that they suggest. */
export interface ObservationState extends ObservationProgress {
  /** Answers that the observer could not read. They are released as always. */
  readonly answersFailed: number;
  /** True when an answer had more parts than are looked at. */
  readonly truncated: boolean;
  readonly fields: readonly ObservedField[];
  readonly proposal: Proposal;
}

interface Observation {
  readonly registered: RegisteredTool;
  readonly until: EpochMs;
  readonly answersMax: number;
  readonly observed: ObservedAnswers;
  /** Set when open parts are described. */
  readonly open: ReadonlySet<string> | undefined;
  /** The answers of a system in text, while each of them is JSON. */
  json: ObservedAnswers | undefined;
  readonly end: PromiseWithResolvers<void>;
  failed: number;
  ended: ObservationEnd | undefined;
}

interface WaitOptions {
  readonly timeoutMs: number;
  /** Ends the wait early. */
  readonly signal: AbortSignal;
}

interface LearningParts {
  /** Holds the observer while a tool is observed: without one, a call costs one comparison. */
  readonly slot: ObserverSlot;
  readonly clock: () => EpochMs;
  readonly newId: () => string;
}

/** Observations of this process, started by operators. Nothing is stored: a restart ends them. */
export class Learning implements AnswerObserver {
  readonly #parts: LearningParts;
  readonly #observations = new Map<string, Observation>();

  constructor(parts: LearningParts) {
    this.#parts = parts;
  }

  /** Starts to observe a tool, and forgets its former result. Returns why it does not start. */
  start(registered: RegisteredTool, limits: ObservationLimits): "observed" | "full" | undefined {
    const { seconds, answers, describe = false } = limits;
    const { clock, newId, slot } = this.#parts;
    const { name } = registered.tool;
    this.#endLate();
    const before = this.#observations.get(name);
    if (before !== undefined && before.ended === undefined && isSame(before, registered)) return "observed";
    this.#observations.delete(name);
    if (this.#running().length >= TOOLS_OBSERVED_MAX) return "full";
    const oldest = [...this.#observations].find(([, { ended }]) => ended !== undefined);
    if (oldest !== undefined && this.#observations.size >= 2 * TOOLS_OBSERVED_MAX) this.#observations.delete(oldest[0]);
    const until = clock() + seconds * 1_000;
    const open = describe ? openPaths(registered.tool) : undefined;
    const observed = new ObservedAnswers(newId(), open && { open, isName: isFieldName });
    const json =
      describe && registered.binding.answersText === true ? new ObservedAnswers(newId(), JSON_NAMING) : undefined;
    const end = Promise.withResolvers<void>();
    const counted = { answersMax: answers, failed: 0, ended: undefined };
    this.#observations.set(name, { registered, until, observed, open, json, end, ...counted });
    slot.observer = this;
    return undefined;
  }

  /** Counts an answer of an observed tool. Never throws and changes nothing. */
  observe(registered: RegisteredTool, answer: unknown, detector: Detector): void {
    this.#endLate();
    const observation = this.#observations.get(registered.tool.name);
    // A call that began before a reload has a tool of its own.
    if (observation === undefined || observation.ended !== undefined || !isSame(observation, registered)) return;
    const { observed, answersMax } = observation;
    try {
      observed.add(registered, answer, detector);
      addJson(observation, answer, detector);
    } catch {
      observation.failed += 1;
    }
    if (observed.answers >= answersMax) this.#end(observation, "answers");
  }

  /** Returns what was seen so far; undefined without an observation. `current` is the tool of the configuration in use. */
  read(name: string, current: RegisteredTool | undefined): ObservationState | undefined {
    const observation = this.#current(name, current);
    if (observation === undefined) return undefined;
    const { registered, observed, open, failed } = observation;
    const json = observed.answers > 0 ? observation.json : undefined;
    const seen = (json ?? observed).fields();
    const forms = open && new ObservedForms(seen, json === undefined ? open : JSON_NAMING.open);
    const fields = forms?.shown() ?? seen;
    const isJson = json !== undefined;
    return {
      ...this.#progressOf(observation),
      answersFailed: failed,
      truncated: observed.isCut || json?.isCut === true,
      fields,
      proposal: propose(registered, { answers: observed.answers, fields, forms, isJson }),
    };
  }

  /** Returns how far an observation is; undefined without one. */
  progress(name: string, current: RegisteredTool | undefined): ObservationProgress | undefined {
    const observation = this.#current(name, current);
    return observation === undefined ? undefined : this.#progressOf(observation);
  }

  /** Waits until an observation has ended, but at most `timeoutMs`. */
  async wait(name: string, { timeoutMs, signal }: WaitOptions): Promise<void> {
    this.#endLate();
    const observation = this.#observations.get(name);
    if (observation === undefined || observation.ended !== undefined || signal.aborted) return;
    const aborted = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => aborted.resolve(), { once: true });
    const leftMs = observation.until - this.#parts.clock();
    await endedWithin(Promise.race([observation.end.promise, aborted.promise]), Math.min(timeoutMs, leftMs));
  }

  stop(name: string): void {
    const observation = this.#observations.get(name);
    if (observation !== undefined) this.#end(observation, "stopped");
  }

  #current(name: string, current: RegisteredTool | undefined): Observation | undefined {
    this.#endLate();
    const observation = this.#observations.get(name);
    const isChanged = observation !== undefined && (current === undefined || !isSame(observation, current));
    if (isChanged) this.#end(observation, "changed");
    return observation;
  }

  #progressOf({ registered, until, answersMax, observed, ended }: Observation): ObservationProgress {
    return {
      tool: registered.tool.name,
      state: ended === undefined ? "observing" : "ended",
      ended: ended ?? null,
      answersSeen: observed.answers,
      answersMax,
      remainingMs: ended === undefined ? until - this.#parts.clock() : 0,
    };
  }

  #running(): readonly Observation[] {
    return [...this.#observations.values()].filter(({ ended }) => ended === undefined);
  }

  /** Ends the observations whose time is over, and forgets old results. No timer is needed: every use comes through here. */
  #endLate(): void {
    const now = this.#parts.clock();
    for (const [name, observation] of this.#observations) {
      if (now >= observation.until) this.#end(observation, "time");
      if (now >= observation.until + KEPT_MS) this.#observations.delete(name);
    }
  }

  #end(observation: Observation, reason: ObservationEnd): void {
    observation.ended ??= reason;
    observation.end.resolve();
    if (this.#running().length === 0) this.#parts.slot.observer = undefined;
  }
}

function isSame({ registered }: Observation, { identity }: RegisteredTool): boolean {
  return registered.identity === identity;
}

const JSON_NAMING = { open: new Set([""]), isName: isFieldName };
const JSON_POLICY = compilePolicy({}, z.unknown());
const JSON_LIMITS = { depthMax: 64, keysMax: 100_000, elementsMax: 100_000 } as const;

/** Counts the JSON in an answer's text. One answer that is not an object or a list in JSON ends this. */
function addJson(observation: Observation, answer: unknown, detector: Detector): void {
  const { json } = observation;
  if (json === undefined) return;
  const value = jsonIn(answer);
  if (value === undefined) observation.json = undefined;
  else json.add({ outputPolicy: JSON_POLICY }, value, detector);
}

function jsonIn(answer: unknown): Json | undefined {
  const text = isTable(answer) && Object.keys(answer).length === 1 ? answer["text"] : undefined;
  if (typeof text !== "string") return undefined;
  try {
    const value = parseStrictJson(Buffer.from(text, "utf8"), JSON_LIMITS);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
