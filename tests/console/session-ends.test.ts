import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SessionRows } from "../../src/console/session-rows.ts";
import { Links, type Refreshing, RotatedToken, Sessions } from "../../src/console/sessions.ts";
import { SharedSecret } from "../../src/console/shared-secret.ts";
import { Refusal } from "../../src/core/errors.ts";
import type { SharedState } from "../../src/database/shared-state.ts";
import type { Exchange } from "../../src/http/endpoint.ts";
import { emptyFolder, issuers } from "../support/identity-service.ts";
import { OPERATORS_ISSUER } from "../support/live-tokens.ts";
import { openState } from "../support/shared-state.ts";
import { replaceFile } from "../support/tls-files.ts";
import { until } from "../support/until.ts";
import { ConsoleStand, type Halves, outcomeOf, PERMISSIONS } from "./console-stand.ts";

describe("streams of a session", () => {
  const folder = emptyFolder();
  let stand: ConsoleStand;

  const revoke = (revoked: readonly object[]): void => replaceFile(folder, "revoked.json", JSON.stringify({ revoked }));

  beforeAll(async () => {
    revoke([]);
    stand = await ConsoleStand.start({
      folder,
      jwt: { revocationFile: "./revoked.json" },
      rest: { approvals: { store: "sqlite://./approvals.sqlite" } },
    });
  });

  afterAll(() => stand.close());

  /** Opens a stream. `ended` resolves when it has ended. */
  async function follow(path: string, session: Halves): Promise<{ readonly ended: Promise<void> }> {
    const response = await stand.send(path, { session });
    expect(response.status).toBe(200);
    const reader = (response.body ?? new ReadableStream()).getReader();
    await reader.read();
    const ended = async (): Promise<void> => {
      while (!(await reader.read().catch(() => ({ done: true }))).done);
    };
    return { ended: ended() };
  }

  test.each(["/events", "/audit/tail"])("%s ends when the person signs out", async (path) => {
    const session = await stand.signIn();
    const { ended } = await follow(path, session);
    expect((await stand.send("/console/session", { method: "DELETE", session })).status).toBe(204);
    await ended;
  });

  test("ends when its token is revoked, and so does the session", async () => {
    const token = await stand.operatorToken(PERMISSIONS, { sub: "eve" });
    const session = await stand.signIn({ token });
    const { ended } = await follow("/events", session);
    revoke([{ issuer: OPERATORS_ISSUER, subject: "eve" }]);
    await ended;
    expect(await stand.outcome("/audit", { session })).toBe("401 UNAUTHENTICATED");
    revoke([]);
    const again = () => stand.outcome("/console/session", { method: "POST", body: { token } });
    await until("the revocation to be over", async () => ((await again()) === "200" ? true : undefined));
    // The old session does not come back.
    expect(await stand.outcome("/audit", { session })).toBe("401 UNAUTHENTICATED");
    expect(stand.journal()).toContainEqual(
      expect.objectContaining({ type: "console.signedOut", sub: "eve", why: "token_refused" }),
    );
  });
});

