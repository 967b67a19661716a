import type { z } from "zod";
import type { ScanPolicy } from "./policy/scan-policy.ts";

/** A JSON value: what plans, arguments and answers are made of. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** How much a tool can change. Decides whether an intent is written first and how the approval gate starts. */
export type Classification = "read" | "write" | "destructive";

/** What kind of act a tool is, for the approval gate. `ask` is a question to a person and is never auto-approved. */
export type Category = "read" | "write" | "command" | "network" | "ask";

/** What happens to an output field. Fields that no pattern names are stripped. */
export type FieldAction = "allow" | "mask" | "redact";

/**
 * An `allow` that says why: for a field whose name says that personal data stands in it, and that must leave all the same. The
 * reason is one line of 10 to 300 characters, shown by `stc check` and `stc filter`.
 */
export interface ReasonedAllow {
  readonly action: "allow";
  readonly reason: string;
}

/** Field patterns (`customer.email`, `items[].email`, `customer.*`, `*.email`, `*`) to actions. */
export type OutputPolicy = Readonly<Record<string, FieldAction | ReasonedAllow>>;

/**
 * Argument patterns to actions: what of the arguments may stand in the audit. Arguments that no pattern names appear as
 * `"[not logged]"`; enums, booleans, bounded numbers and uuids are logged unless a pattern says otherwise.
 */
export type InputPolicy = Readonly<Record<string, FieldAction>>;

/**
 * Who calls, from a verified token and nowhere else. The pair (issuer, subject) is the identity.
 * `actors` are the `sub`s of the RFC 8693 `act` chain, outermost first.
 */
export interface Caller {
  readonly issuer: string;
  readonly subject: string;
  readonly permissions: readonly string[];
  readonly actors: readonly string[];
  /** `sid:` and the token's `sid`: the one name of a session that a caller cannot choose. */
  readonly session?: string | undefined;
  /** Seconds since 1970, from `exp`. */
  readonly expiresAt: number;
}

/** The caller must hold every permission in `required`, and every one of `elevatedIf.required` when `when` says so. */
export interface ToolPermissions<Input = never> {
  readonly required: readonly string[];
  readonly elevatedIf?: {
    /** Judged on the parsed input. Anything but `false` elevates; a throw refuses the call. */
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
    /** Of a server-streaming method: the answer is `{ items, truncated }`, and the stream is cancelled at the first bound. */
    readonly stream?: { readonly itemsMax: number; readonly bytesMax: number };
  };
}

/** One way to ask the command for a fact while planning. The whole trimmed stdout must match `answer`. */
export interface LookupAttempt {
  readonly args: readonly string[];
  readonly answer: RegExp;
}

/**
 * Attempts in order; the first whose command exits 0 with a matching answer wins. Lookups run in the order in which they are
 * declared, and `found` holds the answers of those before.
 */
export type Lookup<Input = never> = (input: Input, found: Readonly<Record<string, string>>) => readonly LookupAttempt[];

/** gRPC status names an exit code may be declared to mean; `"OK"` counts the exit as success. */
export type ExitMeaning = "OK" | TargetStatus;

/**
 * What a failure means where the exit code cannot tell: a literal that starts a line of stderr, or stands in it, within its
 * first 4 KB. It is compared as it is, and nothing of what stderr says goes any further. Take words that no argument can
 * put there.
 */
export type StderrMeaning =
  | { readonly starts: string; readonly contains?: never; readonly means: TargetStatus }
  | { readonly contains: string; readonly starts?: never; readonly means: TargetStatus };

/** How stdout becomes the handler's answer. `text` fills the output schema's only string field. */
export type StdoutParser = "text" | "json" | ((stdout: string, input: unknown, exitCode: number) => unknown);

