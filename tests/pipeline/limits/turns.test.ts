import { expect, test } from "bun:test";
import fc from "fast-check";
import { REQUESTS_PER_TURN, Turns } from "../../../src/pipeline/limits/turns.ts";

/** Turns of an event loop that ends its turn, and whose clock moves, when the test says so. */
function loop() {
  let now = 0;
  const deferred: (() => void)[] = [];
  const turns = new Turns({ now: () => now, defer: (work) => deferred.push(work) });
  const join = () => {
    const waits: number[] = [];
    const turn = turns.join((waitedMs) => waits.push(waitedMs));
    const begun: number[] = [];
    let sent = 0;
    /** Sends so many requests; they note in `begun` when they begin. */
    const send = (count: number): void => {
      for (let at = 0; at < count; at += 1) {
        const request = sent;
        sent += 1;
        const waiting = turn.next();
        if (waiting === undefined) begun.push(request);
        else void waiting.then(() => begun.push(request));
      }
    };
    return { send, begun, waits };
  };
  const end = async (ms = 0): Promise<void> => {
    now += ms;
    for (const work of deferred.splice(0)) work();
    await Promise.resolve();
  };
  return { join, end, isIdle: () => deferred.length === 0 };
}

test("in one turn, each service begins some requests, however many another has sent", async () => {
  const { join, end } = loop();
  const [noisy, quiet] = [join(), join()];
  noisy.send(1_000);
  quiet.send(3);
  expect([noisy.begun.length, quiet.begun.length]).toEqual([REQUESTS_PER_TURN, 3]);
  await end();
  quiet.send(1);
  expect([noisy.begun.length, quiet.begun.length]).toEqual([2 * REQUESTS_PER_TURN, 4]);
});

test("the time that a request has waited is noted before it begins", async () => {
  const { join, end } = loop();
  const { send, waits } = join();
  send(REQUESTS_PER_TURN + 1);
  await end(700);
  send(1);
  expect(waits.slice(-3)).toEqual([0, 700, 0]);
});

test("a service that sends nothing costs no turns", async () => {
  const { join, end, isIdle } = loop();
  const { send } = join();
  send(REQUESTS_PER_TURN + 1);
  await end();
  expect(isIdle()).toBe(false);
  await end();
  expect(isIdle()).toBe(true);
});

test("every request begins once, in the order of its service, and no turn begins more than its part", async () => {
  const sends = fc.array(fc.array(fc.nat(3 * REQUESTS_PER_TURN), { minLength: 3, maxLength: 3 }), { maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(sends, async (rounds) => {
      const { join, end, isIdle } = loop();
      const services = [join(), join(), join()];
      const sent = services.map(() => 0);
      const turn = async (counts: readonly number[]): Promise<void> => {
        const before = services.map(({ begun }) => begun.length);
        await end();
        services.forEach((service, at) => {
          const count = counts[at] ?? 0;
          const waiting = (sent[at] ?? 0) - (before[at] ?? 0);
          service.send(count);
          sent[at] = (sent[at] ?? 0) + count;
          const began = service.begun.length - (before[at] ?? 0);
          expect(began).toBe(Math.min(REQUESTS_PER_TURN, waiting + count));
        });
      };
      for (const counts of rounds) await turn(counts);
      while (!isIdle()) await turn([]);
      for (const [at, { begun }] of services.entries()) {
        expect(begun).toEqual(Array.from({ length: sent[at] ?? 0 }, (_, request) => request));
      }
    }),
  );
});
