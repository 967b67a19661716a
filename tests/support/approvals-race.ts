import { expect } from "bun:test";
import { type ApprovalWorld, approvedBy, createApprovalWorld, type OtherDatabase } from "./approvals.ts";
import { childCommand } from "./approvals-child.ts";

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

function startClaimer(world: ApprovalWorld, ids: readonly string[], from: number) {
  const command = childCommand(world, world.now, { kind: "claim all", ids, from });
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