/** What a command may do, held by the kernel. What is not named is refused: files, network, other programs' processes. */
export interface Confinement {
  /** Absolute files, and directories with everything below them, that may be read. */
  readonly reads?: readonly string[] | undefined;
  /** The same, that may be read, changed and run. */
  readonly writes?: readonly string[] | undefined;
  /**
   * TCP ports, of any host; UDP comes with them. `"system"`: the ports, and the files, that the configuration names for the
   * tool's system. Without it there are no sockets.
   */
  readonly network?: readonly number[] | "system" | undefined;
  /** `"command"`: no program but the command itself can be started. Default: every program of the system. */
  readonly runs?: "command" | "system" | undefined;
  /** A private directory, named by TMPDIR and gone after the call. */
  readonly temporaryDirectory?: boolean | undefined;
}

export interface CliTarget<Input = never, Names extends string = string> {
  readonly system: string;
  readonly cli: {
    /** A plain command name that the configuration allows; resolved to an absolute path once, at load. */
    readonly command: string;
    /** Absolute working directory. Without it the child runs in an empty private directory. */
    cwd?(input: Input): string;
    /** Every token of the argv that may begin with `-`: exact, or `--name=` for `--name=value`. */
    readonly options?: readonly string[];
    /** Facts looked up with the same command before the argv is built. */
    readonly lookups?: Readonly<Record<Names, Lookup<Input>>>;
    /** The argv after the command. Pure. */
    argsBuilder(input: Input, lookups: Readonly<Record<Names, string>>): readonly string[];
    /** Further variables of the child's environment: fixed, or built from the input. Names that could inject code are refused. */
    readonly environment?: Readonly<Record<string, string>> | ((input: Input) => Readonly<Record<string, string>>);
    readonly parse?: StdoutParser;
    readonly exitCodes?: Readonly<Record<number, ExitMeaning>>;
    readonly stderrMeans?: readonly StderrMeaning[];
    /** What the command needs; without it, nothing but the system's programs. Fixed, or by the input. */
    readonly confinement?: Confinement | ((input: Input) => Confinement);
    /**
     * Says that the command is bash and that its one free argument is a script. `cwd` is then relative to the workspace, HOME is
     * the workspace, the script's files are part of the plan, and the answer is `{ output, exitCode, truncated }`.
     */
    readonly shell?: {
      /** Absolute. */
      readonly workspace: string;
      /** For this call; never more than the tool's own. */
      timeoutMs?(input: Input): number;
    };
  };
}

