import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { issuers } from "../support/identity-service.ts";
import { ConsoleStand, cookieIn, type Halves, outcomeOf, PERMISSIONS } from "./console-stand.ts";

let stand: ConsoleStand;
let session: Halves;

beforeAll(async () => {
  stand = await ConsoleStand.start();
  session = await stand.signIn();
});

afterAll(() => stand.close());

describe("sign-in with a pasted token", () => {
  test("answers with the page's half, and sets the other as a cookie that scripts cannot read", async () => {
    const token = await stand.operatorToken();
    const response = await stand.send("/console/session", { method: "POST", body: { token } });
    const text = await response.text();
    const { key, ...facts } = JSON.parse(text);
    expect(response.status).toBe(200);
    expect(key).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(facts).toEqual({
      ...{ sub: "ann", iss: "https://people.test", permissions: PERMISSIONS },
      ...{ expiresAt: expect.stringMatching(/Z$/), endsAt: facts.expiresAt },
    });
    expect(response.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^stc_console=[A-Za-z0-9_-]{86}; Path=\/; HttpOnly; SameSite=Strict$/),
    ]);
    expect(text).not.toContain(token);
  });

  test.each([
    [
      "an agent's token",
      () => issuers.token({ kind: "good", sub: "bot", permissions: PERMISSIONS }),
      "401 UNAUTHENTICATED",
    ],
    ["an expired token", () => stand.operatorToken(PERMISSIONS, { lifetime: "-1 minute" }), "401 UNAUTHENTICATED"],
    [
      "a token of another issuer",
      () => issuers.token({ kind: "other issuer", sub: "x", permissions: [] }),
      "401 UNAUTHENTICATED",
    ],
    [
      "a token that nobody signed",
      () => issuers.token({ kind: "unsigned", sub: "x", permissions: [] }),
      "401 UNAUTHENTICATED",
    ],
    ["a token with its scheme", async () => `Bearer ${await stand.operatorToken()}`, "401 UNAUTHENTICATED"],
    ["an empty token", async () => "", "400 MALFORMED_REQUEST"],
    ["9,000 characters", async () => "x".repeat(9_000), "400 MALFORMED_REQUEST"],
  ])("%s is refused, and sets no cookie", async (_name, token, outcome) => {
    const response = await stand.send("/console/session", { method: "POST", body: { token: await token() } });
    expect(response.headers.getSetCookie()).toEqual([]);
    expect(await outcomeOf(response)).toBe(outcome);
  });

  test.each([[{}], [{ token: "a", link: "b" }], [{ code: "a" }], [[]], ["x"], [{ token: ["x"] }]])(
    "the body %j is refused",
    async (body) => {
      expect(await stand.outcome("/console/session", { method: "POST", body })).toBe("400 MALFORMED_REQUEST");
    },
  );

  test("is in the journal, and so are sign-outs and refusals", async () => {
    const own = await stand.signIn();
    await stand.send("/console/session", { method: "DELETE", session: own });
    await stand.send("/console/session", { method: "POST", body: { token: "nonsense" } });
    const [signedIn, signedOut, refused] = stand.journal().slice(-3);
    expect(signedIn).toMatchObject({ type: "console.signedIn", sub: "ann", iss: "https://people.test", by: "token" });
    expect(signedOut).toMatchObject({ type: "console.signedOut", sub: "ann", why: "signed_out" });
    expect(refused).toMatchObject({
      type: "console.refused",
      by: "token",
      code: "UNAUTHENTICATED",
      source: "127.0.0.1",
    });
  });
});

