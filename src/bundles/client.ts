import { OPERATED_ADDRESSES } from "../egress/addresses.ts";
import { EgressClient, type EgressTls } from "../egress/client.ts";
import { egressReason } from "../egress/request.ts";
import { ARCHIVE_BYTES_MAX } from "./archive.ts";
import { BundleError } from "./bundle-error.ts";

/** Time for an answer, in addition to that of a long poll. */
const ANSWER_MS = 20_000;
const SECOND_MS = 1_000;
const OK = 200;
const NOT_MODIFIED = 304;
/** Name of the file next to the bundle that says which one is current. */
export const TIMESTAMP_FILE = "timestamp.json";

export interface BundleAddress {
  /** URL of the bundle. */
  readonly url: URL;
  /** Reads the files of certificates and of the token, for each request. @throws {Error} */
  readonly credentials: () => { readonly tls: EgressTls | undefined; readonly token: string | undefined };
}

export interface Wanted {
  /** Validator of the answer that is known; the server then waits up to `waitSeconds` for another one. */
  readonly etag?: string | undefined;
  readonly waitSeconds?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Fetched {
  /** Undefined when the file has not changed. */
  readonly body: Buffer | undefined;
  readonly etag: string | undefined;
  /** Whether the server holds requests until there is something new (`Preference-Applied`, RFC 7240). */
  readonly holds: boolean;
}

/** Fetches one of the two files. @throws {BundleError} */
export async function fetchFile(
  { url, credentials }: BundleAddress,
  file: "bundle" | "timestamp",
  { etag, waitSeconds = 0, signal }: Wanted = {},
): Promise<Fetched> {
  const { tls, token } = credentials();
  // A kept connection would keep former certificates, and would be closed by most servers between two polls.
  const client = new EgressClient({ addresses: OPERATED_ADDRESSES, keepsConnections: false, tls });
  try {
    const { status, headers, body } = await client.send({
      method: "GET",
      url: file === "bundle" ? url : new URL(TIMESTAMP_FILE, url),
      headers: {
        ...(etag !== undefined && { "if-none-match": etag }),
        ...(etag !== undefined && waitSeconds > 0 && { prefer: `modes=snapshot;wait=${waitSeconds}` }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      timeoutMs: ANSWER_MS + waitSeconds * SECOND_MS,
      bodyBytesMax: ARCHIVE_BYTES_MAX,
      signal,
      isRepeatable: true,
    });
    const holds = /^wait\b/.test(String(headers["preference-applied"] ?? ""));
    if (status === NOT_MODIFIED && etag !== undefined) return { body: undefined, etag, holds };
    if (status !== OK)
      throw new BundleError("unreachable", `the server answered with status ${status} for the ${file}`);
    return { body, etag: headers.etag, holds };
  } catch (error) {
    if (error instanceof BundleError) throw error;
    throw new BundleError("unreachable", `the ${file} cannot be fetched (${egressReason(error)})`);
  } finally {
    client.close();
  }
}
