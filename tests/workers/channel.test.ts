import { expect, test } from "bun:test";
import { ProcessChannel } from "../../src/workers/channel.ts";

type Arithmetic = {
  readonly double: (value: number) => Promise<number>;
  readonly fail: () => Promise<never>;
  readonly never: () => Promise<never>;
};

/** Two ends that pass messages on as the runtime does: later, and as copies. */
function pair(): {
  readonly here: ProcessChannel<Arithmetic, Arithmetic>;
  readonly there: ProcessChannel<Arithmetic, Arithmetic>;
} {
  const ends: ProcessChannel<Arithmetic, Arithmetic>[] = [];
  const calls: Arithmetic = {
    double: async (value) => value * 2,
    fail: () => Promise.reject(new Error("it fails")),
    never: () => new Promise(() => {}),
  };
  const make = (other: number) =>
    new ProcessChannel<Arithmetic, Arithmetic>({
      send: (message) => setImmediate(() => ends[other]?.receive(structuredClone(message))),
      calls,
    });
  const [here, there] = [make(1), make(0)];
  ends.push(here, there);
  return { here, there };
}

test("both ends ask and answer at the same time", async () => {
  const { here, there } = pair();
  const asked = [1, 2, 3].flatMap((value) => [here, there].map((end) => end.ask("double", 1_000, value)));
  expect(await Promise.all(asked)).toEqual([2, 2, 4, 4, 6, 6]);
});

test("an error, a missing answer and the other end's end reject", async () => {
  const { here } = pair();
  expect(here.ask("fail", 1_000)).rejects.toThrow("it fails");
  expect(here.ask("never", 1)).rejects.toThrow("no answer to never in 1 ms");
  const open = here.ask("never", 60_000);
  here.close();
  expect(open).rejects.toThrow("has ended");
  expect(here.ask("double", 1_000, 1)).rejects.toThrow("has ended");
});

test.each([undefined, "text", {}, { ask: 1 }, { ask: 1, name: "toString" }, { answer: 99, value: 1 }])(
  "the message %j changes nothing",
  async (message) => {
    const { here } = pair();
    here.receive(message);
    expect(await here.ask("double", 1_000, 4)).toBe(8);
  },
);
