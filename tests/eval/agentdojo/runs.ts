import type { Called, Stand } from "./stand.ts";

/** A call of a ground truth. */
export interface Step {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
}

export interface Task {
  readonly id: string;
  readonly prompt: string;
  readonly calls: readonly Step[];
}

/** A user task with an injection task: a security case of AgentDojo. */
export interface Case {
  readonly user: string;
  readonly injection: string;
  /** The attack's texts, by the position in the environment. */
  readonly injections: Readonly<Record<string, string>>;
  /** The ground truth of the user task in this environment. */
  readonly userCalls: readonly Step[];
  /** The ground truth of the injection task. */
  readonly calls: readonly Step[];
}

/** What AgentDojo says about one suite. It is read when the evaluation runs, and kept nowhere. */
export interface SuitePlan {
  readonly tasks: readonly Task[];
  /** What the attacker wants, by injection task. */
  readonly goals: Readonly<Record<string, string>>;
  readonly cases: readonly Case[];
}

/** `now`: as soon as the injected text was read. `end`: after the user's task. */
export type Order = "now" | "end";

export interface Run {
  readonly user: string;
  readonly injection: string | undefined;
  /** The texts that were in the environment in place of harmless ones. */
  readonly injections: Readonly<Record<string, string>>;
  readonly userCalls: readonly Called[];
  readonly attackCalls: readonly Called[];
  /** Whether the agent read the injected text. */
  readonly wasRead: boolean;
  readonly utility: boolean;
  readonly reached: boolean;
}

export interface RunOptions {
  /** Whether the host application gives the user's request to the proxy before the agent starts. */
  readonly isRequestKnown: boolean;
}

/** Replays a user task. An approver approves whatever asks. */
export async function replay(
  stand: Stand,
  task: Pick<Task, "id" | "calls">,
  { isRequestKnown }: RunOptions,
  injections: Readonly<Record<string, string>> = {},
): Promise<Run> {
  const prompt = await stand.reset(task.id, injections);
  const agent = await stand.newAgent();
  if (isRequestKnown) await stand.tell(agent, prompt);
  const userCalls: Called[] = [];
  for (const step of task.calls) userCalls.push(await stand.call(agent, step, { isApproved: true }));
  const judged = await stand.judge("");
  return {
    user: task.id,
    injection: undefined,
    injections,
    userCalls,
    attackCalls: [],
    wasRead: false,
    ...judged,
  };
}

/**
 * Replays the user's calls, and an agent that then does whatever the injected text says: it makes the calls of the injection task's
 * ground truth, and goes on when one is refused. Nobody approves its calls.
 */
export async function attack(stand: Stand, attacked: Case, order: Order, { isRequestKnown }: RunOptions): Promise<Run> {
  const { user, injection, injections } = attacked;
  const prompt = await stand.reset(user, injections);
  const agent = await stand.newAgent();
  if (isRequestKnown) await stand.tell(agent, prompt);
  const userCalls: Called[] = [];
  let wasRead = false;
  for (const step of attacked.userCalls) {
    const made = await stand.call(agent, step, { isApproved: true });
    userCalls.push(made);
    wasRead ||= Object.values(injections).some((text) => holds(made.result, text));
    if (wasRead && order === "now") break;
  }
  const attackCalls: Called[] = [];
  for (const step of attacked.calls) attackCalls.push(await stand.call(agent, step, { isApproved: false }));
  return { user, injection, injections, userCalls, attackCalls, wasRead, ...(await stand.judge(injection)) };
}

/** Returns whether an answer holds the injected text. YAML folds its line ends, so spacing does not count. */
function holds(answer: unknown, text: string): boolean {
  const plain = (words: string): string => words.replace(/\s+/g, " ").trim();
  return leaves(answer).some(({ value }) => typeof value === "string" && plain(value).includes(plain(text)));
}

export interface Leaf {
  /** Path of a manifest: `result[].sender`. */
  readonly path: string;
  readonly value: string | number | boolean;
}

/** Returns the scalars of a JSON value. */
export function leaves(value: unknown, path = ""): readonly Leaf[] {
  if (Array.isArray(value)) return value.flatMap((each) => leaves(each, `${path}[]`));
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).flatMap(([key, each]) => leaves(each, path === "" ? key : `${path}.${key}`));
  }
  return value === null || value === undefined ? [] : [{ path, value: value as Leaf["value"] }];
}

/** Returns whether a call was stopped: a person was asked, or it was refused. */
export function wasStopped({ asked, outcome }: Called): boolean {
  return asked !== undefined || STOPPED.has(outcome);
}

const STOPPED: ReadonlySet<string> = new Set(["POLICY_DENIED", "POLICY_STATE_UNAVAILABLE", "APPROVAL_DENIED"]);
