import { expect } from "bun:test";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { MODULES } from "../../../src/modules.ts";
import { type ReplayReport, replay } from "../../../src/runtime/replay/replay.ts";
import { AskingService, type Loose, type Reply } from "../../support/asking-service.ts";
import { assemble, readConfig } from "../../support/build.ts";
import { PROJECT } from "../../support/world.ts";

/** A manifest in YAML of a tool over HTTP, as the tests change it. */
export interface ToolSpec {
  name: string;
  classification: "read" | "write" | "destructive";
  category: "read" | "write" | "network" | "ask";
  required: string[];
  approval: Record<string, unknown>;
  amountMax: number;
}

/** Everything that a policy change may change. */
export interface Policy {
  tools: ToolSpec[];
  /** A tool in TypeScript: amounts above these ask, and need another permission. */
  payments: { asksAbove: number; elevatedAbove: number };
  permissions: Record<string, string[]>;
  rules: Record<string, unknown>[];
  mode: "default" | "autoEdit" | "yolo";
  hasStore: boolean;
  issuer: "known" | "other";
}

const ALL = ["orders:read", "orders:write", "orders:admin", "pay:small", "pay:large", "workspace:bash"];
const spec = (name: string, classification: ToolSpec["classification"], more: Partial<ToolSpec> = {}): ToolSpec => ({
  ...{ name, classification, category: classification === "read" ? "read" : "write" },
  ...{ required: [`orders:${classification === "read" ? "read" : "write"}`], approval: {}, amountMax: 1_000, ...more },
});

export function usualPolicy(): Policy {
  return {
    tools: [
      spec("order_get", "read"),
      spec("order_list", "read", { category: "network" }),
      spec("order_update", "write"),
      spec("order_note", "write", { category: "network" }),
      spec("order_delete", "destructive", { required: ["orders:write", "orders:admin"] }),
      spec("order_ship", "write", { approval: { required: true } }),
    ],
    payments: { asksAbove: 100, elevatedAbove: 500 },
    permissions: {
      "agent-0": ALL,
      "agent-1": ["orders:read", "orders:write", "pay:small"],
      "agent-2": ["orders:read", "pay:small", "workspace:bash"],
      "agent-3": ["orders:read", "orders:write", "orders:admin", "pay:small", "pay:large"],
    },
    rules: [
      { name: "vip-orders", when: { args: { tier: "vip" } }, verdict: "ask" },
      { name: "no-frozen", when: { args: { tier: "frozen" }, classification: "write" }, verdict: "deny" },
      { name: "no-curl", when: { shell: { programs: ["curl"] } }, verdict: "deny" },
    ],
    mode: "default",
    hasStore: true,
    issuer: "known",
  };
}

const TIERS = ["basic", "gold", "vip", "frozen"];
const AGENTS = ["agent-0", "agent-1", "agent-2", "agent-3", "agent-9"];
const SCRIPTS = ["ls", "cat notes.txt", "curl https://a.example", "git status", "rm -rf /", "echo hello | sort"];

export interface PlayedCall {
  readonly sub: string;
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly inSession: boolean;
  /** Whether an approval is given and used. */
  readonly isClaimed: boolean;
}

/** Returns the next number below `max` of a sequence that depends on the seed only. */
export function numbers(seed: number): (max: number) => number {
  let state = seed + 0x6d2b79f5;
  return (max) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % max;
  };
}

/** Returns a mixture of calls: of all tools, valid and invalid, by callers with and without permissions. */
export function mixture(count: number, seed: number): readonly PlayedCall[] {
  const next = numbers(seed);
  const names = [...usualPolicy().tools.map(({ name }) => name), "payment_send", "bash", "nobody_knows_it"];
  return Array.from({ length: count }, (_, n) => {
    const tool = names[next(names.length)] ?? "";
    const sub = AGENTS[next(AGENTS.length)] ?? "";
    const [inSession, isClaimed] = [sub === "agent-0" && next(3) === 0, next(4) === 0];
    return { sub, tool, args: argsFor(tool, n, next), inSession, isClaimed };
  });
}

function argsFor(tool: string, n: number, next: (max: number) => number): Readonly<Record<string, unknown>> {
  if (tool === "bash") return { command: `${SCRIPTS[next(SCRIPTS.length)]} # ${n}` };
  if (tool === "payment_send") return { n, amount: next(800) };
  const tier = next(3) === 0 ? {} : { tier: TIERS[next(TIERS.length)] };
  const amount = next(3) === 0 ? {} : { amount: next(900) };
  const wrong = next(12) === 0 ? { colour: "red" } : {};
  return { n, ...tier, ...amount, ...wrong };
}

/** How a call ended, as its agent saw it: `allow`, `ask`, or the code of a refusal. */
type Outcome = string;

