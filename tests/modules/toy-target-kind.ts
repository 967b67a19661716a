import { z } from "zod";
import { ManifestError, Refusal } from "../../src/core/errors.ts";
import { isTable } from "../../src/core/json.ts";
import { isText, unknownKeys, unless } from "../../src/core/manifest/checks.ts";
import { SHELL_ARGV } from "../../src/core/shell-script.ts";
import type { OpenedKind, TargetContext, TargetKind } from "../../src/core/target-kind.ts";
import type { Binding, Json, Tool } from "../../src/core/types.ts";

const entry = z.strictObject({
  startsAt: z.int().min(0).describe("The counter's first value."),
  valueMax: z.int().default(1_000).describe("The counter's largest value."),
  // Also a key of gRPC systems, and here a default: the entry is a counter's all the same.
  metadata: z.record(z.string(), z.string()).default({}).describe("Labels of the counter."),
});

type Counter = z.output<typeof entry>;

/**
 * Counters that the configuration names. A tool adds the number that one of its arguments holds; its argument `script` is what a shell
 * would run then.
 */
export const counter: TargetKind = {
  name: "counter",
  key: "counter",
  systems: { keys: ["startsAt"], schema: entry },
  check: (part) => {
    if (!isTable(part)) return [{ field: "target.counter", message: "must be { argument }" }];
    const { argument } = part;
    return [
      ...unless(isText(argument) && argument !== "", "target.counter.argument", "must name an argument"),
      ...unknownKeys("target.counter", part, ["argument", "path"]),
    ];
  },
  category: (isRead) => (isRead ? "network" : "write"),
  describesRequest: true,
  planOffline: ({ target }) => {
    const { system } = target;
    return (input) => ({ kind: "counter", system, by: input });
  },
  startsShells: true,
  sections: ["workspace"],
  open,
};

function open(context: TargetContext): OpenedKind {
  const counters = context.systems as ReadonlyMap<string, Counter>;
  const values = new Map([...counters].map(([system, { startsAt }]) => [system, startsAt]));
  let isClosed = false;
  return {
    bind: (tool) => bind(tool, counters, values),
    report: (tools) => ({ notes: [`counters: ${tools.map(({ name }) => name).join(", ")}`] }),
    status: async () =>
      Object.fromEntries(
        [...values].map(([system, value]) => [system, { state: isClosed ? "CLOSED" : "OPEN", value }]),
      ),
    close: async () => {
      isClosed = true;
    },
  };
}

function bind({ name, target }: Tool, counters: ReadonlyMap<string, Counter>, values: Map<string, number>): Binding {
  const { system, counter: part } = target as unknown as { system: string; counter: { argument: string } };
  const configured = counters.get(system);
  if (configured === undefined) {
    throw new ManifestError(name, [{ field: "target.system", message: `no counter ${system} is configured` }]);
  }
  return {
    plan(input) {
      const from = values.get(system) ?? configured.startsAt;
      const { script, ...numbers } = input as Readonly<Record<string, Json>>;
      const to = from + Number(numbers[part.argument]);
      const shell = script !== undefined && { command: "/bin/bash", argv: [...SHELL_ARGV, script] };
      if (to <= configured.valueMax) return { kind: "counter", system, from, to, ...shell };
      throw new Refusal("TARGET_REFUSED", "The counter cannot count that far.", {
        details: { status: "OUT_OF_RANGE" },
      });
    },
    async run({ from, to }) {
      if (values.get(system) !== from)
        throw new Refusal("TARGET_UNAVAILABLE", "Somebody else has counted. Call again.");
      values.set(system, Number(to));
      return { value: to };
    },
    describe: ({ from, to }) => ({ notes: [`The counter goes from ${from} to ${to}.`] }),
  };
}
