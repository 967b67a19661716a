import { NOT_LOGGED, sanitizeInput } from "../../core/manifest/input-policy.ts";
import type { CompiledPolicy } from "../../core/policy/output-policy.ts";
import type { DeclaredKind } from "../../core/target-kind.ts";
import type { Caller, DataLabel, Json, Tool } from "../../core/types.ts";
import { AnswerFields, PrintCollector } from "./answer-prints.ts";
import { type ToolFlow, toolFlow } from "./declarations.ts";
import { Fingerprints } from "./fingerprints.ts";
import type { CarriedLabels, Carrier, FlowLedger } from "./ledger.ts";
import { type ArgumentOrigins, needlesOf, originsOf } from "./origins.ts";

/** A rule about what may follow what a caller has read. All `after` labels must be carried. */
export interface LabelRule {
  readonly after: readonly DataLabel[];
  readonly before: "outside";
  readonly verdict: "ask" | "deny";
}

/** A rule about arguments whose values appeared in untrusted text. */
export interface ArgumentRule {
  readonly argument: "destinations";
  readonly from: "untrusted";
  readonly verdict: "ask" | "deny";
}

export type FlowRule = LabelRule | ArgumentRule;

export const DEFAULT_RULES: readonly FlowRule[] = [
  { after: ["private", "untrusted"], before: "outside", verdict: "ask" },
  { argument: "destinations", from: "untrusted", verdict: "ask" },
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

/** A call as far as data flow concerns it. */
export interface FollowedCall {
  readonly tool: Tool;
  readonly caller: Caller;
  readonly input: unknown;
  readonly inputPolicy: CompiledPolicy;
  readonly traceId: string;
}

export interface DataFlowOptions {
  readonly tools: readonly Tool[];
  readonly kinds: readonly DeclaredKind[];
  readonly rules: readonly FlowRule[];
  readonly rememberMs: number;
  /** Whether labels are narrowed to the token's `sid`. */
  readonly trustSid: boolean;
  readonly ledger: FlowLedger;
  readonly newId: () => string;
  readonly log: (message: string, cause: unknown) => void;
}

/** Follows what callers read into what they send, by the rules of one configuration. */
export class DataFlowPolicy {
  readonly #options: DataFlowOptions;
  readonly #flows: ReadonlyMap<Tool, ToolFlow>;
  readonly #fields = new Map<Tool, AnswerFields>();
  #reading: { readonly fingerprints: Fingerprints; readonly reader: PrintCollector } | undefined;

  constructor(options: DataFlowOptions) {
    this.#options = options;
    this.#flows = new Map(options.tools.map((tool) => [tool, toolFlow(tool, options.kinds)]));
  }

  /** Returns whether the labels of a caller matter to calls of a tool. */
  judges(tool: Tool): boolean {
    const flow = this.#flows.get(tool);
    return flow === undefined || flow.sendsOutside || flow.hasDestinations;
  }

  /** Judges the arguments of a call by what its caller, and everybody who acts for him, has read until now. Never throws. */
  async judge({ tool, caller, input }: Omit<FollowedCall, "traceId" | "inputPolicy">): Promise<FlowJudgement> {
    const flow = this.#flowOf(tool);
    try {
      const { fingerprints } = await this.#read();
      const { labels, isLost, sources } = await this.#options.ledger.judge(this.#carriers(caller), true);
      const needles = needlesOf(fingerprints, input, flow.destinations);
      const origins = originsOf(needles, sources);
      const findings = this.#options.rules.flatMap((rule) =>
        "after" in rule
          ? labelFindings(rule, flow, labels)
          : argumentFindings(rule, origins, { isLost, isCut: needles.isCut }),
      );
      return {
        labels,
        findings: [...new Map(findings.map((one) => [`${one.verdict} ${one.reason}`, one])).values()],
        origins,
      };
    } catch (cause) {
      this.#options.log("what a caller has read could not be looked up", cause);
      return { labels: undefined, findings: [UNKNOWN], origins: [] };
    }
  }

  /**
   * Keeps what an answer tells its caller: its labels and its fingerprints are in the database when the promise resolves.
   * @throws what prevented it: the answer must not be released
   */
  async remember(call: FollowedCall, answer: Json): Promise<{ before: CarriedLabels; after: CarriedLabels }> {
    const { tool, caller, input, inputPolicy, traceId } = call;
    const flow = this.#flowOf(tool);
    const { reader } = await this.#read();
    const prints = reader.read(answer, this.#fieldsOf(tool, flow));
    const { rememberMs, newId, ledger } = this.#options;
    return ledger.remember(this.#carriers(caller), {
      ...prints,
      ...{ id: newId(), tool: tool.name, traceId, of: referenceOf(sanitizeInput(inputPolicy, input)) },
      ...{ labels: flow.reads, rememberMs },
    });
  }

  #flowOf(tool: Tool): ToolFlow {
    return this.#flows.get(tool) ?? toolFlow(tool, this.#options.kinds);
  }

  #fieldsOf(tool: Tool, { trusted }: ToolFlow): AnswerFields {
    const known = this.#fields.get(tool) ?? new AnswerFields(trusted);
    this.#fields.set(tool, known);
    return known;
  }

  async #read() {
    if (this.#reading === undefined) {
      const fingerprints = new Fingerprints(await this.#options.ledger.secret());
      this.#reading ??= { fingerprints, reader: new PrintCollector(fingerprints) };
    }
    return this.#reading;
  }

  /** Actors are known by their subject and the caller's issuer. */
  #carriers({ issuer, subject, actors, session }: Caller): readonly Carrier[] {
    const own = this.#options.trustSid ? (session ?? "") : "";
    return [...new Set([subject, ...actors])].map((one) => ({ issuer, subject: one, session: own }));
  }
}

const UNKNOWN: FlowFinding = {
  verdict: "requireApproval",
  reason: "what the caller has read before is not known: the state of policies cannot be read",
};

function labelFindings(
  { after, verdict }: LabelRule,
  { sendsOutside }: ToolFlow,
  labels: readonly DataLabel[],
): readonly FlowFinding[] {
  if (!sendsOutside || !after.every((label) => labels.includes(label))) return [];
  return [
    {
      verdict: verdictOf(verdict),
      reason: `the caller has read ${after.join(" and ")} data, and this tool sends outside`,
    },
  ];
}

interface Knowledge {
  /** Fingerprints of untrusted text are missing. */
  readonly isLost: boolean;
  /** Some arguments were not looked up. */
  readonly isCut: boolean;
}

function argumentFindings(
  { verdict }: ArgumentRule,
  origins: readonly ArgumentOrigins[],
  { isLost, isCut }: Knowledge,
): readonly FlowFinding[] {
  const found = origins.flatMap(
    ({ argument, isDestination, isUntrusted, isUnknown, origins: named }): FlowFinding[] => {
      if (!isDestination) return [];
      const first = named.find(({ labels, isTrusted }) => labels.includes("untrusted") && !isTrusted);
      if (isUntrusted) {
        const where =
          first === undefined
            ? "untrusted text"
            : `${first.tool}${first.of === "" ? "" : ` (${first.of})`}, field ${first.field || "(top)"}`;
        return [{ verdict: verdictOf(verdict), reason: `${argument} appeared in ${where}, untrusted` }];
      }
      if (isUnknown && isLost) {
        return [
          { verdict: verdictOf(verdict), reason: `${argument} may be from untrusted text that is not known any more` },
        ];
      }
      return [];
    },
  );
  return isCut
    ? [...found, { verdict: verdictOf(verdict), reason: "the call has too many arguments to look all of them up" }]
    : found;
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
