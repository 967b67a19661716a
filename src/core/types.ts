import type { z } from "zod";
import type { ScanPolicy } from "./output-policy/scan-policy.ts";

/** Milliseconds since 1970-01-01T00:00:00Z. */
export type EpochMs = number;

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export const CLASSIFICATIONS = ["read", "write", "destructive"] as const;

/** How far a tool can change state. Decides whether an intent is written first, and how the approval gate starts. */
export type ToolClassification = (typeof CLASSIFICATIONS)[number];

export const CATEGORIES = ["read", "write", "command", "network", "ask"] as const;

/** The kind of action, for the approval gate. `ask` puts a question to a person and is never auto-approved. */
export type Category = (typeof CATEGORIES)[number];

export const FIELD_ACTIONS = ["allow", "mask", "redact"] as const;

/** The action applied to an output field. Fields that match no pattern are stripped. */
export type FieldAction = (typeof FIELD_ACTIONS)[number];

/**
 * An `allow` with a reason, for a field that must be released although its name indicates personal data. `stc check`
 * and `stc filter` show the reason: one line of 10 to 300 characters.
 */
export interface ReasonedAllow {
  readonly action: "allow";
  readonly reason: string;
}

/** Maps field patterns (`customer.email`, `items[].email`, `customer.*`, `*.email`, `*`) to actions. */
export type OutputFieldPolicy = Readonly<Record<string, FieldAction | ReasonedAllow>>;

/**
 * Maps argument patterns to actions: which arguments the audit may contain. Arguments without a pattern appear as
 * `"[not logged]"`, except enums, booleans, bounded numbers and UUIDs.
 */
export type InputPolicy = Readonly<Record<string, FieldAction>>;

/** What an answer holds: data of somebody who must not leave, or text that somebody outside may have written. */
export type DataLabel = "private" | "untrusted";

/**
 * How data flows through a tool. Members that are left out follow from the tool's kind, category and input schema:
 * `docs/data-flow.md`.
 */
export interface DataFlow {
  /** What the tool's answers hold. */
  readonly reads?: readonly DataLabel[];
  /** `outside`: the tool sends its arguments to somebody outside. */
  readonly sends?: readonly "outside"[];
  /** Paths of the arguments that say where something goes, such as `to`, `recipients` or `payment.iban`. */
  readonly destinations?: readonly string[];
  /** `whenEmpty`: a call whose destinations are all left out or empty sends to nobody. Left out: it sends outside. */
  readonly nobody?: "whenEmpty";
  /** Paths of the output whose values the system vouches for, although other parts of the answer are untrusted. */
  readonly trusted?: readonly string[];
}

/** The caller, from a verified token. Its identity is the pair (issuer, subject). */
export interface CallerContext {
  readonly issuer: string;
  readonly subject: string;
  readonly permissions: readonly string[];
  /** The roles that the configuration binds to the caller, sorted; their permissions are among `permissions`. */
  readonly roles?: readonly string[] | undefined;
  /** The `sub` values of the RFC 8693 `act` chain, outermost first. */
  readonly actors: readonly string[];
  /** The `iss` values of the same chain; undefined for an actor that names none, and missing where none names one. */
  readonly actorIssuers?: readonly (string | undefined)[] | undefined;
  /** `sid:` followed by the token's `sid`: the only session name that a caller cannot choose. */
  readonly session?: string | undefined;
  /** Seconds since the Unix epoch, from the `exp` claim. */
  readonly expiresAt: number;
  /** Name of the tenant that the caller belongs to, as its verifier found it; undefined for callers of the service itself. */
  readonly tenant?: string | undefined;
  /** Further claims of the token, those that decision points are configured to read. Undefined when there are none. */
  readonly claims?: Readonly<Record<string, Json>> | undefined;
}

/** The caller must hold every permission in `required`; also those in `elevatedIf.required` when `when` elevates the call. */
export interface ToolPermissions<Input = never> {
  readonly required: readonly string[];
  readonly elevatedIf?: {
    /** Evaluated on the parsed input. Any result except `false` elevates; an exception refuses the call. */
    when(input: Input): boolean;
    readonly required: readonly string[];
  };
}

export interface GrpcTarget {
  readonly system: string;
  readonly grpc: {
    readonly package: string;
    readonly service: string;
    readonly method: string;
    /** Limits of a server stream, which is cancelled at a limit. The result is `{ items, truncated }`. */
    readonly stream?: { readonly itemsMax: number; readonly bytesMax: number };
  };
}

