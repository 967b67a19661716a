import { ConnectionError, ProtocolError, RefusedError } from "./errors.ts";
import {
  type Answer,
  type Fetch,
  isPassing,
  isRefusal,
  isTable,
  type Request,
  send,
  sleep,
  type Transport,
} from "./requests.ts";
import {
  type ApprovalRequest,
  type DryRun,
  IDEMPOTENCY_KEY,
  type ModelFormat,
  type Pending,
  type Refusal,
  type Tool,
  WAIT_SECONDS_MAX,
  type Success as WireSuccess,
} from "./schema.ts";

export { ConnectionError, ProtocolError, RefusedError } from "./errors.ts";
export type { Fetch } from "./requests.ts";
export type * from "./schema.ts";

/** The answer to a call that ran. `result` comes from a target: it is data, never an instruction. */
export type Success<Result = unknown> = Omit<WireSuccess, "result"> & { readonly result: Result };

/** What the service answers to a call: `status` says which. */
export type ToolCallResult<Result = unknown> = Success<Result> | Pending | RefusedWith<"denied"> | RefusedWith<"error">;

/** A refusal of one status, so that a comparison of `status` narrows a result. */
type RefusedWith<Status extends Refusal["status"]> = Refusal & { readonly status: Status };

/** What `GET /tools` offers in each format: an element of `tools` in a request to that API. */
export interface ToolFormats {
  readonly json: Tool;
  readonly openai: {
    readonly type: "function";
    readonly function: {
      readonly name: string;
      readonly description: string;
      readonly parameters: ObjectSchema;
      readonly strict?: true;
    };
  };
  readonly "openai-responses": {
    readonly type: "function";
    readonly name: string;
    readonly description: string;
    readonly parameters: ObjectSchema;
    readonly strict: boolean;
  };
  readonly anthropic: {
    readonly name: string;
    readonly description: string;
    readonly input_schema: ObjectSchema;
    readonly strict?: true;
  };
  readonly google: { readonly name: string; readonly description: string; readonly parametersJsonSchema: ObjectSchema };
  readonly mcp: {
    readonly name: string;
    readonly title: string;
    readonly description: string;
    readonly inputSchema: ObjectSchema;
    readonly annotations: {
      readonly title: string;
      readonly readOnlyHint: boolean;
      readonly destructiveHint: boolean;
      readonly idempotentHint: boolean;
      readonly openWorldHint: boolean;
    };
  };
}

/** The JSON Schema of a tool's arguments. */
export interface ObjectSchema {
  readonly type: "object";
  readonly properties?: Readonly<Record<string, object>>;
  readonly required?: string[];
  readonly [keyword: string]: unknown;
}

export interface ToolsOptions {
  /**
   * For `openai`, `openai-responses` and `anthropic`: uses the strict mode of the API for the tools whose schemas it can express.
   * Then the model sends null for optional arguments, which the service takes as absent.
   */
  readonly strict?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Settings of a client. Times are in milliseconds. */
export interface ClientOptions {
  /** Where the service is, such as `https://tools.example`. The service's paths are added to the URL's own. */
  readonly url: string | URL;
  /** The agent's token, without `Bearer`. A function is asked before each request, and once more after a 401. */
  readonly token: string | (() => string | Promise<string>);
  /** Sent with every call that names no other session. */
  readonly session?: string | undefined;
  /** Sends the requests; default: the runtime's own `fetch`. */
  readonly fetch?: Fetch | undefined;
  /** How long one request may take, not counting what it asks the service to wait; default: 60,000. */
  readonly timeoutMs?: number | undefined;
  /** How often a request is repeated; default: 4. */
  readonly retries?: number | undefined;
  /** Allows `http:` to other machines, although anybody on the way can read the token. */
  readonly allowInsecure?: boolean | undefined;
}

export interface CallOptions {
  /** The model's own id of the call, for the audit. */
  readonly callId?: string | undefined;
  readonly session?: string | undefined;
  /** Why the agent makes the call, for approvers and the audit. */
  readonly reason?: string | undefined;
  /** The approval that the call uses: that of an earlier pending result. */
  readonly approvalId?: string | undefined;
  /**
   * Default: a random key for each call, which its repetitions share. With null, the call has none: it is not repeated after its
   * answer was lost, and uses an approval that was requested for the same call before.
   */
  readonly idempotencyKey?: string | null | undefined;
  /** Only asks what would happen to the call. */
  readonly dryRun?: boolean | undefined;
  /** How long the service holds the call for a person's decision: at most 55. */
  readonly waitSeconds?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface RunOptions extends Omit<CallOptions, "dryRun"> {
  /** Called each time a person is asked. When it returns `"return"`, so does `run`, with the pending result. */
  readonly onPending?: ((pending: Pending) => unknown) | undefined;
  /** How long to wait for the decision; default: until the approval request ends. */
  readonly approvalTimeoutMs?: number | undefined;
}

const TIMEOUT_MS = 60_000;
const RETRIES = 4;
const POLL_SECONDS = WAIT_SECONDS_MAX - 5;
/** Approval requests that one run waits for: a service that always asks once more must not hold it forever. */
const APPROVALS_MAX = 10;
/** A long poll that ends earlier was not held: the service has too many waiting requests. */
const POLL_FREE_MS = 1_000;
/** While an approval is awaited, the service may be unavailable for so long. */
const OUTAGE_MS_MAX = 300_000;
/** Shorter: a program that starts reads its tools first, and must say soon that its URL is wrong. */
const TOOLS_OUTAGE_MS_MAX = 30_000;

/** A client of one service, with one agent's token. */
export class SafeToolCallClient {
  readonly #transport: Transport;
  readonly #session: string | undefined;
  /** False once the service has said that it keeps no answers: then a call is never sent twice. */
  #takesKeys = true;

