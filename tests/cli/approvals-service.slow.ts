import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { decodeJwt } from "jose";
import { ApprovalService } from "../support/approval-service.ts";
import { type Ended, runStc } from "../support/stc.ts";
import { hasTerminals, TerminalStc } from "../support/terminal.ts";

const service = new ApprovalService();
let operator: Readonly<Record<string, string>>;
let agent: Readonly<Record<string, string>>;
let issuer: string;

function tokenFile(name: string, token: string): Readonly<Record<string, string>> {
  const file = join(service.folder, name);
  writeFileSync(file, token, { mode: 0o600 });
  return { STC_URL: service.url, STC_TOKEN_FILE: file };
}

beforeAll(async () => {
  await service.start();
  operator = tokenFile("operator", await service.person());
  const token = await service.agent({ claims: { sid: "session-1" } });
  issuer = String(decodeJwt(token)["iss"]);
  agent = tokenFile("agent", token);
});

afterAll(() => service.end());

const decide = (...args: string[]): Promise<Ended> => runStc(args, { env: operator });

async function ask(what: string, tool = "do_write"): Promise<string> {
  const { out, code } = await runStc(["call", tool, JSON.stringify({ what }), "--json"], { env: agent });
  const { status, approval } = JSON.parse(out);
  expect({ code, status }).toEqual({ code: 1, status: "pending" });
  return approval.id;
}

test("requested, listed, shown, approved and claimed, all by stc", async () => {
  const id = await ask("a");
  expect((await decide("approvals", "list", "--state", "pending")).out).toContain(id);
  const shown = await decide("approvals", "show", id);
  expect(shown.out).toContain('arguments:\n  what: "a"\n');
  expect(shown.out).toContain('subject: "agent-7"');
  const approved = await decide("approvals", "approve", id);
  expect(approved).toMatchObject({ code: 0, err: "" });
  expect(approved.out).toEndWith(`approved (once): ${id}\n`);
  const ran = await runStc(["call", "do_write", '{"what":"a"}', "--approval", id], { env: agent });
  expect(ran.code).toBe(0);
  expect(JSON.parse(ran.out)).toMatchObject({ status: "success", result: { done: "a" } });
  const again = await decide("approvals", "deny", id);
  expect(again).toMatchObject({ code: 1, err: expect.stringContaining("APPROVAL_CONSUMED") });
});

test("a call runs with its approval, and with --approval new asks again", async () => {
  const id = await ask("a", "do_network");
  await decide("approvals", "approve", id);
  const call = ["call", "do_network", '{"what":"a"}', "--json"];
  const other = JSON.parse((await runStc([...call, "--approval", "new"], { env: agent })).out);
  expect([other.status, other.approval.id === id]).toEqual(["pending", false]);
  expect(JSON.parse((await runStc(call, { env: agent })).out)).toMatchObject({
    status: "success",
    result: { done: "a" },
  });
  await decide("approvals", "approve", other.approval.id);
  expect((await runStc(call, { env: agent })).code).toBe(0);
});

test("the audit says who asked, who voted, who revoked and on whose behalf it ran", async () => {
  const ran = await ask("b");
  await decide("approvals", "approve", ran);
  await runStc(["call", "do_write", '{"what":"b"}', "--approval", ran], { env: agent });
  const revoked = await ask("a", "do_network");
  await decide("approvals", "approve", revoked);
  await decide("approvals", "revoke", revoked);
  const who = async (id: string): Promise<readonly string[]> => {
    const { out } = await runStc(["audit", "show", id, "--dir", join(service.folder, "audit")]);
    const rows = out.split("\n").map((row) => row.split(/ {2,}/));
    return rows.flatMap(([, what = "", , sub = ""]) => (what.startsWith("approval.") ? `${what} ${sub}` : []));
  };
  const asked = ["approval.asked agent-7", "approval.voted alice"];
  expect((await who(ran)).filter((row) => !row.startsWith("approval.shown"))).toEqual([
    ...asked,
    ...["approval.claimed agent-7", "approval.settled agent-7"],
  ]);
  expect((await who(revoked)).filter((row) => !row.startsWith("approval.shown"))).toEqual([
    ...asked,
    "approval.revoked alice",
  ]);
});

