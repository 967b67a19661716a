import {
  ConnectionError,
  type ObjectSchema,
  type Pending,
  RefusedError,
  type SafeToolCallClient,
  type ToolCallResult,
  type ToolFormats,
} from "../client.ts";

/** The service's rule for ids of calls. */
const CALL_ID = /^[\x21-\x7e]{1,128}$/;

/** Settings that all adapters share. */
export interface AdapterOptions {
  /** Offers only these of the caller's tools, and refuses calls of the others. */
  readonly only?: readonly string[];
  /**
   * Called when a person is asked, for example to show where to decide. The call then waits for the decision; after `"return"`
   * it does not wait: the framework is interrupted, or the model is asked to make the call again later.
   */
  readonly onPending?: "return" | ((pending: PendingCall) => PendingAnswer | Promise<PendingAnswer>);
  /** Longest wait for a decision. Afterwards, the model is asked to make the call again later. */
  readonly approvalTimeoutMs?: number;
}

/** Settings of adapters for APIs with a strict mode. */
export interface StrictOptions extends AdapterOptions {
  /** Uses the strict mode for the tools whose schemas it can express: the model's arguments then always fit the schema. */
  readonly strict?: boolean;
}

// biome-ignore lint/suspicious/noConfusingVoidType: a callback without a return value is the usual one.
type PendingAnswer = void | "return";

/** A call of the model that waits for an approver. */
export interface PendingCall {
  readonly tool: string;
  readonly args: object;
  readonly approval: Pending["approval"];
}

/** A call as the model made it. */
export interface ModelCall {
  readonly name: string;
  /** JSON text, or the object that it means. */
  readonly args: unknown;
  /** For correlation only: some models name their calls `call_0` in each turn. */
  readonly id?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Identifies this call, also after a restart of the program. */
  readonly idempotencyKey?: string | undefined;
  /** The approval that this call waited for before. */
  readonly approvalId?: string | undefined;
  /** Whether this call was left waiting before: without `approvalId`, the service finds the approval that was requested then. */
  readonly resumed?: boolean;
  /** Replaces the setting for this call. */
  readonly onPending?: AdapterOptions["onPending"];
}

/** What the model gets: `{ untrusted: true, output }`, with `truncated: true` when the output is partial, or `{ error }`. */
export interface ModelResult {
  readonly content: Record<string, unknown>;
  /** `content` as JSON. */
  readonly text: string;
  readonly isError: boolean;
  readonly pending?: PendingCall;
}

/** A call or a result in a stored conversation. Calls and results are paired by id, in their order. */
export type ConversationPart =
  | { readonly kind: "call"; readonly id: string; readonly name: string; readonly args: unknown }
  | { readonly kind: "result"; readonly id: string; readonly content: unknown };

/** A tool of the caller, in the terms that frameworks share. */
export interface OfferedTool {
  readonly name: string;
  readonly description: string;
  readonly schema: ObjectSchema;
}

/** Reads the tools that the caller may use, in the form of a model's API. */
export async function toolsIn<Format extends "openai" | "openai-responses" | "anthropic" | "google">(
  format: Format,
  client: SafeToolCallClient,
  { only, strict }: StrictOptions = {},
): Promise<ToolFormats[Format][]> {
  const tools = await client.tools(format, { strict });
  return only === undefined ? tools : tools.filter((tool) => only.includes(nameOf(tool)));
}

function nameOf(tool: ToolFormats[keyof ToolFormats]): string {
  return "function" in tool ? tool.function.name : tool.name;
}

/** Reads the tools that the caller may use. */
export async function offeredTools(client: SafeToolCallClient, options?: AdapterOptions): Promise<OfferedTool[]> {
  const tools = await toolsIn("openai", client, options);
  return tools.map(({ function: { name, description, parameters: schema } }) => ({ name, description, schema }));
}

/** Makes the model's calls, and keeps what became of them. */
export class ModelCalls {
  readonly #client: SafeToolCallClient;
  readonly #options: AdapterOptions;
  /** Approvals of calls that were left waiting, by tool and arguments. */
  readonly #waiting = new Map<string, string[]>();
  /** Answers to calls that ran while their approval was asked for, by tool, arguments and id. */
  readonly #answered = new Map<string, ModelResult[]>();

  constructor(client: SafeToolCallClient, options: AdapterOptions = {}) {
    this.#client = client;
    this.#options = options;
  }

  get interrupts(): boolean {
    return this.#options.onPending === "return";
  }

  /** Makes a call of the model. Throws nothing but the abort of `signal`: refusals and lost connections are for the model. */
  async make(call: ModelCall): Promise<ModelResult> {
    return this.#answered.get(answerKeyOf(call))?.shift() ?? this.#call(call);
  }

