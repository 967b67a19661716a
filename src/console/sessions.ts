import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { JournalLine } from "../audit/journal/journal.ts";
import { Refusal } from "../core/errors.ts";
import type { CallerContext, EpochMs } from "../core/types.ts";
import type { Exchange, PresentedSession, SessionSource } from "../http/endpoint.ts";
import type { PeerLimits } from "../http/request-guard.ts";

/** The header with the half of a session that the page keeps. */
export const KEY_HEADER = "stc-console-key";

/** Longest time that a session lasts. */
const SESSION_MS = 8 * 3_600_000;
const SESSIONS_MAX = 1_024;
const SESSIONS_PER_OPERATOR_MAX = 16;
/** Interval at which sessions that have ended are dropped, with their tokens. */
const SWEEP_EVERY_MS = 10_000;
/** A token is renewed when it is valid for less than this, or for less than half of its time. Some providers' last a minute. */
const RENEW_BEFORE_MS = 60_000;
/** Time until a failed renewal is tried again. */
const RENEW_RETRY_MS = 5_000;

const SECRET = /^[A-Za-z0-9_-]{43}$/;

export type SignedInBy = "token" | "link" | "oidc";
type SessionEnd = "signed_out" | "token_refused" | "expired" | "replaced" | "too_many";

/** Verified result of a sign-in. */
export interface OperatorToken {
  readonly token: string;
  readonly caller: CallerContext;
  /** Returns the next token; rejects when there is none now. Without it, the session ends with its token. */
  readonly renew?: (() => Promise<RenewableToken>) | undefined;
  /** Called when the session ends, so that the refresh token is revoked. */
  readonly discard?: (() => Promise<void>) | undefined;
}

export interface RenewableToken extends OperatorToken {
  readonly renew: () => Promise<RenewableToken>;
}

interface Session {
  readonly id: string;
  readonly keyHash: Buffer;
  readonly operator: string;
  readonly who: { readonly sub: string; readonly iss: string };
  grant: OperatorToken;
  readonly endsAtMs: EpochMs;
  renewing: Promise<void> | undefined;
  renewAfterMs: EpochMs;
}

/** The two halves of a new session, which exist nowhere else: the cookie's value, and the key of the page. */
export interface NewSession {
  readonly id: string;
  readonly key: string;
  readonly endsAtMs: EpochMs;
}

interface SessionsOptions {
  readonly cookieName: string;
  readonly isOwnOrigin: NonNullable<PeerLimits["isOwnOrigin"]>;
  readonly clock: () => EpochMs;
  readonly journal: (line: JournalLine) => Promise<void>;
  readonly logError: (error: unknown) => void;
}

/** Returns a random secret of 256 bits. */
export function newSecret(): string {
  return randomBytes(32).toString("base64url");
}

