import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Capacity, type CapacityShare, shareOf } from "../../src/core/capacity.ts";
import { Refusal } from "../../src/core/errors.ts";
import type { Admitted, Verified } from "../../src/core/evidence.ts";
import { type Admission, createAdmission } from "../../src/pipeline/admission.ts";

/** Takes places until there are none; returns how many there were. */
function fill(share: CapacityShare): number {
  let taken = 0;
  for (; !share.isFull(); taken += 1) share.take();
  return taken;
}

test("a service alone has the whole capacity", () => {
  expect(fill(new Capacity(7).join())).toBe(7);
});

test("whoever comes first gets everything but the shares of the others, which get theirs", () => {
  const capacity = new Capacity(100);
  const [noisy, quiet, late] = [capacity.join(), capacity.join(), capacity.join()];
  expect(fill(noisy)).toBe(100 - 16 - 16);
  expect([fill(quiet), fill(late)]).toEqual([16, 16]);
  noisy.release();
  expect(quiet.isFull()).toBe(false);
  quiet.take();
  expect(noisy.isFull()).toBe(true);
});

test("a share that is returned is its owner's again, whoever is over the own share", () => {
  const capacity = new Capacity(8);
  const [noisy, quiet] = [capacity.join(), capacity.join()];
  fill(noisy);
  expect(fill(quiet)).toBe(2);
  quiet.release();
  expect(noisy.isFull()).toBe(true);
  expect(fill(quiet)).toBe(1);
});

test("after a reload with a smaller maximum, shares hold at once, and nothing else is free until calls have ended", () => {
  const capacity = new Capacity(100);
  const [noisy, quiet] = [capacity.join(), capacity.join()];
  expect(fill(noisy)).toBe(75);
  capacity.change(20);
  expect(fill(quiet)).toBe(5);
  for (let ended = 0; ended < 60; ended += 1) noisy.release();
  expect([noisy.isFull(), quiet.isFull()]).toEqual([true, true]);
  noisy.release();
  expect([noisy.isFull(), quiet.isFull()]).toEqual([false, false]);
});

test("larger amounts fit as a whole, into the own share and what is for everybody, or not at all", () => {
  const capacity = new Capacity(16);
  const [noisy, quiet] = [capacity.join(), capacity.join()];
  expect([noisy.isFull(12), noisy.isFull(13)]).toEqual([false, true]);
  noisy.take(10);
  expect([noisy.isFull(2), noisy.isFull(3), quiet.isFull(6), quiet.isFull(7)]).toEqual([false, true, false, true]);
  quiet.take(5);
  expect([noisy.isFull(1), noisy.isFull(2)]).toEqual([false, true]);
  noisy.release(10);
  expect([noisy.isFull(11), noisy.isFull(12)]).toEqual([false, true]);
});

test("a service that joins when everything is in use has its share; the first gets no more before it has released as much", () => {
  const capacity = new Capacity(8);
  const noisy = capacity.join();
  fill(noisy);
  const late = capacity.join();
  expect(fill(late)).toBe(2);
  noisy.release(2);
  expect(noisy.isFull()).toBe(true);
  noisy.release();
  expect(noisy.isFull()).toBe(false);
});

const SERVICES_MAX = 5;
const service = fc.nat(SERVICES_MAX - 1);
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("call" as const), service }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("end" as const), service }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("change" as const), callsMax: fc.integer({ min: 1, max: 40 }) }),
  },
);

type Step = typeof step extends fc.Arbitrary<infer Drawn> ? Drawn : never;

