import type { ApprovalCallback } from "../approvals/callback.ts";
import type { Approval, Decided, Decision, Grant } from "../approvals/types.ts";
import { CALL_ID, IDEMPOTENCY_KEY } from "../core/call-fields.ts";
import type { DryRun, Failure, ToolCallResult } from "../core/call-result.ts";
import { type DefinedTool, isTool, type ToolFactory } from "../core/define-tool.ts";
import { type Canonical, canonical, NotJsonError } from "../core/digest.ts";
import { Refusal, StartupError } from "../core/errors.ts";
import { ARGUMENT_LIMITS } from "../core/json.ts";
import { exportTool, type ToolFormat } from "../core/tool-export.ts";
import type { Json, Tool } from "../core/types.ts";
import { sanitizeArgs } from "../detection/sanitize-args.ts";
import type { CallHalt, HaltTarget } from "../halts/halt.ts";
import type { CallRequest } from "../pipeline/call-request.ts";
import type { Disconnect } from "../pipeline/call-scope.ts";
import { type Hooks, type Reloaded, type Service, wire } from "./composition/wiring.ts";
import type { Config, ConfigInput } from "./config/config.ts";
import { processEnvironment } from "./config/environment.ts";
import { readConfig } from "./config/reading.ts";
import type { Modules } from "./module-types.ts";

export type { Reloaded };

type JwtInput = ConfigInput["jwt"] | ConfigInput["jwt"]["issuers"][number];

/**
 * The configuration of the library: the service's configuration as an object. Where the file has paths, the object may have
 * values or paths.
 */
export interface SafeToolCallOptions
  extends Pick<
    ConfigInput,
    | "systems"
    | "audit"
    | "commands"
    | "workspace"
    | "halts"
    | "limits"
    | "redaction"
    | "assertion"
    | "approvals"
    | "dataFlow"
  > {
  /** Tools made by `defineTool`, or files and folders of manifests. */
  readonly tools: readonly (Tool | ToolFactory | string)[];
  /** One issuer profile, or `{ issuers: [...] }`. Keys as `jwks`, `publicKey` (PEM), `jwksUri`, `jwksFile` or `publicKeyFile`. */
  readonly jwt: JwtInput;
  /** Called for every call that needs an approval. Only `true` and `{ approved: true }` approve. */
  readonly onToolApprove?: ApprovalCallback;
  /** The base of relative paths; the working directory by default. */
  readonly folder?: string;
}

export interface CallOptions {
  /** Aborts when the requester has disconnected, which ends the call. */
  readonly signal?: AbortSignal;
  readonly session?: string;
  /** The model's own id of the call; recorded in the audit. */
  readonly callId?: string;
  /** Identifies the approval request that was approved (`approvals.store`). */
  readonly approvalId?: string;
  /** `new`: asks a person again, even if the same call was approved before. */
  readonly approval?: "new";
  /** Only judges the call: the result says what would happen. Not with `approvalId`, `approval` or `idempotencyKey`. */
  readonly dryRun?: boolean;
  /** A repetition with the same key and arguments is the same call and gets its answer. Needs `approvals.store`. */
  readonly idempotencyKey?: string;
  /** How long to wait for an approver's answer before the result is `pending`. */
  readonly waitMs?: number;
  /** The agent's stated reason for the call; recorded in the audit, untrusted. */
  readonly reason?: string;
  readonly traceparent?: string;
  /** Decides about this call if it needs an approval, instead of the `onToolApprove` of all calls. */
  readonly onToolApprove?: ApprovalCallback;
}

/** Calls to stop. */
export interface HaltOrder {
  readonly of:
    | "all"
    | { readonly tool: string }
    | { readonly system: string }
    | { readonly session: string }
    | { readonly issuer: string; readonly subject: string };
  /** For operators and the audit; agents do not see it. */
  readonly reason: string;
  /** When the halt ends by itself. */
  readonly until?: Date;
  /** Ends running calls, too: a change that is running is then OUTCOME_UNKNOWN. */
  readonly cancelRunning?: boolean;
  readonly by: { readonly issuer: string; readonly subject: string };
}

export type { ToolFormat };

const CLOSE_GRACE_MS = 10_000;
const PENDING_SHOWN_MAX = 200;
const WAIT_MS_MAX = 3_600_000;

