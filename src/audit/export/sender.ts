import { endedWithin } from "../../core/time-limits.ts";

/** What became of one request. */
export type SendOutcome =
  | { readonly kind: "taken"; readonly answer: string }
  /** The far side will never take this body. */
  | { readonly kind: "refused"; readonly reason: string }
  /** It may take it later, or when somebody has mended its credentials or its address. */
  | { readonly kind: "later"; readonly reason: string; readonly retryAfterMs: number | undefined };

export type Send = (url: string, init: BunFetchRequestInit) => Promise<Response>;

export interface SenderOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Of the whole request, up to the status of its answer. */
  readonly timeoutMs: number;
  /** Whether a yes says more than that. */
  readonly readsAnswer: boolean;
  /** Ends a request that is under way. */
  readonly signal: AbortSignal;
  /** The platform's own by default. */
  readonly send?: Send | undefined;
}

const ANSWER_BYTES_MAX = 65_536;
/** What stands behind a yes comes with it or counts for nothing. */
const ANSWER_TIMEOUT_MS = 2_000;
const RETRY_AFTER_SECONDS_MAX = 300;
/** 4xx that say nothing about the body: credentials, address, time, rate. */
const LATER_STATUSES = new Set([401, 403, 404, 405, 407, 408, 421, 425, 429]);

/** One POST of JSON. Never rejects. No redirect is followed: credentials go to the address that was configured and nowhere else. */
export async function post(body: string, options: SenderOptions): Promise<SendOutcome> {
  const { url, headers, timeoutMs, readsAnswer, signal, send } = options;
  const sendTo = send ?? fetch;
  try {
    const response = await sendTo(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json", "accept-encoding": "identity" },
      // A small answer may inflate to gigabytes, before anybody counts them.
      decompress: false,
      body,
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      // Said outright: a variable of the environment could switch it off.
      tls: { rejectUnauthorized: true },
    });
    if (response.ok && readsAnswer) return { kind: "taken", answer: await readBounded(response) };
    response.body?.cancel().catch(() => {});
    return outcomeOf(response);
  } catch (error) {
    return { kind: "later", reason: faultOf(error), retryAfterMs: undefined };
  }
}

/** Never the address, which the runtime's messages may quote: it may hold a secret. */
function faultOf(error: unknown): string {
  if (!(error instanceof Error)) return "failed";
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined;
  return code === undefined ? error.name : `${error.name} ${code}`;
}

function outcomeOf({ ok, status, headers }: Response): SendOutcome {
  if (ok) return { kind: "taken", answer: "" };
  const reason = `status ${status}`;
  const isFinal = status >= 400 && status < 500 && !LATER_STATUSES.has(status);
  if (isFinal) return { kind: "refused", reason };
  return { kind: "later", reason, retryAfterMs: retryAfterOf(headers.get("retry-after")) };
}

function retryAfterOf(header: string | null): number | undefined {
  if (header === null || !/^\d{1,9}$/.test(header)) return undefined;
  return Math.min(Number(header), RETRY_AFTER_SECONDS_MAX) * 1_000;
}

/** As much of it as there is in time. Never rejects: whatever becomes of the rest, the lines were taken. */
async function readBounded({ body }: Response): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  const reading = async (): Promise<void> => {
    for (let length = 0; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      length += value.byteLength;
      if (length > ANSWER_BYTES_MAX) return;
      chunks.push(value);
    }
  };
  await endedWithin(reading(), ANSWER_TIMEOUT_MS);
  reader.cancel().catch(() => {});
  return Buffer.concat(chunks).toString("utf8");
}
