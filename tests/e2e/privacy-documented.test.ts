import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { blockNamed } from "../support/documented.ts";
import { type Ended, run, runStc, STC } from "../support/stc.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { PROJECT } from "../support/world.ts";

const EXAMPLE = join(PROJECT, "docs/examples/data-flow");
const PERSON = "ann@customer.example";

/** The example of data flow, whose answers and arguments are about a person. */
class ExampleService extends AskingService {
  constructor() {
    super({ audit: "audit-logs" });
  }

  async start(): Promise<void> {
    const { jwt: _, audit: __, ...sections } = parse(readFileSync(join(EXAMPLE, "stc.yaml"), "utf8"));
    const quotas = [{ name: "daily", per: ["caller"], calls: 2000, window: "day" }];
    await this.run({ ...sections, tools: [join(EXAMPLE, "tools")], limits: { quotas } });
    const read = ["audit:read", "data-flow:read", "quotas:read", "halts:read"];
    const change = ["approvals:decide", "grants:manage", "modes:manage", "data-flow:write"];
    writeFileSync(join(this.folder, "token"), await this.person({ permissions: [...read, ...change] }), {
      mode: 0o600,
    });
  }

  async call(tool: string, args: Loose): Promise<Reply> {
    const token = await this.agent({ permissions: ["tickets:read", "customers:read", "mail:send"] });
    return this.send("POST", "/call", { token, body: { tool, args } });
  }

  stc(...words: readonly string[]): Promise<Ended> {
    return runStc(words, { env: { STC_URL: this.url, STC_TOKEN_FILE: join(this.folder, "token") } });
  }

  /** Runs lines of the page as a reader does, next to the audit. */
  paste(lines: string): Promise<Ended> {
    const stc = `stc() { ${STC.map((word) => `'${word}'`).join(" ")} "$@"; }`;
    const text = lines.replaceAll("https://idp.example", AGENTS_ISSUER);
    const env = { STC_URL: this.url, STC_TOKEN_FILE: join(this.folder, "token") };
    return run(["bash", "-c", `${stc}\n${text}`], { cwd: this.folder, env });
  }

  /** Whether any of the database's files holds the text. */
  storeHolds(text: string): boolean {
    const files = readdirSync(this.folder).filter((name) => name.startsWith("approvals.sqlite"));
    return files.some((name) => readFileSync(join(this.folder, name)).includes(text));
  }
}

const linesOf = (begin: string): readonly string[] => blockNamed(`docs/privacy.md: ${begin}`).text.trim().split("\n");

/** The statement that the page hands to `sqlite3`. */
const statementOf = (begin: string): string => /"(.*)"$/.exec(linesOf(begin)[0] ?? "")?.[1] ?? "";

const service = new ExampleService();
let approvalId: string;
beforeAll(async () => {
  await service.start();
  await service.call("get_ticket", { id: "812" });
  await service.call("get_customer", { requester: PERSON });
  const { body } = await service.call("send_mail", { to: [PERSON], body: "It is on its way." });
  approvalId = body.approval.id;
});
afterAll(() => service.end());

test("the audit names the caller, and holds neither the person's address nor the answers", async () => {
  const [bySubject = "", , byText = "", exported = "", grep = ""] = linesOf("stc audit query --sub");
  const found = await service.paste(bySubject);
  expect([found.code, found.err]).toEqual([0, ""]);
  for (const tool of ["get_ticket", "get_customer", "send_mail"]) expect(found.out).toContain(tool);
  expect((await service.paste(byText)).code).toBe(1);
  expect((await service.paste(exported)).code).toBe(1);
  expect((await service.paste(grep)).code).toBe(1);
});

test("a search over HTTP leaves its text in the journal, and the command line none", async () => {
  const token = readFileSync(join(service.folder, "token"), "utf8");
  const [, , byText = "", , grep = ""] = linesOf("stc audit query --sub").map((line) => line.replace("ann@", "bob@"));
  await service.paste(byText);
  expect((await service.paste(grep)).code).toBe(1);
  await service.send("GET", `/audit?text=${encodeURIComponent("bob@customer.example")}`, { token });
  const { out } = await service.paste(grep);
  expect(JSON.parse(out)).toMatchObject({ type: "audit.queried", filters: { text: "bob@customer.example" } });
});

test("the commands of the page show what the database holds of the caller", async () => {
  const [approvals = "", grants = "", mode = "", quotas = "", flow = "", halts = ""] = linesOf("stc approvals list");
  expect((await service.paste(approvals)).out).toContain("send_mail");
  for (const line of [grants, mode, halts]) expect(await service.paste(line)).toMatchObject({ code: 0, err: "" });
  expect((await service.paste(quotas)).out).toContain("of 2000 calls");
  expect((await service.paste(flow)).out).toContain("get_customer");
  expect((await service.stc("approvals", "show", approvalId)).out).toContain(PERSON);
});

test("stc flow clear deletes labels and fingerprints", async () => {
  expect((await service.stc("flow", "clear", AGENTS_ISSUER, "agent-7", "--reason", "case 17")).code).toBe(0);
  const db = new Database(join(service.folder, "approvals.sqlite"), { readonly: true });
  const labels = db.query("SELECT label FROM policy_flow_labels WHERE subject = 'agent-7'").values();
  const sources = db.query("SELECT id FROM policy_flow_sources WHERE subject = 'agent-7'").values();
  db.close();
  expect([labels, sources]).toEqual([[["cleared"]], []]);
});

test("an ended approval request is found and deleted by the statements of the page, and one that has not ended stays", async () => {
  const { body } = await service.decide(approvalId, "deny", { reason: "not now" });
  expect(body.approval.state).toBe("denied");
  await service.call("get_ticket", { id: "812" });
  await service.call("get_customer", { requester: PERSON });
  const { body: waiting } = await service.call("send_mail", { to: [PERSON], body: "Another one." });
  const byApprover = linesOf("stc audit query --sub")[1] ?? "";
  expect((await service.paste(byApprover)).code).toBe(1);
  await service.stop();
  const db = new Database(join(service.folder, "approvals.sqlite"));
  const search = statementOf('sqlite3 approvals.sqlite "SELECT');
  const foundStates = (): readonly unknown[] =>
    db
      .query<{ readonly id: string; readonly state: string }, []>(search)
      .all()
      .map(({ id, state }) => [id, state])
      .sort();
  const pending = [waiting.approval.id, "pending"];
  expect(foundStates()).toEqual([[approvalId, "denied"], pending].sort());
  db.run(statementOf('sqlite3 approvals.sqlite "DELETE'));
  expect(foundStates()).toEqual([pending]);
  db.run("UPDATE approvals SET state = 'denied', ended_at = 1");
  expect(service.storeHolds(PERSON)).toBe(true);
  db.run(statementOf('sqlite3 approvals.sqlite "DELETE'));
  db.close();
  expect(service.storeHolds(PERSON)).toBe(false);
});

test("the audit still verifies, and nothing in it is old enough to be deleted", async () => {
  expect((await service.paste("stc audit verify")).out).toContain("not checked: signatures");
  const { code, out } = await service.paste(linesOf("stc audit prune")[0] ?? "");
  expect([code, out]).toEqual([1, "no file is older than 90d\n"]);
});
