import { z } from "zod";
import { NOT_LOGGED } from "../core/audit-fields.ts";
import { answerInWords } from "../core/data-flow.ts";
import { compilePolicy } from "../core/output-policy/output-policy.ts";
import { nameInSentence } from "../core/printable.ts";
import type { AnswerPlaces } from "../core/target-kind.ts";
import type { CallerContext, DataLabel, Json, Tool } from "../core/types.ts";
import { type AnswerField, AnswerFields, PrintCollector } from "./answer-prints.ts";
import { type FlowContext, type ToolFlow, toolFlow } from "./declarations.ts";
import { Fingerprints } from "./fingerprints.ts";
import type { CarriedLabels, Carrier, FlowCaller, LabelRow } from "./label-rows.ts";
import type { FlowLedger } from "./ledger.ts";
import { type ArgumentOrigins, needlesOf, originsOf } from "./origins.ts";
import { APPROVER, REQUEST } from "./source-index.ts";
import { ReadBack, type ReadBackText, type StoredTexts } from "./stored.ts";
import { type VouchedCaller, vouched, vouchedBy, vouchedMs } from "./vouching.ts";
import { writtenPrints } from "./written.ts";

/** A rule about what may follow what a caller has read. All `after` labels must be carried. */
export interface LabelRule {
  readonly after: readonly DataLabel[];
  /** `outside`: tools that send outside. `change`: all tools that change something. */
  readonly before: "outside" | "change";
  /** Not for calls of which every destination is vouched for: by the user's request, by an answer without untrusted text, or by any. */
  readonly unless?: "requested" | "known" | "vouched" | undefined;
  readonly verdict: "ask" | "deny";
}

/** A rule about arguments whose values appeared in what the caller has read. All `after` labels must be carried. */
export interface ArgumentRule {
  readonly argument: "destinations" | "links" | "lookups" | "any";
  readonly from: DataLabel;
  readonly after?: readonly DataLabel[] | undefined;
  readonly verdict: "ask" | "deny";
}

export type FlowRule = LabelRule | ArgumentRule;

export const DEFAULT_RULES: readonly FlowRule[] = [
  { after: ["private", "untrusted"], before: "outside", verdict: "ask" },
  { argument: "destinations", from: "untrusted", verdict: "ask" },
  { argument: "any", from: "private", after: ["untrusted"], verdict: "ask" },
];

/** One reason for which a call is denied or asks a person. */
export interface FlowFinding {
  readonly verdict: "deny" | "requireApproval";
  readonly reason: string;
}

/** What is known of a call when its plan is judged. */
export interface FlowJudgement {
  /** Labels that the call carries; undefined when they cannot be read. */
  readonly labels: readonly DataLabel[] | undefined;
  readonly findings: readonly FlowFinding[];
  readonly origins: readonly ArgumentOrigins[];
}

/** What was known of a caller before an answer and after it, and stored texts in the answer that earned labels. */
interface RememberedAnswer {
  readonly before: CarriedLabels;
  readonly after: CarriedLabels;
  readonly stored: readonly ReadBackText[];
}

/** A call that is judged. */
interface JudgedCall {
  readonly tool: Tool;
  readonly caller: CallerContext;
  readonly input: unknown;
  /** The session that grants would belong to. */
  readonly session?: string | undefined;
}

/** What an approver vouches for when approving a call. */
export interface VouchedAnswer {
  readonly caller: VouchedCaller & Pick<CallerContext, "issuer">;
  readonly approvalId: string;
  /** The call that the approver was asked about. */
  readonly traceId: string;
  readonly values: readonly { readonly argument: string; readonly value: string }[];
}

/** A call whose answer is remembered. */
export interface FollowedCall {
  readonly tool: Tool;
  readonly caller: CallerContext;
  /** Returns the arguments that the audit may hold. */
  readonly args: () => Readonly<Record<string, Json>>;
  readonly traceId: string;
  /** The session that grants would belong to. */
  readonly session?: string | undefined;
}

