import { z } from "zod";
import type { JournalLine } from "../audit/journal/journal.ts";
import { UnauthenticatedLimit } from "../audit/unauthenticated.ts";
import { Refusal } from "../core/errors.ts";
import { isLoopback } from "../core/network.ts";
import type { EpochMs } from "../core/types.ts";
import type { SharedState } from "../database/shared-state.ts";
import { certificateOf } from "../http/connections/listening-tls.ts";
import { ConcurrencyLimit } from "../http/connections/request-limits.ts";
import { sourceOf } from "../http/connections/sources.ts";
import type { EndpointServices, Exchange } from "../http/endpoint.ts";
import { record } from "../http/guard.ts";
import type { ConsoleListener } from "../http/server-options.ts";
import type { CallerVerifier } from "../pipeline/caller-context.ts";
import type { OidcSettings, OidcSignIn } from "./oidc.ts";
import { SessionRows } from "./session-rows.ts";
import { cookieValues, Links, type NewSession, type OperatorToken, Sessions, type SignedInBy } from "./sessions.ts";
import { SharedSecret } from "./shared-secret.ts";

const TOKEN_CHARACTERS_MAX = 8_192;
const CODE_CHARACTERS_MAX = 4_096;

/** Credentials of a sign-in: a pasted token, a one-time link, or the answer of an OpenID provider. */
export const signInBody = z.union(
  [
    z.strictObject({ token: z.string().min(1).max(TOKEN_CHARACTERS_MAX) }),
    z.strictObject({ link: z.string().min(1).max(128) }),
    z.strictObject({
      code: z.string().min(1).max(CODE_CHARACTERS_MAX),
      state: z.string().min(1).max(128),
      iss: z.string().min(1).max(2_048).optional(),
    }),
  ],
  "must be { token }, { link } or { code, state, iss }",
);

type SignInBody = z.output<typeof signInBody>;

export interface ConsoleOptions {
  readonly listener: {
    readonly host: string;
    readonly hasTls: boolean;
    readonly hasSocket: boolean;
    readonly publicUrl: string | undefined;
    readonly allowedHosts: readonly string[];
  };
  /** Settings of the OpenID provider at which people sign in; undefined: there is none. */
  readonly oidc: OidcSettings | undefined;
  /** True on the development stand: then one-time links open sessions, too. */
  readonly isDevelopment: boolean;
  readonly callers: CallerVerifier;
  readonly clock: () => EpochMs;
  readonly journal: (line: JournalLine) => Promise<void>;
  readonly logError: (error: unknown) => void;
  /** Rows that all replicas share, or the memory of this process. */
  readonly state: SharedState;
  /** Returns the number of lines per source and minute for refused sign-ins. */
  readonly refusalLinesPerMinuteMax: () => number;
}

/** Sign-ins that wait for the OpenID provider at once, per address: anybody can cause them. */
const ASKING = { totalMax: 64, perCallerMax: 16 } as const;

const SUMS_EVERY_MS = 10_000;

const SESSION_COOKIE = "stc_console";
const TRANSACTION_COOKIE = "stc_console_sign_in";
const TRANSACTION_SECONDS = 300;

/** Headers of every answer: the page may load and contact only this listener, and nothing may frame or read it. */
const HEADERS = {
  "content-security-policy": [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:"],
    ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
    ...["require-trusted-types-for 'script'", "trusted-types 'none'"],
  ].join("; "),
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
  "cache-control": "no-store",
} as const;

const HSTS = { "strict-transport-security": "max-age=31536000" } as const;

/** The operators' console: its sign-in and its sessions. */
export class Console {
  readonly #options: ConsoleOptions;
  readonly #isSecure: boolean;
  readonly #publicOrigin: string | undefined;
  readonly #refusals: UnauthenticatedLimit;
  readonly #summing: NodeJS.Timeout;
  readonly #signIns = new Map<string, number>();
  readonly #asking = new ConcurrencyLimit(ASKING);
  readonly #rows: SessionRows;
  readonly #secret: SharedSecret;
  #oidc: Promise<OidcSignIn> | undefined;
  readonly sessions: Sessions;
  /** One-time links; undefined where there are none. */
  readonly links: Links | undefined;

