import { type Difference, during, sumOf } from "./counters.ts";
import type { Fleet } from "./fleet.ts";
import type { Figure } from "./report.ts";

const ROUNDS = 20;
/** For what a member writes after its answers. */
const SETTLED_MS = 2_500;

/** Counts at the hubs the requests that calls of one member add. The others are idle. */
export async function roundTripFigures(fleet: Fleet): Promise<readonly Figure[]> {
  const [withFlow, plain = withFlow] = fleet.members;
  if (withFlow === undefined || plain === undefined) throw new Error("there is no member");
  const succeed = async (tool: string, key: string): Promise<void> => {
    const { http, body } = await fleet.call(withFlow, tool, key);
    if (http !== 200) throw new Error(`${tool}: ${http} ${JSON.stringify(body)}`);
  };
  const keyOf = (round: number) => `${round}-${crypto.randomUUID()}`;
  // The first call makes what the others find.
  await succeed("look", "first");
  const reads = await rounds(fleet, (round) => succeed("look", keyOf(round)));
  // The first answer earns the label: what follows tells of nothing new.
  const label = await during(fleet, () => succeed("mail", keyOf(0)).then(() => Bun.sleep(SETTLED_MS)));
  const labelled = await rounds(fleet, (round) => succeed("mail", keyOf(round)));
  await fleet.change(plain, crypto.randomUUID());
  const changes = await rounds(fleet, () => fleet.change(plain, crypto.randomUUID()));
  const changesWithFlow = await rounds(fleet, () => fleet.change(withFlow, crypto.randomUUID()));
  return [
    figure("a read with data flow, without a new label", reads, { reach: 0, aim: 0 }),
    figure("a read that earns a label", { ...label, rounds: 1 }, { reach: 1, aim: 1 }),
    figure("a read of untrusted text, whose label is known", labelled),
    figure("a change with an approval", changes, { reach: 2, aim: 1 }),
    figure("a change with an approval and data flow", changesWithFlow),
  ];
}

type Rounds = Difference & { readonly rounds: number };

async function rounds(fleet: Fleet, act: (round: number) => Promise<void>): Promise<Rounds> {
  const counted = await during(fleet, async () => {
    for (let round = 0; round < ROUNDS; round += 1) await act(round);
    await Bun.sleep(SETTLED_MS);
  });
  return { ...counted, rounds: ROUNDS };
}

/** Requests that a member sends after its answers. With an `Idempotency-Key`, which no change here has, the answer would wait for them. */
const AFTERWARDS = ["flow.add", "approvals.settle"];

function figure(what: string, counted: Rounds, wanted: Pick<Figure, "reach" | "aim"> = {}): Figure {
  const each = [...counted.requests].map(
    ([method, count]) =>
      `${method} ${+(count / counted.rounds).toFixed(2)}${AFTERWARDS.includes(method) ? " (after the answer)" : ""}`,
  );
  const before = [...counted.requests].filter(([method]) => !AFTERWARDS.includes(method));
  const value = sumOf(before.map(([, count]) => count)) / counted.rounds;
  return { what: `requests to the hub before the answer: ${what}`, value, ...wanted, note: each.join(", ") };
}
