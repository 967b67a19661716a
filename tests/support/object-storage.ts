import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { s3Exporter } from "../../src/audit/export/object-storage.ts";
import type { Archive } from "../../src/audit/export/receiver.ts";

export const BUCKET = "audit-archive";

interface StorageRequest {
  readonly method: string;
  readonly key: string;
  readonly headers: Headers;
}

/**
 * Objects behind the requests that the archive sends: for faults that a server of others does not play. The fleet suite uses a
 * real server, which also judges the signatures.
 */
export class ObjectStorage {
  readonly objects = new Map<string, Buffer>();
  readonly requests: StorageRequest[] = [];
  /** Answers instead, when it returns an answer. */
  answer: (request: StorageRequest) => Response | Promise<Response> | undefined = () => undefined;
  readonly folder = mkdtempSync(join(tmpdir(), "stc-objects-"));
  readonly credentialsFile = join(this.folder, "credentials");
  readonly #server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: (incoming) => this.#handle(incoming) });
  readonly endpoint = `http://127.0.0.1:${this.#server.port}`;

  constructor() {
    writeFileSync(this.credentialsFile, "[default]\naws_access_key_id = AKID\naws_secret_access_key = secret\n");
  }

  open(more: { readonly prefix?: string; readonly intervalMs?: number } = {}): Archive {
    const settings = { endpoint: this.endpoint, bucket: BUCKET, credentialsFile: this.credentialsFile };
    return openArchive({ ...settings, ...more });
  }

  async stop(): Promise<void> {
    await this.#server.stop(true);
    rmSync(this.folder, { recursive: true });
  }

  async #handle(incoming: Request): Promise<Response> {
    const url = new URL(incoming.url);
    const key = decodeURIComponent(url.pathname).slice(`/${BUCKET}/`.length);
    const request = { method: incoming.method, key, headers: incoming.headers };
    const body = Buffer.from(await incoming.arrayBuffer());
    this.requests.push(request);
    const played = await this.answer(request);
    if (played !== undefined) return played;
    if (url.searchParams.has("list-type")) return this.#list(url.searchParams);
    const found = this.objects.get(key);
    if (incoming.method === "GET") return found === undefined ? failure(404, "NoSuchKey") : new Response(found);
    if (found !== undefined && incoming.headers.has("if-none-match")) return failure(412, "PreconditionFailed");
    this.objects.set(key, body);
    return new Response();
  }

  /** Two keys at a time. */
  #list(params: URLSearchParams): Response {
    const after = params.get("continuation-token") ?? "";
    const begin = params.get("prefix") ?? "";
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(begin) && key > after).sort();
    const page = keys.slice(0, 2);
    const next =
      keys.length > 2 ? `<NextContinuationToken>${Bun.escapeHTML(page.at(-1) ?? "")}</NextContinuationToken>` : "";
    return new Response(
      `<ListBucketResult>${page.map((key) => `<Key>${Bun.escapeHTML(key)}</Key>`).join("")}${next}</ListBucketResult>`,
    );
  }
}

export function failure(status: number, code: string): Response {
  return new Response(`<?xml version="1.0"?><Error><Code>${code}</Code></Error>`, { status });
}

/** The archive of an entry of `audit.export`. */
export function openArchive(written: Readonly<Record<string, unknown>>, clock: () => number = Date.now): Archive {
  const problems: string[] = [];
  const archive = s3Exporter.open(s3Exporter.settings.parse(written), {
    path: (path) => path,
    clock,
    problem: (setting, message) => problems.push(`${setting}: ${message}`),
  });
  if (archive === undefined) throw new Error(problems.join("\n"));
  return archive;
}
