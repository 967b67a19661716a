import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ApprovalLimits, type OpenedApprovals, openApprovals } from "../../src/approvals/approvals.ts";
import type { Approver, Requester } from "../../src/approvals/identities.ts";
import type { Approval, Approvals, Claim, NewApproval } from "../../src/approvals/types.ts";
import type { Json } from "../../src/core/types.ts";
import { MODULES } from "../../src/modules.ts";

export const LIMITS: ApprovalLimits = {
  decideBySeconds: 600,
  executeBySeconds: 300,
  claimLeaseSeconds: 900,
  pendingPerCallerMax: 20,
  pendingPerSessionMax: 10,
  coolDownSeconds: 600,
  grantSeconds: 28_800,
  sessionSeconds: 28_800,
  sessionsPerCallerMax: 100,
  modeSecondsMax: 28_800,
  retentionDays: 30,
  idempotencySeconds: 86_400,
  // Only when a test says so.
  sweepEverySeconds: 86_400,
};

export type JournalLine = { readonly type: string; readonly [member: string]: Json | undefined };

export interface ApprovalWorld {
  readonly dir: string;
  /** Of the SQLite file; in another database, of nothing. */
  readonly path: string;
  /** In another database known after the first `open`. */
  readonly url: string;
  /** Milliseconds since 1970, moved by the test. */
  now: number;
  /** What was journaled, in order. */
  readonly lines: JournalLine[];
  readonly logged: string[];
  /** In whose name the stores claim. */
  claimant: string | undefined;
  /** What the next journal lines do instead of being written. */
  journal: ((line: JournalLine) => Promise<void>) | undefined;
  open(limits?: Partial<ApprovalLimits>): Promise<OpenedApprovals>;
  /** Closes what was opened and deletes it. */
  end(): Promise<void>;
}

/** Another database than a SQLite file of the world's own. */
export interface OtherDatabase {
  readonly url: string;
  /** The tenant whose approvals the worlds keep there. */
  readonly tenant?: string | undefined;
  /** Its clock, which the world's `now` sets. */
  setClock(now: number): void;
}

let elsewhere: (() => Promise<OtherDatabase>) | undefined;

/** Every world that is made from now on keeps its approvals in a database of its own there. */
export function keepApprovalsIn(make: () => Promise<OtherDatabase>): void {
  elsewhere = make;
}

/** How a world's stores are reached: directly, or by way of a hub. `openOne` opens one more store of the world. */
export type Reach = (openOne: () => Promise<OpenedApprovals>, world: ApprovalWorld) => Promise<OpenedApprovals>;

const directly: Reach = (openOne) => openOne();
let reached = directly;

/** Every world that is made from now on reaches its stores so, unless it is made with another way. */
export function reachApprovals(reach: Reach): void {
  reached = reach;
}

export function createApprovalWorld(make = elsewhere, reach = reached): ApprovalWorld {
  const dir = mkdtempSync(join(tmpdir(), "stc-approvals-"));
  const opened: Approvals[] = [];
  let ids = 0;
  const nextId = (): string => {
    ids += 1;
    return `00000000-0000-7000-8000-${String(process.pid).padStart(6, "0").slice(-6)}${String(ids).padStart(6, "0")}`;
  };
  const path = join(dir, "approvals.sqlite");
  let now = Date.parse("2026-02-16T12:00:00.000Z");
  let made: Promise<OtherDatabase> | undefined;
  let other: OtherDatabase | undefined;
  const world: ApprovalWorld = {
    dir,
    path,
    get url() {
      return other?.url ?? `sqlite://${world.path}`;
    },
    get now() {
      return now;
    },
    set now(to) {
      now = to;
      other?.setClock(to);
    },
    lines: [],
    logged: [],
    claimant: undefined,
    journal: undefined,
    async open(limits = {}) {
      made ??= make?.();
      other = await made;
      other?.setClock(now);
      const openOne = async (): Promise<OpenedApprovals> => {
        const store = await openApprovals({
          stores: MODULES.approvalStores,
          url: world.url,
          tenant: other?.tenant,
          now: () => world.now,
          newId: nextId,
          newToken: () => `session_${nextId()}`,
          claimant: () => world.claimant,
          journal: async (line) => {
            if (world.journal !== undefined) return world.journal(line);
            world.lines.push(line);
          },
          limits: { ...LIMITS, ...limits },
          log: (message, cause) => world.logged.push(`${message}: ${cause}`),
        });
        opened.push(store);
        return store;
      };
      return reach(openOne, world);
    },
    async end() {
      await Promise.all(opened.map((store) => store.close()));
      rmSync(dir, { recursive: true, force: true });
    },
  };
  return world;
}

export const AGENT: Requester = {
  issuer: "https://idp.example",
  subject: "agent-1",
  actors: [],
  session: "sid-1",
};

export const OPERATOR: Approver = { issuer: "https://people.example", subject: "ann" };

export function questionOf(more: Partial<NewApproval> = {}): NewApproval {
  return {
    requester: AGENT,
    tool: "deploy",
    category: "write",
    classification: "write",
    risk: "medium",
    rules: ["policy.ask"],
    planDigest: "a".repeat(64),
    view: { tool: "deploy", plan: { argv: ["deploy", "--to", "prod"] } },
    viewDigest: "b".repeat(64),
    summary: "deploy to prod",
    scopes: ["once", "session"],
    grantKey: "c".repeat(64),
    traceId: "0190-trace",
    ...more,
  };
}

/** The approval of a question that must be asked anew, or be joined. */
export async function askFor(store: Approvals, more: Partial<NewApproval> = {}): Promise<Approval> {
  const asked = await store.ask(questionOf(more));
  if (asked.outcome !== "asked") throw new Error(`not asked but ${asked.outcome}`);
  return asked.approval;
}

export function claimOf({ id, requester, planDigest }: Approval, more: Partial<Claim> = {}): Claim {
  return { id, requester, planDigest, ...more };
}

/** Asked and approved. */
export async function approvedBy(store: Approvals, more: Partial<NewApproval> = {}): Promise<Approval> {
  const { id } = await askFor(store, more);
  const decided = await store.decide({ id, by: OPERATOR, decision: "approve" });
  if (decided.outcome !== "decided") throw new Error(`not decided but ${decided.outcome}`);
  return decided.approval;
}

/** Asked, approved and claimed. */
export async function claimedFrom(store: Approvals, more: Partial<NewApproval> = {}): Promise<Approval> {
  const claimed = await store.claim(claimOf(await approvedBy(store, more)));
  if (claimed.outcome !== "claimed") throw new Error(`not claimed but ${claimed.outcome}`);
  return claimed.approval;
}
