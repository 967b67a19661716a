import { createHash, createHmac } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import type { EpochMs } from "../../core/types.ts";
import type { EgressClient } from "../../egress/client.ts";
import { type EgressAnswer, EgressError } from "../../egress/request.ts";

/**
 * The three requests of S3 that an archive needs, over the service's own HTTP client. Rejected: `Bun.S3Client`, which obeys proxy
 * variables, repeats requests and cannot write an object only if there is none.
 */

interface S3Options {
  /** URL of the service, without the bucket. */
  readonly endpoint: URL;
  readonly region: string;
  readonly bucket: string;
  /** Whether the bucket is the first segment of the path, or a part of the host's name. */
  readonly pathStyle: boolean;
  readonly client: EgressClient;
  /** Called for each request, so that changed credentials are used at once. */
  readonly credentials: () => S3Credentials;
  readonly clock: () => EpochMs;
}

export interface S3Credentials {
  readonly id: string;
  readonly secret: string;
  /** Set for temporary credentials only. */
  readonly sessionToken: string | undefined;
}

interface S3Request {
  readonly method: "GET" | "PUT";
  /** Characters that a URL's path has unencoded. */
  readonly key: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly bytesMax: number;
  readonly signal: AbortSignal;
}

/** An answer that is not a success. The message holds the status and the code of the server, and no other text of it. */
export class S3Error extends Error {
  override readonly name = "S3Error";
  readonly status: number;

  constructor({ status, body }: EgressAnswer) {
    const [, code] = /<Code>([A-Za-z0-9]{1,64})<\/Code>/.exec(body.toString("latin1")) ?? [];
    super(`status ${status}${code === undefined ? "" : ` ${code}`}`);
    this.status = status;
  }
}

/** Limit for one request, in milliseconds. */
const TIMEOUT_MS = 60_000;
const ANSWER_BYTES_MAX = 65_536;
/** An answer holds at most 1,000 keys, of at most 1,024 bytes. */
const LIST_BYTES_MAX = 4_194_304;
const [NOT_FOUND, CONFLICT, PRECONDITION_FAILED, NOT_IMPLEMENTED] = [404, 409, 412, 501];

export class S3Client {
  readonly #options: S3Options;
  /** A server that does not know the condition refuses the request. */
  #hasConditions = true;

  constructor(options: S3Options) {
    this.#options = options;
  }

  /** Returns the object; undefined when there is none. Rejects with `S3Error` or `EgressError`. */
  async get(key: string, bytesMax: number, signal: AbortSignal): Promise<Buffer | undefined> {
    const answer = await this.#send({ method: "GET", key, bytesMax, signal });
    if (answer.status === 200) return answer.body;
    const error = new S3Error(answer);
    if (answer.status === NOT_FOUND && !error.message.endsWith("NoSuchBucket")) return undefined;
    throw error;
  }

  /** Writes the object unless there is one. Rejects with `S3Error` or `EgressError`. */
  async putNew(key: string, body: Uint8Array, signal: AbortSignal): Promise<void> {
    // Buckets whose objects are locked demand this digest. The signature covers the SHA-256 of the body in any case.
    const digest = { "content-md5": createHash("md5").update(body).digest("base64") };
    const isConditional = this.#hasConditions;
    const condition: Readonly<Record<string, string>> = isConditional ? { "if-none-match": "*" } : {};
    const request = { method: "PUT", key, body, bytesMax: ANSWER_BYTES_MAX, signal } as const;
    const answer = await this.#send({ ...request, headers: { ...digest, ...condition } });
    if (answer.status === NOT_IMPLEMENTED && isConditional) {
      this.#hasConditions = false;
      return this.putNew(key, body, signal);
    }
    // Another request has written the object, or is writing it.
    if (answer.status === CONFLICT || answer.status === PRECONDITION_FAILED) return;
    if (answer.status !== 200) throw new S3Error(answer);
  }

  /** Yields the keys with this prefix, in their order. Rejects with `S3Error` or `EgressError`. */
  async *list(prefix: string, signal: AbortSignal): AsyncGenerator<string, void> {
    for (let token: string | undefined = ""; token !== undefined; ) {
      const next: Readonly<Record<string, string>> = token === "" ? {} : { "continuation-token": token };
      const query: Readonly<Record<string, string>> = { ...next, "list-type": "2", prefix };
      const answer = await this.#send({ method: "GET", key: "", query, bytesMax: LIST_BYTES_MAX, signal });
      if (answer.status !== 200) throw new S3Error(answer);
      const text = answer.body.toString("utf8");
      for (const [, key = ""] of text.matchAll(/<Key>([^<]*)<\/Key>/g)) yield plainText(key);
      const [, following] = /<NextContinuationToken>([^<]+)<\/NextContinuationToken>/.exec(text) ?? [];
      token = following === undefined ? undefined : plainText(following);
    }
  }

  close(): void {
    this.#options.client.close();
  }

