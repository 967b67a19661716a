import type { CompiledInputPolicy } from "./manifest/input-policy.ts";
import type { CompiledPolicy } from "./policy/output-policy.ts";
import type { CompiledScan } from "./policy/scan-policy.ts";
import type { Binding, Caller, ExecutionPlan, GivenAnswer, Json, KeyUse, Tool } from "./types.ts";

type Counts = Readonly<Record<string, number>>;

declare const earned: unique symbol;

/** A value that only one step of the road may hand out. The brand exists for the type checker alone. */
export type Evidence<Step extends string, Value> = Readonly<Value> & { readonly [earned]: Step };

export type AnyEvidence = Evidence<string, object>;

/** A tool in the registry: joined to its handler, its policies compiled. */
export interface RegisteredTool {
  readonly tool: Tool;
  readonly binding: Binding;
  readonly outputPolicy: CompiledPolicy;
  readonly inputPolicy: CompiledInputPolicy;
  readonly scan: CompiledScan;
  /** Hex SHA-256 over all that the tool is here: deployment, manifest, policy. Part of every plan's digest. */
  readonly identity: string;
}

/** The name was looked up. Says nothing to anybody yet: a stranger must not learn which tools exist. */
export type Found = Evidence<"found", { name: string; registered: RegisteredTool | undefined }>;

/** The token is genuine, in time, and meant for us. */
export type Verified = Evidence<"verified", { caller: Caller }>;

/** There is room for this call. */
export type Admitted = Evidence<"admitted", { caller: Caller }>;

/** The tool exists, and who asks is known. */
export type Known = Evidence<"known", RegisteredTool & { caller: Caller }>;

/** The caller holds every permission that the tool requires. */
export type Authorized = Evidence<"authorized", RegisteredTool & { caller: Caller }>;

/** The caller calls this tool no oftener than it may. */
export type WithinRate = Evidence<"paced", RegisteredTool & { caller: Caller }>;

/** The arguments passed the tool's schema; `input` is the schema's output and the raw arguments are not used again. */
export type Parsed = Evidence<"parsed", RegisteredTool & { caller: Caller; input: unknown }>;

/** The caller also holds what these very arguments demand. */
export type Elevated = Evidence<"elevated", RegisteredTool & { caller: Caller; input: unknown }>;

/** The call is not one that ran already; `keyUse` says by which `Idempotency-Key` it will be known again. */
export type Fresh = Evidence<"fresh", RegisteredTool & { caller: Caller; input: unknown; keyUse?: KeyUse | undefined }>;

/** What will run is settled; `digest` is the hex SHA-256 that seals it. */
export type Planned = Evidence<
  "planned",
  RegisteredTool & { caller: Caller; input: unknown; plan: ExecutionPlan; digest: string }
>;

interface Passed {
  readonly by: string;
  readonly approvalId?: string | undefined;
  readonly answer?: GivenAnswer | undefined;
}

/** The gate let exactly this plan through; `by` says which rule or who, `approvalId` which question was claimed. */
export type Approved = Evidence<
  "approved",
  RegisteredTool & Passed & { caller: Caller; plan: ExecutionPlan; digest: string }
>;

/** What the handler answered: unknown until the output schema has read it. */
export type Executed = Evidence<"executed", RegisteredTool & { raw: unknown }>;

/** What may leave: parsed, filtered by the policy, bounded. */
export type Released = Evidence<
  "released",
  {
    result: Json;
    filteredFields: readonly string[];
    /** Whether only a part of the answer was read or released. */
    truncated?: true | undefined;
    outputHash: string;
    by?: string;
    redactions?: Counts | undefined;
  }
>;

/** The entry of this call is on disk (or summed up, for strangers who knock too often). Without it there is no answer. */
export type Receipt = Evidence<"receipt", { traceId: string }>;

/**
 * Hands out evidence. A step may mint only its own kind; `tests/architecture/evidence.test.ts` holds the list of
 * which file mints what.
 */
export function mint<E extends Evidence<string, unknown>>(value: Omit<E, typeof earned>): E {
  return value as E;
}