export type HttpMethod = "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";

/** A request to an HTTP API. The argument `name` replaces `{name}` in its texts. */
export interface HttpTarget {
  readonly system: string;
  readonly http: {
    readonly method: HttpMethod;
    /** Path below the system's `baseUrl`. An argument is one segment or a part of one. */
    readonly path: string;
    /** Parameters by name. One that consists of an argument alone is left out without it; a list repeats it. */
    readonly query?: Readonly<Record<string, string>>;
    /** Headers by lower-case name. One that consists of an argument alone is left out without it. */
    readonly headers?: Readonly<Record<string, string>>;
    /** JSON whose texts may hold arguments. `"{name}"` alone is the argument's value, `"{*}"` all arguments used nowhere else. */
    readonly body?: Json;
    /** Media type of the body: JSON (default `application/json`), `application/x-www-form-urlencoded` or `text/plain`. */
    readonly contentType?: string;
    /** A GraphQL operation, instead of a body. */
    readonly graphql?: GraphqlRequest;
    /** Meaning of statuses: `OK` for 2xx and 4xx, a status of a refusal for 4xx. */
    readonly means?: Readonly<Record<number, "OK" | TargetStatus>>;
  };
}

/** A GraphQL operation of a fixed document. */
export interface GraphqlRequest {
  /** One query or mutation with a name, and its fragments. */
  readonly document: string;
  /** JSON for the variables, whose texts may hold arguments as in a body. `"{*}"`: each argument is the variable of its name. */
  readonly variables?: Json | undefined;
  /**
   * Handling of an answer with errors: a refusal (default), or the data with the paths of the errors in the output's member
   * `errorPaths`.
   */
  readonly partial?: "refuse" | "allow" | undefined;
}

/** One run of the command that looks up a fact while planning. The whole trimmed stdout must match `answer`. */
export interface LookupAttempt {
  readonly args: readonly string[];
  readonly answer: RegExp;
}

/** Returns attempts in order; the first that exits 0 with a matching answer wins. `found` has earlier answers. */
export type Lookup<Input = never> = (input: Input, found: Readonly<Record<string, string>>) => readonly LookupAttempt[];

/** gRPC status names that an exit code may be mapped to; `"OK"` counts the exit as success. */
export type ExitMeaning = "OK" | TargetStatus;

/**
 * Maps a failure to a status when the exit code is ambiguous: by a literal that starts a line of stderr, or occurs
 * anywhere in it, within its first 4 KB. The literal is compared verbatim. Choose words that no argument can put there.
 */
export type StderrMeaning =
  | { readonly starts: string; readonly contains?: never; readonly means: TargetStatus }
  | { readonly contains: string; readonly starts?: never; readonly means: TargetStatus };

/** Turns stdout into the handler's result. `text` fills the output schema's only string field. */
export type StdoutParser = "text" | "json" | ((stdout: string, input: unknown, exitCode: number) => unknown);

/** The access that a command needs. The kernel refuses all other access to files, network and processes. */
export interface Confinement {
  /** Absolute paths of files, and of directories with everything below, that may be read. */
  readonly reads?: readonly string[] | undefined;
  /** Absolute paths of files, and of directories with everything below, that may be read, changed and executed. */
  readonly writes?: readonly string[] | undefined;
  /**
   * TCP ports on any host; UDP is then allowed too. `"system"`: the ports and files that the configuration lists for
   * the system. Without this field, the command cannot use sockets.
   */
  readonly network?: readonly number[] | "system" | undefined;
  /** `"command"`: no program except the command itself can be started. Default: every program of the system. */
  readonly runs?: "command" | "system" | undefined;
  /** Provides a private directory, set as TMPDIR and deleted after the call. */
  readonly temporaryDirectory?: boolean | undefined;
}