/** The sessions of the console, in the memory of this process. Only hashes of their halves are kept. */
export class Sessions implements SessionSource {
  readonly #options: SessionsOptions;
  /** By the hash of the id, the oldest first. */
  readonly #sessions = new Map<string, Session>();
  readonly #sweeping: NodeJS.Timeout;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#sweeping = setInterval(() => this.#sweep(), SWEEP_EVERY_MS);
    this.#sweeping.unref();
  }

  /** Returns the number of sessions that have not ended. */
  get size(): number {
    const now = this.#options.clock();
    return [...this.#sessions.values()].filter((session) => now < endOf(session)).length;
  }

  close(): void {
    clearInterval(this.#sweeping);
    this.#sessions.clear();
  }

  /** Opens a session and ends the one whose cookie the request carries, if any. Resolves when the sign-in is recorded. */
  async open(request: Exchange["raw"], grant: OperatorToken, by: SignedInBy): Promise<NewSession> {
    const { subject: sub, issuer: iss } = grant.caller;
    const presented = this.#cookieOf(request);
    if (presented !== undefined) await this.#end(this.#sessions.get(hashOf(presented)), "replaced");
    await this.#options.journal({ type: "console.signedIn", sub, iss, by });
    const now = this.#options.clock();
    const [id, key] = [newSecret(), newSecret()];
    const session: Session = {
      id: hashOf(id),
      keyHash: Buffer.from(hashOf(key)),
      operator: JSON.stringify([iss, sub]),
      who: { sub, iss },
      grant,
      endsAtMs: now + SESSION_MS,
      renewing: undefined,
      renewAfterMs: renewalOf(grant, now),
    };
    // Nothing may happen between the two: sign-ins at the same time would all find the same room.
    const ended = this.#makeRoom(session.operator);
    this.#sessions.set(session.id, session);
    await ended;
    return { id, key, endsAtMs: endOf(session) };
  }

  async present(request: Exchange["raw"]): Promise<PresentedSession | undefined> {
    const { headers, method } = request;
    const key = headers[KEY_HEADER];
    const id = this.#cookieOf(request);
    if (key === undefined && id === undefined) return undefined;
    if (headers.authorization !== undefined) {
      throw new Refusal("MALFORMED_REQUEST", "Send either a token or a session of the console, not both.");
    }
    this.assertOwnPage(request, method === "GET" || method === "HEAD" ? "read" : "change");
    const session = this.#find(id, key);
    if (session === undefined) throw signInAgain();
    await this.#renew(session);
    if (!this.#isOpen(session)) throw signInAgain();
    return {
      authorization: `Bearer ${session.grant.token}`,
      endsAtMs: endOf(session),
      end: (why) => this.#end(session, why),
    };
  }

  /**
   * Checks that the console's own page sent the request. Browsers set both headers, and pages cannot change them.
   *
   * @throws {Refusal} HOST_NOT_ALLOWED
   */
  assertOwnPage(request: Exchange["raw"], kind: "read" | "change"): void {
    const { origin, "sec-fetch-site": site } = request.headers;
    const isOwnOrigin = kind === "read" || (origin !== undefined && this.#options.isOwnOrigin(origin, request));
    if (isOwnOrigin && site === "same-origin") return;
    throw new Refusal(
      "HOST_NOT_ALLOWED",
      "Sessions of the console are for its own page. Other programs send a token: Authorization: Bearer <token>.",
    );
  }

  /** Returns the session of which both halves are presented. */
  #find(id: string | undefined, key: string | string[] | undefined): Session | undefined {
    if (id === undefined || typeof key !== "string" || !SECRET.test(key)) return undefined;
    const session = this.#sessions.get(hashOf(id));
    if (session === undefined || !timingSafeEqual(session.keyHash, Buffer.from(hashOf(key)))) return undefined;
    if (this.#options.clock() < endOf(session)) return session;
    void this.#end(session, "expired");
    return undefined;
  }

  /** @throws {Refusal} MALFORMED_REQUEST when the cookie appears twice: another server of the same host may have set one */
  #cookieOf({ headers }: Exchange["raw"]): string | undefined {
    const values = cookieValues(headers.cookie, this.#options.cookieName);
    if (values.length > 1) throw new Refusal("MALFORMED_REQUEST", "The console's cookie appears twice.");
    const [value] = values;
    return value !== undefined && SECRET.test(value) ? value : undefined;
  }

  async #renew(session: Session): Promise<void> {
    const { clock, logError } = this.#options;
    const { renew, caller } = session.grant;
    if (renew === undefined || clock() < session.renewAfterMs) return;
    session.renewing ??= renew()
      .then(async (grant) => {
        const isSame = grant.caller.subject === caller.subject && grant.caller.issuer === caller.issuer;
        if (isSame && this.#isOpen(session)) {
          session.grant = grant;
          session.renewAfterMs = renewalOf(grant, clock());
          return;
        }
        await grant.discard?.();
        if (!isSame) throw new Error("the renewed token is for somebody else");
      })
      .catch((error: unknown) => {
        session.renewAfterMs = clock() + RENEW_RETRY_MS;
        logError(new Error("a token was not renewed", { cause: error }));
      })
      .finally(() => {
        session.renewing = undefined;
      });
    await session.renewing;
  }

  /** Returns whether the session has not ended, which may happen while its token is renewed. */
  #isOpen(session: Session): boolean {
    return this.#sessions.get(session.id) === session;
  }

  /** Ends the oldest sessions that are in the way of one more, at once; resolves when that is recorded. */
  async #makeRoom(operator: string): Promise<void> {
    const all = [...this.#sessions.values()];
    const own = all.filter((session) => session.operator === operator);
    const [oldest] = own.length >= SESSIONS_PER_OPERATOR_MAX ? own : all;
    const isFull = own.length >= SESSIONS_PER_OPERATOR_MAX || all.length >= SESSIONS_MAX;
    if (isFull) await this.#end(oldest, "too_many");
  }

  /** Ends the session at once; resolves when that is recorded. Rejects only when a person's own sign-out was not. */
  async #end(session: Session | undefined, why: SessionEnd): Promise<void> {
    if (session === undefined || !this.#sessions.delete(session.id)) return;
    const { journal, logError } = this.#options;
    session.grant.discard?.().catch((error: unknown) => {
      logError(new Error("a refresh token was not revoked", { cause: error }));
    });
    await journal({ type: "console.signedOut", ...session.who, why }).catch((error: unknown) => {
      if (why === "signed_out") throw error;
      logError(error);
    });
  }

  #sweep(): void {
    const now = this.#options.clock();
    for (const session of [...this.#sessions.values()]) {
      if (now >= endOf(session)) void this.#end(session, "expired");
    }
  }
}

/** Returns when a token that was issued now is to be renewed. */
function renewalOf({ caller }: OperatorToken, now: EpochMs): EpochMs {
  const endsAtMs = caller.expiresAt * 1_000;
  return endsAtMs - Math.min(RENEW_BEFORE_MS, (endsAtMs - now) / 2);
}

function endOf({ endsAtMs, grant }: Session): EpochMs {
  const { renew, caller } = grant;
  return renew === undefined ? Math.min(endsAtMs, caller.expiresAt * 1_000) : endsAtMs;
}

/** Returns the values of the cookies with this name. */
export function cookieValues(header: string | undefined, name: string): readonly string[] {
  if (header === undefined) return [];
  return header.split(";").flatMap((pair) => {
    const text = pair.trim();
    return text.startsWith(`${name}=`) ? [text.slice(name.length + 1)] : [];
  });
}

export function hashOf(secret: string): string {
  return createHash("sha256").update(secret).digest("base64url");
}

function signInAgain(): Refusal {
  return new Refusal("UNAUTHENTICATED", "This session of the console has ended, or a half of it is missing: sign in.");
}

const LINK_MS = 60_000;
const LINKS_MAX = 64;

/** One-time links that open a session with a token. Each can be used once, for a minute. */
export class Links {
  readonly #clock: () => EpochMs;
  /** By the hash of the link's secret, the oldest first. */
  readonly #tokens = new Map<string, { readonly token: string; readonly untilMs: EpochMs }>();

  constructor(clock: () => EpochMs) {
    this.#clock = clock;
  }

  create(token: string): string {
    const [oldest] = this.#tokens.keys();
    if (oldest !== undefined && this.#tokens.size >= LINKS_MAX) this.#tokens.delete(oldest);
    const link = newSecret();
    this.#tokens.set(hashOf(link), { token, untilMs: this.#clock() + LINK_MS });
    return link;
  }

  /** Returns the token of a link that is used for the first time, and in time. */
  redeem(link: string): string | undefined {
    const hash = hashOf(link);
    const found = this.#tokens.get(hash);
    this.#tokens.delete(hash);
    return found !== undefined && this.#clock() < found.untilMs ? found.token : undefined;
  }
}
