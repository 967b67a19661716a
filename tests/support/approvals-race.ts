import { expect } from "bun:test";
import type { Requirement } from "../../src/approvals/approver-policies/requirement.ts";
import { type ApprovalWorld, approvedBy, askFor, createApprovalWorld, type OtherDatabase } from "./approvals.ts";
import { type ChildTask, childCommand } from "./approvals-child.ts";

/** Several processes claim the same approvals from one store: each approval runs once. */
export async function raceClaims(
  processes: number,
  approvals: number,
  make?: () => Promise<OtherDatabase>,
): Promise<readonly number[]> {
  const world = createApprovalWorld(make);
  try {
    return await race(world, processes, approvals);
  } finally {
    await world.end();
  }
}

async function race(world: ApprovalWorld, processes: number, approvals: number): Promise<readonly number[]> {
  const store = await world.open({ pendingPerCallerMax: approvals, pendingPerSessionMax: approvals });
  const ids: string[] = [];
  for (let index = 0; index < approvals; index += 1) {
    ids.push((await approvedBy(store, { planDigest: `plan ${index}` })).id);
  }
  const children = Array.from({ length: processes }, (_, index) => startClaimer(world, ids, index * 7));
  await Promise.all(children.map(({ ready }) => ready));
  const claimed = await Promise.all(children.map((child) => child.run()));
  expect(claimed.flat().toSorted()).toEqual(ids.toSorted());
  const states = await Promise.all(ids.map(async (id) => (await store.get(id))?.state));
  expect(new Set(states)).toEqual(new Set(["claimed"]));
  return claimed.map((mine) => mine.length);
}

interface VoteRace {
  readonly processes: number;
  readonly approvals: number;
  /** Yeses that each question needs, of two policies: the second needs one more. */
  readonly count: number;
}

/** Several processes vote in the same names on the same questions: each question has its yeses, each of another person. */
export async function raceVotes({ processes, approvals, count }: VoteRace, make?: () => Promise<OtherDatabase>) {
  const world = createApprovalWorld(make);
  try {
    const store = await world.open({ pendingPerCallerMax: approvals, pendingPerSessionMax: approvals });
    const ids: string[] = [];
    for (let index = 0; index < approvals; index += 1) {
      ids.push((await askFor(store, { planDigest: `plan ${index}`, requirement: needing(count) })).id);
    }
    const people = Array.from({ length: count + 2 }, (_, index) => `person-${index}`);
    const children = Array.from({ length: processes }, (_, index) =>
      startChild(world, { kind: "vote all", ids, from: index * 3, people: [...people, ...people] }),
    );
    await Promise.all(children.map(({ ready }) => ready));
    const counted = (await Promise.all(children.map((child) => child.run()))).flat();
    for (const id of ids) {
      const found = await store.get(id);
      expect(found?.state).toBe("approved");
      expect(found?.votes).toHaveLength(count + 1);
      expect(new Set(found?.votes.map(({ subject }) => subject)).size).toBe(count + 1);
      expect(counted.filter((one) => one === id)).toHaveLength(count + 1);
    }
  } finally {
    await world.end();
  }
}

/** Of two policies: so many, and one more. */
export function needing(count: number): Requirement {
  const policies = [count, count + 1].map((needed) => ({
    ...{ name: `of-${needed}`, distinctPeople: true },
    stages: [{ name: "people", count: needed, deciders: { permissions: [] } }],
  }));
  return { digest: "d", policies, reasonRequired: "never", scopes: ["once", "session"], callback: false };
}

function startClaimer(world: ApprovalWorld, ids: readonly string[], from: number) {
  return startChild(world, { kind: "claim all", ids, from });
}

function startChild(world: ApprovalWorld, task: ChildTask) {
  const command = childCommand(world, world.now, task);
  const child = Bun.spawn(command, { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  const lines = readLines(child.stdout);
  return {
    ready: lines.next(),
    async run(): Promise<readonly string[]> {
      child.stdin.write("\n");
      child.stdin.end();
      const { value } = await lines.next();
      await child.exited;
      return JSON.parse(value ?? "[]") as readonly string[];
    },
  };
}

export async function* readLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, undefined> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of stream) {
    const lines = `${rest}${decoder.decode(chunk, { stream: true })}`.split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  return undefined;
}