export interface CliTarget<Input = never, Names extends string = string> {
  readonly system: string;
  readonly cli: {
    /** A plain command name that the configuration allows; resolved to an absolute path once, at load. */
    readonly command: string;
    /** Absolute working directory, fixed or built from the input. Without it the child runs in an empty private directory. */
    readonly cwd?: string | ((input: Input) => string);
    /**
     * Every argv token that may begin with `-`: exact, `--name=` for `--name=value`, or `--name <value>` for an option that takes
     * exactly the next token, with a `<…>` for each token that it takes.
     */
    readonly options?: readonly string[];
    /** Facts looked up with the same command before the argv is built. */
    readonly lookups?: Readonly<Record<Names, Lookup<Input>>>;
    /** Returns the argv after the command. Must be pure. */
    argsBuilder(input: Input, lookups: Readonly<Record<Names, string>>): readonly string[];
    /** Further environment variables, fixed or built from the input. Names that could inject code are refused. */
    readonly environment?: Readonly<Record<string, string>> | ((input: Input) => Readonly<Record<string, string>>);
    readonly parse?: StdoutParser;
    readonly exitCodes?: Readonly<Record<number, ExitMeaning>>;
    readonly stderrMeans?: readonly StderrMeaning[];
    /** Access that the command needs, fixed or built from the input. Default: only the system's programs. */
    readonly confinement?: Confinement | ((input: Input) => Confinement);
    /**
     * Declares that the command is bash with one script as its free argument. `cwd` is then relative to the workspace,
     * HOME is the workspace, the script's files are part of the plan, and the result is `{ output, exitCode, truncated
     * }`.
     */
    readonly shell?: {
      /** Absolute path. */
      readonly workspace: string;
      /** Returns the time limit for this call; cannot exceed the tool's own `timeoutMs`. */
      timeoutMs?(input: Input): number;
    };
  };
}

/** The answer of the person who was asked. It comes after planning and is never part of a plan. */
export interface GivenAnswer {
  readonly text: string;
  readonly at: EpochMs;
}

export interface InlineContext {
  readonly signal: AbortSignal;
  readonly traceId: string;
  /** Present when the manifest declares `approval.answer`. */
  readonly answer?: GivenAnswer | undefined;
  readonly caller: Pick<CallerContext, "issuer" | "subject" | "permissions">;
}

/** Runs a call whose target is a function. The tool's output schema parses its result, like that of any other target. */
export type ToolHandler<Input = never, Output = unknown> = (
  input: Input,
  context: InlineContext,
) => Output | Promise<Output>;

/** A function as target, for library use and tests. */
export interface InlineTarget<Input = never> {
  readonly system: string;
  readonly handler: ToolHandler<Input>;
}

export type FsOperation = "list" | "read" | "search" | "write" | "apply_patch";

/** Targets the files of the workspace's mounts. The handler defines the arguments and results of each operation. */
export interface FsTarget {
  readonly system: string;
  readonly fs: { readonly operation: FsOperation };
}

/** A tool of a configured MCP server. */
export interface McpTarget {
  readonly system: string;
  readonly mcp: {
    /** The tool's name on the server. */
    readonly tool: string;
    /**
     * Pins the tool's definition: the hash that `stc check` shows. A tool with another definition is not called. Without a pin,
     * the first definition that the service reads is kept until the service restarts.
     */
    readonly definitionSha256?: string | undefined;
    /** The pinned definition, with which `stc check` explains a change. Its hash must be `definitionSha256`. */
    readonly definition?: Json | undefined;
    /**
     * The part of the answer that becomes the tool's result. `structured`: `structuredContent`. `json`: the text, parsed as JSON.
     * `text`: `{ text }`. Default: `structured` when the definition has an `outputSchema`, otherwise `text`.
     */
    readonly result?: "structured" | "json" | "text" | undefined;
  };
}

/** A statement of a configured database. */
export interface SqlTarget {
  readonly system: string;
  readonly sql: {
    /** One query, or one INSERT, UPDATE, DELETE or MERGE with RETURNING. `$1::int8` is the first of `parameters`, with its type. */
    readonly statement: string;
    /** Arguments in the order of `$1`, `$2`: `"{customer}"`. One that the call leaves out is NULL. */
    readonly parameters?: readonly string[] | undefined;
    /**
     * Of a query: most rows of a result (default 100), and what happens to a result with more. Of a change: most rows that it may
     * change (default 1), and the query that counts them for the approver.
     */
    readonly rows?:
      | {
          readonly returns?: number | undefined;
          readonly more?: "tell" | "refuse" | undefined;
          readonly changes?: number | undefined;
          readonly count?: string | undefined;
        }
      | undefined;
    /** Allows an UPDATE or DELETE without WHERE. */
    readonly whole?: true | undefined;
    /** The result is the only row itself; without a row, the call is refused with NOT_FOUND. */
    readonly one?: true | undefined;
    /** Where a column comes from when the database does not know: `table.column`, or `computed`. */
    readonly origins?: Readonly<Record<string, string>> | undefined;
  };
}

