import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApprovalManager, SafeToolCall, type ToolApprovalResult } from "../../../src/index.ts";
import { AskingWorld, codeOf } from "../../approvals/asking-world.ts";
import { PROJECT } from "../../support/world.ts";

const FOLDER = join(PROJECT, "tools/people");
const QUORUM = { name: "two", when: { tools: ["ask_operator"] }, require: { count: 2 } };
const world = new AskingWorld({ tools: [FOLDER], approvals: { mode: "yolo", pendingPerCallerMax: 1_000 } });
const pairs = new AskingWorld({ tools: [FOLDER], approvals: { policies: [QUORUM] } });

beforeAll(async () => {
  await Promise.all([world.start(), pairs.start()]);
});
afterAll(async () => {
  await Promise.all([world.end(), pairs.end()]);
});

let questions = 0;
async function ask(args: Record<string, unknown> = {}, at = world) {
  questions += 1;
  const asked = { question: `Which cluster? (${questions})`, ...args };
  const token = await at.agent({ permissions: ["operators:ask"], claims: { sid: "s" } });
  const id = await at.ask("ask_operator", asked, { token });
  return { id, claim: () => at.call("ask_operator", asked, { token, approval: { id } }) };
}

test("APR-25: an answer with the approval is the result, in every mode", async () => {
  const { id, claim } = await ask();
  expect(codeOf(await claim())).toBe("PENDING");
  const decided = await world.decide(id, "approve", { answer: "the one in Graz" });
  expect(decided.body.approval).toMatchObject({ state: "approved", answer: { text: "the one in Graz" } });
  const { body } = await claim();
  expect(body).toMatchObject({ status: "success", result: { answer: "the one in Graz" } });
  expect(body.result.answeredAt).toBe(decided.body.approval.decidedAt);
  expect(codeOf(await claim())).toBe("APPROVAL_CONSUMED");
});

test("the answer is in the journal only as its hash, and no scope but this once is offered", async () => {
  const { id } = await ask();
  const shown = await world.show(id);
  expect([shown.options, shown.answer]).toEqual([["cancel", "once"], {}]);
  await world.decide(id, "approve", { answer: "Klagenfurt" });
  expect(JSON.stringify(world.journal())).not.toContain("Klagenfurt");
  const [vote] = world.journal().filter((line) => line.type === "approval.voted" && line["id"] === id);
  expect(vote?.["answerHash"]).toMatch(/^[0-9a-f]{64}$/);
});

const CHOICES = ["blue", "green"];
const REFUSED: readonly (readonly [
  title: string,
  choices: readonly string[] | undefined,
  answer: string | undefined,
])[] = [
  ["APR-25: a yes without an answer", undefined, undefined],
  ["an empty one", undefined, ""],
  ["one of blanks", undefined, " \n\t"],
  ["one that nobody sees", undefined, "\u200b\u2060\u3164"],
  ["none of the choices", CHOICES, "red"],
  ["a choice in another spelling", CHOICES, "Blue"],
  ["a choice and more", CHOICES, "blue "],
];

test.each(REFUSED)("rejected: %s", async (_title, choices, answer) => {
  const { id } = await ask(choices === undefined ? {} : { choices });
  const refused = await world.decide(id, "approve", answer === undefined ? {} : { answer });
  expect([refused.http, codeOf(refused)]).toEqual([400, "INVALID_INPUT"]);
  expect(refused.body.error.details).toEqual({
    field: "answer",
    ...(choices !== undefined && { offered: choices }),
  });
  expect((await world.show(id)).state).toBe("pending");
});

test("one of the choices; 4,000 characters, and not one more", async () => {
  const chosen = await ask({ choices: CHOICES });
  expect((await world.show(chosen.id)).answer).toEqual({ choices: CHOICES });
  await world.decide(chosen.id, "approve", { answer: "green" });
  expect((await chosen.claim()).body.result.answer).toBe("green");
  const long = await ask();
  expect(codeOf(await world.decide(long.id, "approve", { answer: "x".repeat(4_001) }))).toBe("MALFORMED_REQUEST");
  await world.decide(long.id, "approve", { answer: "x".repeat(4_000) });
  expect((await long.claim()).body.result.answer).toHaveLength(4_000);
});

