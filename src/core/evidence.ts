import type { PolicyFinding, Refusal } from "./errors.ts";
import type { CompiledPolicy } from "./output-policy/output-policy.ts";
import type { CompiledScan } from "./output-policy/scan-policy.ts";
import type { Binding, CallerContext, ExecutionPlan, GivenAnswer, Json, KeyUse, Tool } from "./types.ts";

type Counts = Readonly<Record<string, number>>;

declare const brand: unique symbol;

/** A value that only one pipeline stage may create. The brand exists only for the type checker. */
export type Evidence<Step extends string, Value> = Readonly<Value> & { readonly [brand]: Step };

export type AnyEvidence = Evidence<string, object>;

/** A tool in the registry, bound to its handler, with compiled policies. */
export interface RegisteredTool {
  readonly tool: Tool;
  readonly binding: Binding;
  readonly outputPolicy: CompiledPolicy;
  readonly inputPolicy: CompiledPolicy;
  readonly scan: CompiledScan;
  /** Hex SHA-256 over everything that identifies the tool: deployment, manifest, policy. Part of every plan's digest. */
  readonly identity: string;
  /**
   * First 16 hex digits of the SHA-256 over what accepts arguments and lets them into the audit. Undefined for a tool whose code
   * is not in a file.
   */
  readonly argsDigest?: string | undefined;
}

/** The name was looked up. The result is still secret: unauthenticated clients must not learn which tools exist. */
export type Found = Evidence<"found", { name: string; registered: RegisteredTool | undefined }>;

/** The token is genuine, currently valid, and issued for this service. */
export type Verified = Evidence<"verified", { caller: CallerContext }>;

/** The service has capacity for this call. */
export type Admitted = Evidence<"admitted", { caller: CallerContext }>;

/** The tool exists and the caller is authenticated. */
export type Known = Evidence<"known", RegisteredTool & { caller: CallerContext }>;

/** A tool and its caller, with the findings of the policy points that require an approval. */
type Permitted = RegisteredTool & { caller: CallerContext; findings?: readonly PolicyFinding[] | undefined };

/** No policy point of the stage `permission` denies the call: the caller holds every permission that the tool requires. */
export type Authorized = Evidence<"authorized", Permitted>;

/** The call is within the caller's rate limit for this tool. */
export type WithinRate = Evidence<"withinRate", Permitted>;

/** The arguments passed the tool's schema; `input` is the schema's output and the raw arguments are not used again. */
export type Parsed = Evidence<"parsed", Permitted & { input: unknown }>;

/** No policy point of the stage `elevation` denies it: the caller also holds the permissions that these arguments require. */
export type Elevated = Evidence<"elevated", Permitted & { input: unknown }>;

/** The use of an `Idempotency-Key` that identifies a repetition, and the approval request that its last use made. */
interface Keyed {
  readonly keyUse?: KeyUse | undefined;
  readonly keyApprovalId?: string | undefined;
}

/** The call has not run before. */
export type Fresh = Evidence<"fresh", Permitted & Keyed & { input: unknown }>;

/** The plan is final; `digest` is the hex SHA-256 that seals it. */
export type Planned = Evidence<
  "planned",
  Permitted & Keyed & { input: unknown; plan: ExecutionPlan; digest: string; carried?: Carried }
>;

/** Labels that the call carries: a part of what `digest` seals. Undefined: they do not matter to the tool, or there are none. */
type Carried = readonly string[] | undefined;

interface Passed {
  readonly by: string;
  readonly approvalId?: string | undefined;
  readonly answer?: GivenAnswer | undefined;
}

/** The approval gate allowed exactly this plan; `by` names the rule or approver, `approvalId` the claimed request. */
export type Approved = Evidence<
  "approved",
  RegisteredTool & Passed & { caller: CallerContext; plan: ExecutionPlan; digest: string }
>;

/** The handler's raw result, untrusted until the output schema has parsed it. */
export type Executed = Evidence<"executed", RegisteredTool & { raw: unknown }>;

/** The result that may be released: parsed, filtered by the policy, bounded in size. */
export type Released = Evidence<
  "released",
  {
    result: Json;
    filteredFields: readonly string[];
    /** Set when only part of the result was read or released. */
    truncated?: true | undefined;
    outputHash: string;
    by?: string;
    redactions?: Counts | undefined;
  }
>;

/** What would happen to a call that was only judged. */
export type Judged = Evidence<"judged", { verdict: "allow" | "ask" }>;

/** How a call ended. */
export type CallOutcome = Released | Judged | Refusal;

/** The call's audit entry is on disk (or counted, in a flood of unauthenticated calls). Every answer needs it. */
export type Receipt = Evidence<"receipt", { traceId: string }>;

/** Creates evidence. `tests/architecture/evidence.test.ts` lists which file may create which kind. */
export function mint<E extends Evidence<string, unknown>>(value: Omit<E, typeof brand>): E {
  return value as E;
}