  /** @throws {TypeError} when `url` is not the URL of a service, or would send the token in plain text to another machine */
  constructor(options: ClientOptions) {
    const { token, session, timeoutMs = TIMEOUT_MS, retries = RETRIES } = options;
    const { fetch = (url, init) => globalThis.fetch(url, init) } = options;
    this.#transport = { url: baseOf(options), token, fetch, timeoutMs, retries };
    this.#session = session;
  }

  /**
   * Makes one call. Whatever the service answers is returned: success, pending, denied, error.
   *
   * @throws {ConnectionError} when no answer came within the retries; `mayHaveRun` says whether the call may have run
   */
  call(
    tool: string,
    args: object | undefined,
    options: CallOptions & { readonly dryRun: true },
  ): Promise<DryRun | Refusal>;
  call<Result = unknown>(tool: string, args?: object, options?: CallOptions): Promise<ToolCallResult<Result>>;
  async call(tool: string, args: object = {}, options: CallOptions = {}): Promise<ToolCallResult | DryRun> {
    return this.#call(tool, args, options, options.dryRun === true ? undefined : this.#newKey());
  }

  /**
   * Makes a call and, when a person is asked, waits for the decision and makes the same call again with the approval. Returns the
   * pending result when `onPending` says so or the time is over.
   *
   * @throws {ConnectionError} as `call`
   */
  async run<Result = unknown>(
    tool: string,
    args: object = {},
    options: RunOptions = {},
  ): Promise<ToolCallResult<Result>> {
    const { onPending, approvalTimeoutMs = Number.POSITIVE_INFINITY, ...rest } = options;
    const { signal } = options;
    const until = performance.now() + approvalTimeoutMs;
    const key = this.#newKey();
    const make = async (approvalId?: string) => {
      const claiming = approvalId === undefined ? {} : { approvalId };
      return (await this.#call(tool, args, { ...rest, ...claiming }, key)) as ToolCallResult<Result>;
    };
    let result = await make();
    for (let rounds = 1; result.status === "pending" && rounds <= APPROVALS_MAX; rounds += 1) {
      const { id } = result.approval;
      if ((await onPending?.(result)) === "return") return result;
      try {
        const { state } = await this.waitForApproval(id, { signal, timeoutMs: until - performance.now() });
        if (state === "pending") return result;
      } catch (error) {
        // The call gets the same refusal, as its result.
        if (!(error instanceof RefusedError)) throw error;
        rounds = APPROVALS_MAX;
      }
      result = await make(id);
    }
    return result;
  }

  /**
   * Returns the tools that the caller could use, in the form of a model's API. Waits while the service restarts: up to 30 s, unless
   * `retries` is 0.
   *
   * @throws {RefusedError | ConnectionError}
   */
  async tools<Format extends "json" | ModelFormat = "json">(
    format?: Format,
    { strict = false, signal }: ToolsOptions = {},
  ): Promise<ToolFormats[Format][]> {
    const query = new URLSearchParams({ ...(format !== undefined && { format }), ...(strict && { strict: "true" }) });
    const path = query.size === 0 ? "/tools" : `/tools?${query}`;
    const msMax = this.#transport.retries > 0 ? TOOLS_OUTAGE_MS_MAX : 0;
    const { tools } = await throughOutage(() => this.#read({ method: "GET", path, signal }), { msMax, signal });
    if (!Array.isArray(tools)) throw unknownAnswer();
    return tools;
  }

  /**
   * Returns the caller's own approval request. With `waitSeconds` (at most 55), waits in the service until it is decided.
   *
   * @throws {RefusedError | ConnectionError}
   */
  async approval(
    id: string,
    options: { readonly waitSeconds?: number | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<ApprovalRequest> {
    const { signal } = options;
    const waitSeconds = heldSeconds(options.waitSeconds);
    const path = `${approvalPath(id)}${waitSeconds > 0 ? `?wait=${waitSeconds}` : ""}`;
    const { approval } = await this.#read({ method: "GET", path, waitMs: waitSeconds * 1_000, signal });
    if (!isTable(approval) || typeof approval["state"] !== "string") throw unknownAnswer();
    return approval as unknown as ApprovalRequest;
  }

  /**
   * Waits until the approval request is decided, also while the service restarts. Returns it, with the state `pending` when
   * `timeoutMs` is over first.
   *
   * @throws {RefusedError | ConnectionError}
   */
  async waitForApproval(
    id: string,
    options: { readonly timeoutMs?: number | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<ApprovalRequest> {
    const { timeoutMs = Number.POSITIVE_INFINITY, signal } = options;
    const until = performance.now() + timeoutMs;
    const poll = () => {
      const waitSeconds = Math.min(POLL_SECONDS, (until - performance.now()) / 1_000);
      return this.approval(id, { waitSeconds, signal });
    };
    for (;;) {
      const begun = performance.now();
      const approval = await throughOutage(poll, { msMax: OUTAGE_MS_MAX, until, signal });
      if (approval.state !== "pending" || performance.now() >= until) return approval;
      await pace(begun, signal);
    }
  }

  /**
   * Cancels the caller's own approval request.
   *
   * @throws {RefusedError | ConnectionError}
   */
  async cancelApproval(id: string, options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    const answer = await send(this.#transport, {
      method: "DELETE",
      path: approvalPath(id),
      changes: true,
      repeatable: true,
      ...options,
    });
    if (!isRefusal(answer.body)) return;
    // An earlier attempt, whose answer was lost, has cancelled it.
    if (answer.isRepeated && answer.body.error.code === "APPROVAL_CANCELLED") return;
    throw new RefusedError(answer.body);
  }

  /** `ownKey`: used when the caller has given none, and left out when the service keeps no answers. */
  async #call(
    tool: string,
    args: object,
    options: CallOptions,
    ownKey: string | undefined,
  ): Promise<ToolCallResult | DryRun> {
    const { callId, session = this.#session, reason, approvalId, dryRun, signal, idempotencyKey } = options;
    if (typeof idempotencyKey === "string" && !IDEMPOTENCY_KEY.test(idempotencyKey)) {
      throw new TypeError("idempotencyKey: expected 1 to 255 visible ASCII characters");
    }
    const waitSeconds = heldSeconds(options.waitSeconds);
    const approval = approvalId === undefined ? undefined : { id: approvalId };
    const body = JSON.stringify({ tool, args, session, callId, reason, approval, dryRun });
    const sendWith = (key: string | undefined) =>
      send(this.#transport, {
        method: "POST",
        path: "/call",
        headers: {
          ...(waitSeconds > 0 && { prefer: `wait=${waitSeconds}` }),
          ...(key !== undefined && { "idempotency-key": key }),
        },
        body,
        changes: dryRun !== true,
        repeatable: key !== undefined || dryRun === true,
        waitMs: waitSeconds * 1_000,
        signal,
      });
    const key = idempotencyKey ?? (this.#takesKeys ? ownKey : undefined);
    const answer = await sendWith(idempotencyKey === null ? undefined : key);
    if (idempotencyKey !== undefined || !refusesKeys(answer)) return resultOf(answer);
    this.#takesKeys = false;
    return resultOf(await sendWith(undefined));
  }

  #newKey(): string | undefined {
    return this.#takesKeys ? randomKey() : undefined;
  }

  async #read(request: Omit<Request, "changes" | "repeatable">): Promise<Answer["body"]> {
    const { body } = await send(this.#transport, { ...request, changes: false, repeatable: true });
    if (isRefusal(body)) throw new RefusedError(body);
    return body;
  }
}

/**
 * Returns the result of a call that succeeded.
 *
 * @throws {RefusedError} for every other result; its code is APPROVAL_REQUIRED while a person is asked
 */
export function unwrap<Result>(result: ToolCallResult<Result>): Result {
  if (result.status === "success") return result.result;
  throw new RefusedError(result);
}

function baseOf({ url, allowInsecure = false }: ClientOptions): string {
  let base: URL;
  try {
    base = new URL(url);
  } catch {
    throw new TypeError("url: expected the URL of a service, such as https://tools.example");
  }
  const { protocol, username, password, search, hash, hostname } = base;
  if (protocol !== "https:" && protocol !== "http:") throw new TypeError("url: expected https: or http:");
  if (username !== "" || password !== "") throw new TypeError("url: must not contain a user name or a password");
  if (search !== "" || hash !== "") throw new TypeError("url: must not contain a query or a fragment");
  if (protocol === "http:" && !allowInsecure && !isLoopback(hostname)) {
    throw new TypeError(
      "url: http: would send the token in plain text to another machine: use https:, or set allowInsecure in a network that you trust",
    );
  }
  return `${base.origin}${base.pathname.replace(/\/+$/, "")}`;
}

function isLoopback(hostname: string): boolean {
  return /^(?:localhost|.+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname);
}

const APPROVAL_ID = /^[A-Za-z0-9_-]{1,128}$/;

function approvalPath(id: string): string {
  if (!APPROVAL_ID.test(id)) throw new TypeError("not the id of an approval request");
  return `/approvals/${id}`;
}

/** `crypto.randomUUID` is missing on pages without TLS. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A service without a store keeps no answers and says so. */
function refusesKeys({ body }: Answer): boolean {
  return (
    isRefusal(body) &&
    body.error.code === "MALFORMED_REQUEST" &&
    body.error.details?.["unsupported"] === "Idempotency-Key"
  );
}

interface Outage {
  readonly msMax: number;
  readonly until?: number;
  readonly signal: AbortSignal | undefined;
}

/** Repeats the work while the service is unavailable: at most for `msMax`, and not after `until`. */
async function throughOutage<T>(work: () => Promise<T>, { msMax, until, signal }: Outage): Promise<T> {
  const end = Math.min(until ?? Number.POSITIVE_INFINITY, performance.now() + msMax);
  for (;;) {
    const begun = performance.now();
    try {
      return await work();
    } catch (error) {
      if (!isOutage(error, msMax) || performance.now() >= end) throw error;
    }
    await pace(begun, signal);
  }
}

/** Waits until the next request may be sent: the last one, sent at `begun`, may have been answered at once. */
async function pace(begun: number, signal: AbortSignal | undefined): Promise<void> {
  const freeMs = POLL_FREE_MS - (performance.now() - begun);
  if (freeMs > 0) await sleep(freeMs + Math.random() * POLL_FREE_MS, signal);
}

/** Returns whether the service may answer within the time. */
function isOutage(error: unknown, msMax: number): boolean {
  if (error instanceof ConnectionError) return isPassing(error);
  return error instanceof RefusedError && error.retryable && (error.retryAfterMs ?? 0) <= msMax;
}

/** Returns a whole number of seconds for which the service can hold a request. */
function heldSeconds(seconds = 0): number {
  return Math.min(WAIT_SECONDS_MAX, Math.max(0, Math.ceil(seconds)));
}

function resultOf({ status, body }: Answer): ToolCallResult | DryRun {
  if (isRefusal(body) || isResult(body)) return body as unknown as ToolCallResult | DryRun;
  throw new ProtocolError(`the server at the client's URL answered no result of a call (HTTP ${status})`, {
    mayHaveRun: true,
    status,
  });
}

function isResult(body: Answer["body"]): boolean {
  const { status, traceId, approval } = body;
  if (typeof traceId !== "string") return false;
  if (status === "pending") {
    const { id, message } = isTable(approval) ? approval : {};
    return typeof id === "string" && APPROVAL_ID.test(id) && typeof message === "string";
  }
  return status === "dryRun" || (status === "success" && "result" in body);
}

function unknownAnswer(): ProtocolError {
  return new ProtocolError("the server at the client's URL answered something that this client does not know", {
    mayHaveRun: false,
    status: 200,
  });
}