export interface DataFlowOptions {
  readonly tools: readonly Tool[];
  /** Returns where a tool's system stores the values of answers, by path. Undefined: not known. */
  readonly placesOf?: (tool: Tool) => AnswerPlaces;
  readonly context: FlowContext;
  readonly rules: readonly FlowRule[];
  readonly rememberMs: number;
  /** Whether labels are narrowed to the token's `sid`. */
  readonly trustSid: boolean;
  readonly ledger: FlowLedger;
  readonly stored: StoredTexts;
  readonly storedMs: number;
  readonly newId: () => string;
  readonly log: (message: string, cause: unknown) => void;
}

/** Follows what callers read into what they send, by the rules of one configuration. */
export class DataFlowPolicy {
  readonly #options: DataFlowOptions;
  readonly #flows: ReadonlyMap<Tool, ToolFlow>;
  readonly #fields = new Map<Tool, AnswerFields>();
  #reading:
    | { readonly secret: Uint8Array; readonly fingerprints: Fingerprints; readonly reader: PrintCollector }
    | undefined;

  constructor(options: DataFlowOptions) {
    this.#options = options;
    this.#flows = new Map(options.tools.map((tool) => [tool, toolFlow(tool, options.context)]));
  }

  /** Returns whether the labels of a caller matter to calls of a tool. */
  judges(tool: Tool): boolean {
    const flow = this.#flows.get(tool);
    return flow === undefined || mattersTo(flow, this.#options.rules);
  }

  /** Judges the arguments of a call by what its caller, and everybody who acts for him, has read until now. Never throws. */
  async judge(call: JudgedCall): Promise<FlowJudgement> {
    const judgement = await this.preview(call);
    const { counts } = this.#options.ledger;
    counts[judgement.labels === undefined ? "unknown" : verdictIn(judgement.findings)] += 1;
    return judgement;
  }

  /** As `judge`, about a call that is not made: it is not counted. */
  async preview({ tool, caller, input, session }: JudgedCall): Promise<FlowJudgement> {
    const flow = this.#flowOf(tool);
    const { ledger, rules, log } = this.#options;
    try {
      const { fingerprints, secret } = await this.#read();
      const { labels, isLost, sources } = await ledger.judge(this.#carriers(caller));
      const needles = needlesOf(fingerprints, input, flow.destinations);
      const { subject, actors } = caller;
      const isPrivateLost = isLostOf("private", labels, isLost);
      const approved = vouchedBy(secret, { subject, actors, session }, sources);
      const origins = originsOf(needles, sources, { approved, isPrivateLost });
      const judged = { flow, labels, isLost, isCut: needles.isCut, origins };
      const byLabels = rules.flatMap((rule) => ("before" in rule ? labelFindings(rule, judged) : []));
      const byArguments = rules.flatMap((rule) => ("before" in rule ? [] : argumentFindings(rule, judged, byLabels)));
      const found = [...byLabels, ...byArguments];
      found.push(...exfiltrating(judged));
      const findings = [...new Map(found.map((one) => [`${one.verdict} ${one.reason}`, one])).values()];
      return { labels, findings, origins };
    } catch (cause) {
      log("what a caller has read could not be looked up", cause);
      const isRuled = rules.some((rule) => !("before" in rule) || isAbout(rule, flow, flow.sendsOutside));
      return { labels: undefined, findings: isRuled ? [UNKNOWN] : [], origins: [] };
    }
  }

  /**
   * Keeps what an answer tells its caller: its labels and its fingerprints are in the database when the promise resolves.
   * @throws what prevented it: the answer must not be released
   */
  async remember(call: FollowedCall, answer: Json): Promise<RememberedAnswer> {
    const { tool, caller, args, traceId } = call;
    const flow = this.#flowOf(tool);
    const { reader } = await this.#read();
    const { rememberMs, newId, ledger, stored } = this.#options;
    await stored.load();
    const read = { id: newId(), tool: tool.name, traceId, of: referenceOf(args()), labels: flow.reads, rememberMs };
    const places = this.#options.placesOf?.(tool);
    let back: ReadBack | undefined;
    let seq = -1;
    const remembered = await ledger.remember(this.#carriers(caller), {
      compare: () => {
        // Read once, unless something was stored or has expired meanwhile.
        if (back === undefined || seq !== stored.seq || (back.until !== undefined && back.until <= stored.now)) {
          seq = stored.seq;
          const against = { system: tool.target.system, reads: flow.reads, now: stored.now };
          back = new ReadBack(stored.table, against, (search) =>
            reader.read(answer, this.#fieldsOf(tool, flow), search),
          );
        }
        return { answer: withPlaces(back.completed(read), places), with: { seq, until: back.until } };
      },
      learn: (newer, now) => stored.learn(newer, now),
    });
    return { ...remembered, stored: back?.texts ?? [] };
  }

  /**
   * Keeps what of a call's arguments is from private or untrusted answers, before the call can write it anywhere: whoever reads it back
   * earns these labels. It is on disk when the promise resolves.
   *
   * @throws what prevented it: the call must not run
   */
  async write({ tool, caller, input }: JudgedCall, traceId: string): Promise<void> {
    const { fingerprints } = await this.#read();
    const { ledger, stored, storedMs, rules } = this.#options;
    const { labels, isLost, sources, now } = await ledger.judge(this.#carriers(caller));
    if (labels.length === 0 && !isLost) return;
    // Where a call sends to is judged before it runs: nobody but a person lets it go to somebody unknown.
    const isStoring = labels.includes("untrusted") && !this.#flowOf(tool).sendsOutside;
    const spared = isStoring ? sparedBy(rules) : undefined;
    const isUntrustedLost = isLostOf("untrusted", labels, isLost);
    const { prints, isCut } = writtenPrints(fingerprints, input, { sources, isLost: isUntrustedLost, spared });
    if (prints.count === 0 && !isCut) return;
    const { system } = tool.target;
    // While fingerprints of untrusted text are missing, anything may be from there.
    const carried = isLost ? [...new Set<DataLabel>([...labels, "untrusted"])] : labels;
    await stored.store(caller, { tool: tool.name, traceId, system, prints, isCut, carried, storedMs }, now);
  }

  /** Counts an answer that was withheld because it could not be remembered. */
  withheld(): void {
    this.#options.ledger.counts.withheld += 1;
  }

  /** Returns the labels of a caller that have not expired. */
  labelsOf(caller: FlowCaller): Promise<readonly LabelRow[]> {
    return this.#options.ledger.labelsOf(caller);
  }

  /** Forgets the labels of a caller, and where values came from. */
  clear(caller: FlowCaller): Promise<void> {
    return this.#options.ledger.clear(caller);
  }

  /** Keeps the fingerprints of what the user asked the caller to do: a source that vouches for each of its words and phrases. */
  async vouch({ issuer, subject }: FlowCaller, request: string): Promise<void> {
    const { reader } = await this.#read();
    const { ledger, newId, rememberMs } = this.#options;
    const { fields, prints } = reader.read({ request }, new AnswerFields(REQUESTED.root, false));
    if (prints.byteLength === 0) return;
    const source = { id: newId(), tool: REQUEST, traceId: "", of: "", fields, prints };
    await ledger.vouch({ issuer, subject }, { ...source, rememberMs });
  }

  /**
   * Keeps that an approver vouches for exactly these values in the calls of this caller, through the same actors, in this session.
   * Returns until when.
   */
  async vouchExactly({ caller, approvalId, traceId, values }: VouchedAnswer): Promise<number> {
    const { secret } = await this.#read();
    const { ledger, newId, rememberMs } = this.#options;
    return ledger.vouch(caller, {
      id: newId(),
      tool: APPROVER,
      traceId,
      of: `approval: ${approvalId}`,
      fields: values.map(({ argument: path, value }) => ({
        path,
        isTrusted: false,
        vouched: vouched(secret, caller, value),
      })),
      prints: new Uint8Array(),
      rememberMs: vouchedMs(rememberMs, caller),
    });
  }

  #flowOf(tool: Tool): ToolFlow {
    return this.#flows.get(tool) ?? toolFlow(tool, this.#options.context);
  }

  #fieldsOf(tool: Tool, { trusted, reads }: ToolFlow): AnswerFields {
    const known = this.#fields.get(tool) ?? new AnswerFields(trusted, reads.includes("untrusted"));
    this.#fields.set(tool, known);
    return known;
  }

  async #read() {
    if (this.#reading === undefined) {
      const secret = await this.#options.ledger.secret();
      const fingerprints = new Fingerprints(secret);
      this.#reading ??= { secret, fingerprints, reader: new PrintCollector(fingerprints) };
    }
    return this.#reading;
  }