describe("sessions in memory", () => {
  let now: number;

  /** A provider at which nobody signed in. */
  const noProvider: Refreshing = { renew: () => Promise.reject(new Error("no provider")), revoke: async () => {} };

  function open({
    refreshing = noProvider,
    recording = Promise.resolve(),
    rows = new SessionRows(openState({ now: () => now })),
  } = {}) {
    now = 1_800_000_000_000;
    const journal: Record<string, unknown>[] = [];
    const sessions = new Sessions({
      ...{ cookieName: "stc_console", isOwnOrigin: () => true, clock: () => now, logError: () => {}, refreshing },
      ...{ rows, secret: new SharedSecret(rows, () => now) },
      async journal(line) {
        await recording;
        journal.push(line);
      },
    });
    return { sessions, journal };
  }

  const requestOf = (headers: Readonly<Record<string, string>>): Exchange["raw"] =>
    ({ method: "GET", headers: { "sec-fetch-site": "same-origin", ...headers } }) as unknown as Exchange["raw"];

  const tokenOf = (subject: string, seconds = 86_400) => ({
    token: `token-of-${subject}`,
    caller: { issuer: "i", subject, permissions: [], actors: [], expiresAt: now / 1_000 + seconds },
  });

  const present = ({ cookie, key }: Halves) => requestOf({ cookie: `stc_console=${cookie}`, "stc-console-key": key });

  test("last at most eight hours", async () => {
    const { sessions, journal } = open();
    const session = await sessions.open(requestOf({}), tokenOf("ann"), "token");
    now += 8 * 3_600_000 - 1;
    expect((await sessions.present(present(session)))?.authorization).toBe("Bearer token-of-ann");
    now += 1;
    expect(sessions.present(present(session))).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
    expect(journal.at(-1)).toEqual({ type: "console.signedOut", sub: "ann", iss: "i", why: "expired" });
    sessions.close();
  });

  test("are bounded: after 10,000 sign-ins there are 1,024, and 16 of one operator", async () => {
    const { sessions } = open();
    const first = await sessions.open(requestOf({}), tokenOf("first"), "token");
    for (let count = 0; count < 5_000; count += 1) await sessions.open(requestOf({}), tokenOf("mallory"), "token");
    expect(sessions.size).toBe(17);
    expect(await sessions.present(present(first))).toBeDefined();
    for (let count = 0; count < 5_000; count += 1) await sessions.open(requestOf({}), tokenOf(`p${count}`), "token");
    expect(sessions.size).toBe(1_024);
    expect(sessions.present(present(first))).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
    sessions.close();
  });

  test("are bounded without harm to other tenants, however many operators one tenant has", async () => {
    const { sessions } = open();
    const signIn = (tenant: string | undefined, subject: string) => {
      const { token, caller } = tokenOf(subject);
      const operator = { ...caller, ...(tenant !== undefined && { tenant }) };
      return sessions.open(requestOf({}), { token, caller: operator }, "token");
    };
    const halves = await signIn(undefined, "ann");
    for (let count = 0; count < 2_000; count += 1) await signIn("acme", `p${count}`);
    expect(sessions.size).toBe(1_024);
    expect((await sessions.present(present(halves)))?.authorization).toBe("Bearer token-of-ann");
    const latest = await signIn("globex", "bob");
    await signIn("acme", "last");
    expect(await sessions.present(present(latest))).toBeDefined();
    sessions.close();
  });

  test("are bounded also when all sign-ins are recorded at the same time", async () => {
    const recording = Promise.withResolvers<void>();
    const { sessions } = open({ recording: recording.promise });
    const opened = [
      ...Array.from({ length: 200 }, () => sessions.open(requestOf({}), tokenOf("mallory"), "token")),
      ...Array.from({ length: 2_000 }, (_, at) => sessions.open(requestOf({}), tokenOf(`p${at}`), "token")),
    ];
    recording.resolve();
    await Promise.all(opened.slice(0, 200));
    expect(sessions.size).toBeLessThanOrEqual(1_024);
    await Promise.all(opened);
    expect(sessions.size).toBe(1_024);
    const ofMallory = Array.from({ length: 200 }, () => sessions.open(requestOf({}), tokenOf("mallory"), "token"));
    const halves = await Promise.all(ofMallory);
    const isOpen = (one: Halves) =>
      sessions.present(present(one)).then(
        () => true,
        () => false,
      );
    expect((await Promise.all(halves.map(isOpen))).filter(Boolean)).toHaveLength(16);
    sessions.close();
  });

  test("that end while their token is renewed stay ended, and the new token is given back", async () => {
    const [asked, provider] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const discarded: string[] = [];
    const renewable = (name: string, seconds: number) => ({
      ...tokenOf("ann", seconds),
      token: name,
      refreshToken: name,
    });
    const { sessions } = open({
      refreshing: {
        async renew() {
          asked.resolve();
          await provider.promise;
          return renewable("second", 600);
        },
        revoke: async (refreshToken) => void discarded.push(refreshToken),
      },
    });
    const session = await sessions.open(requestOf({}), renewable("first", 30), "oidc");
    now += 20_000;
    const waiting = sessions.present(present(session));
    await asked.promise;
    await sessions.open(requestOf({ cookie: `stc_console=${session.cookie}` }), tokenOf("bob"), "token");
    provider.resolve();
    expect(waiting).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
    await waiting.catch(() => {});
    expect(discarded).toEqual(["first", "second"]);
    sessions.close();
  });

  describe("and cookies that no replica has made", () => {
    const forged = (session: Halves): readonly string[] => {
      const [id, code] = [session.cookie.slice(0, 43), session.cookie.slice(43)];
      const other = (text: string) => (text.startsWith("A") ? "B" : "A") + text.slice(1);
      const texts = [id, code, other(id) + code, id + other(code), code + id, `${id}${id}`, `${session.cookie}A`];
      return [...texts, "x".repeat(43), "x".repeat(86), "", `${id}.${code}`, "🙂".repeat(43)];
    };
    const countedRows = () => {
      const state = openState({ now: () => now });
      const counts = { transactions: 0 };
      const counted =
        <T extends (...words: never[]) => unknown>(run: T) =>
        (...words: Parameters<T>) => {
          counts.transactions += 1;
          return run(...words);
        };
      return {
        counts,
        rows: new SessionRows({ ...state, read: counted(state.read), write: counted(state.write) } as SharedState),
      };
    };

    test("are refused without the database, except for a look in ten seconds whether the secret was replaced", async () => {
      const { counts, rows } = countedRows();
      const { sessions } = open({ rows });
      const session = await sessions.open(requestOf({}), tokenOf("ann"), "token");
      const refuseAll = async () => {
        const before = counts.transactions;
        for (const cookie of forged(session)) {
          await expect(sessions.present(present({ ...session, cookie }))).rejects.toMatchObject({
            code: "UNAUTHENTICATED",
          });
        }
        return counts.transactions - before;
      };
      expect(await refuseAll()).toBe(0);
      now += 10_000;
      expect(await refuseAll()).toBe(1);
      expect((await sessions.present(present(session)))?.authorization).toBe("Bearer token-of-ann");
      sessions.close();
    });

    test("are refused also at a replica that has read nothing yet, after one read for all", async () => {
      const { counts, rows } = countedRows();
      const { sessions } = open({ rows });
      const session = await sessions.open(requestOf({}), tokenOf("ann"), "token");
      const fresh = open({ rows }).sessions;
      const before = counts.transactions;
      const refused = forged(session).map((cookie) =>
        fresh.present(present({ ...session, cookie })).catch(({ code }: Refusal) => code),
      );
      expect(new Set(await Promise.all(refused))).toEqual(new Set(["UNAUTHENTICATED"]));
      expect(counts.transactions - before).toBe(1);
      expect((await fresh.present(present(session)))?.authorization).toBe("Bearer token-of-ann");
      for (const one of [sessions, fresh]) one.close();
    });

    test("do not become valid, nor others invalid, when the secret is replaced: people sign in again", async () => {
      const state = openState({ now: () => now });
      const rows = new SessionRows(state);
      const { sessions } = open({ rows });
      const session = await sessions.open(requestOf({}), tokenOf("ann"), "token");
      await state.write(async (sql) => sql`DELETE FROM console_secret`);
      const other = open({ rows }).sessions;
      const next = await other.open(requestOf({}), tokenOf("bob"), "token");
      // This replica learns the other secret by a cookie that it does not know.
      now += 10_000;
      expect((await sessions.present(present(next)))?.authorization).toBe("Bearer token-of-bob");
      for (const one of [sessions, other]) {
        await expect(one.present(present(session))).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
        one.close();
      }
    });
  });

  test("renew a token once for all requests, shortly before it expires", async () => {
    let renewals = 0;
    const renewable = (seconds: number) => ({
      ...tokenOf("ann", seconds),
      ...{ token: `token-${renewals}`, refreshToken: "refresh" },
    });
    const { sessions } = open({
      refreshing: {
        ...noProvider,
        async renew() {
          renewals += 1;
          return renewable(600);
        },
      },
    });
    const session = await sessions.open(requestOf({}), renewable(600), "oidc");
    const tokens = async () =>
      (await Promise.all([1, 2, 3].map(() => sessions.present(present(session))))).map((one) => one?.authorization);
    expect(await tokens()).toEqual(Array(3).fill("Bearer token-0"));
    now += 545_000;
    expect(await tokens()).toEqual(Array(3).fill("Bearer token-1"));
    expect(renewals).toBe(1);
    sessions.close();
  });

  test("renew a token of a minute once in half a minute, not with every request", async () => {
    let renewals = 0;
    const renewable = () => ({ ...tokenOf("ann", 60), refreshToken: "refresh" });
    const { sessions } = open({
      refreshing: {
        ...noProvider,
        async renew() {
          renewals += 1;
          return renewable();
        },
      },
    });
    const session = await sessions.open(requestOf({}), renewable(), "oidc");
    const counts: number[] = [];
    for (let seconds = 0; seconds < 100; seconds += 20) {
      for (const _ of [1, 2, 3]) await sessions.present(present(session));
      counts.push(renewals);
      now += 20_000;
    }
    expect(counts).toEqual([0, 0, 1, 1, 2]);
    sessions.close();
  });

  const renewable = (name: string, seconds: number) => ({
    ...tokenOf("ann", seconds),
    ...{ token: name, refreshToken: name },
  });

  test("are not renewed with a token of somebody else, or of the same name in another tenant", async () => {
    const inTenant = (tenant: string | undefined, grant = renewable("second", 600)) => ({
      ...grant,
      caller: { ...grant.caller, ...(tenant !== undefined && { tenant }) },
    });
    for (const [first, second, isRenewed] of [
      ["acme", "acme", true],
      ["acme", "globex", false],
      ["acme", undefined, false],
      [undefined, "acme", false],
    ] as const) {
      const revoked: string[] = [];
      const revoke = async (refreshToken: string) => void revoked.push(refreshToken);
      const { sessions } = open({ refreshing: { renew: async () => inTenant(second), revoke } });
      const session = await sessions.open(requestOf({}), inTenant(first, renewable("first", 30)), "oidc");
      now += 20_000;
      expect((await sessions.present(present(session)))?.authorization).toBe(
        `Bearer ${isRenewed ? "second" : "first"}`,
      );
      expect(revoked).toEqual(isRenewed ? [] : ["second"]);
      sessions.close();
    }
  });

  test("of which a replica stops in a renewal are renewed by another one, whose token a late answer does not replace", async () => {
    const [asked, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const revoked: string[] = [];
    const revoke = async (refreshToken: string) => void revoked.push(refreshToken);
    const rows = new SessionRows(openState({ now: () => now }));
    const stopped = open({
      rows,
      refreshing: {
        async renew() {
          asked.resolve();
          await late.promise;
          return renewable("late", 600);
        },
        revoke,
      },
    });
    const other = open({ rows, refreshing: { renew: async () => renewable("second", 600), revoke } });
    const session = await stopped.sessions.open(requestOf({}), renewable("first", 30), "oidc");
    now += 31_000;
    const first = stopped.sessions.present(present(session));
    await asked.promise;
    const waiting = other.sessions.present(present(session));
    now += 29_000;
    expect(await Promise.race([waiting, Bun.sleep(300)])).toBeUndefined();
    now += 1_000;
    expect((await waiting)?.authorization).toBe("Bearer second");
    late.resolve();
    expect((await first)?.authorization).toBe("Bearer second");
    expect((await other.sessions.present(present(session)))?.authorization).toBe("Bearer second");
    expect(revoked).toEqual([]);
    for (const { sessions } of [stopped, other]) sessions.close();
  });

  test("go on after their token has expired while the provider could not be reached", async () => {
    let isReachable = false;
    const { sessions, journal } = open({
      refreshing: {
        ...noProvider,
        async renew() {
          if (!isReachable) throw new Refusal("AUTH_UNAVAILABLE", "The provider does not answer.");
          return renewable("second", 600);
        },
      },
    });
    const session = await sessions.open(requestOf({}), renewable("first", 30), "oidc");
    now += 20_000;
    expect((await sessions.present(present(session)))?.authorization).toBe("Bearer first");
    now += 20_000;
    const refused = await sessions.present(present(session)).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "AUTH_UNAVAILABLE" });
    isReachable = true;
    const waiting = sessions.present(present(session));
    now += 5_000;
    expect((await waiting)?.authorization).toBe("Bearer second");
    expect(journal.map(({ type }) => type)).toEqual(["console.signedIn"]);
    sessions.close();
  });

  test("end with their token when the provider refuses to renew it", async () => {
    const renew = () => Promise.reject(new Refusal("UNAUTHENTICATED", "The provider refuses."));
    const { sessions, journal } = open({ refreshing: { ...noProvider, renew } });
    const session = await sessions.open(requestOf({}), renewable("first", 30), "oidc");
    now += 20_000;
    expect((await sessions.present(present(session)))?.authorization).toBe("Bearer first");
    now += 20_000;
    const refused = await sessions.present(present(session)).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "UNAUTHENTICATED" });
    expect(journal.at(-1)).toMatchObject({ type: "console.signedOut", sub: "ann", why: "token_refused" });
    sessions.close();
  });

  test("that end while the provider cannot be reached stay ended", async () => {
    const [asked, provider] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { sessions } = open({
      refreshing: {
        ...noProvider,
        async renew() {
          asked.resolve();
          await provider.promise;
          throw new Refusal("AUTH_UNAVAILABLE", "The provider does not answer.");
        },
      },
    });
    const session = await sessions.open(requestOf({}), renewable("first", 30), "oidc");
    now += 20_000;
    const waiting = sessions.present(present(session)).catch((error: unknown) => error);
    await asked.promise;
    await sessions.open(requestOf({ cookie: `stc_console=${session.cookie}` }), tokenOf("bob"), "token");
    provider.resolve();
    expect(await waiting).toMatchObject({ code: "UNAUTHENTICATED" });
    sessions.close();
  });

  test("stay open when the next sign-in of their browser cannot be stored, and its refresh token is revoked", async () => {
    let isBroken = false;
    const state = openState({ now: () => now });
    const rows = new SessionRows({
      ...state,
      write: (work) => (isBroken ? Promise.reject(new Error("the database is read-only")) : state.write(work)),
    });
    const revoked: string[] = [];
    const { sessions, journal } = open({
      rows,
      refreshing: { ...noProvider, revoke: async (refreshToken) => void revoked.push(refreshToken) },
    });
    const session = await sessions.open(requestOf({}), renewable("first", 600), "oidc");
    const again = () =>
      sessions.open(requestOf({ cookie: `stc_console=${session.cookie}` }), renewable("second", 600), "oidc");
    isBroken = true;
    expect(await again().catch((error: unknown) => error)).toMatchObject({ code: "AUTH_UNAVAILABLE" });
    expect(revoked).toEqual(["second"]);
    expect((await sessions.present(present(session)))?.authorization).toBe("Bearer first");
    expect(journal.map(({ type }) => type)).toEqual(["console.signedIn"]);
    isBroken = false;
    await again();
    expect(revoked).toEqual(["second", "first"]);
    expect(journal.slice(1).map(({ type, why }) => [type, why])).toEqual([
      ["console.signedOut", "replaced"],
      ["console.signedIn", undefined],
    ]);
    sessions.close();
  });

  describe("whose provider replaces each refresh token and accepts it once", () => {
    /** A provider that revokes everything when a refresh token is used again. */
    function rotating(first: string) {
      let valid = first;
      let count = 1;
      const revoked: string[] = [];
      return {
        revoked,
        renew: async (refreshToken: string) => {
          if (refreshToken !== valid) throw new Refusal("UNAUTHENTICATED", "The provider has revoked the session.");
          count += 1;
          valid = `refresh-${count}`;
          return renewable(valid, 60);
        },
        revoke: async (refreshToken: string) => void revoked.push(refreshToken),
      };
    }

    /** Rows in a database in which `fails` decides whether a write of this text fails, before or after it was made. */
    function failingRows(fails: (statement: string) => "before" | "after" | undefined) {
      const state = openState({ now: () => now });
      return new SessionRows({
        ...state,
        write: (work) =>
          state
            .write(async (sql, at) => {
              let isLost = false;
              const watched = ((parts: TemplateStringsArray, ...values: never[]) => {
                const failure = fails(parts.join("?"));
                if (failure === "before") throw new Error("the connection is lost");
                if (failure === "after") isLost = true;
                return sql(parts, ...values);
              }) as typeof sql;
              return { result: await work(watched, at), isLost };
            })
            .then(({ result, isLost }) => {
              if (isLost) throw new Error("the connection is lost");
              return result;
            }),
      });
    }

    const isReplacing = (statement: string) => /SET sealed =/.test(statement);

    test.each(["before", "after"] as const)(
      "go on when the write of the next one fails, %s it was made",
      async (when) => {
        let failures = 1;
        const rows = failingRows((statement) => {
          if (!isReplacing(statement) || failures === 0) return undefined;
          failures -= 1;
          return when;
        });
        const provider = rotating("refresh-1");
        const { sessions, journal } = open({ rows, refreshing: provider });
        const other = open({ rows, refreshing: provider }).sessions;
        const session = await sessions.open(requestOf({}), renewable("refresh-1", 60), "oidc");
        now += 40_000;
        await sessions.present(present(session));
        const presented = () => other.present(present(session));
        // The replica that asked the provider writes it again, without another request.
        await until("the next token to be stored", async () =>
          (await presented())?.authorization === "Bearer refresh-2" ? true : undefined,
        );
        now += 40_000;
        expect((await presented())?.authorization).toBe("Bearer refresh-3");
        expect(journal.map(({ type }) => type)).toEqual(["console.signedIn"]);
        expect(provider.revoked).toEqual([]);
        for (const one of [sessions, other]) one.close();
      },
    );

    test("go on after the database was away for longer than a renewal may take", async () => {
      let isAway = false;
      const rows = failingRows((statement) => (isAway && isReplacing(statement) ? "before" : undefined));
      const provider = rotating("refresh-1");
      const { sessions } = open({ rows, refreshing: provider });
      const session = await sessions.open(requestOf({}), renewable("refresh-1", 60), "oidc");
      now += 40_000;
      isAway = true;
      expect((await sessions.present(present(session)))?.authorization).toBe("Bearer refresh-1");
      for (let attempts = 0; attempts < 3; attempts += 1) {
        now += 31_000;
        const refused = await sessions.present(present(session)).catch((error: unknown) => error);
        expect(refused).toMatchObject({ code: "AUTH_UNAVAILABLE" });
      }
      isAway = false;
      now += 31_000;
      // The kept token has expired meanwhile, and is renewed with its own refresh token.
      await sessions.present(present(session)).catch(() => {});
      expect((await sessions.present(present(session)))?.authorization).toBe("Bearer refresh-3");
      sessions.close();
    });

    test("and that end before the next one is stored revoke it, not the former one", async () => {
      const rows = failingRows((statement) => (isReplacing(statement) ? "before" : undefined));
      const provider = rotating("refresh-1");
      const { sessions } = open({ rows, refreshing: provider });
      const session = await sessions.open(requestOf({}), renewable("refresh-1", 60), "oidc");
      now += 40_000;
      const presented = await sessions.present(present(session));
      await presented?.end("signed_out");
      expect(provider.revoked).toEqual(["refresh-2"]);
      sessions.close();
    });

    test("go on with the next one when the access token along with it cannot be verified now", async () => {
      const provider = rotating("refresh-1");
      let isVerified = false;
      const { sessions, journal } = open({
        refreshing: {
          ...provider,
          async renew(refreshToken) {
            const grant = await provider.renew(refreshToken);
            if (isVerified) return grant;
            throw new RotatedToken(grant.refreshToken, new Refusal("AUTH_UNAVAILABLE", "The keys are away."));
          },
        },
      });
      const session = await sessions.open(requestOf({}), renewable("refresh-1", 60), "oidc");
      now += 40_000;
      expect((await sessions.present(present(session)))?.authorization).toBe("Bearer refresh-1");
      isVerified = true;
      now += 5_000;
      expect((await sessions.present(present(session)))?.authorization).toBe("Bearer refresh-3");
      expect(journal.map(({ type }) => type)).toEqual(["console.signedIn"]);
      sessions.close();
    });
  });

  test("never take the token of somebody else", async () => {
    const refreshToken = "refresh";
    const { sessions } = open({
      refreshing: { ...noProvider, renew: async () => ({ ...tokenOf("mallory"), refreshToken }) },
    });
    const session = await sessions.open(requestOf({}), { ...tokenOf("ann", 30), refreshToken }, "oidc");
    now += 20_000;
    expect((await sessions.present(present(session)))?.authorization).toBe("Bearer token-of-ann");
    sessions.close();
  });
});