/** The target of a tool's calls. The member next to `system` names the kind of target. */
export type ToolTarget<Input = never, Names extends string = string> =
  | GrpcTarget
  | HttpTarget
  | CliTarget<Input, Names>
  | FsTarget
  | McpTarget
  | SqlTarget
  | InlineTarget<Input>;

/** Configuration values that manifests may depend on: closed lists, settings, and paths by configured names. */
export interface ToolConfig {
  /** Returns an enum of the names in `systems.<system>.<list>`. Without such names, the tool is not registered. */
  oneOf(system: string, list: string): z.ZodType<string, string>;
  /** The first name of that list, for examples. */
  sample(system: string, list: string): string;
  /** Returns the absolute directory of the named repository: its work tree, or itself if it is bare. */
  repository(name: string): string;
  /** Returns the absolute directory that git calls GIT_DIR. */
  gitDirectory(name: string): string;
  /** Returns the text in `systems.<system>.<key>`. Without it, the tool is not registered. */
  setting(system: string, key: string): string;
  /** Returns the absolute path in `systems.<system>.<key>`. Without it, the tool is not registered. */
  path(system: string, key: string): string;
  /** Returns the absolute directory for a shell. If the configuration allows no shell, the tool is not registered. */
  shellWorkspace(): string;
  /** Returns the usable mounts for file tools, such as `@project`. Without any, the tool is not registered. */
  workspaceMounts(use: "read" | "write"): readonly string[];
  /** Returns whether `systems.<system>.<key>` has a value: a text, a non-empty list, or `true`. */
  has(system: string, key: string): boolean;
}

/** The statuses with which a target may refuse a call; the names are gRPC's. */
export type TargetStatus = "NOT_FOUND" | "ALREADY_EXISTS" | "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE";

/**
 * Rule for the error text of a target (gRPC status message, end of stderr). `withheld`: it is discarded.
 * `filtered`: the agent gets it as `error.details.message`, scanned at level `strict`, without local paths and
 * addresses.
 */
export type TargetErrors = "withheld" | "filtered";

export interface ToolLimits {
  /** Bytes of the result, or of stdout. Longer lists and texts are cut; other results are OUTPUT_TOO_LARGE. */
  readonly outputBytesMax?: number;
  /** Bytes of the result over MCP, instead of the configuration's `mcp.resultBytesMax`; at most `outputBytesMax`. */
  readonly resultBytesMax?: number;
  readonly concurrentCallsMax?: number;
}

/** Modes of a session, the strictest first. */
export const MODES = ["default", "autoEdit", "yolo"] as const;

/** Determines which calls of a session need an approval. An operator sets the mode for one session, until a given time. */
export type Mode = (typeof MODES)[number];

export interface ApprovalContext {
  readonly mode: Mode;
  readonly caller: Pick<CallerContext, "issuer" | "subject" | "permissions">;
}

export interface ApprovalPolicy<Input = never> {
  /** `true`: every call needs a person's approval, in every mode. */
  readonly required?: boolean;
  /** Returns whether this call needs approval. Anything but `false` within a second means that it does. */
  needsApproval?(input: Input, context: ApprovalContext): boolean | Promise<boolean>;
  /** Text for the approver: what approving the call does, in the manifest's words. */
  readonly message?: string;
  /** Allowed scopes of an approval; default both. A session approval covers only identical calls. */
  readonly scopes?: readonly Exclude<ApprovalScope, "bounded">[];
  /** Offers approvers bounded grants, which cover further calls of the tool. Without it, there are none. */
  readonly grants?: OfferedGrants;
  /** Raises the risk of every call; never lowers it. High and critical risk always need approval. */
  readonly risk?: "medium" | "high" | "critical";
  /** Approvals of category `ask` need an answer (`context.answer`), one of the at most 10 `choices` if given. */
  readonly answer?: { choices?(input: Input): readonly string[] | undefined };
}

/** Harm that a call can do. Calls of high and critical risk always need an approval, which is never remembered. */
export type Risk = (typeof RISKS)[number];

/** In the order of harm. */
export const RISKS = ["low", "medium", "high", "critical"] as const;

/**
 * Bound on one argument of the calls that a bounded grant covers. `equal`: as in the approved call. `any`: any value that the
 * schema accepts, or none. A range includes both ends; `min` is 0 when left out.
 *
 * Rejected: prefixes and patterns, because `docs/../secrets` and `docs-private` begin with `docs`.
 */
