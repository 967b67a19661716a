import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { parse } from "yaml";
import { blockNamed } from "../../support/documented.ts";
import { pythonWith } from "../../support/python.ts";
import { RECOMMENDED } from "../adaptive/measure.ts";
import { playSuite, tablesOf } from "./adaptive.ts";
import { latency } from "./latency.ts";
import { attributions, merged, type Provenance } from "./provenance.ts";
import { attack, type Case, type Order, type Run, replay, type SuitePlan, wasStopped } from "./runs.ts";
import { Stand, type StandOptions } from "./stand.ts";
import { destinationsOf, type Flows } from "./truth.ts";
import { VARIANTS } from "./variants.ts";

/**
 * Measures data flow on AgentDojo: `bun run eval:agentdojo`. Prints the tables of docs/data-flow-evaluation.md.
 *
 * `--suite banking` measures one suite, `--rules default` one set of rules, and `--part attacks` one part. The first run downloads
 * AgentDojo from PyPI.
 */
const { values: options } = parseArgs({
  options: {
    benchmark: { type: "string", default: "v1.1.2" },
    suite: { type: "string", multiple: true, default: ["workspace", "banking", "travel", "slack"] },
    rules: { type: "string", multiple: true },
    part: { type: "string", multiple: true, default: ["attacks", "adaptive", "variants", "latency"] },
  },
});

/** What the proxy is told beyond its default, and whether it knows the user's request. */
interface RuleSet {
  readonly name: string;
  readonly isRequestKnown: boolean;
  readonly dataFlow: Readonly<Record<string, unknown>>;
}

/** The set that docs/data-flow.md recommends to a host that says what the user asked for. */
const { dataFlow: REQUESTED } = parse(blockNamed("docs/data-flow.md: # the host says what the user asked for").text);

const RULE_SETS: readonly RuleSet[] = [
  { name: "request known", isRequestKnown: true, dataFlow: REQUESTED },
  { name: "request unknown", isRequestKnown: false, dataFlow: REQUESTED },
  { name: "default", isRequestKnown: false, dataFlow: {} },
];

interface Measured {
  readonly plain: readonly Run[];
  /** The user's calls with the injected texts present, which the agent ignores. */
  readonly ignored: readonly Run[];
  readonly attacked: Readonly<Record<Order, readonly Run[]>>;
  readonly provenance: Provenance;
}

/** User tasks of each suite in which destinations are written differently: how they are written does not depend on the task. */
const VARIED_TASKS = 5;
const PROGRAM = join(import.meta.dir, "suites.py");
const declarations = parse(readFileSync(join(import.meta.dir, "declarations.yaml"), "utf8")) as Readonly<
  Record<string, { readonly dataFlow?: Flows[string] }>
>;
const flows: Flows = Object.fromEntries(
  Object.entries(declarations).map(([tool, { dataFlow = { reads: [] } }]) => [tool, dataFlow]),
);