  constructor(options: ConsoleOptions) {
    const { listener, isDevelopment, clock, logError, refusalLinesPerMinuteMax } = options;
    this.#options = options;
    this.#publicOrigin = listener.publicUrl === undefined ? undefined : new URL(listener.publicUrl).origin;
    this.#isSecure = listener.hasTls || this.#publicOrigin?.startsWith("https:") === true;
    this.#rows = new SessionRows(options.state);
    this.#secret = new SharedSecret(this.#rows, clock);
    this.links = isDevelopment ? new Links(clock) : undefined;
    this.sessions = new Sessions({
      cookieName: this.#cookieName(SESSION_COOKIE),
      clock,
      logError,
      isOwnOrigin: this.#isOwnOrigin,
      journal: (line) => record(options, line),
      rows: this.#rows,
      secret: this.#secret,
      refreshing: {
        renew: async (refreshToken) => (await this.#provider()).renew(refreshToken),
        revoke: async (refreshToken) => (await this.#provider()).revoke(refreshToken),
      },
    });
    this.#refusals = new UnauthenticatedLimit({
      get linesPerMinuteMax() {
        return refusalLinesPerMinuteMax();
      },
    });
    this.#summing = setInterval(() => void this.#sumUp(clock()), SUMS_EVERY_MS);
    this.#summing.unref();
  }

