/** What became of one request. */
export type Outcome =
  | { readonly kind: "taken"; readonly answer: string }
  /** The far side will never take this body. */
  | { readonly kind: "refused"; readonly reason: string }
  /** It may take it later, or when somebody has mended its credentials or its address. */
  | { readonly kind: "later"; readonly reason: string; readonly retryAfterMs: number | undefined };

export type Send = (url: string, init: BunFetchRequestInit) => Promise<Response>;

export interface SenderOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Ends a request that is under way. */
  readonly signal: AbortSignal;
  /** The platform's own by default. */
  readonly send?: Send | undefined;
}

const ANSWER_BYTES_MAX = 65_536;
const RETRY_AFTER_SECONDS_MAX = 300;
/** 4xx that say nothing about the body: credentials, address, time, rate. */
const LATER_STATUSES = new Set([401, 403, 404, 405, 407, 408, 421, 425, 429]);

/** One POST of JSON. Never rejects. No redirect is followed: credentials go to the address that was configured and nowhere else. */
export async function post(body: string, { url, headers, timeoutMs, signal, send }: SenderOptions): Promise<Outcome> {
  const sendTo = send ?? fetch;
  try {
    const response = await sendTo(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body,
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      // Said outright: a variable of the environment could switch it off.
      tls: { rejectUnauthorized: true },
    });
    const answer = await readBounded(response);
    return outcomeOf(response, answer);
  } catch (error) {
    const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return { kind: "later", reason, retryAfterMs: undefined };
  }
}

function outcomeOf({ status, headers }: Response, answer: string): Outcome {
  if (status >= 200 && status < 300) return { kind: "taken", answer };
  const reason = `status ${status}`;
  const isFinal = status >= 400 && status < 500 && !LATER_STATUSES.has(status);
  if (isFinal) return { kind: "refused", reason };
  return { kind: "later", reason, retryAfterMs: retryAfterOf(headers.get("retry-after")) };
}

function retryAfterOf(header: string | null): number | undefined {
  if (header === null || !/^\d{1,9}$/.test(header)) return undefined;
  return Math.min(Number(header), RETRY_AFTER_SECONDS_MAX) * 1_000;
}

async function readBounded(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.byteLength;
    if (length > ANSWER_BYTES_MAX) break;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
