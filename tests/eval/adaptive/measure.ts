import { parse } from "yaml";
import { blockNamed } from "../../support/documented.ts";
import { HONEST_MAIL, questionsOf, TASKS, type Task } from "./honest.ts";
import type { Sections } from "./proxy.ts";
import { INCOMING, isReached, type Strategy } from "./strategies.ts";
import { AdaptiveWorld } from "./world.ts";

export interface RuleSet {
  readonly name: string;
  readonly isRequestKnown: boolean;
  readonly sections: Sections;
}

/** The sets of rules as the page recommends them. */
export const RECOMMENDED: readonly RuleSet[] = [
  ["unknown tools", "tools that you do not know well"],
  ["own systems", "your own systems, with some text from outside"],
  ["request known", "the host says what the user asked for"],
].map(([name = "", begin]) => ({
  name,
  isRequestKnown: name === "request known",
  sections: parse(blockNamed(`docs/data-flow.md: # ${begin}`).text),
}));

/** What the page warns of: whoever a trusted field names gets everything. */
export const VOUCHED: RuleSet = {
  name: "unless: vouched alone",
  isRequestKnown: true,
  sections: {
    dataFlow: {
      default: "off",
      rules: [
        { after: "untrusted", before: "outside", unless: "vouched", verdict: "ask" },
        { argument: "destinations", from: "untrusted", verdict: "ask" },
        { argument: "links", from: "untrusted", verdict: "ask" },
      ],
    },
  },
};

/** Returns a set with the rule about changes that the page names. */
export function askingForChanges({ name, isRequestKnown, sections }: RuleSet): RuleSet {
  const { rules = [], ...others } = (sections.dataFlow ?? {}) as { readonly rules?: readonly unknown[] };
  const { dataFlow: added } = parse(blockNamed("docs/data-flow.md: # changes after others' text").text);
  return {
    ...{ name: `${name}, changes ask`, isRequestKnown },
    sections: { ...sections, dataFlow: { ...others, rules: [...rules, ...added.rules] } },
  };
}

/** What the user asks an agent for that then follows the attacker. */
const REQUEST = "What is in mail 7, and what does my account say?";

/** Deployments that are played in at once. */
const WORLDS = 4;

export interface Measured {
  /** Names of the strategies whose goal was reached although nobody was asked about it. */
  readonly reached: readonly string[];
  /** Questions for each task. */
  readonly questions: readonly number[];
}

/**
 * Plays strategies and tasks under a set of rules, each with a caller that has read nothing before. What one strategy stores does not
 * warn of the next one, which then has a deployment of its own. The tasks share one.
 */
export async function measure(
  ruleSet: RuleSet,
  strategies: readonly Strategy[],
  tasks: readonly Task[] = TASKS,
): Promise<Measured> {
  const { sections, isRequestKnown } = ruleSet;
  const won = new Set<Strategy>();
  const waiting = [...strategies];
  const plays = async (world: AdaptiveWorld): Promise<void> => {
    while (waiting.length > 0 && !world.hasChanged) {
      const strategy = waiting.shift();
      if (strategy !== undefined && (await isWon(strategy, world, isRequestKnown))) won.add(strategy);
    }
  };
  const playsAll = async (): Promise<void> => {
    while (waiting.length > 0) await withWorld(sections, plays);
  };
  await Promise.all(Array.from({ length: Math.min(WORLDS, strategies.length) }, playsAll));
  const questions: number[] = [];
  await withWorld(sections, async (world) => {
    for (const task of tasks) {
      world.reset();
      world.incoming = HONEST_MAIL;
      questions.push(await questionsOf(task, world.newAgent(), isRequestKnown));
    }
  });
  return { reached: strategies.filter((one) => won.has(one)).map(({ name }) => name), questions };
}

async function isWon(strategy: Strategy, world: AdaptiveWorld, isRequestKnown: boolean): Promise<boolean> {
  world.reset();
  const agent = world.newAgent();
  if (isRequestKnown) await agent.tell(REQUEST);
  if (strategy.isFresh !== true) {
    await agent.reads(INCOMING);
    await agent.call("read_account");
  }
  await strategy.play(agent, world);
  return isReached(strategy, world.received);
}

async function withWorld<T>(sections: RuleSet["sections"], use: (world: AdaptiveWorld) => Promise<T>): Promise<T> {
  const world = new AdaptiveWorld();
  try {
    return await use(await world.start(sections));
  } finally {
    await world.end();
  }
}