/** The proxy as a library: the same pipeline, audit included, without a port. */
export class EmbeddedProxy {
  readonly #config: Config;
  readonly #modules: Modules;
  #options: SafeToolCallOptions;
  /** Options that the next reload applies in place of `#options`. */
  #wanted: Omit<SafeToolCallOptions, "onToolApprove"> | undefined;
  #starting: Promise<Service> | undefined;
  #service: Service | undefined;

  /**
   * Reads the options. Nothing is opened yet: `ready()` opens it, and the first call waits for that.
   *
   * @throws {StartupError} with every mistake in the options
   */
  protected constructor(options: SafeToolCallOptions, modules: Modules) {
    this.#options = options;
    this.#modules = modules;
    const searchPath = processEnvironment()["PATH"] ?? "";
    this.#config = configOf(options, { folder: process.cwd(), searchPath }, modules);
  }

  /**
   * Loads tools, keys and contracts, and opens the audit.
   * @throws {StartupError} with all problems
   */
  async ready(): Promise<void> {
    await this.#start();
  }

  /** Runs a tool. A refusal is a result, not an exception: see `unwrap`. `jwt` is the token without the `Bearer` scheme. */
  call<Input, Output>(
    tool: DefinedTool<Input, Output>,
    args: Input,
    jwt: string,
    options?: CallOptions & { readonly dryRun?: false },
  ): Promise<ToolCallResult<Partial<Output>>>;
  call(
    tool: string,
    args: unknown,
    jwt: string,
    options?: CallOptions & { readonly dryRun?: false },
  ): Promise<ToolCallResult>;
  call(
    tool: string | DefinedTool,
    args: unknown,
    jwt: string,
    options: CallOptions & { readonly dryRun: true },
  ): Promise<DryRun | Failure>;
  async call(
    tool: string | DefinedTool,
    args: unknown,
    jwt: string,
    options?: CallOptions,
  ): Promise<ToolCallResult | DryRun> {
    // Copied before the first await: the owner of the arguments may still change them.
    const copy = readArguments(args);
    const { accepted, problem } = options === undefined ? NO_OPTIONS : readOptions(options);
    const { proxy } = await this.#start();
    const request: CallRequest = {
      ...accepted,
      disconnect: options?.signal && disconnectOf(options.signal),
      tool: nameOf(tool),
      args: copy instanceof Refusal ? {} : copy?.value,
      argsText: copy instanceof Refusal ? undefined : copy?.text,
      authorization: typeof jwt === "string" && jwt !== "" ? `Bearer ${jwt}` : undefined,
      source: "library",
    };
    const refusal = problem ?? (copy instanceof Refusal ? copy : undefined);
    const { result } = await (refusal === undefined ? proxy.call(request) : proxy.rejectRequest(request, refusal));
    if (result.status !== "pending") return result;
    return { ...result, call: { tool: request.tool, args: sanitizeArgs(request.args) } };
  }

  /**
   * Lists the tools in the format of an LLM's API; `strict`: as its strict mode takes them, for those whose schemas it can
   * express. Tools from paths and from the configuration are included once `ready()` has
   * resolved.
   */
  listTools({
    format = "openai",
    strict = false,
  }: {
    readonly format?: ToolFormat;
    readonly strict?: boolean;
  } = {}): readonly Json[] {
    const tools = this.#service?.registry.list().map(({ tool }) => tool) ?? this.#options.tools.filter(isTool);
    return tools.map((tool) => exportTool(tool, { format, strict }) as unknown as Json);
  }

  /** Lists the open approval requests, newest first. For operators: the list contains the requests of every caller. */
  async pendingApprovals(): Promise<readonly Approval[]> {
    const { approvals } = await this.#start();
    const page = await approvals?.list({ state: "pending", limit: PENDING_SHOWN_MAX });
    return page?.approvals ?? [];
  }

  /** Returns an approval request. For operators: it may be any caller's. */
  async approval(id: string): Promise<Approval | undefined> {
    const { approvals } = await this.#start();
    return approvals?.get(id);
  }

  /** Lists the approvals that cover further calls, newest first: for a session, or within bounds. */
  async grants({ session }: { readonly session?: string } = {}): Promise<readonly Grant[]> {
    const { approvals } = await this.#start();
    return approvals?.listGrants({ session }) ?? [];
  }

  /** Takes back an approval that no call has used, and its grants. The code that calls this vouches for the identity of `by`. */
  async revoke(id: string, by: Decision["by"]): Promise<Approval | undefined> {
    const { approvals } = await this.#start();
    return approvals?.revoke(id, by);
  }

