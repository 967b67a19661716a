import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { openApprovals } from "../../src/approvals/approvals.ts";
import type { Approvals } from "../../src/approvals/types.ts";
import { MODULES } from "../../src/modules.ts";
import { AGENT, type ApprovalWorld, LIMITS, OPERATOR, questionOf } from "./approvals.ts";

/** What a child does with the store of its first argument; the second is the time, the third a file for its journal. */
export type ChildTask =
  /** Claims every question of the list, in an order of its own, when told to start. */
  | { readonly kind: "claim all"; readonly ids: readonly string[]; readonly from: number }
  /** Says yes to every question of the list, as each of these people, in an order of its own, when told to start. */
  | {
      readonly kind: "vote all";
      readonly ids: readonly string[];
      readonly from: number;
      readonly people: readonly string[];
    }
  /** One transition; the process kills itself before the commit, or after the answer. */
  | { readonly kind: "die"; readonly act: DyingAct; readonly id: string; readonly when: "journaling" | "answered" }
  /** Asks, approves, claims and settles until it is killed, and prints each change before and after. */
  | { readonly kind: "work"; readonly lane: string }
  /** Asks, decides and claims what others ask, decide and claim too, whatever fails, until its input ends; prints what it was told. */
  | { readonly kind: "meet others" };

/** What one of several processes was told, or wrote into its journal. */
export type Told =
  | { readonly act: "opened" }
  | { readonly act: "approved" | "denied" | "claimed"; readonly id: string }
  | { readonly act: "journal"; readonly type: string; readonly id: string; readonly decision: string | undefined }
  | { readonly act: "fault"; readonly cause: string };

export const DYING_ACTS = ["ask", "approve", "deny", "claim", "settle", "cancel", "revoke", "sweep"] as const;
export type DyingAct = (typeof DYING_ACTS)[number];

export function childCommand(
  { url, path }: Pick<ApprovalWorld, "url" | "path">,
  now: number,
  task: ChildTask,
): string[] {
  const argv = [url, String(now), `${path}.journal`, JSON.stringify(task)];
  return [process.execPath, "--no-env-file", "--no-install", import.meta.path, ...argv];
}

function say(line: unknown): void {
  writeSync(1, `${JSON.stringify(line)}\n`);
}

function die(): never {
  process.kill(process.pid, "SIGKILL");
  throw new Error("unreachable");
}

async function claimAll(store: Approvals, ids: readonly string[], from: number): Promise<void> {
  say("ready");
  readSync(0, new Uint8Array(1));
  const mine: string[] = [];
  for (let index = 0; index < ids.length; index += 1) {
    const id = ids[(index + from) % ids.length] ?? "";
    const claimed = await store.claim({ id, requester: AGENT, planDigest: `plan ${(index + from) % ids.length}` });
    if (claimed.outcome === "claimed") mine.push(id);
    // Another turn for the others, as between two calls.
    if (index % 8 === 0) await Bun.sleep(0);
  }
  say(mine);
}

/** What counted: as many yeses as were told so. */
async function voteAll(store: Approvals, task: Extract<ChildTask, { kind: "vote all" }>): Promise<void> {
  const { ids, from, people } = task;
  say("ready");
  readSync(0, new Uint8Array(1));
  const counted: string[] = [];
  for (let index = 0; index < ids.length; index += 1) {
    const id = ids[(index + from) % ids.length] ?? "";
    const told = await Promise.all(
      people.map((subject) => store.decide({ id, by: { ...OPERATOR, subject }, decision: "approve" })),
    );
    counted.push(...told.flatMap(({ outcome }) => (outcome === "counted" || outcome === "decided" ? [id] : [])));
  }
  say(counted);
}

async function perform(store: Approvals, act: DyingAct, id: string): Promise<void> {
  const { planDigest } = questionOf();
  if (act === "ask") await store.ask(questionOf({ traceId: id }));
  else if (act === "approve" || act === "deny")
    await store.decide({ id, by: OPERATOR, decision: act, scope: "session" });
  else if (act === "claim") await store.claim({ id, requester: AGENT, planDigest });
  else if (act === "settle") await store.settle(id, "executed");
  else if (act === "cancel") await store.cancel(id, AGENT);
  else if (act === "revoke") await store.revoke(id, OPERATOR);
  else await store.sweep();
}

async function work(store: Approvals, lane: string): Promise<never> {
  for (let count = 0; ; count += 1) {
    const planDigest = `${lane} ${count}`;
    const asked = await store.ask(questionOf({ planDigest }));
    if (asked.outcome !== "asked") throw new Error(asked.outcome);
    const { id } = asked.approval;
    say({ id, was: "pending" });
    await store.decide({ id, by: OPERATOR, decision: "approve" });
    say({ id, was: "approved" });
    await store.claim({ id, requester: AGENT, planDigest });
    say({ id, was: "claimed" });
    await store.settle(id, "executed");
    say({ id, was: "executed" });
  }
}

/** Rounds that no more than a few processes are apart, so that they meet. */
const ROUND_MS = 40;
/** A no stands for ten minutes, so that its plan is not asked about again. */
const DENIED_EVERY = 7;

async function meetOthers(store: Approvals): Promise<void> {
  let isOver = false;
  process.stdin.once("end", () => {
    isOver = true;
  });
  process.stdin.resume();
  say({ act: "opened" });
  while (!isOver) {
    const round = Math.floor(Date.now() / ROUND_MS);
    try {
      await meetIn(store, round);
    } catch (error) {
      say({ act: "fault", cause: String(error) });
      await Bun.sleep(ROUND_MS / 2);
    }
  }
}

async function meetIn(store: Approvals, round: number): Promise<void> {
  const planDigest = `round ${round}`;
  const asked = await store.ask(questionOf({ planDigest }));
  if (asked.outcome !== "asked") return;
  const { id } = asked.approval;
  const decision = round % DENIED_EVERY === 0 ? "deny" : "approve";
  const decided = await store.decide({ id, by: OPERATOR, decision });
  if (decided.outcome === "decided") say({ act: decision === "deny" ? "denied" : "approved", id });
  const claimed = await store.claim({ id, requester: AGENT, planDigest });
  if (claimed.outcome === "claimed") say({ act: "claimed", id });
}

async function main([url = "", now = "", journalPath = "", json = ""]: readonly string[]): Promise<void> {
  const task = JSON.parse(json) as ChildTask;
  // The sweep at the opening is one like any other.
  let isDying = task.kind === "die" && task.act === "sweep" && task.when === "journaling";
  const journal = openSync(journalPath, "a");
  const store = await openApprovals({
    stores: MODULES.approvalStores,
    url,
    now: () => Number(now),
    newId: () => crypto.randomUUID(),
    newToken: () => crypto.randomUUID(),
    journal: async (line) => {
      if (isDying) die();
      writeSync(journal, "\n");
      if (task.kind === "meet others") {
        say({ act: "journal", type: line.type, id: line["id"], decision: line["decision"] });
      }
    },
    limits:
      task.kind === "meet others" ? { ...LIMITS, pendingPerCallerMax: 10_000, pendingPerSessionMax: 10_000 } : LIMITS,
  });
  if (task.kind === "claim all") await claimAll(store, task.ids, task.from);
  if (task.kind === "vote all") await voteAll(store, task);
  if (task.kind === "meet others") await meetOthers(store);
  if (task.kind === "work") await work(store, task.lane);
  if (task.kind === "die") {
    isDying = task.when === "journaling";
    await perform(store, task.act, task.id);
    die();
  }
  closeSync(journal);
  await store.close();
}

if (import.meta.main) await main(process.argv.slice(2));
