import type { EpochMs } from "../../core/types.ts";
import { EgressError, type EgressStream, egressReason } from "../../egress/request.ts";
import type { RotatingClient } from "../../egress/rotating-client.ts";
import { bundleFactText } from "../bundle-fact.ts";
import { EVENTS, HUB_PATH, MEMBER_HEADERS, type MemberFacts } from "../contract.ts";
import { HubRefusal, HubUnavailable } from "../errors.ts";
import { decodeWire, HUB_BYTES_MAX, WireError } from "../wire.ts";

/** The facts of this process. */
export interface OwnFacts extends MemberFacts {
  /** Id of its log; undefined before the log has one. */
  readonly instance: string | undefined;
  readonly version: string;
}

export interface HubConnectionOptions {
  /** URL of the hub, without a path of its own. */
  readonly url: URL;
  /** Connections with the certificates that the configuration names. They are closed with the client. */
  readonly connections: Pick<RotatingClient, "current" | "close">;
  /** Reads the workload token, at each request. @throws {Error} that says why it cannot be read */
  readonly token?: (() => string) | undefined;
  readonly facts: () => OwnFacts;
  /** The tenant whose callers the member accepts. The hub answers only if it knows the member as one of this tenant. */
  readonly tenant?: string | undefined;
}

interface NoAnswerFacts {
  readonly cause?: unknown;
  readonly retryAfterMs?: number | undefined;
  readonly mayHaveRun?: boolean;
}

/** No connection, no answer, or an answer that asks for a repetition. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
  readonly retryAfterMs: number | undefined;
  /** Whether the hub may have carried out the request. */
  readonly mayHaveRun: boolean;

  constructor(message: string, { retryAfterMs, mayHaveRun = true, ...cause }: NoAnswerFacts = {}) {
    super(message, cause);
    this.retryAfterMs = retryAfterMs;
    this.mayHaveRun = mayHaveRun;
  }
}

/** The hub has no room for the request, and has not begun it. */
const STATUS_BUSY = 429;
const REFUSED: readonly number[] = [400, 401, 403, 404, 409, 413] satisfies HubRefusal["status"][];

/** Sends single requests to the hub. */
export class HubConnection {
  readonly #options: HubConnectionOptions;

  constructor(options: HubConnectionOptions) {
    this.#options = options;
  }

  /** Returns the answer's body. Rejects with `HubRefusal` or `NoAnswer`. */
  async post(
    method: string,
    body: string,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<unknown> {
    const answer = await this.#sent(() =>
      this.#client.send({
        method: "POST",
        url: this.#urlOf(method),
        headers: { ...this.#headers(), "content-type": "application/json" },
        body,
        timeoutMs,
        bodyBytesMax: HUB_BYTES_MAX,
        // The hub does nothing twice.
        isRepeatable: true,
        ...(signal !== undefined && { signal }),
      }),
    );
    const read = decoded(answer.body);
    if (answer.status === 200) return read;
    throw failureOf(answer.status, read);
  }

  /** The member's facts now, as a text that changes with them. */
  get stated(): string {
    return JSON.stringify(this.#options.facts());
  }

  /** Opens the stream of events. Rejects as `post`. */
  async open(signal: AbortSignal): Promise<EgressStream> {
    const stream = await this.#sent(() =>
      this.#client.open({
        method: "GET",
        url: this.#urlOf(EVENTS),
        headers: this.#headers(),
        signal,
        bodyBytesMax: Number.MAX_SAFE_INTEGER,
        isRepeatable: true,
      }),
    );
    if (stream.status === 200) return stream;
    const body = await this.#sent(() => stream.whole(HUB_BYTES_MAX));
    throw failureOf(stream.status, decoded(body));
  }

  close(): void {
    this.#options.connections.close();
  }

  get #client() {
    return this.#options.connections.current.client;
  }

  #urlOf(name: string): URL {
    return new URL(`${HUB_PATH}${name}`, this.#options.url);
  }

  #headers(): Record<string, string> {
    const { facts, token, tenant } = this.#options;
    const { instance, version, policyVersion, bundle } = facts();
    if (instance === undefined) throw new NoAnswer("the audit log has no id yet", { mayHaveRun: false });
    return {
      [MEMBER_HEADERS.instance]: instance,
      [MEMBER_HEADERS.version]: version,
      ...(policyVersion !== undefined && { [MEMBER_HEADERS.policyVersion]: policyVersion }),
      ...(bundle !== undefined && { [MEMBER_HEADERS.bundle]: bundleFactText(bundle) }),
      ...(tenant !== undefined && { [MEMBER_HEADERS.tenant]: tenant }),
      ...(token !== undefined && { authorization: `Bearer ${readToken(token)}` }),
    };
  }

  async #sent<Answer>(send: () => Promise<Answer>): Promise<Answer> {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof EgressError)) throw error;
      throw new NoAnswer(egressReason(error), { cause: error, mayHaveRun: error.sent });
    }
  }
}

function readToken(read: () => string): string {
  try {
    return read();
  } catch (cause) {
    throw new NoAnswer("hub.tokenFile cannot be read", { cause, mayHaveRun: false });
  }
}

function decoded(body: Uint8Array): unknown {
  try {
    return decodeWire(body);
  } catch (error) {
    if (error instanceof WireError) return undefined;
    throw error;
  }
}

/** Returns `NoAnswer` for an answer that does not come from a hub, such as a proxy's. */
function failureOf(status: number, body: unknown): HubRefusal | NoAnswer {
  const { code, message, retryAfterMs } = errorIn(body);
  if (code === undefined || message === undefined) return new NoAnswer(`status ${status}, and not from a hub`);
  if (REFUSED.includes(status)) return new HubRefusal(status as HubRefusal["status"], code, message);
  return new NoAnswer(message, { retryAfterMs, mayHaveRun: status !== STATUS_BUSY });
}

function errorIn(body: unknown) {
  const error = typeof body === "object" && body !== null && "error" in body ? body.error : undefined;
  const members: Readonly<Record<string, unknown>> = typeof error === "object" && error !== null ? { ...error } : {};
  const { code, message, retryAfterMs } = members;
  return {
    code: typeof code === "string" ? code : undefined,
    message: typeof message === "string" ? message : undefined,
    retryAfterMs: typeof retryAfterMs === "number" ? retryAfterMs : undefined,
  };
}

/** Returns whether the value is a time in Unix milliseconds. */
export function isTime(now: unknown): now is EpochMs {
  return Number.isSafeInteger(now) && Number(now) > 0;
}

/** Returns the error for callers. */
export function unavailable(error: unknown): HubUnavailable {
  const reason = error instanceof Error ? error.message : String(error);
  return new HubUnavailable(`the hub does not answer: ${reason}`, { cause: error });
}