/** What the person who was asked has said. It comes after the plan, and stands in none. */
export interface GivenAnswer {
  readonly text: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** What an inline tool is handed beside its input. */
export interface InlineContext {
  readonly signal: AbortSignal;
  readonly traceId: string;
  /** Where the manifest's `approval.answer` wants one. */
  readonly answer?: GivenAnswer | undefined;
  readonly caller: Pick<Caller, "issuer" | "subject" | "permissions">;
}

/** A function as target: for the library and for tests. What it returns is parsed like any other answer. */
export interface InlineTarget<Input = never> {
  readonly system: string;
  handler(input: Input, context: InlineContext): unknown;
}

/** What is done to the workspace's files. */
export type FsOperation = "list" | "read" | "search" | "write" | "apply_patch";

/** The files of the workspace's mounts: the handler knows the arguments and answers of each operation. */
export interface FsTarget {
  readonly system: string;
  readonly fs: { readonly operation: FsOperation };
}

/** The statuses a target's own "no" may have; the names are gRPC's. */
export type TargetStatus = "NOT_FOUND" | "ALREADY_EXISTS" | "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE";

/**
 * What becomes of a target's own words when it fails, its gRPC status message or the end of its stderr. `withheld`: they go
 * nowhere. `filtered`: the agent gets them as `error.details.message`, looked through at `strict`, without places of the machine.
 */
export type TargetErrors = "withheld" | "filtered";

export interface ToolLimits {
  /** Bytes of the handler's answer, or of stdout. Over it lists and texts are cut; what cannot be cut is OUTPUT_TOO_LARGE. */
  readonly outputBytesMax?: number;
  /** Calls of this tool in flight at once. */
  readonly concurrentCallsMax?: number;
}

/** What `needsApproval` is told beside the input. */
export interface ApprovalContext {
  readonly mode: "default" | "autoEdit" | "yolo";
  readonly caller: Pick<Caller, "issuer" | "subject" | "permissions">;
}

export interface ToolApproval<Input = never> {
  /** `true`: every call asks a person, whatever the mode. */
  readonly required?: boolean;
  /** Whether this call asks. Only `false` means no; a throw, or no answer within a second, means yes. */
  needsApproval?(input: Input, context: ApprovalContext): boolean | Promise<boolean>;
  /** For the one who is asked: what a yes does, in the manifest's words. */
  readonly message?: string;
  /** What a yes may cover; both by default. A session's yes never covers another call than the very same. */
  readonly scopes?: readonly ("once" | "session")[];
  /** Raises the risk of every call; it never lowers it. High and critical always ask. */
  readonly risk?: "medium" | "high" | "critical";
  /**
   * Of a function of category `ask`: a person's yes is nothing without an answer, which the function is handed as
   * `context.answer`. With `choices`, up to 10, it is one of them.
   */
  readonly answer?: { choices?(input: Input): readonly string[] | undefined };
}

/** A tool after `defineTool`: checked, completed with defaults, frozen. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly version: string;
  readonly classification: Classification;
  readonly category: Category;
  readonly permissions: ToolPermissions;
  readonly input: z.ZodObject;
  readonly output: z.ZodType;
  readonly outputPolicy: OutputPolicy;
  readonly inputPolicy: InputPolicy;
  readonly scan: ScanPolicy;
  readonly approval: ToolApproval;
  readonly target: GrpcTarget | CliTarget | FsTarget | InlineTarget;
  readonly errors: TargetErrors;
  readonly timeoutMs: number;
  readonly limits: Required<ToolLimits>;
  readonly idempotent: boolean;
  readonly examples: { readonly accepts: readonly unknown[]; readonly rejects: readonly unknown[] };
}

/** Which handler reaches the target. */
export type TargetKind = "grpc" | "cli" | "fs" | "inline";

/**
 * Exactly what will run. JSON and deterministic: the same input against an unchanged world gives the same plan,
 * so no trace id, deadline, token or clock is in it.
 */
export interface ExecutionPlan {
  readonly kind: TargetKind;
  readonly [key: string]: Json;
}

export interface PlanContext {
  readonly signal: AbortSignal;
}

export interface RunContext {
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. */
  readonly deadline: number;
  readonly traceId: string;
  /** W3C trace context, as requests to the target carry it on. */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
  /** Is told of requests to the target, and then says what they carry; undefined when nobody traces them. */
  readonly requests?: RequestTracer | undefined;
  readonly caller: Caller;
  /** What the person has said whose yes let the call through. */
  readonly answer?: GivenAnswer | undefined;
}

/** One caller's use of an `Idempotency-Key` with a tool. */
export interface KeyUse {
  readonly issuer: string;
  readonly subject: string;
  readonly tool: string;
  /** Hex SHA-256 of the header's value: the value itself is not kept. */
  readonly keyHash: string;
  /** Hash of the parsed arguments. */
  readonly argsHash: string;
}

/** One tool joined to its handler, made once at start. `plan` may look and changes nothing; `run` takes the plan alone. */
export interface Binding {
  plan(input: unknown, context: PlanContext): ExecutionPlan | Promise<ExecutionPlan>;
  run(plan: ExecutionPlan, context: RunContext): Promise<unknown>;
}

/** How one kind of target is reached. `bind` throws a `ManifestError` when the tool can never work here. */
export interface Handler {
  bind(tool: Tool): Binding;
  close(): Promise<void>;
}

/** Where a handler tells of the requests that it sends. */
export interface RequestTracer {
  begin(request: TargetRequest): RequestSpan;
}

/** One request that a handler sends to its target. */
export interface TargetRequest {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Where it goes, as the configuration names it. */
  readonly server: string;
}

/** A request under way. */
export interface RequestSpan {
  /** Goes with the request. */
  readonly traceparent: string;
  /** `status`: the name of a gRPC status. */
  end(status: string): void;
}