  /** Ends a grant. Returns whether it was in force. The code that calls this vouches for the identity of `by`. */
  async revokeGrant(id: string, by: Decision["by"]): Promise<boolean> {
    const { approvals } = await this.#start();
    return approvals?.revokeGrant(id, by) ?? false;
  }

  /** Records an approver's answer. The code that calls this vouches for the identity of `by`. */
  async decide(decision: Decision): Promise<Decided> {
    const { approvals } = await this.#start();
    return approvals?.decide(decision) ?? { outcome: "not_pending", approval: undefined };
  }

  /**
   * Stops calls from now on: those of a tool, a system, a caller or a session, or all of them. The code that calls this vouches
   * for the identity of `by`. Returns the id of the halt.
   *
   * @throws {Error} when `until` has passed, there are too many halts, or the store does not answer
   */
  async halt({ of, reason, by, until, cancelRunning = false }: HaltOrder): Promise<string> {
    const { halts } = await this.#start();
    const set = await halts.set({ target: targetOf(of), reason, by, cancelRunning, until: until?.getTime() });
    if (set.outcome === "set") return set.halt.id;
    throw new Error(set.outcome === "past" ? "until: must be in the future" : "there are too many halts: lift some");
  }

  /** Lifts a halt. Returns whether it was in force. */
  async resume(id: string, by: HaltOrder["by"]): Promise<boolean> {
    const { halts } = await this.#start();
    return (await halts.lift(id, by)) !== undefined;
  }

  /** Lists the halts in force. */
  async halts(): Promise<readonly CallHalt[]> {
    return (await this.#start()).halts.active;
  }

  /**
   * Applies changed options, as a whole or not at all; without options, reads the files named by the current ones again.
   * Running calls finish with their old snapshot, and counts are kept. Changes to settings that are read only at startup
   * (`audit`, the store, the folder) are refused; `onToolApprove` stays as it is. Never rejects once `ready()` has resolved. Of
   * several concurrent reloads, the options of the last one apply to all.
   */
  async reload(options?: Omit<SafeToolCallOptions, "onToolApprove">): Promise<Reloaded> {
    const { reload } = await this.#start();
    if (reload === undefined) throw new Error("there is no reload");
    // A copy, so that every reload has options of its own.
    const wanted = options && { ...options };
    // A reload without options keeps the options of a concurrent reload.
    this.#wanted = wanted ?? this.#wanted;
    const reloaded = await reload("library");
    if (this.#wanted === wanted) this.#wanted = undefined;
    return reloaded;
  }

  /** Waits for running calls, then closes targets and audit. */
  async close(): Promise<void> {
    const service = await this.#starting?.catch(() => undefined);
    await service?.close(CLOSE_GRACE_MS);
  }

  #start(): Promise<Service> {
    this.#starting ??= this.#wire().then((service) => {
      this.#service = service;
      return service;
    });
    return this.#starting;
  }

  #wire(): Promise<Service> {
    // The folder and the search path stay the same, even if those of the process change.
    const { folder, searchPath } = this.#config;
    let read = this.#options;
    const hooks: Hooks = {
      onToolApprove: this.#options.onToolApprove,
      isEmbedded: true,
      readAgain: () => {
        read = this.#wanted ?? this.#options;
        return configOf(read, { folder, searchPath }, this.#modules);
      },
      onReload: ({ type }) => {
        if (type === "configuration.changed") this.#options = read;
      },
    };
    return wire(this.#config, this.#modules, hooks);
  }
}

function targetOf(of: HaltOrder["of"]): HaltTarget {
  if (of === "all") return { kind: "all", issuer: "", value: "" };
  if ("issuer" in of) return { kind: "caller", issuer: of.issuer, value: of.subject };
  if ("tool" in of) return { kind: "tool", issuer: "", value: of.tool };
  return "system" in of
    ? { kind: "system", issuer: "", value: of.system }
    : { kind: "session", issuer: "", value: of.session };
}

type Surroundings = Pick<Config, "folder" | "searchPath">;

/** @throws {StartupError} with every mistake in the options */
function configOf(
  { onToolApprove: _, jwt, ...rest }: SafeToolCallOptions,
  surroundings: Surroundings,
  modules: Modules,
): Config {
  const { folder = surroundings.folder, ...written } = rest;
  const issuers = "issuers" in jwt ? jwt : { issuers: [jwt] };
  const origin = "SafeToolCall.create";
  if ("tenants" in written && written.tenants !== undefined) {
    throw new StartupError([`${origin}: tenants: only the service has tenants: create one SafeToolCall for each`]);
  }
  const config = readConfig(
    { ...written, tools: [...written.tools], jwt: issuers },
    { folder, environment: { PATH: surroundings.searchPath }, origin },
    modules,
  );
  if (config.bundle !== undefined) throw new StartupError([`${origin}: bundle: only the service takes bundles`]);
  return config;
}

