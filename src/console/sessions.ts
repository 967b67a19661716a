import { createHash, timingSafeEqual } from "node:crypto";
import type { JournalLine } from "../audit/journal/journal.ts";
import { Refusal } from "../core/errors.ts";
import type { CallerContext, EpochMs } from "../core/types.ts";
import type { Exchange, PresentedSession, SessionSource } from "../http/endpoint.ts";
import type { PeerLimits } from "../http/request-guard.ts";
import { authenticated, isAuthenticated, keyFrom, newSecret, seal, secretIn, unseal } from "./sealing.ts";
import type { SessionRow, SessionRows } from "./session-rows.ts";
import type { SharedSecret } from "./shared-secret.ts";

/** The header with the half of a session that the page keeps. */
export const KEY_HEADER = "stc-console-key";

/** Longest time that a session lasts. */
const SESSION_MS = 8 * 3_600_000;
/** Interval at which sessions that have ended are dropped. */
const SWEEP_EVERY_MS = 10_000;
/** A token is renewed when it is valid for less than this, or for less than half of its time. Some providers' last a minute. */
const RENEW_BEFORE_MS = 60_000;
/** Time until a failed renewal is tried again. */
const RENEW_RETRY_MS = 5_000;
/** Longest time that a renewal takes, from the provider's metadata to its keys: afterwards, another replica tries. */
const RENEW_LEASE_MS = 30_000;
/** Interval at which a replica looks whether another one has renewed a token that has expired. */
const RENEW_POLL_MS = 100;
const RETRY_AFTER_MS = 5_000;
/** Interval at which tokens are stored that the database has not taken. */
const STORE_RETRY_MS = 250;
const NEVER = Number.MAX_SAFE_INTEGER;

const COOKIE_USE = "cookie";
const SECRET = /^[A-Za-z0-9_-]{43}$/;

export type SignedInBy = "token" | "link" | "oidc";
type SessionEnd = "signed_out" | "token_refused" | "expired" | "replaced" | "too_many" | "unreadable";

/** Verified result of a sign-in. */
export interface OperatorToken {
  readonly token: string;
  readonly caller: CallerContext;
  /** Renews the token. Without it, the session ends with its token. */
  readonly refreshToken?: string | undefined;
}

/** The provider that issued a refresh token. */
export interface Refreshing {
  /** Returns the next token; rejects when there is none now, with `RotatedToken` when only the refresh token is a new one. */
  renew(refreshToken: string): Promise<OperatorToken>;
  /** Revokes the token when its session has ended. */
  revoke(refreshToken: string): Promise<void>;
}

/** The provider has replaced the refresh token, but its access token could not be verified. */
export class RotatedToken extends Error {
  readonly refreshToken: string;

  constructor(refreshToken: string, cause: unknown) {
    super("the access token was not verified", { cause });
    this.refreshToken = refreshToken;
  }
}

/** The encrypted content of a row. */
interface Content {
  readonly keyHash: string;
  readonly token: string;
  /** Expiry of the token, in seconds since 1970. */
  readonly expiresAt: number;
  readonly refreshToken?: string | undefined;
}

/** A session whose cookie was presented. */
interface Session {
  readonly id: string;
  readonly row: SessionRow;
  readonly content: Content;
}

/** The two halves of a new session, which exist nowhere else: the cookie's value, and the key of the page. */
export interface NewSession {
  readonly cookie: string;
  readonly key: string;
  readonly endsAtMs: EpochMs;
}

interface SessionsOptions {
  readonly cookieName: string;
  readonly isOwnOrigin: NonNullable<PeerLimits["isOwnOrigin"]>;
  readonly clock: () => EpochMs;
  readonly journal: (line: JournalLine) => Promise<void>;
  readonly logError: (error: unknown) => void;
  readonly rows: SessionRows;
  /** Tells cookies of any replica from made-up ones, which cause no read. */
  readonly secret: SharedSecret;
  /** Renews and revokes refresh tokens; sign-ins without a provider have none. */
  readonly refreshing: Refreshing;
}

/**
 * The sessions of the console, in rows that all replicas share. A row is found by the hash of the cookie, and opens with a key
 * from the cookie, so that the database reveals no token.
 */
