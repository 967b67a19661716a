import { afterEach, expect, test } from "bun:test";
import { type LoadStand, openLoadStand } from "../http/load-stand.ts";

let open: LoadStand | undefined;
afterEach(async () => {
  await open?.close();
  open = undefined;
});

const MAX = 4;
const CALL = '{"tool":"load_echo","args":{}}';

interface Way {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** The status of a request to the calls' door, sent in a way of its own. */
async function send(url: string, token: string, { headers = {}, body = CALL }: Way): Promise<number> {
  const { status } = await fetch(`${url}/call`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers, authorization: `Bearer ${token}` },
    body,
  });
  return status;
}

/** Whose token it was is looked up for the line in the audit: that costs as much as refusing the token. */
const ways: readonly (readonly [string, Way, number])[] = [
  ["as it should be", {}, 401],
  ["with a body that is no JSON", { body: "{" }, 400],
  ["with a body that is no call", { body: '{"tools":[]}' }, 400],
  ["with another media type", { headers: { "content-type": "text/plain" } }, 415],
  ["with an Origin", { headers: { origin: "https://evil.example" } }, 403],
  ["with a key that is none", { headers: { "idempotency-key": "a b" } }, 400],
  ["with a coding", { headers: { "content-encoding": "gzip" } }, 415],
];

test.each(ways)("wrong tokens that come %s are counted, and beyond the limit not verified", async (_t, way, want) => {
  open = await openLoadStand({ limits: { wrongTokensPerMinuteMax: MAX } });
  const { service, token, audited } = open;
  const good = await token("agent-1");
  expect(await send(service.url, good, {})).toBe(200);
  for (let made = 0; made < MAX; made += 1) {
    expect(await send(service.url, await token(`agent-${made}`, "expired"), way)).toBe(want);
  }
  expect(await send(service.url, await token("agent-9", "expired"), {})).toBe(429);
  // Who was verified before goes on, in this way too, and is named in the line.
  expect(await send(service.url, good, {})).toBe(200);
  expect(await send(service.url, good, way)).toBe(want === 401 ? 200 : want);
  expect(audited().at(-1)).toMatchObject({ caller: { sub: "agent-1" } });
});

test.each(ways.slice(1))("a valid token that comes %s does not count as a wrong one", async (_title, way, want) => {
  open = await openLoadStand({ limits: { wrongTokensPerMinuteMax: MAX } });
  const { service, token } = open;
  for (let made = 0; made < 3 * MAX; made += 1) {
    expect(await send(service.url, await token(`agent-${made}`), way)).toBe(want);
  }
  expect(await send(service.url, await token("agent-99"), {})).toBe(200);
});