test("a denial is a denial, with its reason", async () => {
  const { id, claim } = await ask();
  // Whatever is sent beside it.
  expect((await world.decide(id, "deny", { reason: "ask me tomorrow", answer: "the red one" })).http).toBe(200);
  expect(JSON.stringify(await world.show(id))).not.toContain("the red one");
  expect((await claim()).body.error).toMatchObject({ code: "APPROVAL_DENIED", details: { reason: "ask me tomorrow" } });
});

test("a person's text is scanned like any target's text", async () => {
  const { id, claim } = await ask();
  const key = `AKIA${"ABCDEFGHIJKLMNOP"}`;
  await world.decide(id, "approve", { answer: `take ${key} for it` });
  const { body } = await claim();
  expect(body.status).toBe("success");
  expect(JSON.stringify(body)).not.toContain(key);
});

test("unreadable choices are not asked about", async () => {
  const token = await world.agent({ permissions: ["operators:ask"] });
  const asked = await world.call("ask_operator", { question: "Go on?", choices: ["yes", "\u200b"] }, { token });
  expect(codeOf(asked)).toBe("INVALID_INPUT");
});

test("through JSON-RPC", async () => {
  const { id, claim } = await ask();
  const token = await world.person();
  const rpc = async (params: Record<string, unknown>) =>
    (await world.send("POST", "/rpc", { token, body: { jsonrpc: "2.0", id: 1, method: "exec.approve", params } })).body;
  expect((await rpc({ approvalId: id })).error.message).toBe(
    "This approval request needs an answer: send it with the approval.",
  );
  expect((await rpc({ approvalId: id, answer: "Graz" })).result).toEqual({ ok: true });
  expect((await claim()).body.result.answer).toBe("Graz");
});

describe("where two must approve", () => {
  const decide = async (id: string, sub: string, answer?: string) =>
    pairs.decide(id, "approve", {
      token: await pairs.person({ sub }),
      ...(answer !== undefined && { answer }),
    });

  test("both approve one answer", async () => {
    const { id, claim } = await ask({}, pairs);
    expect((await decide(id, "anna", "Graz")).body.approval).toMatchObject({
      state: "pending",
      answer: { text: "Graz" },
    });
    const other = await decide(id, "bert", "Wien");
    expect([other.http, other.body.error.message]).toEqual([
      400,
      "Another answer was given before: approve without an answer of your own, or deny.",
    ]);
    expect((await decide(id, "bert")).body.approval).toMatchObject({ state: "approved" });
    expect((await claim()).body.result.answer).toBe("Graz");
  });
});

describe("in the library", () => {
  const manager = new ApprovalManager({
    onRequest: ({ approvalId }, { params }) => {
      manager.resolve(approvalId, String((params["choices"] as readonly string[])[1]));
    },
  });
  const silent = new ApprovalManager({ onRequest: ({ approvalId }) => void silent.resolve(approvalId) });

  const ROWS: readonly (readonly [string, ToolApprovalResult | ApprovalManager, string])[] = [
    ["an answer through the manager", manager, "success Linz"],
    ["APR-25: the manager's bare yes is none", silent, "APPROVAL_DENIED"],
    ["an answer of the callback", { approved: true, answer: "Graz" }, "success Graz"],
    ["APR-25: a bare yes is none", true, "APPROVAL_DENIED"],
    ["nor one without an answer", { approved: true }, "APPROVAL_DENIED"],
    ["nor with one that says nothing", { approved: true, answer: " " }, "APPROVAL_DENIED"],
    ["nor with another than the choices", { approved: true, answer: "Wien" }, "APPROVAL_DENIED"],
    ["a no", { approved: false, answer: "Graz" }, "APPROVAL_DENIED"],
  ];
  test.each(ROWS)("%s", async (_title, answer, outcome) => {
    const folder = mkdtempSync(join(tmpdir(), "stc-ask-"));
    const stc = SafeToolCall.create({
      ...{ tools: [FOLDER], folder, audit: { dir: "./audit" }, jwt: { issuers: world.issuers.profiles() as never } },
      onToolApprove: answer instanceof ApprovalManager ? answer.onToolApprove : () => answer,
    });
    try {
      const token = await world.agent({ permissions: ["operators:ask"] });
      const result = await stc.call("ask_operator", { question: "Where?", choices: ["Graz", "Linz"] }, token);
      const said = result.status === "success" ? ` ${(result.result as { answer: string }).answer}` : "";
      expect("error" in result ? result.error.code : `${result.status}${said}`).toBe(outcome);
    } finally {
      await stc.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