  /** Returns what the listener needs, except for its endpoints. */
  listener(): Omit<ConsoleListener, "endpoints"> {
    const { host, hasSocket, allowedHosts } = this.#options.listener;
    const isOnLoopback = !hasSocket && isLoopback(host);
    const own = isOnLoopback || hasSocket ? [] : namesOf(host);
    const published = this.#publicOrigin === undefined ? [] : [new URL(this.#publicOrigin).hostname];
    return {
      sessions: this.sessions,
      headers: { ...HEADERS, ...(this.#isSecure && HSTS) },
      allowedHosts: [...allowedHosts, ...published, ...own],
      noLoopbackNames: !isOnLoopback,
      isOwnOrigin: this.#isOwnOrigin,
    };
  }

  /** Returns the number of sessions, and of sign-ins by their means and result. */
  tally(): { readonly sessions: number; readonly signIns: ReadonlyMap<string, number> } {
    return { sessions: this.sessions.size, signIns: this.#signIns };
  }

  get settings(): { readonly oidc: boolean; readonly development: boolean } {
    return { oidc: this.#options.oidc !== undefined, development: this.#options.isDevelopment };
  }

  /** Opens a session with what the person has. Rejects with a `Refusal`. */
  async signIn(
    request: Exchange["raw"],
    body: SignInBody,
    { wrongTokens }: Pick<EndpointServices, "wrongTokens">,
  ): Promise<{ readonly session: NewSession; readonly grant: OperatorToken; readonly cookies: readonly string[] }> {
    this.sessions.assertOwnPage(request, "change");
    const by = meansOf(body);
    const authorization = `Bearer ${"token" in body ? body.token : ""}`;
    wrongTokens?.assertRoom(request, authorization);
    try {
      const grant = await this.#tokenFor(request, body);
      const session = await this.sessions.open(request, grant, by);
      this.#count(by, "signed_in");
      const cookies = [this.#cookie(SESSION_COOKIE, session.cookie)];
      return { session, grant, cookies: by === "oidc" ? [...cookies, this.#transactionCookie("", 0)] : cookies };
    } catch (error) {
      this.#count(by, "refused");
      if (!(error instanceof Refusal)) throw error;
      if (error.code === "UNAUTHENTICATED") wrongTokens?.count(request, authorization);
      await this.#refused(request, by, error);
      throw error;
    }
  }

  /** Begins a sign-in at the OpenID provider. Rejects with a `Refusal`. */
  async beginSignIn(request: Exchange["raw"]): Promise<{ readonly url: string; readonly cookies: readonly string[] }> {
    this.sessions.assertOwnPage(request, "change");
    const origin = request.headers.origin ?? "";
    if (this.#publicOrigin !== undefined && origin !== this.#publicOrigin) {
      throw new Refusal(
        "HOST_NOT_ALLOWED",
        `Open the console at ${this.#publicOrigin}: the OpenID provider returns there.`,
      );
    }
    try {
      const { url, transaction } = await (await this.#provider()).begin(`${origin}/console/oidc`);
      return { url, cookies: [this.#transactionCookie(transaction, TRANSACTION_SECONDS)] };
    } catch (error) {
      if (error instanceof Refusal) await this.#refused(request, "oidc", error);
      throw error;
    }
  }

  /** Returns the cookies that remove the session's cookie. */
  removedCookies(): readonly string[] {
    return [`${this.#cookie(SESSION_COOKIE, "")}; Max-Age=0`];
  }

  /** Records what was summed up. Never rejects. Sessions in a store go on at other replicas and after a restart. */
  async close(): Promise<void> {
    clearInterval(this.#summing);
    this.sessions.close();
    await this.#sumUp(Number.POSITIVE_INFINITY);
  }

  async #tokenFor(request: Exchange["raw"], body: SignInBody): Promise<OperatorToken> {
    if ("code" in body) {
      const [transaction, ...more] = cookieValues(request.headers.cookie, this.#cookieName(TRANSACTION_COOKIE));
      const leave = this.#asking.take({ issuer: "", subject: sourceOf(request.socket) });
      try {
        return await (await this.#provider()).finish(body, more.length === 0 ? transaction : undefined);
      } finally {
        leave();
      }
    }
    const token = "token" in body ? body.token : this.links?.redeem(body.link);
    if (token === undefined) {
      throw new Refusal("UNAUTHENTICATED", "The link has been used, or is older than a minute: get a new one.");
    }
    const { caller } = await this.#options.callers.verifyToken(token, "operators", certificateOf(request));
    return { token, caller };
  }

  /** Loads what signs people in at the OpenID provider, at its first use. */
  #provider(): Promise<OidcSignIn> {
    const { oidc: settings, callers, clock } = this.#options;
    if (settings === undefined) {
      throw new Refusal("MALFORMED_REQUEST", "This console has no OpenID provider: sign in with an operator's token.");
    }
    const [rows, secret] = [this.#rows, this.#secret];
    const verify = async (token: string) => (await callers.verifyToken(token, "operators")).caller;
    this.#oidc ??= import("./oidc.ts").then(
      ({ OidcSignIn }) => new OidcSignIn({ settings, clock, verify, rows, secret }),
    );
    return this.#oidc;
  }

  /** Records a refusal, with its cause in the log where it is a provider's. Beyond a number per source, they are summed up. */
  async #refused(request: Exchange["raw"], by: SignedInBy, error: Refusal): Promise<void> {
    const { code } = error;
    const source = sourceOf(request.socket) || "socket";
    const summed = this.#refusals.sumUp({ source, code, traceId: "" }, this.#options.clock());
    if (summed !== undefined) return;
    if (by === "oidc") this.#options.logError(new Error("a sign-in was refused", { cause: error }));
    await record(this.#options, { type: "console.refused", by, code, source });
  }

  async #sumUp(now: EpochMs): Promise<void> {
    for (const { source, code, count } of this.#refusals.drain(now)) {
      const line = { type: "console.refused", code, source, count };
      await this.#options.journal(line).catch(this.#options.logError);
    }
  }

  #count(by: SignedInBy, result: "signed_in" | "refused"): void {
    const key = `${by} ${result}`;
    this.#signIns.set(key, (this.#signIns.get(key) ?? 0) + 1);
  }

  readonly #isOwnOrigin = (origin: string, { headers: { host = "" } }: Exchange["raw"]): boolean => {
    return origin === this.#publicOrigin || origin === `${this.#isSecure ? "https" : "http"}://${host.toLowerCase()}`;
  };

  #cookieName(name: string): string {
    return this.#isSecure ? `__Host-${name}` : name;
  }

  #cookie(name: string, value: string, sameSite: "Strict" | "Lax" = "Strict"): string {
    const secure = this.#isSecure ? "; Secure" : "";
    return `${this.#cookieName(name)}=${value}; Path=/; HttpOnly; SameSite=${sameSite}${secure}`;
  }

  #transactionCookie(value: string, seconds: number): string {
    return `${this.#cookie(TRANSACTION_COOKIE, value, "Lax")}; Max-Age=${seconds}`;
  }
}

function meansOf(body: SignInBody): SignedInBy {
  if ("token" in body) return "token";
  return "link" in body ? "link" : "oidc";
}

/** Returns the listener's own address as a host name. A wildcard address is not a name: a web page can use it too. */
function namesOf(host: string): readonly string[] {
  return host === "0.0.0.0" || host === "::" ? [] : [host.includes(":") ? `[${host}]` : host.toLowerCase()];
}