describe("one-time links", () => {
  let stand: ConsoleStand;

  beforeAll(async () => {
    stand = await ConsoleStand.start({ isDevelopment: true });
  });

  afterAll(() => stand.close());

  async function made(): Promise<{ readonly link: string; readonly url: string }> {
    const headers = { authorization: `Bearer ${await stand.operatorToken()}` };
    return (await (await fetch(`${stand.url}/console/links`, { method: "POST", headers })).json()) as never;
  }

  const redeem = (link: string) => stand.send("/console/session", { method: "POST", body: { link } });

  test("sign in once", async () => {
    const { link, url } = await made();
    expect(url).toBe(`http://localhost:${new URL(stand.url).port}/console#link=${link}`);
    expect(await outcomeOf(await redeem(link))).toBe("200");
    const again = await redeem(link);
    expect(again.headers.getSetCookie()).toEqual([]);
    expect(await outcomeOf(again)).toBe("401 UNAUTHENTICATED");
  });

  test("are used up by one of two who redeem them at once", async () => {
    const { link } = await made();
    const outcomes = await Promise.all([redeem(link), redeem(link)].map(async (one) => outcomeOf(await one)));
    expect(outcomes.toSorted()).toEqual(["200", "401 UNAUTHENTICATED"]);
  });

  test.each([
    ["nobody", undefined],
    ["an agent", () => issuers.token({ kind: "good", sub: "bot", permissions: PERMISSIONS })],
  ])("are not made for %s", async (_name, token) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${await token()}` };
    const response = await fetch(`${stand.url}/console/links`, { method: "POST", headers });
    expect(await outcomeOf(response)).toBe("401 UNAUTHENTICATED");
  });

  test("are not made for sessions, which could outlast their end in this way", async () => {
    const session = await stand.signIn();
    expect(await stand.outcome("/console/links", { method: "POST", session })).toBe("400 MALFORMED_REQUEST");
  });

  test("end after 60 seconds", () => {
    let now = 0;
    const links = new Links(() => now);
    const [first, second] = [links.create("one"), links.create("two")];
    now = 59_999;
    expect(links.redeem(first)).toBe("one");
    now = 60_000;
    expect(links.redeem(second)).toBeUndefined();
  });

  test("do not exist outside a development stand", async () => {
    const other = await ConsoleStand.start();
    try {
      const headers = { authorization: `Bearer ${await other.operatorToken()}` };
      const response = await fetch(`${other.url}/console/links`, { method: "POST", headers });
      expect(await outcomeOf(response)).toBe("404 ROUTE_NOT_FOUND");
      expect(await other.outcome("/console/session", { method: "POST", body: { link: "x" } })).toBe(
        "401 UNAUTHENTICATED",
      );
    } finally {
      await other.close();
    }
  });
});

describe("attempts to sign in", () => {
  test("are bounded also where the answer is the same with a wrong token, and tokens known before go on", async () => {
    const stand = await ConsoleStand.start({
      server: { operatorsOnAgentPort: true },
      rest: { limits: { wrongTokensPerMinuteMax: 3 } },
    });
    try {
      const permissions = ["metrics:read"];
      const known = await stand.operatorToken(permissions);
      const agent = await issuers.token({ kind: "good", sub: "agent-7", permissions: [] });
      const [wrong, later] = [`${known.slice(0, -8)}AAAAAAAA`, await stand.operatorToken(permissions, { sub: "bob" })];
      const isDetailed = async (token: string): Promise<boolean> => {
        const response = await stand.send("/readyz", { headers: { authorization: `Bearer ${token}` } });
        expect(response.status).toBe(200);
        return "systems" in ((await response.json()) as object);
      };
      expect(await isDetailed(known)).toBe(true);
      // The token of an agent is not wrong, only of no use here.
      for (let count = 0; count < 8; count += 1) expect(await isDetailed(agent)).toBe(false);
      expect(await isDetailed(await stand.operatorToken(permissions, { sub: "carol" }))).toBe(true);
      for (let count = 0; count < 3; count += 1) expect(await isDetailed(wrong)).toBe(false);
      expect(await isDetailed(later)).toBe(false);
      expect(await isDetailed(known)).toBe(true);
    } finally {
      await stand.close();
    }
  });

  test("are bounded per source: wrong tokens are not verified beyond the limit, those known before are", async () => {
    const stand = await ConsoleStand.start({ rest: { limits: { wrongTokensPerMinuteMax: 3 } } });
    try {
      const token = await stand.operatorToken();
      const attempt = (body: object) => stand.outcome("/console/session", { method: "POST", body });
      expect(await attempt({ token })).toBe("200");
      const outcomes: string[] = [];
      for (const body of [{ token: "a" }, { link: "b" }, { token: "c" }, { token: "d" }, { link: "e" }]) {
        outcomes.push(await attempt(body));
      }
      expect(outcomes).toEqual([...Array(3).fill("401 UNAUTHENTICATED"), ...Array(2).fill("429 RATE_LIMITED")]);
      expect(await attempt({ token })).toBe("200");
    } finally {
      await stand.close();
    }
  });

  test("fill neither the journal nor the log: refusals beyond the limit are summed up", async () => {
    const stand = await ConsoleStand.start({ rest: { limits: { strangerLinesPerMinute: 5 } } });
    try {
      for (let count = 0; count < 20; count += 1) {
        await stand.outcome("/console/session", { method: "POST", body: { token: "wrong" } });
      }
      await stand.identity.service.drain();
      const refused = stand.journal().filter(({ type }) => type === "console.refused");
      const summed = refused.filter(({ count }) => count !== undefined);
      // Two minutes, if a new one began within the test.
      expect(refused.length - summed.length).toBeLessThanOrEqual(10);
      expect(summed[0]).toMatchObject({ code: "UNAUTHENTICATED", source: "127.0.0.1" });
      expect(refused.reduce((sum, { count }) => sum + Number(count ?? 1), 0)).toBe(20);
    } finally {
      await stand.close();
    }
  });

  test("are counted in the metrics by means and result, and so are the sessions", async () => {
    const stand = await ConsoleStand.start();
    try {
      await stand.signIn();
      await stand.outcome("/console/session", { method: "POST", body: { token: "wrong" } });
      const headers = { authorization: `Bearer ${await stand.operatorToken(["metrics:read"])}` };
      const text = await (await fetch(`${stand.url}/metrics`, { headers })).text();
      expect(text).toContain("stc_console_sessions 1\n");
      expect(text).toContain('stc_console_sign_ins_total{by="token",result="signed_in"} 1\n');
      expect(text).toContain('stc_console_sign_ins_total{by="token",result="refused"} 1\n');
    } finally {
      await stand.close();
    }
  });
});