export class Sessions implements SessionSource {
  readonly #options: SessionsOptions;
  /** Renewals under way in this process, by the hash of the id. */
  readonly #renewing = new Map<string, Promise<Session | undefined>>();
  /** Refresh tokens that this process has seen, to revoke those of sessions that end without their cookie. */
  readonly #refreshTokens = new Map<string, { readonly refreshToken: string; readonly endsAt: EpochMs }>();
  /**
   * Sessions, by the hash of the id, with a token that the database has not taken, and the content before. The provider may accept
   * only this refresh token: it revokes a session whose former one it sees again.
   */
  readonly #unstored = new Map<string, { readonly session: Session; readonly before: string }>();
  #storing: NodeJS.Timeout | undefined;
  readonly #sweeping: NodeJS.Timeout;
  #size = 0;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#sweeping = setInterval(() => void this.#sweep().catch(options.logError), SWEEP_EVERY_MS);
    this.#sweeping.unref();
  }

  /** Returns the number of sessions, as of the last change or sweep of this process. */
  get size(): number {
    return this.#size;
  }

  close(): void {
    clearInterval(this.#sweeping);
    clearTimeout(this.#storing);
  }

  /** Opens a session and ends the one whose cookie the request carries, if any. Resolves when the sign-in is recorded. */
  async open(request: Exchange["raw"], grant: OperatorToken, by: SignedInBy): Promise<NewSession> {
    const { subject, issuer, tenant } = grant.caller;
    const { journal, logError, clock, rows, secret } = this.#options;
    const now = clock();
    const [id, key] = [newSecret(), newSecret()];
    const content = contentOf(grant, hashOf(key));
    const isRenewed = grant.refreshToken !== undefined;
    const endsAtMs = Math.floor(isRenewed ? now + SESSION_MS : Math.min(now + SESSION_MS, content.expiresAt * 1_000));
    const facts = { idHash: hashOf(id), issuer, subject, tenant, endsAt: endsAtMs };
    const row = { ...facts, renewAt: renewalOf(content, now), sealed: sealed(id, facts, content) };
    this.#remember(row, content);
    let cookie: string;
    try {
      cookie = authenticated(await available(secret.keyFor(COOKIE_USE)), id);
      const presented = await this.#idOf(this.#cookieOf(request));
      const replaced = presented && hashOf(presented);
      for (const one of await available(rows.add(row, replaced))) {
        const isReplaced = presented !== undefined && one.idHash === replaced;
        if (isReplaced) await this.#ended(one, contentIn(presented, one)?.refreshToken, "replaced");
        else await this.#ended(one, undefined, "too_many");
      }
      await journal({ type: "console.signedIn", ...personIn(facts), by });
    } catch (error) {
      this.#refreshTokens.delete(row.idHash);
      this.#revoke(grant.refreshToken);
      await rows.remove(row.idHash).catch(logError);
      throw error;
    }
    await this.#count();
    return { cookie, key, endsAtMs };
  }

  async present(request: Exchange["raw"]): Promise<PresentedSession | undefined> {
    const { headers, method } = request;
    const key = headers[KEY_HEADER];
    const cookie = this.#cookieOf(request);
    if (key === undefined && cookie === undefined) return undefined;
    if (headers.authorization !== undefined) {
      throw new Refusal("MALFORMED_REQUEST", "Send either a token or a session of the console, not both.");
    }
    this.assertOwnPage(request, method === "GET" || method === "HEAD" ? "read" : "change");
    if (cookie === undefined || typeof key !== "string" || !SECRET.test(key)) throw signInAgain();
    const id = await this.#idOf(cookie);
    if (id === undefined) throw signInAgain();
    const found = await this.#find(id);
    if (found === undefined || !isSameHash(found.content.keyHash, hashOf(key))) throw signInAgain();
    const session = await this.#renewed(found);
    if (session === undefined) throw signInAgain();
    return {
      authorization: `Bearer ${session.content.token}`,
      endsAtMs: session.row.endsAt,
      end: (why) => this.#end(id, why),
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

  /** Returns the open session of a cookie. A row that does not open with it was changed, and is removed. */
  async #find(id: string): Promise<Session | undefined> {
    const row = await available(this.#options.rows.find(hashOf(id)));
    if (row === undefined) return undefined;
    const content = contentIn(id, row);
    if (content !== undefined && this.#options.clock() < row.endsAt) {
      this.#remember(row, content);
      return { id, row, content };
    }
    await this.#end(id, content === undefined ? "unreadable" : "expired");
    return undefined;
  }

  /** @throws {Refusal} MALFORMED_REQUEST when the cookie appears twice: another server of the same host may have set one */
  #cookieOf({ headers }: Exchange["raw"]): string | undefined {
    const values = cookieValues(headers.cookie, this.#options.cookieName);
    if (values.length > 1) throw new Refusal("MALFORMED_REQUEST", "The console's cookie appears twice.");
    const [value] = values;
    return value !== undefined && isAuthenticated(value) ? value : undefined;
  }

  /** Returns the id in a cookie's value; undefined for one that no replica has made. */
  async #idOf(cookie: string | undefined): Promise<string | undefined> {
    if (cookie === undefined) return undefined;
    return available(this.#options.secret.tried(COOKIE_USE, (key) => secretIn(key, cookie)));
  }

  /** Returns the session with a token that is valid for a while; undefined when the session has ended meanwhile. */
  async #renewed(session: Session): Promise<Session | undefined> {
    const { row, content } = session;
    const now = this.#options.clock();
    if (content.refreshToken === undefined) return session;
    if (now < row.renewAt && now < content.expiresAt * 1_000) return session;
    const running = this.#renewing.get(row.idHash) ?? this.#renewOnce(session);
    this.#renewing.set(row.idHash, running);
    const renewed = await running;
    // An expired token would end the session, which may go on when the provider answers again.
    if (renewed !== undefined && this.#isExpired(renewed)) throw unavailable(new Error("the token was not renewed"));
    return renewed;
  }

  #isExpired({ content }: Session): boolean {
    return content.expiresAt * 1_000 <= this.#options.clock();
  }

  /** Renews the token, or waits until another replica has: that one may fail or stop. Nobody waits while the token is valid. */
  async #renewOnce(session: Session): Promise<Session | undefined> {
    const { id, row } = session;
    try {
      let found: Session | undefined = session;
      for (let poll = 0; found !== undefined; poll += 1) {
        const claimed = await this.#claimed(found);
        if (claimed !== undefined) return await this.#renew(claimed);
        if (!this.#isExpired(found) || poll * RENEW_POLL_MS >= RENEW_LEASE_MS) break;
        await new Promise((resolve) => setTimeout(resolve, RENEW_POLL_MS));
        found = await this.#find(id);
      }
      return found;
    } finally {
      this.#renewing.delete(row.idHash);
    }
  }

  /** Returns the session when its renewal is due and no other replica renews it now. */
  async #claimed({ id, row }: Session): Promise<Session | undefined> {
    const { rows, clock } = this.#options;
    const now = Math.floor(clock());
    const claimed = row.renewAt <= now ? await available(rows.claimRenewal(row, now + RENEW_LEASE_MS)) : undefined;
    const content = claimed && contentIn(id, claimed);
    return claimed && content && { id, row: claimed, content };
  }

  /** Returns the session as it is after the attempt; undefined when it has ended, or the provider has refused to go on with it. */
  async #renew(claimed: Session): Promise<Session | undefined> {
    const { rows, clock, logError, refreshing } = this.#options;
    const { id, row, content } = claimed;
    const unstored = this.#unstored.get(row.idHash);
    try {
      if (unstored !== undefined) return await this.#store(unstored.session, unstored.before);
      return await this.#stored(claimed, await refreshing.renew(content.refreshToken ?? ""));
    } catch (error) {
      logError(new Error("a token was not renewed", { cause: error }));
      const retryAt = Math.floor(clock()) + RENEW_RETRY_MS;
      if (error instanceof RotatedToken) {
        await this.#store(withContent(claimed, { ...content, refreshToken: error.refreshToken }, retryAt), row.sealed);
      }
      const isMine = error instanceof RotatedToken || (await available(rows.postponeRenewal(row, retryAt)));
      const reason = error instanceof RotatedToken ? error.cause : error;
      const isRefused = reason instanceof Refusal && reason.code === "UNAUTHENTICATED";
      if (isMine && isRefused && this.#isExpired(claimed)) await this.#end(id, "token_refused");
      return this.#find(id);
    }
  }

  async #stored(claimed: Session, grant: OperatorToken): Promise<Session | undefined> {
    const { row, content } = claimed;
    const { subject, issuer, tenant } = grant.caller;
    if (subject !== row.subject || issuer !== row.issuer || tenant !== row.tenant) {
      this.#revoke(grant.refreshToken);
      throw signInAgain(new Error("the renewed token is for somebody else"));
    }
    const next = contentOf(grant, content.keyHash);
    return this.#store(withContent(claimed, next, renewalOf(next, this.#options.clock())), row.sealed);
  }

  /** Stores a session with its next token. While the database does not take it, the session is kept to be stored later. */
  async #store(session: Session, before: string): Promise<Session | undefined> {
    const { id, row, content } = session;
    const isStored = await available(this.#options.rows.replace(row, before)).catch((error: unknown) => {
      this.#unstored.set(row.idHash, { session, before });
      this.#storeLater();
      throw error;
    });
    this.#unstored.delete(row.idHash);
    if (isStored) {
      this.#remember(row, content);
      return session;
    }
    // The session has ended meanwhile, this took too long and another replica has renewed it, or a write that failed was made.
    const found = await this.#find(id);
    if (found === undefined) this.#revoke(content.refreshToken);
    return found;
  }

  #storeLater(): void {
    this.#storing ??= setTimeout(() => {
      this.#storing = undefined;
      void this.#storeAll();
    }, STORE_RETRY_MS).unref();
  }

  async #storeAll(): Promise<void> {
    try {
      for (const { session, before } of this.#unstored.values()) await this.#store(session, before);
    } catch {
      this.#storeLater();
    }
  }

  /** Ends the session at once; resolves when that is recorded. Rejects only when a person's own sign-out was not. */
  async #end(id: string, why: SessionEnd): Promise<void> {
    const row = await available(this.#options.rows.remove(hashOf(id)));
    if (row === undefined) return;
    await this.#ended(row, contentIn(id, row)?.refreshToken, why);
    await this.#count();
  }

  async #ended(row: SessionRow, refreshToken: string | undefined, why: SessionEnd): Promise<void> {
    const { journal, logError } = this.#options;
    const unstored = this.#unstored.get(row.idHash)?.session.content.refreshToken;
    const known = unstored ?? refreshToken ?? this.#refreshTokens.get(row.idHash)?.refreshToken;
    this.#unstored.delete(row.idHash);
    this.#refreshTokens.delete(row.idHash);
    this.#revoke(known);
    const line = { type: "console.signedOut", ...personIn(row), why } as const;
    await journal(line).catch((error: unknown) => {
      if (why === "signed_out") throw error;
      logError(error);
    });
  }

  #revoke(refreshToken: string | undefined): void {
    const { refreshing, logError } = this.#options;
    if (refreshToken === undefined) return;
    refreshing.revoke(refreshToken).catch((error: unknown) => {
      logError(new Error("a refresh token was not revoked", { cause: error }));
    });
  }

  #remember({ idHash, endsAt }: SessionRow, { refreshToken }: Content): void {
    if (refreshToken !== undefined) this.#refreshTokens.set(idHash, { refreshToken, endsAt });
  }

  async #sweep(): Promise<void> {
    for (const row of await this.#options.rows.removeExpired()) await this.#ended(row, undefined, "expired");
    const now = this.#options.clock();
    for (const [idHash, { endsAt }] of this.#refreshTokens) if (endsAt <= now) this.#refreshTokens.delete(idHash);
    await this.#count();
  }

  /** A count that cannot be read leaves the last one: it is for the metrics. */
  async #count(): Promise<void> {
    this.#size = await this.#options.rows.count().catch(() => this.#size);
  }
}