export type ArgumentBound =
  | "equal"
  | "any"
  | { readonly oneOf: readonly (string | number | boolean | null)[] }
  | { readonly min?: number | undefined; readonly max: number };

/** The widest bounded grant of a tool. Approvers may grant less, never more. */
export interface OfferedGrants {
  /** Runs altogether, the approved call included. */
  readonly runs: number;
  readonly minutes: number;
  /** Bounds by argument; an argument without one must be as in the approved call. */
  readonly arguments?: Readonly<Record<string, ArgumentBound>>;
}

export const APPROVAL_DECISIONS = ["approve", "deny"] as const;

/** An approver's decision about a request. */
export type ApprovalDecision = (typeof APPROVAL_DECISIONS)[number];

/**
 * Coverage of an approval: this call only; also the same call again in the same session; also further calls within bounds, so
 * many times.
 */
export type ApprovalScope = (typeof APPROVAL_SCOPES)[number];

export const APPROVAL_SCOPES = ["once", "session", "bounded"] as const;

/** States of an approval request. `pending`, `approved` and `claimed` can change; all others are final. */
export const APPROVAL_STATES = [
  ...(["pending", "approved", "denied", "expired", "cancelled", "revoked"] as const),
  ...(["claimed", "executed", "failed", "in_doubt"] as const),
] as const;

export type ApprovalState = (typeof APPROVAL_STATES)[number];

/** A tool returned by `defineTool`: validated, completed with defaults, frozen. */
export interface Tool {
  readonly name: string;
  /** The manifest's title, or the name in words. */
  readonly title: string;
  readonly description: string;
  readonly version: string;
  readonly classification: ToolClassification;
  readonly category: Category;
  readonly permissions: ToolPermissions;
  readonly input: z.ZodObject;
  readonly output: z.ZodType;
  readonly outputPolicy: OutputFieldPolicy;
  readonly inputPolicy: InputPolicy;
  readonly scan: ScanPolicy;
  /** What the manifest declares; undefined: everything follows from the tool itself. */
  readonly dataFlow?: DataFlow | undefined;
  readonly approval: ApprovalPolicy;
  readonly target: ToolTarget;
  readonly errors: TargetErrors;
  readonly timeoutMs: number;
  readonly limits: ToolLimits & Required<Omit<ToolLimits, "resultBytesMax">>;
  readonly idempotent: boolean;
  /** True when calls only add, and never change or remove what exists. */
  readonly additive: boolean;
  /** What one call counts in quotas of cost, in a unit that the operators choose; undefined: nothing. */
  readonly cost?: number;
  readonly examples: { readonly accepts: readonly unknown[]; readonly rejects: readonly unknown[] };
}

/** Exactly what will run, as JSON. The same input and state give the same plan: no trace ID, deadline or token. */
export interface ExecutionPlan {
  /** The name of the kind of target that runs it. */
  readonly kind: string;
  readonly [key: string]: Json;
}

/**
 * Receives what a target did, unfiltered: bytes, headers, statuses, without the service's credentials. Only `stc try` passes one,
 * to show it to the tool's author.
 */
export type TargetObserver = (what: string, facts: Readonly<Record<string, unknown>>) => void;

export interface PlanContext {
  readonly signal: AbortSignal;
  readonly observe?: TargetObserver | undefined;
}

export interface RunContext {
  readonly signal: AbortSignal;
  readonly deadline: EpochMs;
  readonly traceId: string;
  /** W3C trace context to send with requests to the target. */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
  /** Records each request to the target and supplies its trace headers; undefined without tracing. */
  readonly requests?: RequestTracer | undefined;
  readonly caller: CallerContext;
  /**
   * Returns the caller's own token, to exchange it for one of the target's. A function, so that nothing that logs or serializes
   * the context includes it. Undefined for a caller without a token.
   */
  readonly callerToken?: (() => string | undefined) | undefined;
  readonly answer?: GivenAnswer | undefined;
  /**
   * Called by a binding with `callsBegin` before the call has its effect: bytes are sent, a program starts, a file changes.
   *
   * @throws {Refusal} when the call has ended: it must not have an effect any more
   */
  readonly begin?: (() => void) | undefined;
  /**
   * Makes facts of a change durable in the journal before it becomes final, such as the id of its transaction. Undefined where there
   * is no journal.
   *
   * @throws {Refusal} AUDIT_UNAVAILABLE
   */
  readonly record?: ((facts: Readonly<Record<string, Json>>) => Promise<void>) | undefined;
  /** Undefined in every call of a service. */
  readonly observe?: TargetObserver | undefined;
}

