import { z } from "zod";
import type { Caller } from "../../core/types.ts";
import { hasDuplicateKeys } from "./reader.ts";
import { unauthenticated } from "./refusal.ts";

/** Of the file. */
export const REVOCATION_BYTES_MAX = 2_097_152;
const ENTRIES_MAX = 10_000;
const FAULTS_MAX = 5;

const text = z.string().min(1).max(512);
const note = z.string().max(512).optional();
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in lower-case hex");
const instant = z.iso.datetime({ offset: true, error: "must be a time such as 2026-05-01T12:00:00Z" });

/** Things that are not good any more. Which one an entry is, its keys say; `note` is for people. */
const byJti = z.strictObject({ issuer: text, jti: text, note });
const bySubject = z.strictObject({ issuer: text, subject: text, before: instant.optional(), note });
const byToken = z.strictObject({ tokenSha256: sha256, note });

const document = z.strictObject({ revoked: z.array(z.unknown()).max(ENTRIES_MAX) });

/** What is known of one token, or of a certificate that stands for its caller. */
interface Origin {
  /** SHA-256 of the whole token, base64, in each of its spellings; none of a certificate. */
  readonly digests: readonly string[];
  readonly jti: string | undefined;
  /** Milliseconds since 1970. */
  readonly issuedAtMs: number;
  /** Of the one who acts, where it is another than the caller's. */
  readonly actorIssuer?: string | undefined;
}

/** The same, in the words that a list is looked up by: made once, asked at every call. */
export interface Credential {
  readonly tokens: readonly string[];
  readonly jti: string | undefined;
  readonly subjects: readonly string[];
  readonly issuedAtMs: number;
}

/** Whoever is revoked does not act for others either; who acted before the present actor is history (RFC 8693, 4.1). */
export function credentialOf({ issuer, subject, actors }: Caller, origin: Origin): Credential {
  const { digests, jti, issuedAtMs, actorIssuer = issuer } = origin;
  const subjects = [pair(issuer, subject), ...actors.slice(0, 1).map((name) => pair(actorIssuer, name))];
  return { tokens: digests, jti: jti === undefined ? undefined : pair(issuer, jti), subjects, issuedAtMs };
}

/** Which tokens are refused although nothing in themselves is wrong. */
export interface RevocationList {
  readonly entries: number;
  /** @throws {Refusal} UNAUTHENTICATED naming the kind of entry that was met */
  assertGood(credential: Credential): void;
}

/** The list in a file's bytes; else why there is none, in operators' words. A list with one mistake is no list. */
export function readRevocations(bytes: Uint8Array): RevocationList | { readonly fault: string } {
  if (bytes.length > REVOCATION_BYTES_MAX) return { fault: `is over ${REVOCATION_BYTES_MAX} bytes` };
  const parsed = document.safeParse(parseJson(bytes));
  if (!parsed.success) return { fault: faultOf(parsed.error.issues.map(({ path }) => path.join("."))) };
  const list = new Revoked();
  const faults = parsed.data.revoked.flatMap((entry, index) => (list.add(entry) ? [] : [`revoked.${index}`]));
  return faults.length === 0 ? list : { fault: faultOf(faults) };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    const written = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    const value: unknown = JSON.parse(written);
    // The later of two would win, and what stands in the earlier would not be revoked.
    return hasDuplicateKeys(written, value) ? undefined : value;
  } catch {
    return undefined;
  }
}

function faultOf(faults: readonly string[]): string {
  const places = faults.slice(0, FAULTS_MAX).map((place) => place || "the whole");
  return `is not {"revoked": [{"issuer", "jti"} | {"issuer", "subject", "before"?} | {"tokenSha256"}]}: see ${places.join(", ")}`;
}

type Rule = "jti" | "subject" | "token";

class Revoked implements RevocationList {
  readonly #tokens = new Set<string>();
  readonly #jtis = new Set<string>();
  /** Until when, in milliseconds since 1970, a token of the subject must not have been issued. */
  readonly #subjects = new Map<string, number>();
  #entries = 0;

  get entries(): number {
    return this.#entries;
  }

  /** `false` when it is no entry. */
  add(entry: unknown): boolean {
    this.#entries += 1;
    if (typeof entry !== "object" || entry === null) return false;
    if ("tokenSha256" in entry) return this.#addToken(entry);
    return "jti" in entry ? this.#addJti(entry) : this.#addSubject(entry);
  }

  assertGood(credential: Credential): void {
    const rule = this.#ruleOf(credential);
    if (rule === undefined) return;
    throw unauthenticated("revoked", `revoked by its ${rule}`, undefined, { revokedBy: rule });
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

  /** Of several times for one subject the latest counts; without one, no token is good. */
  #addSubject(entry: object): boolean {
    const { data } = bySubject.safeParse(entry);
    if (data === undefined) return false;
    const key = pair(data.issuer, data.subject);
    const untilMs = data.before === undefined ? Number.POSITIVE_INFINITY : Date.parse(data.before);
    this.#subjects.set(key, Math.max(untilMs, this.#subjects.get(key) ?? Number.NEGATIVE_INFINITY));
    return true;
  }
}

/** The length in front keeps two pairs from being spelled alike. */
function pair(issuer: string, name: string): string {
  return `${issuer.length}:${issuer}${name}`;
}