  /** Actors are known by their subject and the caller's issuer. */
  #carriers({ issuer, subject, actors, session }: CallerContext): readonly Carrier[] {
    const own = this.#options.trustSid ? (session ?? "") : "";
    return [...new Set([subject, ...actors])].map((one) => ({ issuer, subject: one, session: own }));
  }
}

const REQUESTED = compilePolicy({ request: "allow" }, z.object({ request: z.string() }));

const UNKNOWN: FlowFinding = {
  verdict: "requireApproval",
  reason: "what the caller has read before is not known: the shared state cannot be read",
};

/** What is known of a call when the rules judge it. */
interface Judged {
  readonly flow: ToolFlow;
  readonly labels: readonly DataLabel[];
  /** Whether fingerprints of the text that caused the labels are missing. */
  readonly isLost: boolean;
  /** Some arguments were not looked up. */
  readonly isCut: boolean;
  readonly origins: readonly ArgumentOrigins[];
}

/** Returns whether rules may be about calls of a tool: what their callers have read matters only then. */
export function mattersTo(flow: ToolFlow, rules: readonly FlowRule[]): boolean {
  if (flow.sendsOutside || flow.hasDestinations || flow.looksUp) return true;
  return flow.changes && rules.some((rule) => "before" in rule && rule.before === "change");
}