/** An `Idempotency-Key` of one caller with one tool. */
export interface UsedKey {
  readonly issuer: string;
  readonly subject: string;
  readonly tool: string;
  /** Hex SHA-256 of the header's value; the value itself is not stored. */
  readonly keyHash: string;
}

/** One caller's use of an `Idempotency-Key` with a tool. */
export interface KeyUse extends UsedKey {
  /** Hash of the parsed arguments. */
  readonly argsHash: string;
}

/** What a call does, in one line: approvers read it in a list, before they open the request. */
export interface Headline {
  /** What is done: a verb, such as `Writes`, or the name of what is called. Left out where the tool's name says it. */
  readonly does?: string;
  /** What it is done with: text of the plan, as the view shows it, of bounded length. */
  readonly what: string;
  /** What else there is, in the service's own words. */
  readonly more?: string;
}

/** The members of a plan as approvers see them: without secrets, and with visible characters only. */
export type ShownPlan = Readonly<Record<string, Json>>;

/** A tool bound to its handler at startup. `plan` may read state but must not change it. */
export interface Binding {
  plan(input: unknown, context: PlanContext): ExecutionPlan | Promise<ExecutionPlan>;
  run(plan: ExecutionPlan, context: RunContext): Promise<unknown>;
  /**
   * Returns the parts of the plan that risk rules read, from the arguments alone: it touches neither files nor systems. Undefined
   * when the arguments alone do not determine them. Without this function, risk rules read nothing of the kind's plans.
   */
  planForRules?(input: unknown): ExecutionPlan | undefined;
  /** True when the plan follows from the arguments and the configuration: planning asks no target and reads no file. */
  readonly plansFromArguments?: boolean;
  /** True when the plan is the parsed arguments, which may contain values that are not JSON. */
  readonly planIsInput?: boolean;
  /** True when `run` calls `context.begin()` before it has an effect. A change that ended earlier is known not to have happened. */
  readonly callsBegin?: boolean;
  /** True when a change affects workspace files: remembered approvals of commands then end. */
  readonly writesFiles?: boolean;
  /**
   * Returns the part of a plan that no argument determines, such as the endpoint. A bounded grant covers only calls in which it is
   * the same. Left out: the tool has no bounded grants.
   */
  fixedParts?(plan: ExecutionPlan): Json;
  /**
   * Returns what a call does in one line, from its plan as approvers see it: lists of approval requests show it. Left out: the
   * arguments, shortened.
   */
  headline?(shown: ShownPlan): Headline;
  /** Returns additions to the plan for the approval view. */
  describe?(plan: ExecutionPlan): PlanDescription;
  /** Returns the plan for `stc plan`, with the parts that are added when it runs. */
  preview?(plan: ExecutionPlan): ExecutionPlan;
  /** Returns the plan of a call whose lookups have these answers, for `stc test`, which looks at neither machine nor system. */
  planWithLookups?(input: unknown, found: Readonly<Record<string, string>>): ExecutionPlan;
  /** Returns the answer of a program that wrote this. */
  readStdout?(stdout: Uint8Array, input: unknown): unknown;
  /** True when its answers are a text of the system, which may be JSON. */
  readonly answersText?: boolean;
  /** Returns what the target itself says against the tool's classification, for operators, in our own words. */
  classificationDoubt?(): string | undefined;
}

export interface PlanDescription {
  /** The level at which the processes of the call are confined. */
  readonly confinement?: string;
  readonly notes?: readonly string[];
}

/** Calls one kind of target. `bind` throws a `ManifestError` when the tool cannot work with this configuration. */
export interface Handler {
  bind(tool: Tool): Binding;
  close(): Promise<void>;
}

export interface RequestTracer {
  begin(request: TargetRequest): RequestSpan;
}

export interface TargetRequest {
  /** Method of an HTTP request; undefined for gRPC. */
  readonly method?: string;
  /** `/package.Service/Method`, or the path of an HTTP request with the names of its parameters. */
  readonly path: string;
  /** The server's address, as the configuration names it. */
  readonly server: string;
}

export interface RequestSpan {
  /** The `traceparent` header to send with the request. */
  readonly traceparent: string;
  /** `status`: the name of a gRPC status, or the digits of an HTTP status. */
  end(status: string): void;
}
