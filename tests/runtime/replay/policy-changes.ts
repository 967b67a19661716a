import { numbers, type Policy, type ToolSpec } from "./replay-world.ts";

type Change = (policy: Policy) => Policy;
type Make = (next: (max: number) => number) => readonly [name: string, change: Change];

const PERMISSIONS = ["orders:read", "orders:write", "orders:admin", "pay:small", "pay:large"];
const AGENTS = ["agent-0", "agent-1", "agent-2", "agent-3"];

function onTool(
  next: (max: number) => number,
  name: string,
  change: (tool: ToolSpec) => void,
): readonly [string, Change] {
  const at = next(6);
  return [
    `tool ${at}: ${name}`,
    (policy) => {
      const tool = policy.tools[at];
      if (tool !== undefined) change(tool);
      return policy;
    },
  ];
}

/** Every kind of change, each with values that depend on the seed. */
export const KINDS: readonly Make[] = [
  (next) => {
    const permission = PERMISSIONS[next(PERMISSIONS.length)] ?? "";
    return onTool(next, `also requires ${permission}`, (tool) => {
      tool.required = [...new Set([...tool.required, permission])];
    });
  },
  (next) => {
    const sub = AGENTS[next(AGENTS.length)] ?? "";
    const permission = PERMISSIONS[next(3)] ?? "";
    return [
      `${sub} loses ${permission}`,
      (policy) => {
        policy.permissions[sub] = (policy.permissions[sub] ?? []).filter((held) => held !== permission);
        return policy;
      },
    ];
  },
  (next) =>
    onTool(next, "always asks", (tool) => {
      tool.approval = { required: true };
    }),
  (next) => {
    const tier = ["basic", "gold", "vip"][next(3)] ?? "";
    return [
      `calls for ${tier} are denied`,
      (policy) => ({ ...policy, rules: [...policy.rules, { name: "new", when: { args: { tier } }, verdict: "deny" }] }),
    ];
  },
  (next) => {
    const mode = (["yolo", "autoEdit"] as const)[next(2)] ?? "yolo";
    return [`mode ${mode}`, (policy) => ({ ...policy, mode })];
  },
  (next) => {
    const [asksAbove, elevatedAbove] = [next(700), next(800)];
    return [
      `payments ask above ${asksAbove}, and need more above ${elevatedAbove}`,
      (policy) => ({ ...policy, payments: { asksAbove, elevatedAbove } }),
    ];
  },
  (next) => {
    const program = ["ls", "cat", "git", "echo"][next(4)] ?? "";
    return [
      `scripts with ${program} are denied`,
      (policy) => ({
        ...policy,
        rules: [...policy.rules, { name: "new", when: { shell: { programs: [program] } }, verdict: "deny" }],
      }),
    ];
  },
  (next) =>
    onTool(next, "is of high risk", (tool) => {
      tool.approval = { ...tool.approval, risk: "high" };
    }),
  () => ["no rules", (policy) => ({ ...policy, rules: [] })],
  (next) => {
    const category = (["read", "write", "network"] as const)[next(3)] ?? "read";
    return [
      `calls of the category ${category} ask`,
      (policy) => ({ ...policy, rules: [...policy.rules, { name: "new", when: { category }, verdict: "ask" }] }),
    ];
  },
  (next) => {
    const at = next(6);
    return [
      `tool ${at} is removed`,
      (policy) => ({ ...policy, tools: policy.tools.filter((_tool, index) => index !== at) }),
    ];
  },
  (next) => {
    // With only the smaller payments, the verdict would depend on amounts, which are not in the audit of refused calls.
    const sub = ["agent-0", "agent-3"][next(2)] ?? "";
    return [
      `agent-9 gets the permissions of ${sub}`,
      (policy) => {
        policy.permissions["agent-9"] = policy.permissions[sub] ?? [];
        return policy;
      },
    ];
  },
  () => ["nobody can be asked", (policy) => ({ ...policy, hasStore: false })],
  () => ["another issuer", (policy) => ({ ...policy, issuer: "other" })],
];

/** Returns seeded changes of the usual policy: of each kind the same number, as far as possible. */
export function changes(count: number): readonly (readonly [name: string, change: Change])[] {
  return Array.from({ length: count }, (_, seed) => {
    const make = KINDS[seed % KINDS.length] as Make;
    const [name, change] = make(numbers(seed));
    return [`${seed}: ${name}`, change] as const;
  });
}
