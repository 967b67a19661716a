import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { journalEntries } from "../support/audit-files.ts";
import { emptyFolder, issuers } from "../support/identity-service.ts";
import { OAuthProvider } from "../support/oauth-provider.ts";
import { ConsoleStand, cookieIn, type Halves, outcomeOf, PERMISSIONS } from "./console-stand.ts";

const RESOURCE = "https://operators.example";
const PUBLIC_URL = "https://console.example";
const COOKIE = "__Host-stc_console";

type Row = Readonly<Record<string, unknown>>;

/** A database that several replicas share, and what somebody who has it may do with it. */
export interface SharedDatabase {
  readonly url: string;
  query(statement: string): Promise<readonly Row[]>;
  end(): Promise<void>;
}

/** The promises of sessions in a database, in any database: two replicas, and a browser that the load balancer sends to either. */
export function replicaTests(open: () => Promise<SharedDatabase>): void {
  const folder = emptyFolder();
  let database: SharedDatabase;
  let provider: OAuthProvider;
  let [one, other]: ConsoleStand[] = [];

  const start = async (name: string): Promise<ConsoleStand> => {
    const own = join(folder, name);
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, "store-url"), database.url, { mode: 0o600 });
    const isFile = database.url.startsWith("sqlite:");
    const operators = { audience: RESOURCE, profile: "rfc9068", algorithms: ["ES256"], operators: true };
    const ofProvider = { issuer: provider.issuer, jwksUri: provider.jwksUri, ...operators };
    const oidc = { issuer: provider.issuer, clientId: "stc-console", scopes: ["openid", ...PERMISSIONS] };
    const { identity } = await ConsoleStand.start({
      folder: own,
      server: { console: { port: 0, publicUrl: PUBLIC_URL } },
      jwt: { issuers: [...issuers.profiles(), ofProvider] },
      rest: {
        approvals: isFile ? { store: database.url } : { storeUrlFile: "./store-url" },
        console: { oidc: { ...oidc, resource: RESOURCE } },
      },
    });
    return new ConsoleStand(identity, COOKIE);
  };
  const stands = (): readonly [ConsoleStand, ConsoleStand] => {
    if (one === undefined || other === undefined) throw new Error("the replicas are not there");
    return [one, other];
  };
  const headers = { origin: PUBLIC_URL };
  const signIn = async (stand: ConsoleStand): Promise<Halves> => {
    const response = await stand.send("/console/session", {
      ...{ method: "POST", headers },
      body: { token: await stand.operatorToken() },
    });
    const { key } = (await response.json()) as { readonly key: string };
    return { key, cookie: cookieIn(response, COOKIE) };
  };
  const outcome = (stand: ConsoleStand, session: Halves) => stand.outcome("/console/session", { session });
  const signOut = (stand: ConsoleStand, session: Halves) =>
    stand.outcome("/console/session", { method: "DELETE", session, headers });
  const rows = () => database.query("SELECT * FROM console_sessions ORDER BY opened_at");
  const ends = (name: string) =>
    journalEntries(join(folder, name, "audit")).filter(({ type }) => type === "console.signedOut");

  beforeAll(async () => {
    database = await open();
    provider = await OAuthProvider.start({
      resources: { [RESOURCE]: PERMISSIONS },
      accounts: { ann: PERMISSIONS },
      clients: [
        {
          client_id: "stc-console",
          redirect_uris: [`${PUBLIC_URL}/console/oidc`],
          grant_types: ["authorization_code"],
          token_endpoint_auth_method: "none",
        },
      ],
    });
    [one, other] = [await start("one"), await start("other")];
  });
  afterAll(async () => {
    for (const stand of [one, other]) await stand?.identity.service.drain();
    provider.close();
    await database.end();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(async () => {
    await database.query("DELETE FROM console_sessions");
  });

  test("a session works at any replica, survives a restart, and its sign-out ends it everywhere", async () => {
    const [first, second] = stands();
    const session = await signIn(first);
    expect(await outcome(second, session)).toBe("200");
    await first.identity.service.drain();
    one = await start("one");
    expect(await outcome(one, session)).toBe("200");
    expect(await signOut(second, session)).toBe("204");
    expect(await outcome(one, session)).toBe("401 UNAUTHENTICATED");
    // The same cookie and key again, at both.
    expect(await outcome(second, session)).toBe("401 UNAUTHENTICATED");
    expect(ends("other").at(-1)).toMatchObject({ sub: "ann", why: "signed_out" });
  });

  test("a stream at one replica ends when the person signs out at the other", async () => {
    const [first, second] = stands();
    const session = await signIn(first);
    const response = await first.send("/audit/tail", { session });
    expect(response.status).toBe(200);
    const reading = response.text().catch(() => "");
    expect(await signOut(second, session)).toBe("204");
    await reading;
  });

  test("the database alone reveals no token, key or cookie, and its rows open no session", async () => {
    const [first] = stands();
    const token = await first.operatorToken();
    const signedIn = await first.send("/console/session", { method: "POST", headers, body: { token } });
    const { key } = (await signedIn.json()) as { readonly key: string };
    const [row = {}] = await rows();
    const session = { key, cookie: cookieIn(signedIn, COOKIE) };
    const sealed = Buffer.from(String(row["sealed"]), "base64url").toString("latin1");
    for (const secret of [token, key, session.cookie, token.split(".")[1] ?? token]) {
      expect(JSON.stringify(row)).not.toContain(secret);
      expect(sealed).not.toContain(secret);
    }
    for (const half of [row["id_hash"], row["sealed"]].map(String)) {
      expect(await outcome(first, { cookie: half, key })).toBe("401 UNAUTHENTICATED");
    }
    expect(await outcome(first, session)).toBe("200");
  });

  test.each([
    ["another text", `UPDATE console_sessions SET sealed = 'AAAA'`],
    ["another operator", `UPDATE console_sessions SET subject = 'root'`],
    ["a later end", `UPDATE console_sessions SET ends_at = ends_at + 86400000`],
  ])("a row with %s is refused, and the session is signed out", async (_change, statement) => {
    const [first, second] = stands();
    const session = await signIn(first);
    await database.query(statement);
    expect(await outcome(second, session)).toBe("401 UNAUTHENTICATED");
    expect(await rows()).toEqual([]);
    expect(ends("other").at(-1)).toMatchObject({ why: "unreadable" });
    // Signing in again in the same browser works.
    expect(await outcome(second, await signIn(second))).toBe("200");
  });

  test("the content of one row in another is refused", async () => {
    const [first] = stands();
    const [own, foreign] = [await signIn(first), await signIn(first)];
    const [ownRow = {}, foreignRow = {}] = await rows();
    await database.query(
      `UPDATE console_sessions SET sealed = '${foreignRow["sealed"]}' WHERE id_hash = '${ownRow["id_hash"]}'`,
    );
    expect(await outcome(first, own)).toBe("401 UNAUTHENTICATED");
    expect(await outcome(first, foreign)).toBe("200");
  });

  test("sixteen sessions of one operator count over all replicas: the oldest ends", async () => {
    const [first, second] = stands();
    const sessions: Halves[] = [];
    for (let count = 0; count < 17; count += 1) sessions.push(await signIn(count % 2 === 0 ? first : second));
    const outcomes = await Promise.all(sessions.map((session) => outcome(second, session)));
    expect(outcomes).toEqual(["401 UNAUTHENTICATED", ...Array(16).fill("200")]);
  });

  test("a sign-in that begins at one replica ends at the other, once", async () => {
    const [first, second] = stands();
    const begun = await first.send("/console/sign-in", { method: "POST", headers });
    const { url } = (await begun.json()) as { readonly url: string };
    const { searchParams } = await provider.authorize(new URL(url), "ann");
    const [code = "", state = "", iss = ""] = ["code", "state", "iss"].map((name) => searchParams.get(name) ?? "");
    const cookie = `__Host-stc_console_sign_in=${cookieIn(begun, "__Host-stc_console_sign_in")}`;
    const finish = (stand: ConsoleStand) =>
      stand.send("/console/session", { method: "POST", headers: { ...headers, cookie }, body: { code, state, iss } });
    const signedIn = await finish(second);
    const { key } = (await signedIn.clone().json()) as { readonly key: string };
    expect(signedIn.status).toBe(200);
    expect(await outcome(first, { key, cookie: cookieIn(signedIn, COOKIE) })).toBe("200");
    expect(await outcomeOf(await finish(first))).toBe("401 UNAUTHENTICATED");
  });
}