/** Returns the name of a tool. A value without a readable name is not a tool: its call gets a refusal and an audit entry. */
function nameOf(tool: unknown): string {
  if (typeof tool === "string") return tool;
  try {
    return String((tool as { readonly name?: unknown } | null | undefined)?.name);
  } catch {
    return "";
  }
}

/**
 * Returns a copy of the arguments as JSON: no getter, proxy or later change can make the audit record other arguments than those
 * that ran. Missing arguments stay missing, and the tool's schema refuses them.
 */
function readArguments(args: unknown): Canonical | Refusal | undefined {
  if (args === undefined) return undefined;
  try {
    return canonical(args, ARGUMENT_LIMITS);
  } catch (cause) {
    if (!(cause instanceof NotJsonError)) throw cause;
    return new Refusal("MALFORMED_REQUEST", `The arguments are ${cause.message}: send plain JSON values.`, { cause });
  }
}

type RequestOptions = Pick<
  CallRequest,
  | ("session" | "callId" | "reason" | "traceparent" | "approvalId" | "idempotencyKey")
  | ("waitMs" | "newApproval" | "dryRun" | "onToolApprove")
>;
type TextOption = Exclude<keyof RequestOptions, "waitMs" | "newApproval" | "dryRun" | "onToolApprove">;

/** The formats that `POST /call` accepts. */
const TEXT_FORMATS = {
  session: CALL_ID,
  callId: CALL_ID,
  approvalId: CALL_ID,
  idempotencyKey: IDEMPOTENCY_KEY,
  reason: /^.{0,1000}$/s,
  traceparent: /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/,
} as const satisfies Record<TextOption, RegExp>;

const TEXT_FORMAT_LIST = Object.entries(TEXT_FORMATS);

interface ReadOptions {
  readonly accepted: RequestOptions;
  readonly problem?: Refusal;
}

const NO_OPTIONS: ReadOptions = { accepted: {} };

/** Reads the options that may be recorded in the audit. A malformed traceparent is ignored, as its specification requires. */
function readOptions(options: CallOptions): ReadOptions {
  const accepted: Record<string, string> = {};
  let problem: Refusal | undefined;
  for (const [name, format] of TEXT_FORMAT_LIST) {
    const value: unknown = options[name as TextOption];
    if (value === undefined) continue;
    if (typeof value === "string" && format.test(value)) accepted[name] = value;
    else if (name !== "traceparent") {
      problem ??= new Refusal("MALFORMED_REQUEST", `options.${name} does not have the form that POST /call takes.`);
    }
  }
  const { waitMs, approval, dryRun, onToolApprove } = options;
  if (approval !== undefined && approval !== "new") {
    problem ??= new Refusal("MALFORMED_REQUEST", 'options.approval must be "new".');
  }
  if (waitMs !== undefined && !(Number.isInteger(waitMs) && waitMs >= 0 && waitMs <= WAIT_MS_MAX)) {
    problem ??= new Refusal("MALFORMED_REQUEST", `options.waitMs must be a whole number from 0 to ${WAIT_MS_MAX}.`);
  }
  if (dryRun !== undefined && typeof dryRun !== "boolean") {
    problem ??= new Refusal("MALFORMED_REQUEST", "options.dryRun must be true or false.");
  }
  if (onToolApprove !== undefined && typeof onToolApprove !== "function") {
    problem ??= new Refusal("MALFORMED_REQUEST", "options.onToolApprove must be a function.");
  }
  if (problem !== undefined) return { accepted, problem };
  // A dry run asks nobody, so there is nothing to wait for.
  const waited = dryRun === true ? undefined : waitMs;
  return { accepted: { ...accepted, waitMs: waited, newApproval: approval === "new", dryRun, onToolApprove } };
}

function disconnectOf(signal: AbortSignal): Disconnect {
  return {
    get disconnected() {
      return signal.aborted;
    },
    listen(listener) {
      signal.addEventListener("abort", listener, { once: true });
      return () => signal.removeEventListener("abort", listener);
    },
  };
}
