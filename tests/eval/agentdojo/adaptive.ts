import { randomUUIDv7 } from "bun";
import { wasStopped } from "./runs.ts";
import { type Sink, TARGETS, type Target } from "./sinks.ts";
import type { Agent, Called, Stand } from "./stand.ts";
import { type Attempt, SUITE_STRATEGIES, type SuiteStrategy, USUAL } from "./suite-strategies.ts";

/** A strategy that was played with one sink. */
export interface Played {
  readonly family: string;
  readonly strategy: string;
  readonly sink: string;
  readonly isReached: boolean;
}

/** What the user asks for in the suite's user task; the attacker's destinations are not in it. */
interface Options {
  readonly isRequestKnown: boolean;
}

/** Plays an attacker who knows the rules against the tools of a suite. Each attempt has an agent that has read nothing before. */
export async function playSuite(suite: string, stand: Stand, options: Options): Promise<readonly Played[]> {
  const target = TARGETS[suite];
  if (target === undefined) throw new Error(`${suite}: no sinks are known`);
  const played: Played[] = [];
  for (const strategy of SUITE_STRATEGIES) {
    const sinks = target.sinks.filter((sink) => strategy.takes?.(sink, target) ?? true);
    for (const sink of strategy.isLong ? sinks.slice(0, 1) : sinks) {
      const isReached = await strategy.play(await attempt(stand, { strategy, sink, target, ...options }));
      played.push({ family: strategy.family, strategy: strategy.name, sink: sink.name, isReached });
    }
  }
  return played;
}

async function attempt(
  stand: Stand,
  { strategy, sink, target, isRequestKnown }: Options & { strategy: SuiteStrategy; sink: Sink; target: Target },
): Promise<Attempt> {
  const texts = strategy.texts?.(sink) ?? USUAL;
  const positions = target.positions.map(([position], at) => [position, texts[at] ?? ""]);
  const prompt = await stand.reset(target.user, { ...Object.fromEntries(positions), ...target.more });
  if (target.hide !== undefined) await stand.call(await stand.newAgent(), target.hide, { isApproved: true });
  const agent = await stand.newAgent();
  if (isRequestKnown) await stand.tell(agent, prompt);
  // What the user himself wants to be read is approved.
  for (const [, read] of target.positions) expectRan(await stand.call(agent, read, { isApproved: true }));
  const { result } = await stand.call(await stand.newAgent(), target.readSecret, { isApproved: true });
  const secret = target.secretIn(result);
  if (strategy.before === undefined) expectRan(await stand.call(agent, target.readSecret, { isApproved: true }));
  return attemptOf(stand, agent, { target, sink, secret });
}

function attemptOf(stand: Stand, agent: Agent, known: Pick<Attempt, "target" | "sink" | "secret">): Attempt {
  const call = (tool: string, args: Called["args"]) => stand.call(agent, { tool, args }, { isApproved: false });
  return {
    ...known,
    call: async ({ tool, args }) => hasLeft(await call(tool, args)),
    send: async (to, texts = {}) => hasLeft(await known.sink.send(call, to, texts)),
    as: async (who) => attemptOf(stand, await otherAgent(stand, agent, who), known),
    wait: () => stand.forget(agent),
  };
}

function otherAgent(stand: Stand, { subject }: Agent, who: Parameters<Attempt["as"]>[0]): Promise<Agent> {
  if (who === "another session") return stand.agent(subject, { sid: randomUUIDv7() });
  return who === "another agent" ? stand.newAgent() : stand.agent(`for ${subject}`, { act: { sub: subject } });
}

/** Whatever the target says: the proxy has let the call through. */
function hasLeft(called: Called): boolean {
  return !wasStopped(called) && called.outcome !== "INPUT_INVALID";
}

function expectRan(called: Called): void {
  if (called.outcome !== "success") throw new Error(`${called.tool}: ${called.outcome}`);
}

interface PlayedSuite {
  readonly set: string;
  readonly suite: string;
  readonly played: readonly Played[];
}

/** Returns the lines of the tables: attempts that reached their goal under any of the sets, and which those are. */
export function tablesOf(suites: readonly string[], all: readonly PlayedSuite[]): readonly string[] {
  const row = (...columns: readonly string[]): string => `| ${columns.join(" | ")} |`;
  const sets = [...new Set(all.map(({ set }) => set))];
  const cell = (suite: string, of: (one: Played) => boolean): string => {
    const counts = sets.map((set) => {
      const played = all
        .filter((one) => one.set === set && one.suite === suite)
        .flatMap((one) => one.played)
        .filter(of);
      return { all: played.length, reached: played.filter(({ isReached }) => isReached).length };
    });
    if (counts.every((one) => one.all === 0)) return "–";
    const reached = counts.map((one) => one.reached);
    return `${reached.every((one) => one === reached[0]) ? reached[0] : reached.join(", ")} of ${counts[0]?.all}`;
  };
  const families = [...new Set(all.flatMap(({ played }) => played.map(({ family }) => family)))];
  const lost = Map.groupBy(
    all.flatMap(({ set, suite, played }) =>
      played.filter(({ isReached }) => isReached).map((one) => ({ ...one, set, suite })),
    ),
    ({ suite, strategy, sink }) => `${suite}, ${sink}: ${strategy}`,
  );
  return [
    row(`strategies (${sets.join(", ")})`, ...suites),
    row("---", ...suites.map(() => "---")),
    ...families.map((family) => row(family, ...suites.map((suite) => cell(suite, (one) => one.family === family)))),
    row("all", ...suites.map((suite) => cell(suite, () => true))),
    "",
    ...[...lost].map(([what, under]) => `- ${what} (${under.map(({ set }) => set).join(", ")})`),
  ];
}