  async #send({ method, key, query = {}, headers = {}, body, bytesMax, signal }: S3Request): Promise<EgressAnswer> {
    const { endpoint, bucket, pathStyle, client } = this.#options;
    const url = new URL(endpoint);
    if (!pathStyle) url.hostname = `${bucket}.${endpoint.hostname}`;
    const folder = endpoint.pathname.replace(/\/$/, "");
    url.pathname = `${folder}${pathStyle ? `/${bucket}` : ""}${key === "" && pathStyle ? "" : `/${key}`}`;
    url.search = queryText(query);
    const { region, credentials, clock } = this.#options;
    const signed = signedHeaders({ method, url, headers, body }, { ...credentials(), region, nowMs: clock() });
    const sent = { method, url, headers: signed, body, signal, bodyBytesMax: bytesMax };
    return client.send({ ...sent, timeoutMs: TIMEOUT_MS, isRepeatable: method === "GET" });
  }
}

interface SignedRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | undefined;
}

interface Signer extends S3Credentials {
  readonly region: string;
  readonly nowMs: EpochMs;
}

/** Returns the headers with a signature: AWS Signature Version 4, over all of them, the URL and the body. */
export function signedHeaders({ method, url, headers, body = NO_BODY }: SignedRequest, signer: Signer) {
  const time = new Date(signer.nowMs).toISOString().replace(/[-:]|\.\d{3}/g, "");
  const day = time.slice(0, "YYYYMMDD".length);
  const bodyHash = sha256(body);
  const signed: Readonly<Record<string, string>> = {
    ...headers,
    "x-amz-content-sha256": bodyHash,
    "x-amz-date": time,
    ...(signer.sessionToken !== undefined && { "x-amz-security-token": signer.sessionToken }),
  };
  const all = Object.entries({ ...signed, host: url.host }).sort(([one], [other]) => (one < other ? -1 : 1));
  const names = all.map(([name]) => name).join(";");
  const lines = all.map(([name, value]) => `${name}:${value}\n`).join("");
  const request = [method, url.pathname, url.search.slice(1), lines, names, bodyHash].join("\n");
  const scope = [day, signer.region, "s3", "aws4_request"];
  const text = ["AWS4-HMAC-SHA256", time, scope.join("/"), sha256(request)].join("\n");
  const key = scope.reduce<string | Buffer>(hmac, `AWS4${signer.secret}`);
  const credential = [signer.id, ...scope].join("/");
  const signature = hmac(key, text).toString("hex");
  return {
    ...signed,
    authorization: `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`,
  };
}

const NO_BODY = new Uint8Array();

/** Returns true when an object is larger than the limit of its request. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof EgressError && error.failure === "too-large";
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

function hmac(key: string | Buffer, data: string): Buffer {
  return createHmac("sha256", key).update(data).digest();
}

/** The names are in their order, as the signature demands. */
function queryText(query: Readonly<Record<string, string>>): string {
  const encoded = (text: string): string =>
    encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
  return Object.entries(query)
    .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
    .join("&");
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function plainText(xml: string): string {
  return xml.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(amp|lt|gt|quot|apos));/gi, (_, hex, decimal, name) => {
    if (name !== undefined) return ENTITIES[String(name).toLowerCase()] ?? "";
    return String.fromCodePoint(Math.min(0x10_ff_ff, hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)));
  });
}

const CREDENTIALS_BYTES_MAX = 16_384;
const CREDENTIAL = /^[\x21-\x7e]+$/;

/**
 * Reads a file of credentials as AWS' tools write it: `aws_access_key_id`, `aws_secret_access_key` and, if they are temporary,
 * `aws_session_token`, each as `name = value`. Only one profile is read.
 *
 * @throws {Error} that says what is wrong, without a part of the text
 */
export function readS3Credentials(path: string): S3Credentials {
  const values = new Map<string, string>();
  for (const line of credentialsText(path).split("\n")) {
    const [, name, value] = /^\s*(aws_[a-z_]+)\s*=\s*(\S+)\s*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) continue;
    if (values.has(name)) throw new Error(`${name} appears twice: keep one profile`);
    values.set(name, value);
  }
  const [id, secret] = [values.get("aws_access_key_id"), values.get("aws_secret_access_key")];
  const sessionToken = values.get("aws_session_token");
  if (id === undefined || secret === undefined) throw new Error("needs aws_access_key_id and aws_secret_access_key");
  if (![id, secret, sessionToken ?? id].every((value) => CREDENTIAL.test(value)))
    throw new Error("holds characters that credentials cannot have");
  return { id, secret, sessionToken };
}

function credentialsText(path: string): string {
  let isReadable = false;
  try {
    const facts = statSync(path);
    // Reading a pipe would block the whole process.
    isReadable = facts.isFile() && facts.size <= CREDENTIALS_BYTES_MAX;
    if (isReadable) return readFileSync(path, "utf8");
  } catch {
    isReadable = false;
  }
  throw new Error("cannot be read");
}
