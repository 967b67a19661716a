import { afterAll, beforeAll, expect, test } from "bun:test";
import { OidcSignIn } from "../../src/console/oidc.ts";
import { SessionRows } from "../../src/console/session-rows.ts";
import { SharedSecret } from "../../src/console/shared-secret.ts";
import { openSharedState } from "../../src/database/shared-state.ts";
import { causeText } from "../../src/runtime/log/log.ts";

/** Texts that no search for secrets would recognize. */
const TOKENS = { access_token: "opaque-1234", refresh_token: "next-one" } as const;

const START_MS = 1_771_243_200_000;
const HOUR_MS = 3_600_000;

let nowMs = START_MS;
let isAway = false;
const clock = (): number => nowMs;
const state = openSharedState({ now: clock, monotonic: clock });
let answer: { readonly status: number; readonly body: object };
let provider: Bun.Server<undefined>;

beforeAll(() => {
  provider = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch({ url }) {
      const { origin, pathname } = new URL(url);
      if (isAway) return new Response("", { status: 503 });
      if (pathname === "/token") return Response.json(answer.body, { status: answer.status });
      return Response.json({ issuer: origin, token_endpoint: `${origin}/token` });
    },
  });
});
afterAll(async () => {
  await provider.stop(true);
  await state.close();
});

function signIn(): OidcSignIn {
  const rows = new SessionRows(state);
  return new OidcSignIn({
    settings: {
      issuer: provider.url.origin,
      clientId: "stc-console",
      scopes: ["openid"],
      clientSecret: () => undefined,
      rootCert: undefined,
    },
    clock,
    verify: () => Promise.reject(new Error("no token is verified here")),
    rows,
    secret: new SharedSecret(rows, clock),
  });
}

/** Returns what the log says of a renewal. */
function logged(renewing: OidcSignIn): Promise<string> {
  return renewing.renew("the-token-before").then(() => "renewed", causeText);
}

test.each([
  ["token_type", { ...TOKENS, token_type: "mac" }],
  ["expires_in", { ...TOKENS, token_type: "Bearer", expires_in: "soon" }],
  ["scope", { ...TOKENS, token_type: "Bearer", scope: 5 }],
])("the log says that the provider's %s is wrong, and has none of the tokens next to it", async (member, body) => {
  answer = { status: 200, body };
  const log = await logged(signIn());
  expect(log).toContain(member);
  for (const secret of [...Object.values(TOKENS), "the-token-before"]) expect(log).not.toContain(secret);
});

test("the log has the error with which the provider refuses a renewal", async () => {
  answer = { status: 400, body: { error: "invalid_grant", error_description: "the session has ended" } };
  const log = await logged(signIn());
  expect(log).toContain("invalid_grant");
  expect(log).toContain("the session has ended");
  expect(log).not.toContain("the-token-before");
});

test.each([
  ["later", HOUR_MS],
  ["earlier, because the clock was set back", -HOUR_MS],
])("a provider that was away is asked again an hour %s", async (_, byMs) => {
  answer = { status: 400, body: { error: "invalid_grant" } };
  nowMs = START_MS;
  isAway = true;
  const renewing = signIn();
  expect(await logged(renewing)).toContain("503");
  isAway = false;
  expect(await logged(renewing)).toContain("could not be read just now");
  nowMs += byMs;
  expect(await logged(renewing)).toContain("invalid_grant");
});