test("no place is lost or counted twice, whatever calls begin and end and however the maximum changes", () => {
  const run = (services: number, first: number, steps: readonly Step[]) => {
    let callsMax = first;
    const capacity = new Capacity(callsMax);
    const shares = Array.from({ length: services }, () => capacity.join());
    const calls = shares.map(() => 0);
    /** The most that calls from before a change may still hold. */
    let before = 0;
    const total = (): number => calls.reduce((sum, each) => sum + each, 0);
    for (const next of steps) {
      if (next.kind === "change") {
        callsMax = next.callsMax;
        capacity.change(callsMax);
        before = total();
        continue;
      }
      const at = next.service % services;
      const [share, own = 0] = [shares[at], calls[at]];
      if (next.kind === "end") {
        if (own === 0) continue;
        share?.release();
        calls[at] = own - 1;
        before = Math.max(0, before - 1);
        continue;
      }
      const each = shareOf(callsMax, services);
      const over = calls.reduce((sum, held) => sum + Math.max(0, held - each), 0);
      const isFull = own >= each && over >= callsMax - each * services;
      expect(share?.isFull()).toBe(isFull);
      if (isFull) continue;
      share?.take();
      calls[at] = own + 1;
      expect(total()).toBeLessThanOrEqual(Math.max(callsMax, before + each * services));
    }
    // Without calls, each service can again take everything but the shares of the others.
    shares.forEach((share, at) => {
      for (let left = calls[at] ?? 0; left > 0; left -= 1) share.release();
    });
    const each = shareOf(callsMax, services);
    for (const share of shares) {
      const taken = fill(share);
      expect(taken).toBe(callsMax - each * (services - 1));
      for (let left = taken; left > 0; left -= 1) share.release();
    }
  };
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: SERVICES_MAX }),
      fc.integer({ min: 1, max: 40 }),
      fc.array(step, { maxLength: 200 }),
      run,
    ),
  );
});

describe("at admission", () => {
  const caller = (subject: string) => ({ caller: { issuer: "i", subject } }) as Verified;
  const admissionOf = (capacity: Capacity, own: { readonly total: number; readonly each: number }): Admission =>
    createAdmission({
      concurrentCallsMax: own.total,
      concurrentCallsPerCallerMax: own.each,
      auditReady: () => true,
      capacity: capacity.join(),
    });
  const refusalOf = (admit: () => unknown): Refusal | undefined => {
    try {
      admit();
      return undefined;
    } catch (error) {
      if (error instanceof Refusal) return error;
      throw error;
    }
  };

  test("calls of one tenant that never end leave the other its share, and both get the same refusal", () => {
    const capacity = new Capacity(40);
    const [noisy, quiet] = [1, 2].map(() => admissionOf(capacity, { total: 1_000, each: 1_000 })) as [
      Admission,
      Admission,
    ];
    const held: Admitted[] = [];
    const flood = (): Refusal | undefined => refusalOf(() => held.push(noisy.admit(caller(`noisy ${held.length}`))));
    while (flood() === undefined);
    expect(noisy.inFlight()).toBe(30);
    // One call after the other, and as many at once as the share has.
    for (let made = 0; made < 1_000; made += 1) quiet.leave(quiet.admit(caller("quiet")));
    for (let made = 0; made < 10; made += 1) quiet.admit(caller("quiet"));
    const refusals = [flood(), refusalOf(() => quiet.admit(caller("quiet")))];
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({ code: "OVERLOADED", message: "Too many calls are in progress." });
      expect(refusal?.details).toBeUndefined();
    }
  });

  test("a call that is refused for another reason takes no place", () => {
    const capacity = new Capacity(8);
    const [first, second] = [admissionOf(capacity, { total: 8, each: 1 }), capacity.join()];
    const admitted = first.admit(caller("a"));
    for (let made = 0; made < 100; made += 1) {
      expect(refusalOf(() => first.admit(caller("a")))?.code).toBe("RATE_LIMITED");
    }
    first.leave(admitted);
    expect(fill(second)).toBe(6);
    const tight = admissionOf(new Capacity(8), { total: 1, each: 8 });
    tight.admit(caller("a"));
    expect(refusalOf(() => tight.admit(caller("b")))?.code).toBe("OVERLOADED");
  });
});
