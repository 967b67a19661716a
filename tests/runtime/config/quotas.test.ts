import { expect, test } from "bun:test";
import { quotaNotes } from "../../../src/runtime/composition/quotas.ts";
import { toolOf } from "../../quotas/world.ts";
import { problemsOf, read } from "./reading.ts";

const quota = (more: Record<string, unknown> = {}) => ({
  ...{ name: "daily", per: ["caller"], calls: 10, window: "day" },
  ...more,
});

test("there are none unless they are written", () => {
  expect(read({}).limits.quotas).toEqual([]);
});

test.each([
  ["every condition", { when: { tools: ["a_*"], systems: ["s"], categories: ["read"], classifications: ["write"] } }],
  ["a caller", { when: { callers: [{ issuer: "https://login.example/", subject: "agent 7" }] } }],
  ["everybody", { per: [] }],
  ["fractions of a cost", { calls: undefined, cost: 0.000001 }],
  ["bytes", { calls: undefined, bytes: 1, window: "month", per: ["caller", "tool", "system"] }],
])("a quota with %s is accepted", (_title, more) => {
  expect(read({ limits: { quotas: [quota(more)] } }).limits.quotas).toHaveLength(1);
});

test.each([
  ["no limit", quota({ calls: undefined }), "limits.quotas[0]: must say how much: calls, bytes or cost"],
  ["two limits", quota({ cost: 5 }), "limits.quotas[0].cost: cannot be combined with calls: write a second quota"],
  ["a limit of nothing", quota({ calls: 0 }), "limits.quotas[0].calls: "],
  ["a part of a call", quota({ calls: 1.5 }), "limits.quotas[0].calls: "],
  ["an unknown window", quota({ window: "week" }), "limits.quotas[0].window: "],
  ["a session", quota({ per: ["session"] }), "limits.quotas[0].per[0]: "],
  ["a key twice", quota({ per: ["tool", "tool"] }), "limits.quotas[0].per[1]: is listed twice"],
  ["an unusable name", quota({ name: "a b" }), "limits.quotas[0].name: must be a name"],
  ["no condition", quota({ when: {} }), "limits.quotas[0].when: must name at least one condition"],
  ["an unknown condition", quota({ when: { risk: "high" } }), "limits.quotas[0].when: "],
  ["an unusable pattern", quota({ when: { tools: ["A+"] } }), "limits.quotas[0].when.tools[0]: must be a tool's name"],
  [
    "too fine a cost",
    quota({ calls: undefined, cost: 0.0000015 }),
    "limits.quotas[0].cost: must have at most six decimal places",
  ],
  ["an unknown key", quota({ minutes: 5 }), "limits.quotas[0].minutes: is not a known key"],
])("a quota with %s is refused, with its field", (_title, written, problem) => {
  expect(problemsOf({ limits: { quotas: [written] } }).join("\n")).toContain(problem);
});

test("two quotas of one name are refused", () => {
  expect(problemsOf({ limits: { quotas: [quota(), quota({ calls: 5 })] } }).join("\n")).toContain(
    "limits.quotas[1].name: is already used by an earlier quota",
  );
});

test("`stc check` notes quotas that are probably not intended", async () => {
  const tools = [toolOf("read_thing", { cost: 7 }), toolOf("other_thing")];
  const quotas = [
    quota({ when: { tools: ["read_thng", "other_*"] } }),
    quota({ name: "nothing", when: { systems: ["nowhere"] } }),
    quota({ name: "free", calls: undefined, cost: 5, when: { tools: ["other_thing"] } }),
    quota({ name: "small", calls: undefined, cost: 5 }),
  ];
  const config = read({ limits: { quotas } });
  const notes = await quotaNotes(config, { tools, notRegistered: [], isEmbedded: false });
  expect(notes).toEqual([
    "limits.quotas: counted by this process, and forgotten when it ends: set approvals.store",
    expect.stringMatching(
      /^limits\.quotas\[0\] \(daily\)\.when\.tools: read_thng is not a registered tool.*read_thing/,
    ) as unknown as string,
    "limits.quotas[1] (nothing): applies to no tool",
    "limits.quotas[2] (free).cost: no tool that it applies to declares a cost, so that it counts nothing",
    "limits.quotas[3] (small).cost: read_thing costs 7 and can never be called",
  ]);
  expect(await quotaNotes(config, { tools, notRegistered: ["x: needs systems.x"], isEmbedded: true })).toEqual([]);
  expect(await quotaNotes(read({}), { tools, notRegistered: [], isEmbedded: false })).toEqual([]);
});
