import { join } from "node:path";
import { journalEntries } from "../support/audit-files.ts";
import { type IdentityParts, type IdentityStand, issuers, startIdentityService } from "../support/identity-service.ts";

export const PERMISSIONS = ["approvals:decide", "audit:read", "grants:manage", "modes:manage"];

/** A browser's two halves of a session: the cookie's value, and the key in its page's storage. */
export interface Halves {
  readonly cookie: string;
  readonly key: string;
}

interface SendOptions {
  readonly method?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly session?: Halves | undefined;
}

/** The whole service with a console on loopback, and browsers that use it. */
export class ConsoleStand {
  readonly identity: IdentityStand;
  readonly url: string;
  readonly cookieName: string;

  constructor(identity: IdentityStand, cookieName = "stc_console") {
    this.identity = identity;
    this.url = identity.service.consoleUrl ?? "";
    this.cookieName = cookieName;
  }

  static async start({ server, ...parts }: IdentityParts = {}): Promise<ConsoleStand> {
    return new ConsoleStand(await startIdentityService({ ...parts, server: { console: { port: 0 }, ...server } }));
  }

  operatorToken(permissions: readonly string[] = PERMISSIONS, more: { sub?: string; lifetime?: string } = {}) {
    return issuers.token({ kind: "operator", sub: "ann", permissions, ...more });
  }

  /** Sends a request as the console's own page does; `headers` replace its headers, and undefined leaves one out. */
  send(path: string, { method = "GET", body, headers = {}, session }: SendOptions = {}): Promise<Response> {
    const all = {
      "sec-fetch-site": "same-origin",
      ...(method !== "GET" && { origin: this.url }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(session !== undefined && { cookie: `${this.cookieName}=${session.cookie}`, "stc-console-key": session.key }),
      ...headers,
    };
    const present = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const init = { method, headers: Object.fromEntries(present), redirect: "manual" as const };
    return fetch(`${this.url}${path}`, body === undefined ? init : { ...init, body: JSON.stringify(body) });
  }

  async signIn(body?: unknown): Promise<Halves> {
    const sent = body ?? { token: await this.operatorToken() };
    const response = await this.send("/console/session", { method: "POST", body: sent });
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    const { key } = (await response.json()) as { readonly key: string };
    return { key, cookie: cookieIn(response, this.cookieName) };
  }

  /** Returns the status of a request and the code of its refusal. */
  async outcome(path: string, options?: SendOptions): Promise<string> {
    return outcomeOf(await this.send(path, options));
  }

  /** Returns the lines of the journal that the console wrote. */
  journal(): readonly Record<string, unknown>[] {
    const entries = journalEntries(join(this.identity.folder, "audit"));
    return entries.filter(({ type }) => type.startsWith("console."));
  }

  close(): Promise<void> {
    return this.identity.close();
  }
}

export async function outcomeOf(response: Response): Promise<string> {
  const text = await response.text();
  if (response.ok) return `${response.status}`;
  const { error } = JSON.parse(text) as { readonly error: { readonly code: string } };
  return `${response.status} ${error.code}`;
}

/** Returns the value of a cookie that the answer sets; empty when it sets none. */
export function cookieIn(response: Response, name: string): string {
  const set = response.headers.getSetCookie().find((cookie) => cookie.startsWith(`${name}=`));
  return /=([^;]*)/.exec(set ?? "")?.[1] ?? "";
}