function isAbout({ before }: LabelRule, { changes }: ToolFlow, sendsOutside: boolean): boolean {
  return before === "change" ? changes : sendsOutside;
}

/** Returns whether fingerprints of text with the label may be missing: the mark does not say which label's. */
function isLostOf(label: DataLabel, labels: readonly DataLabel[], isLost: boolean): boolean {
  return isLost && (labels.includes(label) || (label === "untrusted" && !labels.includes("private")));
}

/** Returns whether a call sends outside. A manifest may say that a call without any destination sends to nobody. */
function sends({ flow: { sendsOutside, mayBeNobody }, origins, isCut }: Judged): boolean {
  return sendsOutside && (!mayBeNobody || isCut || origins.some(({ isDestination }) => isDestination));
}

/** Returns whom else than those whom the user named the rules about labels spare. */
function sparedBy(rules: readonly FlowRule[]): "known" | "vouched" | undefined {
  const spared = new Set(rules.map((rule) => ("before" in rule ? rule.unless : undefined)));
  return (["known", "vouched"] as const).find((one) => spared.has(one));
}

const VOUCHED_AS = { requested: "isRequested", known: "isKnown", vouched: "isVouched" } as const;

function areVouched({ origins, isCut }: Judged, by: NonNullable<LabelRule["unless"]>): boolean {
  const destinations = origins.filter(({ isDestination }) => isDestination);
  return !isCut && destinations.length > 0 && destinations.every((one) => one[VOUCHED_AS[by]]);
}

function labelFindings(rule: LabelRule, judged: Judged): readonly FlowFinding[] {
  const { after, before, unless, verdict } = rule;
  if (!isAbout(rule, judged.flow, sends(judged)) || !after.every((label) => judged.labels.includes(label))) return [];
  if (unless !== undefined && areVouched(judged, unless)) return [];
  const reason = `the caller has read ${after.join(" and ")} data, and this tool ${before === "outside" ? "sends outside" : "changes something"}`;
  return [{ verdict: verdictOf(verdict), reason }];
}