/** The real service with a policy, and an HTTP API for its tools. */
export class ReplayWorld extends AskingService {
  readonly #api = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) =>
      Number(new URL(request.url).searchParams.get("n")) % 7 === 0
        ? new Response("no such order", { status: 404 })
        : Response.json({ ok: true }),
  });
  #started = 0;
  #session = "";

  /** Writes the policy's manifests into a folder of their own. Returns the configuration, apart from what tests always set. */
  sections(policy: Policy): Readonly<Record<string, unknown>> {
    this.#started += 1;
    const folder = join(this.folder, `policy-${this.#started}`, "tools");
    mkdirSync(folder, { recursive: true });
    mkdirSync(join(this.folder, "work"), { recursive: true });
    for (const tool of policy.tools)
      writeFileSync(join(folder, `${tool.name}.tool.yaml`), JSON.stringify(manifestOf(tool)));
    writeFileSync(join(folder, "payment.ts"), paymentOf(policy.payments));
    writeFileSync(join(folder, "bash.ts"), BASH);
    const issuers = this.issuers.profiles().map((profile) =>
      profile["operators"] === true
        ? profile
        : {
            ...profile,
            subjectPermissions: policy.permissions,
            ...(policy.issuer === "other" && { issuer: "https://another-idp.test" }),
          },
    );
    // However busy the machine is, no call is shed.
    const limits = { concurrentCallsMax: 256, concurrentCallsPerCallerMax: 256, loopDelayMsMax: 60_000 };
    return {
      tools: [folder],
      jwt: { issuers },
      systems: { orders: { http: { baseUrl: `http://127.0.0.1:${this.#api.port}`, addresses: ["loopback"] } } },
      commands: { allowed: ["bash"], confinement: "off", unconfinedBash: true, launchers: 0 },
      workspace: { project: join(this.folder, "work") },
      limits,
      approvals: {
        ...(policy.hasStore && { store: `sqlite://./approvals-${this.#started}.sqlite` }),
        ...{ mode: policy.mode, rules: policy.rules, pendingPerCallerMax: 200, pendingPerSessionMax: 200 },
      },
    };
  }

  async start(policy: Policy, audit: string): Promise<void> {
    const path = dirname(Bun.which("bash") ?? "");
    // No test here loses the machine: writes need not reach the disk.
    await this.run({ ...this.sections(policy), audit: { dir: audit, durability: "write" } }, path, MODULES);
    this.#tokens.clear();
    this.#session = "";
    if (!policy.hasStore || policy.issuer === "other") return;
    const opened = await this.send("POST", "/sessions", { token: await this.#tokenOf("agent-0"), body: {} });
    this.#session = opened.body.session.id;
    const mode = await this.send("PUT", `/sessions/${this.#session}/mode`, {
      token: await this.person(),
      body: { mode: "yolo", expiresInSeconds: 3_600, issuer: "https://idp.test", subject: "agent-0" },
    });
    if (mode.http !== 200) throw new Error(JSON.stringify(mode.body));
  }

  /** Judges the recorded calls by a policy, as `stc replay` does. */
  async replay(policy: Policy, audit: string): Promise<ReplayReport> {
    const environment = { PATH: dirname(Bun.which("bash") ?? "") };
    const written = { ...this.sections(policy), audit: { dir: audit } };
    const config = readConfig(written, { folder: this.folder, environment, origin: "test" });
    const parts = await assemble(config);
    try {
      return await replay({ parts, config, dir: join(this.folder, audit), filter: {}, asksExternal: false });
    } finally {
      await parts.close();
    }
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#api.stop(true);
  }

  /** Makes the calls, some of them twice: an approved call is made again. Returns how each ended, by number and attempt. */
  async play(calls: readonly PlayedCall[], atOnce = 1): Promise<ReadonlyMap<string, Outcome>> {
    const outcomes = new Map<string, Outcome>();
    const waiting = calls.entries();
    const work = async (): Promise<void> => {
      for (const [n, call] of waiting) {
        const first = await this.#make(call);
        outcomes.set(`${n}`, outcomeOf(first.body));
        if (call.isClaimed) outcomes.set(`${n} again`, await this.#again(call, first));
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
    return outcomes;
  }

  async #again(call: PlayedCall, { body }: Reply): Promise<Outcome> {
    if (body.status !== "pending") return outcomeOf((await this.#make(call)).body);
    const { id } = body.approval;
    await this.decide(id, "approve", { token: await this.#person() });
    const claimed = await this.#make(call, { approval: { id } });
    // The approval let it pass, whatever the target said then.
    return claimed.body.status === "denied" ? outcomeOf(claimed.body) : "ask";
  }

  async #make({ sub, tool, args, inSession }: PlayedCall, more: Loose = {}): Promise<Reply> {
    const session = inSession && this.#session !== "" ? { session: this.#session } : {};
    return this.send("POST", "/call", { token: await this.#tokenOf(sub), body: { tool, args, ...session, ...more } });
  }

  readonly #tokens = new Map<string, { readonly at: number; readonly token: Promise<string> }>();

  /** Tokens list no permissions: the configuration's table does. */
  #tokenOf(sub: string): Promise<string> {
    return this.#kept(sub, () => this.agent({ sub, permissions: [] }));
  }

  #person(): Promise<string> {
    return this.#kept("(person)", () => this.person());
  }

  /** Tokens last ten minutes, which a long run exceeds. */
  #kept(name: string, make: () => Promise<string>): Promise<string> {
    const known = this.#tokens.get(name);
    if (known !== undefined && performance.now() - known.at < 240_000) return known.token;
    const token = make();
    this.#tokens.set(name, { at: performance.now(), token });
    return token;
  }

  removeAudit(audit: string): void {
    rmSync(join(this.folder, audit), { recursive: true, force: true });
  }
}

export interface Played {
  readonly calls: readonly PlayedCall[];
  readonly before: ReadonlyMap<string, Outcome>;
  readonly after: ReadonlyMap<string, Outcome>;
}

/**
 * Compares a report with what the rerun shows: by tool, caller and former outcome, as many calls have changed, and each to an
 * outcome that the report names. Returns the number of calls that ended differently.
 */
export function expectReported({ calls, before, after }: Played, report: ReplayReport): number {
  const wanted: Record<string, number> = {};
  const named = new Set(
    report.changes.flatMap(({ tool, sub, then, now }) =>
      now.split(" or ").map((one) => `${tool} ${sub} ${then} ${one}`),
    ),
  );
  const unnamed: string[] = [];
  let count = 0;
  for (const [key, then] of before) {
    const now = after.get(key);
    if (now === then) continue;
    count += 1;
    const { tool, sub } = calls[Number.parseInt(key, 10)] as PlayedCall;
    const group = `${tool} ${sub} ${then}`;
    wanted[group] = (wanted[group] ?? 0) + 1;
    if (!named.has(`${group} ${now}`)) unnamed.push(`${group} ${now}`);
  }
  const found: Record<string, number> = {};
  for (const { tool, sub, then, calls: k } of report.changes) {
    const group = `${tool} ${sub} ${then}`;
    found[group] = (found[group] ?? 0) + k;
  }
  expect(found).toEqual(wanted);
  expect([report.changed, unnamed]).toEqual([count, []]);
  // A mode that was not read at the time of the call is not in the audit.
  expect(Object.keys(report.notJudged).filter((reason) => reason !== "the session's mode")).toEqual([]);
  return count;
}

const PASSED = new Set(["TARGET_REFUSED", "TARGET_FAILED", "TARGET_UNAVAILABLE", "INVALID_OUTPUT"]);

function outcomeOf({ status, error }: Loose): Outcome {
  if (status === "success") return "allow";
  if (status === "pending" || error.details?.limit === "pendingApprovals") return "ask";
  return PASSED.has(error.code) ? "allow" : error.code;
}

function manifestOf({ name, classification, category, required, approval, amountMax }: ToolSpec): object {
  return {
    ...{ name, description: "Does something with an order", classification, category },
    permissions: { required },
    approval,
    target: {
      system: "orders",
      http: { method: classification === "read" ? "GET" : "POST", path: "/", query: { n: "{n}" } },
    },
    input: {
      type: "object",
      properties: {
        n: { type: "integer", minimum: 0, maximum: 1_000_000 },
        tier: { enum: TIERS, default: "basic" },
        amount: { type: "integer", minimum: 0, maximum: amountMax },
      },
      required: ["n"],
      additionalProperties: false,
    },
    inputPolicy: { n: "allow", tier: "allow", amount: "allow" },
    output: { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] },
    outputPolicy: { ok: "allow" },
    examples: { accepts: [{ n: 1 }], rejects: [{ n: -1 }] },
  };
}

function paymentOf({ asksAbove, elevatedAbove }: Policy["payments"]): string {
  return `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const tool = defineTool({
  name: "payment_send", description: "Sends an amount", classification: "write", category: "network",
  permissions: { required: ["pay:small"], elevatedIf: { when: ({ amount }) => amount > ${elevatedAbove}, required: ["pay:large"] } },
  approval: { needsApproval: ({ amount }) => amount > ${asksAbove} },
  input: z.strictObject({ n: z.int(), amount: z.int().min(0).max(1_000) }),
  inputPolicy: { n: "allow", amount: "allow" },
  output: z.object({ sent: z.int() }), outputPolicy: { sent: "allow" },
  handler: ({ amount }) => ({ sent: amount }),
});
`;
}

const BASH = readFileSync(join(PROJECT, "tools/workspace/bash.ts"), "utf8")
  .replaceAll('from "./', `from "${join(PROJECT, "tools/workspace")}/`)
  .replace(
    "  approval: { required",
    '  inputPolicy: { command: "allow", timeoutMs: "allow" },\n  approval: { required',
  );
