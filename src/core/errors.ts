import type { PartialAnswer } from "./partial-answer.ts";
import type { RefusalCode } from "./refusals.ts";

/** One reason of a policy point that did not allow a call. */
export interface PolicyFinding {
  readonly point: string;
  readonly verdict: "deny" | "requireApproval";
  readonly reason: string;
  /** Whether an approval for the session may satisfy the point. */
  readonly rememberable: boolean;
  /** Set when only people may approve: the library's callback does not decide. */
  readonly peopleOnly?: true | undefined;
}

export interface RefusalOptions {
  /** Details for the agent: the fields, permissions or status concerned. Never a target's text, a path or a secret. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterMs?: number | undefined;
  /** True when the same call fails until an operator acts, although the code can mean a passing state. */
  readonly isLasting?: boolean | undefined;
  /** Reasons of the policy points, for the audit only. */
  readonly findings?: readonly PolicyFinding[] | undefined;
  /** Cause for the operator: written to the log, never sent to the client. */
  readonly cause?: unknown;
  /** The target's own text, if the manifest allows releasing it. `pipeline/target-text.ts` filters it first. */
  readonly targetText?: string | undefined;
  /** Output that a script had written when it timed out. Released only after the tool's output policy and redaction. */
  readonly outputSoFar?: PartialAnswer | undefined;
}

/** Ends a call early. `message` tells the agent how to fix the call, `cause` tells the operator what happened. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly code: RefusalCode;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterMs: number | undefined;
  readonly isLasting: boolean;
  readonly findings: readonly PolicyFinding[] | undefined;
  /** Private so that code that serializes or logs the error does not include it. */
  readonly #targetText: string | undefined;
  readonly #outputSoFar: PartialAnswer | undefined;

  constructor(code: RefusalCode, message: string, options: RefusalOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.details = options.details;
    this.retryAfterMs = options.retryAfterMs;
    this.isLasting = options.isLasting === true;
    this.findings = options.findings;
    this.#targetText = options.targetText;
    this.#outputSoFar = options.outputSoFar;
  }

  /** Returns the target's own text, unfiltered. */
  static targetTextOf(refusal: Refusal): string | undefined {
    return #targetText in refusal ? refusal.#targetText : undefined;
  }

  /** Returns the output that the target had written, unfiltered. */
  static outputSoFarOf(refusal: Refusal): PartialAnswer | undefined {
    return #targetText in refusal ? refusal.#outputSoFar : undefined;
  }
}

/** One error in a manifest or a configuration, with the field to fix. */
export interface Fault {
  readonly field: string;
  readonly message: string;
}

/** All errors in one tool's manifest. */
export class ManifestError extends Error {
  override readonly name = "ManifestError";
  readonly tool: string;
  readonly faults: readonly Fault[];

  constructor(tool: string, faults: readonly Fault[]) {
    super(`tool ${tool}: ${faults.map((fault) => `${fault.field}: ${fault.message}`).join("; ")}`);
    this.tool = tool;
    this.faults = faults;
  }
}

/** All problems that prevent the service from starting; each line names the file, the field and the fix. */
export class StartupError extends Error {
  override readonly name = "StartupError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`cannot start:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`);
    this.problems = problems;
  }
}

/** Thrown by `ToolConfig` when the configuration lacks a value. The tool is not registered; this is not an error. */
export class NotRegistered extends Error {
  override readonly name = "NotRegistered";

  constructor(reason: string) {
    super(`not registered: ${reason}`);
  }
}