describe("a session", () => {
  test("reads and changes what its operator may", async () => {
    expect(await stand.outcome("/audit", { session })).toBe("200");
    expect(await stand.outcome("/console/session", { session })).toBe("200");
  });

  test("tells who is signed in, without the page's half", async () => {
    const response = await stand.send("/console/session", { session });
    expect(Object.keys((await response.json()) as object)).toEqual([
      "sub",
      "iss",
      "permissions",
      "expiresAt",
      "endsAt",
    ]);
  });

  test("may do nothing that its token may not", async () => {
    const weak = await stand.signIn({ token: await stand.operatorToken(["metrics:read"]) });
    expect(await stand.outcome("/audit", { session: weak })).toBe("403 PERMISSION_DENIED");
  });

  test.each([
    ["the cookie alone", () => ({ "stc-console-key": undefined })],
    ["the key alone", () => ({ cookie: undefined })],
    ["another key", () => ({ "stc-console-key": "x".repeat(43) })],
    ["a key of another length", () => ({ "stc-console-key": `${session.key}x` })],
    ["an empty key", () => ({ "stc-console-key": "" })],
    ["another cookie", () => ({ cookie: `stc_console=${"x".repeat(43)}` })],
    ["a cookie with this prefix in its name", () => ({ cookie: `stc_console2=${session.cookie}` })],
    ["a cookie whose name differs in case", () => ({ cookie: `STC_console=${session.cookie}` })],
    ["the cookie's name for TLS", () => ({ cookie: `__Host-stc_console=${session.cookie}` })],
    ["the value in quotes", () => ({ cookie: `stc_console="${session.cookie}"` })],
  ])("is not usable with %s", async (_name, headers) => {
    expect(await stand.outcome("/audit", { session, headers: headers() })).toBe("401 UNAUTHENTICATED");
  });

  test("is not usable with the halves of two sessions", async () => {
    const other = await stand.signIn();
    expect(await stand.outcome("/audit", { session: { cookie: session.cookie, key: other.key } })).toBe(
      "401 UNAUTHENTICATED",
    );
  });

  test("and a token are not accepted in one request, nor is one half of it", async () => {
    const authorization = `Bearer ${await stand.operatorToken()}`;
    expect(await stand.outcome("/audit", { session, headers: { authorization } })).toBe("400 MALFORMED_REQUEST");
    const cookie = `stc_console=${session.cookie}`;
    expect(await stand.outcome("/audit", { headers: { authorization, cookie } })).toBe("400 MALFORMED_REQUEST");
  });

  test("is refused when its cookie appears twice", async () => {
    const cookie = `stc_console=${"x".repeat(43)}; stc_console=${session.cookie}`;
    expect(await stand.outcome("/audit", { session, headers: { cookie } })).toBe("400 MALFORMED_REQUEST");
  });

  test("ends when its person signs out, and its cookie is removed", async () => {
    const own = await stand.signIn();
    const response = await stand.send("/console/session", { method: "DELETE", session: own });
    expect(response.status).toBe(204);
    expect(response.headers.getSetCookie()).toEqual(["stc_console=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"]);
    expect(await stand.outcome("/console/session", { session: own })).toBe("401 UNAUTHENTICATED");
  });

  test("ends when its browser signs in again, and the new one has another id", async () => {
    const first = await stand.signIn();
    const token = await stand.operatorToken();
    const response = await stand.send("/console/session", { method: "POST", session: first, body: { token } });
    const set = response.headers.getSetCookie()[0] ?? "";
    expect(set).not.toContain(first.cookie);
    expect(await stand.outcome("/console/session", { session: first })).toBe("401 UNAUTHENTICATED");
    const cookie = cookieIn(response, "stc_console");
    expect(await stand.outcome("/console/session", { session: { cookie, key: first.key } })).toBe(
      "401 UNAUTHENTICATED",
    );
  });

  test("never gets the id that an attacker has planted", async () => {
    const planted = "A".repeat(43);
    const token = await stand.operatorToken();
    const headers = { cookie: `stc_console=${planted}` };
    const response = await stand.send("/console/session", { method: "POST", headers, body: { token } });
    const { key } = (await response.json()) as { readonly key: string };
    expect(response.headers.getSetCookie()[0]).not.toContain(planted);
    expect(await stand.outcome("/audit", { session: { cookie: planted, key } })).toBe("401 UNAUTHENTICATED");
  });

  test("ends with its token", async () => {
    const short = await stand.signIn({ token: await stand.operatorToken(PERMISSIONS, { lifetime: "2 seconds" }) });
    // A token ends at a whole second: up to one second earlier than its lifetime says.
    await Bun.sleep(2_050);
    expect(await stand.outcome("/audit", { session: short })).toBe("401 UNAUTHENTICATED");
  });

  test("of one operator beyond the sixteenth ends the oldest", async () => {
    const signIn = async () => stand.signIn({ token: await stand.operatorToken(PERMISSIONS, { sub: "bob" }) });
    const sessions: Halves[] = [];
    for (let count = 0; count < 17; count += 1) sessions.push(await signIn());
    const [oldest, second] = sessions;
    expect(await stand.outcome("/console/session", { session: oldest })).toBe("401 UNAUTHENTICATED");
    expect(await stand.outcome("/console/session", { session: second })).toBe("200");
  });

  test("is for the console's listener only", async () => {
    const { service } = stand.identity;
    const headers = { cookie: `stc_console=${session.cookie}`, "stc-console-key": session.key };
    expect((await fetch(`${service.url}/audit`, { headers })).status).toBe(401);
  });
});

describe("requests that the console's page did not send", () => {
  const changes = { method: "POST", body: {} } as const;

  test.each([
    ["another site's read", {}, { "sec-fetch-site": "cross-site" }],
    ["a read by a page on another port of the same host", {}, { "sec-fetch-site": "same-site" }],
    ["a read that a person typed", {}, { "sec-fetch-site": "none" }],
    ["a read that does not say who sent it", {}, { "sec-fetch-site": undefined }],
    ["two values of Sec-Fetch-Site", {}, { "sec-fetch-site": "same-origin, cross-site" }],
    ["a change without Origin", changes, { origin: undefined }],
    ["a change of an opaque origin", changes, { origin: "null" }],
    ["a change of another port", changes, { origin: "http://127.0.0.1:1" }],
    ["a change of another scheme", changes, { origin: "https://127.0.0.1" }],
    ["a change without Sec-Fetch-Site", changes, { "sec-fetch-site": undefined }],
    ["a change of the same site", changes, { "sec-fetch-site": "same-site" }],
  ])("%s is refused", async (_name, options, headers) => {
    const path = "method" in options ? "/tools/whoami/learning" : "/audit";
    expect(await stand.outcome(path, { ...options, session, headers })).toBe("403 HOST_NOT_ALLOWED");
  });

  test.each([
    ["another origin", { origin: "http://evil.example" }],
    ["no origin", { origin: undefined }],
    ["no Sec-Fetch-Site", { "sec-fetch-site": undefined }],
  ])("a sign-in with %s is refused: nobody is signed in as somebody else", async (_name, headers) => {
    const token = await stand.operatorToken();
    const response = await stand.send("/console/session", { method: "POST", body: { token }, headers });
    expect(response.headers.getSetCookie()).toEqual([]);
    expect(await outcomeOf(response)).toBe("403 HOST_NOT_ALLOWED");
  });

  test("a sign-in as a form sends it is refused", async () => {
    const headers = { "content-type": "text/plain" };
    const body = { token: await stand.operatorToken() };
    expect(await stand.outcome("/console/session", { method: "POST", body, headers })).toBe(
      "415 UNSUPPORTED_MEDIA_TYPE",
    );
  });
});
