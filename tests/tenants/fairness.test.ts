import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { REQUESTS_PER_TURN } from "../../src/pipeline/limits/turns.ts";
import { TenantService } from "../support/tenant-service.ts";
import { until } from "../support/until.ts";

/** Twelve places: two for the service itself and for each of its two tenants, and six for whoever comes first. */
const PLACES = 12;
const SHARE = 2;

const service = new TenantService();
beforeAll(() => service.start({ limits: { concurrentCallsMax: PLACES } }));
afterAll(() => service.end());
afterEach(() => {
  service.finish();
  service.begun.length = 0;
});

/** Acme's calls that never end; returns the answers of those that were refused. */
async function fillByAcme() {
  const calls = Array.from({ length: PLACES * 2 }, () => service.callTo("acme", "slow_read"));
  const refused: Awaited<(typeof calls)[number]>[] = [];
  for (const call of calls) {
    void call.then((reply) => {
      if (reply.http !== 200) refused.push(reply);
    });
  }
  await until("the other refusals", () => (refused.length === PLACES + 2 * SHARE ? true : undefined));
  return { refused, ended: Promise.all(calls) };
}

test("slow calls of one tenant leave another and the service itself their shares; a refusal is the usual one", async () => {
  const { refused, ended } = await fillByAcme();
  expect(service.begun).toEqual(Array.from({ length: PLACES - 2 * SHARE }, () => "slow_read of acme"));
  for (const { http, body } of refused) {
    expect([http, body.error.code, body.error.message]).toEqual([503, "OVERLOADED", "Too many calls are in progress."]);
    expect(body.error.details).toBeUndefined();
  }
  for (let made = 0; made < 20; made += 1) {
    const replies = await Promise.all(
      (["globex", "globex", undefined, undefined] as const).map((tenant) => service.callTo(tenant, "do_read")),
    );
    expect(replies.map(({ http, body }) => [http, body.result?.by])).toEqual([
      [200, "globex"],
      [200, "globex"],
      [200, "service"],
      [200, "service"],
    ]);
  }
  service.finish();
  await ended;
  const outcomes = service.entriesOf("acme").map(({ decision, error }) => error?.code ?? decision);
  expect(outcomes.filter((outcome) => outcome === "OVERLOADED")).toHaveLength(refused.length);
  expect(service.entriesOf("globex").filter(({ error }) => error !== undefined)).toEqual([]);
});

test("places that acme's calls have left are free again for globex, which gets all but the shares of the others", async () => {
  const { ended } = await fillByAcme();
  service.finish();
  await ended;
  service.begun.length = 0;
  const answered: number[] = [];
  const calls = Array.from({ length: PLACES }, async () => {
    answered.push((await service.callTo("globex", "slow_read")).http);
  });
  await until("the calls", () => (service.begun.length === PLACES - 2 * SHARE ? true : undefined));
  await until("the refusals", () => (answered.length === 2 * SHARE ? true : undefined));
  expect(answered).toEqual(Array.from({ length: 2 * SHARE }, () => 503));
  service.finish();
  await Promise.all(calls);
});

test("more requests at once than a turn begins are all answered", async () => {
  const { tokens } = service;
  const token = await tokens.operatorOf("acme", ["halts:read"]);
  const count = 4 * REQUESTS_PER_TURN;
  const replies = await Promise.all(Array.from({ length: count }, () => service.send("GET", "/halts", { token })));
  expect(replies.filter(({ http }) => http === 200)).toHaveLength(count);
});
