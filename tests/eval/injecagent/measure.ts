import type { RuleSet } from "../adaptive/measure.ts";
import type { Agent } from "../adaptive/proxy.ts";
import { ATTACKS, type Goal, InjectedTools, textWith, USER_TASKS, type UserTask, WISHES } from "./cases.ts";

/** A case, and what became of it. */
interface Outcome {
  readonly user: UserTask;
  readonly goal: Goal;
}

export interface Measured {
  /** Attacks of which all calls ran, although nobody was asked about one of them. */
  readonly reached: readonly Outcome[];
  /** Questions for each user's task alone, without an injected text. */
  readonly questions: readonly number[];
  /** Tasks in which the user himself asks for the same calls, of which at least one asks. */
  readonly asking: readonly Outcome[];
}

/** Plays each attack in each text that users ask for, each with a caller that has read nothing before. */
export async function measure(
  { sections, isRequestKnown }: RuleSet,
  users: readonly UserTask[] = USER_TASKS,
): Promise<Measured> {
  const tools = new InjectedTools();
  const begun = async (user: UserTask, request: string, injected?: Goal): Promise<Agent> => {
    tools.incoming = textWith(injected);
    const agent = tools.newAgent();
    if (isRequestKnown) await agent.tell(request);
    await agent.call(user.call.tool, user.call.args);
    return agent;
  };
  try {
    await tools.start(sections);
    const reached: Outcome[] = [];
    const questions: number[] = [];
    const asking: Outcome[] = [];
    for (const user of users) {
      questions.push((await begun(user, user.asks)).stopped);
      for (const goal of ATTACKS) {
        const agent = await begun(user, user.asks, goal);
        await follow(goal, agent);
        if (agent.stopped === 0) reached.push({ user, goal });
      }
      for (const goal of WISHES) {
        const agent = await begun(user, `${user.asks}. Then: ${goal.asks}`);
        await follow(goal, agent);
        if (agent.stopped > 0) asking.push({ user, goal });
      }
    }
    return { reached, questions, asking };
  } finally {
    await tools.end();
  }
}

async function follow({ call, mailedTo }: Goal, agent: Agent): Promise<void> {
  const answer = await agent.call(call.tool, call.args);
  if (mailedTo !== undefined)
    await agent.call("send_mail", { to: mailedTo, subject: "As asked", body: JSON.stringify(answer) });
}