  async #call(call: ModelCall): Promise<ModelResult> {
    const { name, id, signal, idempotencyKey, resumed = false } = call;
    const args = objectOf(call.args);
    if (args === undefined) return failed("INVALID_INPUT", "The arguments must be one JSON object.");
    if (this.#options.only?.includes(name) === false) return failed("TOOL_NOT_FOUND", `There is no tool ${name}.`);
    const kept = this.#take(name, args);
    const approvalId = call.approvalId ?? kept;
    try {
      const runWith = (key: string | null | undefined) =>
        this.#client.run(name, args, {
          callId: id !== undefined && CALL_ID.test(id) ? id : undefined,
          approvalId,
          idempotencyKey: key,
          signal,
          approvalTimeoutMs: this.#options.approvalTimeoutMs,
          onPending: ({ approval }) => this.#notify({ tool: name, args, approval }, call.onPending),
        });
      // Without a key, a call uses the approval that was requested for the same call before.
      const key = resumed && approvalId === undefined ? null : idempotencyKey;
      const first = await runWith(key);
      // A service without a store keeps no answers: the call goes without a key of its own.
      const result = typeof key === "string" && refusesKeys(first) ? await runWith(undefined) : first;
      return this.#resultOf(name, args, result);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof RefusedError) return failed(error.code, error.message);
      if (error instanceof ConnectionError) return failed("SERVICE_UNREACHABLE", unreachable(error));
      throw error;
    }
  }

  /**
   * Returns the approval request of a call that asks a person, without waiting; undefined when the call asks nobody, or was answered
   * at once, because an approver was faster: `make` then returns that answer.
   */
  async ask({ name, args: given, id }: ModelCall): Promise<PendingCall | undefined> {
    const args = objectOf(given);
    if (args === undefined || !(await this.#asks(name, args))) return undefined;
    const result = await this.#call({ name, args, id, onPending: "return" });
    if (result.pending !== undefined) return result.pending;
    const key = answerKeyOf({ name, args, id });
    this.#answered.set(key, [...(this.#answered.get(key) ?? []), result]);
    return undefined;
  }

  async #asks(name: string, args: object): Promise<boolean> {
    try {
      const judged = await this.#client.call(name, args, { dryRun: true });
      return judged.status === "dryRun" && judged.verdict === "ask";
    } catch (error) {
      if (error instanceof ConnectionError) return false;
      throw error;
    }
  }

  /** Makes the calls of a conversation that have no result yet, all at once. */
  async answer<Result>(
    conversation: Iterable<ConversationPart>,
    write: (call: ConversationPart & { readonly kind: "call" }, result: ModelResult) => Result,
  ): Promise<Result[]> {
    const open = this.#unanswered(conversation);
    return Promise.all(open.map(async (call) => write(call, await this.make(call))));
  }

  #unanswered(conversation: Iterable<ConversationPart>): readonly (ConversationPart & { readonly kind: "call" })[] {
    const open: (ConversationPart & { readonly kind: "call" })[] = [];
    const left = new Map<string, string[]>();
    for (const part of conversation) {
      if (part.kind === "call") {
        open.push(part);
        continue;
      }
      const [call] = open.splice(
        Math.max(
          0,
          open.findIndex(({ id }) => id === part.id),
        ),
        1,
      );
      const args = objectOf(call?.args);
      if (call === undefined || args === undefined) continue;
      const approvalId = approvalIdIn(part.content);
      left.set(keyOf(call.name, args), approvalId === undefined ? [] : [approvalId]);
    }
    // What this program knows is newer than what the conversation says.
    for (const [key, ids] of left) if (!this.#waiting.has(key) && ids.length > 0) this.#waiting.set(key, ids);
    return open;
  }

  #take(name: string, args: object): string | undefined {
    return this.#waiting.get(keyOf(name, args))?.shift();
  }

  async #notify(pending: PendingCall, replaced: AdapterOptions["onPending"]): Promise<PendingAnswer> {
    const onPending = replaced ?? this.#options.onPending;
    return typeof onPending === "function" ? onPending(pending) : onPending;
  }

  #resultOf(tool: string, args: object, result: ToolCallResult): ModelResult {
    if (result.status === "success") {
      const { truncated, result: output } = result;
      return modelResult({ untrusted: true, ...(truncated && { truncated }), output });
    }
    if (result.status === "pending") {
      const { approval } = result;
      const key = keyOf(tool, args);
      this.#waiting.set(key, [...(this.#waiting.get(key) ?? []), approval.id]);
      const { id, decideBy } = approval;
      const message = `This call waits for a person's approval: ${id}. Make the same call again later, with the same arguments.`;
      const waiting = modelResult({
        error: { code: "APPROVAL_REQUIRED", message, details: { approval: { id, decideBy } } },
      });
      return { ...waiting, pending: { tool, args, approval } };
    }
    const { code, message, details, retryAfterMs } = result.error;
    return modelResult({
      error: { code, message, ...(details && { details }), ...(retryAfterMs !== undefined && { retryAfterMs }) },
    });
  }
}

function refusesKeys(result: ToolCallResult): boolean {
  if (result.status === "success" || result.status === "pending") return false;
  return result.error.details?.["unsupported"] === "Idempotency-Key";
}

function unreachable({ mayHaveRun }: ConnectionError): string {
  const ran = mayHaveRun ? "The call may have run: check before you make it again." : "The call was not run.";
  return `The service of this tool did not answer. ${ran}`;
}

function failed(code: string, message: string): ModelResult {
  return modelResult({ error: { code, message } });
}

function modelResult(content: Record<string, unknown>): ModelResult {
  return { content, text: JSON.stringify(content), isError: "error" in content };
}

function answerKeyOf({ name, args, id }: ModelCall): string {
  return JSON.stringify([name, objectOf(args), id]);
}

function keyOf(tool: string, args: object): string {
  return JSON.stringify([tool, args]);
}

/** Returns the arguments as an object; undefined when they are not one, or not JSON. */
function objectOf(args: unknown): object | undefined {
  const value = typeof args === "string" ? jsonOf(args.trim() === "" ? "{}" : args) : args;
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the approval that a result of `make` says a call waits for. */
function approvalIdIn(content: unknown): string | undefined {
  const { error } = (typeof content === "string" ? jsonOf(content) : content) as {
    error?: { code?: unknown; details?: unknown };
  };
  if (error?.code !== "APPROVAL_REQUIRED") return undefined;
  const { approval } = (error.details ?? {}) as { approval?: { id?: unknown } };
  return typeof approval?.id === "string" ? approval.id : undefined;
}
