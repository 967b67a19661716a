import { z } from "zod";
import { BOUNDED_TEXT_LIMITS, parseStrictJson } from "../../core/strict-json.ts";
import type { CallerContext } from "../../core/types.ts";
import { unauthenticated } from "./refusal.ts";

/** Maximum size of the revocation file. */
export const REVOCATION_BYTES_MAX = 2_097_152;
const ENTRIES_MAX = 10_000;
const PROBLEMS_MAX = 5;

const text = z.string().min(1).max(512);
const note = z.string().max(512).optional();
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in lower-case hex");
const instant = z.iso.datetime({ offset: true, error: "must be a time such as 2026-05-01T12:00:00Z" });

/** Revoked tokens and subjects. The keys of an entry determine its kind; `note` is for people. */
const byJti = z.strictObject({ issuer: text, jti: text, note });
const bySubject = z.strictObject({ issuer: text, subject: text, before: instant.optional(), note });
const byToken = z.strictObject({ tokenSha256: sha256, note });

const document = z.strictObject({ revoked: z.array(z.unknown()).max(ENTRIES_MAX) });

/** The properties of one token, or of a certificate that identifies its caller. */
export interface TokenOrigin {
  /** SHA-256 of the whole token in each of its spellings, base64; empty for a certificate. */
  readonly digests: readonly string[];
  readonly jti: string | undefined;
  /** Milliseconds since 1970. */
  readonly issuedAtMs: number;
  /** The actor's issuer, when it differs from the caller's. */
  readonly actorIssuer?: string | undefined;
}

/** The properties of a credential as lookup keys of a list: built once, used at every call. */
export interface Credential {
  readonly tokens: readonly string[];
  readonly jti: string | undefined;
  readonly subjects: readonly string[];
  readonly issuedAtMs: number;
}

/**
 * Returns the lookup keys. A revoked subject cannot act for others either; actors before the current one are only history (RFC
 * 8693, 4.1).
 */
export function credentialOf({ issuer, subject, actors }: CallerContext, origin: TokenOrigin): Credential {
  const { digests, jti, issuedAtMs, actorIssuer = issuer } = origin;
  const subjects = [pair(issuer, subject), ...actors.slice(0, 1).map((name) => pair(actorIssuer, name))];
  return { tokens: digests, jti: jti === undefined ? undefined : pair(issuer, jti), subjects, issuedAtMs };
}

/** The tokens that are refused although they are valid in themselves. */
export interface RevocationList {
  readonly entries: number;
  /** @throws {Refusal} UNAUTHENTICATED naming the kind of the matching entry */
  assertNotRevoked(credential: Credential): void;
}

/**
 * Reads the list from a file's bytes; otherwise returns why the file is unusable, for operators. One invalid entry makes the list
 * invalid.
 */
export function readRevocations(bytes: Uint8Array): RevocationList | { readonly problem: string } {
  if (bytes.length > REVOCATION_BYTES_MAX) return { problem: `is over ${REVOCATION_BYTES_MAX} bytes` };
  const parsed = document.safeParse(parseJson(bytes));
  if (!parsed.success) return { problem: problemOf(parsed.error.issues.map(({ path }) => path.join("."))) };
  const list = new Revoked();
  const problems = parsed.data.revoked.flatMap((entry, index) => (list.add(entry) ? [] : [`revoked.${index}`]));
  return problems.length === 0 ? list : { problem: problemOf(problems) };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    // A lenient reader keeps the later duplicate: the entries of the earlier one would not be revoked.
    return parseStrictJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes), BOUNDED_TEXT_LIMITS);
  } catch {
    return undefined;
  }
}

function problemOf(problems: readonly string[]): string {
  const paths = problems.slice(0, PROBLEMS_MAX).map((path) => path || "the whole");
  return `is not {"revoked": [{"issuer", "jti"} | {"issuer", "subject", "before"?} | {"tokenSha256"}]}: see ${paths.join(", ")}`;
}

type Rule = "jti" | "subject" | "token";

class Revoked implements RevocationList {
  readonly #tokens = new Set<string>();
  readonly #jtis = new Set<string>();
  /** Maps a subject to a time in milliseconds since 1970: tokens issued before it are revoked. */
  readonly #subjects = new Map<string, number>();
  #entries = 0;

  get entries(): number {
    return this.#entries;
  }

  /** Returns false when the value is not a valid entry. */
  add(entry: unknown): boolean {
    this.#entries += 1;
    if (typeof entry !== "object" || entry === null) return false;
    if ("tokenSha256" in entry) return this.#addToken(entry);
    return "jti" in entry ? this.#addJti(entry) : this.#addSubject(entry);
  }

  assertNotRevoked(credential: Credential): void {
    const rule = this.#ruleOf(credential);
    if (rule === undefined) return;
    throw unauthenticated("revoked", `revoked by its ${rule}`, undefined, { details: { revokedBy: rule } });
  }

  #ruleOf({ tokens, jti, subjects, issuedAtMs }: Credential): Rule | undefined {
    if (tokens.some((token) => this.#tokens.has(token))) return "token";
    if (jti !== undefined && this.#jtis.has(jti)) return "jti";
    for (const subject of subjects) {
      if (issuedAtMs < (this.#subjects.get(subject) ?? Number.NEGATIVE_INFINITY)) return "subject";
    }
    return undefined;
  }

  #addToken(entry: object): boolean {
    const { data } = byToken.safeParse(entry);
    if (data !== undefined) this.#tokens.add(Buffer.from(data.tokenSha256, "hex").toString("base64"));
    return data !== undefined;
  }

  #addJti(entry: object): boolean {
    const { data } = byJti.safeParse(entry);
    if (data !== undefined) this.#jtis.add(pair(data.issuer, data.jti));
    return data !== undefined;
  }

  /**
   * Adds an entry for a subject. Of several times for one subject, the latest applies; an entry without a time revokes all
   * tokens.
   */
  #addSubject(entry: object): boolean {
    const { data } = bySubject.safeParse(entry);
    if (data === undefined) return false;
    const key = pair(data.issuer, data.subject);
    const untilMs = data.before === undefined ? Number.POSITIVE_INFINITY : Date.parse(data.before);
    this.#subjects.set(key, Math.max(untilMs, this.#subjects.get(key) ?? Number.NEGATIVE_INFINITY));
    return true;
  }
}

/** Returns a key for a pair. The length prefix prevents two pairs from having the same key. */
function pair(issuer: string, name: string): string {
  return `${issuer.length}:${issuer}${name}`;
}