function contentOf({ token, caller, refreshToken }: OperatorToken, keyHash: string): Content {
  return { keyHash, token, expiresAt: caller.expiresAt, refreshToken };
}

/** The facts of the row that its content is bound to: changed in the database, the content does not open. */
function boundTo({
  idHash,
  issuer,
  subject,
  tenant,
  endsAt,
}: Pick<SessionRow, "idHash" | "issuer" | "subject" | "tenant" | "endsAt">) {
  return JSON.stringify([idHash, issuer, subject, endsAt, ...(tenant === undefined ? [] : [tenant])]);
}

/** The person as a line of the journal names it. The line itself is the service's: its member `tenant` is not this one. */
function personIn({ issuer, subject, tenant }: Pick<SessionRow, "issuer" | "subject" | "tenant">) {
  return { sub: subject, iss: issuer, ...(tenant !== undefined && { operatorTenant: tenant }) };
}

function sealed(id: string, row: Parameters<typeof boundTo>[0], content: Content): string {
  return seal(keyFrom(id, "session"), JSON.stringify(content), boundTo(row));
}

function withContent({ id, row }: Session, content: Content, renewAt: EpochMs): Session {
  return { id, row: { ...row, sealed: sealed(id, row, content), renewAt }, content };
}

function contentIn(id: string, row: SessionRow): Content | undefined {
  const opened = unseal(keyFrom(id, "session"), row.sealed, boundTo(row));
  return opened === undefined ? undefined : (JSON.parse(opened) as Content);
}

/** Returns the result of the database. Rejects with a `Refusal` that says nothing about the cause. */
function available<T>(result: Promise<T>): Promise<T> {
  return result.catch((cause: unknown) => {
    throw unavailable(cause);
  });
}

function unavailable(cause: unknown): Refusal {
  return new Refusal("AUTH_UNAVAILABLE", "Sessions of the console cannot be read at the moment: try again.", {
    retryAfterMs: RETRY_AFTER_MS,
    cause,
  });
}

function isSameHash(one: string, other: string): boolean {
  return timingSafeEqual(Buffer.from(one), Buffer.from(other));
}

/** Returns when a token that was issued now is to be renewed. */
function renewalOf({ expiresAt, refreshToken }: Content, now: EpochMs): EpochMs {
  const endsAtMs = expiresAt * 1_000;
  return refreshToken === undefined ? NEVER : Math.floor(endsAtMs - Math.min(RENEW_BEFORE_MS, (endsAtMs - now) / 2));
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

function signInAgain(cause?: unknown): Refusal {
  return new Refusal("UNAUTHENTICATED", "This session of the console has ended, or a half of it is missing: sign in.", {
    cause,
  });
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