test("denied, and revoked", async () => {
  const denied = await ask("b", "do_network");
  expect((await decide("approvals", "deny", denied, "--reason", "not today")).out).toBe(`denied: ${denied}\n`);
  expect((await decide("approvals", "show", denied)).out).toContain('decision reason "not today"');
  const revoked = await ask("c", "do_network");
  await decide("approvals", "approve", revoked);
  expect(await decide("approvals", "revoke", revoked)).toMatchObject({ code: 0, out: `revoked (once): ${revoked}\n` });
});

test("a view that differs from the one that was seen", async () => {
  const id = await ask("b");
  const ended = await decide("approvals", "approve", id, "--view-digest", "0".repeat(64));
  expect(ended).toMatchObject({ code: 1, err: expect.stringContaining("APPROVAL_MISMATCH") });
  await decide("approvals", "deny", id);
});

test.skipIf(!hasTerminals)("agents see their own requests and decide nothing", async () => {
  const id = await ask("c");
  const seen = await runStc(["approvals", "show", id], { env: agent });
  expect(seen.code).toBe(0);
  expect(seen.out).not.toContain("arguments");
  const decided = await runStc(["approvals", "deny", id], { env: agent });
  expect(decided).toMatchObject({ code: 1, err: expect.stringContaining("PERMISSION_DENIED") });
  const screen = new TerminalStc(["approvals", "watch"], { env: agent });
  await screen.shows("cannot decide");
  expect(await screen.ends()).toBe(1);
  await decide("approvals", "deny", id);
});

test.skipIf(!hasTerminals)(
  "watched, on a pseudo-terminal: one request before and one while it watches; a grant for the session; a request withdrawn",
  async () => {
    const first = await ask("a");
    const screen = new TerminalStc(["approvals", "watch"], { env: operator });
    expect(await screen.shows("[n]o: ")).toContain(first);
    screen.type("s\r");
    await screen.shows(`approved (session): ${first}`);
    const grants = JSON.parse((await decide("grants", "list", "--json")).out).grants;
    expect(grants).toMatchObject([{ approvalId: first, session: "sid:session-1" }]);
    expect((await decide("grants", "list")).out).toContain("agent-7");
    expect(await decide("grants", "revoke", grants[0].id)).toMatchObject({ code: 0 });
    const second = await ask("c", "do_destroy");
    expect(await screen.shows("[n]o: ")).toContain('type "yes"');
    await decide("approvals", "deny", second);
    await screen.shows(`withdrawn: ${second}: denied elsewhere`);
    screen.type("\u0003");
    expect(await screen.ends()).toBe(130);
    expect(service.deeds).not.toContain("c");
  },
);

test("the owner of a session that the service has not seen must be named", async () => {
  const unseen = await decide("mode", "set", "sid:unseen", "yolo", "--for", "30m");
  expect(unseen).toMatchObject({ code: 1, out: "" });
  expect(unseen.err).toMatch(/^APPROVAL_NOT_FOUND: .*\n.*--sub and --iss.*\n$/);
  expect((await decide("mode", "end", "sid:unseen")).err).not.toContain("--sub");
});

test("a session is set to ask less, listed and ended", async () => {
  const whose = ["--sub", "agent-7", "--iss", issuer];
  expect(await decide("mode", "set", "sid:session-1", "yolo", "--for", "30m", ...whose)).toMatchObject({
    code: 0,
    err: "",
  });
  expect((await decide("mode", "list")).out).toMatch(/^sid:session-1 +yolo +20\S+ +agent-7 /m);
  const ran = await runStc(["call", "do_network", '{"what":"a"}'], { env: agent });
  expect(ran.code).toBe(0);
  expect(await decide("mode", "end", "sid:session-1")).toMatchObject({ code: 0, out: "ended: sid:session-1\n" });
});

test("stc explain --service says what a running service says, also about a call without a plan", async () => {
  const asking = await service.person({ permissions: ["policy:explain"] });
  const env = tokenFile("explaining", asking);
  const caller = ["--service", "--sub", "agent-7", "--iss", issuer, "--permissions", "nothing:useful"];
  const explained = await runStc(["explain", "do_write", ...caller, "--args", '{"what":"a"}'], { env });
  expect(explained).toMatchObject({ code: 1, err: "" });
  expect(explained.out).toStartWith(`deny PERMISSION_DENIED: do_write for agent-7 (${issuer}), mode default`);
});