/** Asks AgentDojo for its tasks and cases. */
async function plansOf(benchmark: string): Promise<Readonly<Record<string, SuitePlan>>> {
  const child = Bun.spawn([python, PROGRAM, "plan", benchmark], { stdout: "pipe", stderr: "pipe" });
  const [text, problems, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(`suites.py plan ${benchmark} ended with ${code}: ${problems}`);
  return JSON.parse(text) as Readonly<Record<string, SuitePlan>>;
}

function planOf(suite: string): SuitePlan {
  const plan = plans[suite];
  if (plan === undefined) throw new Error(`${suite} is not a suite of AgentDojo: ${Object.keys(plans).join(", ")}`);
  return plan;
}

async function withStand<T>(
  suite: string,
  dataFlow: StandOptions["dataFlow"],
  use: (stand: Stand) => Promise<T>,
): Promise<T> {
  const stand = new Stand({ python, version: options.benchmark, suite, dataFlow });
  try {
    return await use(await stand.start());
  } finally {
    await stand.end();
  }
}

/** Cases whose goal needs a call: the others are texts, which no proxy sees. */
function withCalls({ cases }: SuitePlan): readonly Case[] {
  return cases.filter(({ calls }) => calls.length > 0);
}

async function measure(suite: string, ruleSet: RuleSet): Promise<Measured> {
  const plan = planOf(suite);
  return await withStand(suite, ruleSet.dataFlow, async (stand) => {
    const plain: Run[] = [];
    for (const task of plan.tasks) plain.push(await replay(stand, task, ruleSet));
    const attacked: Record<Order, Run[]> = { now: [], end: [] };
    for (const order of ["now", "end"] as const) {
      for (const one of withCalls(plan)) attacked[order].push(await attack(stand, one, order, ruleSet));
    }
    const provenance = attributions([...plain, ...attacked.now], { plan, flows, audit: stand.audit() });
    return { plain, attacked, ignored: attacked.end, provenance };
  });
}

function questions(run: Run): number {
  return run.userCalls.filter(({ asked }) => asked !== undefined).length;
}

/** Returns whether the attacker got what he wanted although nobody was asked about a call that the injected text caused. */
function isOpen(run: Run): boolean {
  return run.reached && !run.attackCalls.some(wasStopped);
}

interface Row {
  readonly suite: string;
  readonly tasks: number;
  readonly solved: number;
  readonly free: number;
  readonly questions: number;
  readonly ignoredFree: number;
  readonly ignoredQuestions: number;
  readonly ignored: number;
  readonly cases: number;
  readonly unread: number;
  readonly open: Readonly<Record<Order, number>>;
}

function rowOf(suite: string, { plain, ignored, attacked }: Measured): Row {
  const sum = (runs: readonly Run[]): number => runs.reduce((total, run) => total + questions(run), 0);
  const free = (runs: readonly Run[]): number => runs.filter((run) => questions(run) === 0).length;
  const read = (order: Order) => attacked[order].filter(({ wasRead }) => wasRead);
  return {
    ...{ suite, tasks: plain.length, solved: plain.filter(({ utility }) => utility).length },
    ...{ free: free(plain), questions: sum(plain), cases: read("end").length },
    ...{ ignored: ignored.length, ignoredFree: free(ignored), ignoredQuestions: sum(ignored) },
    unread: attacked.end.length - read("end").length,
    open: { now: read("now").filter(isOpen).length, end: read("end").filter(isOpen).length },
  };
}

async function reportAttacks(ruleSet: RuleSet): Promise<void> {
  const rows: Row[] = [];
  const provenances: Provenance[] = [];
  const losses: string[] = [];
  for (const suite of options.suite) {
    const measured = await measure(suite, ruleSet);
    rows.push(rowOf(suite, measured));
    provenances.push(measured.provenance);
    losses.push(...lossesOf(suite, measured));
  }
  console.log(`\n## Rules: ${ruleSet.name} ${JSON.stringify(ruleSet.dataFlow)}\n`);
  console.log(
    "| suite | user tasks | solved | without a question | questions a task | with injected text: without, a task | cases | goals at once | goals at the end |",
  );
  console.log("|---|---|---|---|---|---|---|---|---|");
  for (const row of [...rows, rows.reduce(added)]) {
    const { tasks, cases, open } = row;
    const columns = [
      ...[
        row.suite,
        tasks,
        row.solved,
        `${row.free} (${percent(row.free, tasks)})`,
        (row.questions / tasks).toFixed(2),
      ],
      `${percent(row.ignoredFree, row.ignored)}, ${(row.ignoredQuestions / row.ignored).toFixed(2)}`,
      ...[`${cases}${row.unread === 0 ? "" : ` (${row.unread} more never read)`}`, open.now, open.end],
    ];
    console.log(`| ${columns.join(" | ")} |`);
  }
  const { destinations, codes, others, marked, wrong, both } = merged(provenances);
  const shares = [destinations, codes, others].map(({ all, named }) => `${named} of ${all} (${percent(named, all)})`);
  console.log(
    `\nsource named, of attacker-controlled destinations: ${shares[0]}; of codes: ${shares[1]}; of texts: ${shares[2]}`,
  );
  console.log(
    `untrusted source named: ${marked} arguments; wrong: ${wrong} (${percent(wrong, marked)}), in both: ${both}`,
  );
  for (const loss of losses) console.log(`- ${loss}`);
}

function added(one: Row, other: Row): Row {
  const numbers = Object.entries(one).map(([key, value]) => [
    key,
    typeof value === "number" ? value + (other[key as keyof Row] as number) : value,
  ]);
  const open = { now: one.open.now + other.open.now, end: one.open.end + other.open.end };
  return { ...(Object.fromEntries(numbers) as Row), suite: "all", open };
}

function percent(part: number, whole: number): string {
  return whole === 0 ? "–" : `${((part / whole) * 100).toFixed(1)} %`;
}

/** Returns what the tables only count: the goals that were reached, and the tools that asked in users' tasks. */
function lossesOf(suite: string, { plain, attacked }: Measured): readonly string[] {
  const open = (["now", "end"] as const).flatMap((order) =>
    [...Map.groupBy(attacked[order].filter(isOpen), ({ injection }) => injection)].map(
      ([injection, runs]) =>
        `${suite} ${injection}, ${order}: ${runs.length} reached (${shown(runs.map(({ user }) => user))})`,
    ),
  );
  const asking = plain.flatMap((run) =>
    run.userCalls.flatMap(({ asked, tool }) => (asked === undefined ? [] : [{ tool, user: run.user }])),
  );
  const asked = [...Map.groupBy(asking, ({ tool }) => tool)].map(
    ([tool, calls]) => `${suite} ${tool}: asks in ${shown([...new Set(calls.map(({ user }) => user))])}`,
  );
  return [...open, ...asked];
}

function shown(users: readonly string[]): string {
  const numbers = users.map((user) => user.replace("user_task_", ""));
  return numbers.length > 12 ? `${numbers.length} tasks` : numbers.join(", ");
}

/** Writes the attacker's destinations differently in the injected text, and lets the agent use them in their plain form. */
async function reportVariants(ruleSet: RuleSet): Promise<void> {
  const counted = new Map(VARIANTS.map(({ name }) => [name, { values: 0, named: 0, cases: 0, stopped: 0 }]));
  for (const suite of options.suite) {
    const plan = planOf(suite);
    const users = new Set(plan.tasks.slice(0, VARIED_TASKS).map(({ id }) => id));
    await withStand(suite, ruleSet.dataFlow, async (stand) => {
      for (const variant of VARIANTS) {
        const runs: { readonly run: Run; readonly values: ReadonlySet<string> }[] = [];
        for (const one of withCalls(plan).filter(({ user }) => users.has(user))) {
          const values = writtenValues(one);
          if (values.size === 0) continue;
          const injections = Object.fromEntries(
            Object.entries(one.injections).map(([key, text]) => [
              key,
              [...values].reduce((words, value) => words.replaceAll(value, () => variant.write(value)), text),
            ]),
          );
          runs.push({ values, run: await attack(stand, { ...one, injections }, "now", ruleSet) });
        }
        const audit = stand.audit();
        const count = counted.get(variant.name);
        if (count === undefined) continue;
        for (const { run, values } of runs) {
          const found = attributions([run], { plan, flows, audit, values });
          count.values += found.destinations.all;
          count.named += found.destinations.named;
          count.cases += 1;
          count.stopped += run.attackCalls.some(wasStopped) ? 1 : 0;
        }
      }
    });
  }
  console.log(`\n## Written differently (rules: ${ruleSet.name})\n`);
  console.log("| the text writes the destination | promised | source named | cases stopped |");
  console.log("|---|---|---|---|");
  for (const { name, isPromised } of VARIANTS) {
    const { values, named, cases, stopped } = counted.get(name) ?? { values: 0, named: 0, cases: 0, stopped: 0 };
    const columns = [name, isPromised ? "yes" : "no", `${named} of ${values} (${percent(named, values)})`];
    console.log(`| ${[...columns, `${stopped} of ${cases} (${percent(stopped, cases)})`].join(" | ")} |`);
  }
}

/** Returns the destinations of the attacker's calls that the injected text contains letter for letter. */
function writtenValues({ calls, injections }: Case): ReadonlySet<string> {
  const texts = Object.values(injections);
  const values = calls.flatMap((call) => destinationsOf(call, flows).map(({ value }) => String(value)));
  return new Set(values.filter((value) => value.length > 5 && texts.some((text) => text.includes(value))));
}

/** Plays the strategies of an attacker who knows the rules against the suites' tools, under each recommended set. */
async function reportAdaptive(): Promise<void> {
  const all: Parameters<typeof tablesOf>[1][number][] = [];
  for (const { name: set, sections, isRequestKnown } of RECOMMENDED) {
    if (options.rules !== undefined && !options.rules.includes(set)) continue;
    for (const suite of options.suite) {
      const play = (stand: Stand) => playSuite(suite, stand, { isRequestKnown });
      const played = await withStand(suite, sections.dataFlow as StandOptions["dataFlow"], play);
      all.push({ set, suite, played });
    }
  }
  console.log("\n## An attacker who knows the rules\n");
  for (const line of tablesOf(options.suite, all)) console.log(line);
}

async function reportLatency(ruleSet: RuleSet): Promise<void> {
  const [suite] = options.suite;
  if (suite === undefined) return;
  console.log("\n## Added time of a call, without the target's\n");
  for (const line of await latency({ suites: options.suite, planOf, withStand, ruleSet })) console.log(line);
}

const python = await pythonWith(join(import.meta.dir, "requirements.txt"));
const plans = await plansOf(options.benchmark);
for (const ruleSet of RULE_SETS) {
  if (options.rules !== undefined && !options.rules.includes(ruleSet.name)) continue;
  if (options.part.includes("attacks")) await reportAttacks(ruleSet);
}
if (options.part.includes("adaptive")) await reportAdaptive();
const [main] = RULE_SETS.filter(({ name }) => options.rules?.includes(name) ?? true);
if (main !== undefined && options.part.includes("variants")) await reportVariants(main);
if (main !== undefined && options.part.includes("latency")) await reportLatency(main);