function argumentFindings(
  rule: ArgumentRule,
  judged: Judged,
  byLabels: readonly FlowFinding[],
): readonly FlowFinding[] {
  const { origins, isLost, isCut, labels } = judged;
  const { argument: about, from, after = [], verdict: written } = rule;
  if (!after.every((label) => labels.includes(label))) return [];
  const verdict = verdictOf(written);
  // That the call sends at all is reason enough.
  if (about === "any" && byLabels.some((one) => one.verdict === verdict)) return [];
  const concerned = origins.filter(({ isDestination, isLink }) => {
    if (about === "destinations") return isDestination;
    if (about === "links") return isLink && sends(judged);
    return !isLink && (judged.flow.looksUp || (about === "any" && sends(judged)));
  });
  const found = concerned.flatMap((one): FlowFinding[] => {
    const { argument, isUntrusted, isApproved, isUnknown, isPrivate, isRequested, origins: named } = one;
    if (from === "private") {
      if (isRequested) return [];
      if (isPrivate)
        return [{ verdict, reason: `${nameInSentence(argument)} appeared in ${whereIn(named, from)}, private` }];
      if (!isUnknown || !isLostOf(from, labels, isLost)) return [];
      return [{ verdict, reason: `${nameInSentence(argument)} may be from private data that is not known any more` }];
    }
    // What an approver has answered is no answer to a rule that denies.
    const isAnswered = isApproved && written === "ask";
    if (isUntrusted && !isAnswered)
      return [{ verdict, reason: `${nameInSentence(argument)} appeared in ${whereIn(named, from)}, untrusted` }];
    if (!isUnknown || !isLostOf(from, labels, isLost)) return [];
    return [{ verdict, reason: `${nameInSentence(argument)} may be from untrusted text that is not known any more` }];
  });
  if (!isCut) return found;
  return [...found, { verdict, reason: "the call has too many arguments to look all of them up" }];
}

/** Private data in an address at a host that untrusted text wrote leaves with whoever opens it: this asks under any rules. */
function exfiltrating({ origins }: Judged): readonly FlowFinding[] {
  return origins.flatMap(({ argument, carriesPrivate, origins: named }): FlowFinding[] => {
    if (!carriesPrivate) return [];
    const reason = `${nameInSentence(argument)} has private data in an address whose host appeared in ${whereIn(named, "untrusted")}, untrusted`;
    return [{ verdict: "requireApproval", reason }];
  });
}

function whereIn(origins: ArgumentOrigins["origins"], label: DataLabel): string {
  const found = origins.find(
    ({ labels, isTrusted }) => labels.includes(label) && !(label === "untrusted" && isTrusted),
  );
  // Agents read this: names of tables are not for them.
  return found === undefined ? "a text" : answerInWords({ ...found, place: undefined });
}

function verdictIn(findings: readonly FlowFinding[]): "denied" | "asked" | "passed" {
  if (findings.some(({ verdict }) => verdict === "deny")) return "denied";
  return findings.length > 0 ? "asked" : "passed";
}

function verdictOf(verdict: FlowRule["verdict"]): FlowFinding["verdict"] {
  return verdict === "deny" ? "deny" : "requireApproval";
}

const REFERENCE_CHARACTERS_MAX = 120;
const REFERENCE_MEMBERS_MAX = 3;

/** Returns the arguments of a read that the audit may contain, such as `id: 812`. */
function referenceOf(args: Readonly<Record<string, Json>>): string {
  const shown = Object.entries(args).flatMap(([name, value]) => {
    const isShort = typeof value === "number" || typeof value === "boolean" || typeof value === "string";
    return isShort && value !== NOT_LOGGED ? [`${name}: ${String(value)}`] : [];
  });
  return shown.slice(0, REFERENCE_MEMBERS_MAX).join(", ").slice(0, REFERENCE_CHARACTERS_MAX);
}

/** Returns an answer whose fields say where the system has their values. */
function withPlaces<T extends { readonly fields: readonly AnswerField[] }>(
  answer: T,
  places: AnswerPlaces | undefined,
): T {
  if (places === undefined || places.size === 0) return answer;
  const fields = answer.fields.map((field) => {
    const place = places.get(field.path);
    return place === undefined ? field : { ...field, place: place.slice(0, PLACE_CHARACTERS_MAX) };
  });
  return { ...answer, fields };
}

/** Names of tables and columns have at most 63 bytes in PostgreSQL. */
const PLACE_CHARACTERS_MAX = 256;
