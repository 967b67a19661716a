import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { entryLine, refusedLine, writeDays } from "../support/audit-lines.ts";
import { type Ended, run, STC } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const YESTERDAY = "2026-02-15";
const TODAY = "2026-02-16";
const trace = (tail: string): string => `0198d000-0000-7000-8000-${tail.padStart(12, "0")}`;
const APPROVAL = trace("aa");

const dir = mkdtempSync(join(tmpdir(), "stc-guide-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const customer = (id: string) => ({ args: { id }, argsHash: "a".repeat(64), hashAlg: "sha256" });
const ALICE = { issuer: "https://people.test", subject: "alice" };
/** What every line of a question says, whoever moved it. */
const asked = {
  ...{ id: APPROVAL, tool: "update_address", issuer: "https://agents.test", subject: "agent-7" },
  planDigest: "b".repeat(64),
};
const pushed = { args: { command: "git push" }, argsHash: "c".repeat(64), hashAlg: "sha256" };
const bash = { name: "bash", classification: "write", targetSystem: "workspace" } as const;
const update = { name: "update_address", classification: "write", targetSystem: "customer-master-service" } as const;

writeDays(dir, {
  "2025-10-01": [entryLine("2025-10-01T00:00:00.000Z", { traceId: trace("0") })],
  [YESTERDAY]: [
    entryLine(`${YESTERDAY}T09:00:00.000Z`, { traceId: trace("1"), request: customer("C-1042") }),
    entryLine(`${YESTERDAY}T09:30:00.000Z`, { traceId: trace("9"), tool: bash, request: pushed }),
    entryLine(`${YESTERDAY}T10:00:00.000Z`, { traceId: trace("2"), request: customer("C-10420") }),
    refusedLine(`${YESTERDAY}T13:00:00.000Z`, ["PERMISSION_DENIED", "PERMISSION"], { traceId: trace("3") }),
  ],
  [TODAY]: [
    refusedLine(`${TODAY}T08:00:00.000Z`, ["UNAUTHENTICATED", "AUTH"], {
      traceId: trace("4"),
      caller: { sub: "anonymous", permissions: [] },
      count: 12,
    }),
    refusedLine(`${TODAY}T12:30:00.000Z`, ["APPROVAL_REQUIRED", "APPROVAL"], {
      ...{ traceId: trace("5"), decision: "PENDING", tool: update, approval: { by: "policy", id: APPROVAL } },
    }),
    entryLine(`${TODAY}T12:40:00.000Z`, {
      ...{ traceId: trace("6"), tool: update, approval: { by: "alice", id: APPROVAL } },
      trace: { traceId: "4bf92f3577b34da6a3ce929d0e0e4736" },
    }),
    ...[1, 2].map((at) =>
      refusedLine(`${TODAY}T13:0${at}:00.000Z`, ["INVALID_INPUT", "VALIDATION"], { traceId: trace(`7${at}`) }),
    ),
    refusedLine(`${TODAY}T14:00:00.000Z`, ["OUTCOME_UNKNOWN", "EXECUTION"], {
      ...{ traceId: trace("8"), decision: "ERROR", tool: update },
    }),
  ],
});
writeDays(join(dir, "journal"), {
  [TODAY]: [
    JSON.stringify({ ...asked, timestamp: `${TODAY}T12:30:00.000Z`, type: "approval.asked", traceId: trace("5") }),
    JSON.stringify({ ...asked, timestamp: `${TODAY}T12:35:00.000Z`, type: "approval.voted", decider: ALICE }),
    JSON.stringify({ timestamp: `${TODAY}T12:39:59.000Z`, type: "intent", traceId: trace("6") }),
  ],
});

/** What each question of the guide is answered with: the trace ids, in order, or what the output says. */
const ANSWERS: Readonly<Record<string, { readonly ids?: readonly string[]; readonly says?: RegExp }>> = {
  "What did agent-7 do": { ids: ["1"] },
  "Which commands did": { ids: ["9"] },
  "Who changed something": { ids: ["9", "6"] },
  "An agent was refused": { says: /call DENIED PERMISSION_DENIED +get_customer +agent-7 [\s\S]*"stage": "PERMISSION"/ },
  "Who approved this": {
    says: /approval\.asked.* agent-7 [\s\S]*PENDING APPROVAL_REQUIRED[\s\S]*approval\.voted.* alice [\s\S]*intent[\s\S]*call ALLOWED/,
  },
  "Which refusals rose": {
    says: /INVALID_INPUT VALIDATION get_customer +0 +2 +\+2\n[\s\S]*PERMISSION_DENIED PERMISSION get_customer +1 +0 +-1\n/,
  },
  "Who calls": { ids: ["4"] },
  "Which changes have": { ids: ["8"] },
  "How long does": { says: /"tool":"get_customer","calls":6,"p50":12.5/ },
  "What belongs": { ids: ["6"] },
  "What is being refused": { ids: ["4", "71", "72"] },
  "How do I hand": { says: /^timestamp,traceId,[\s\S]*"class_uid":6003/ },
  "What could be deleted": { says: /2025-10-01\.jsonl +\d+ +would be deleted\n/ },
};

const questions = readFileSync(join(PROJECT, "docs/audit.md"), "utf8")
  .split(/^### /m)
  .slice(1)
  .map((section) => {
    const [title = ""] = section.split("\n");
    const [, commands = ""] = /```sh\n([\s\S]*?)```/.exec(section) ?? [];
    return [title, commands] as const;
  })
  .filter(([title]) => title.endsWith("?"));

/** The guide's words for days are those of the generated log. */
async function paste(commands: string): Promise<Ended> {
  const dated = commands.replaceAll("yesterday", YESTERDAY).replaceAll("today", TODAY);
  const stc = STC.map((word) => `'${word}'`).join(" ");
  return run(["sh", "-c", dated.replace(/^stc /gm, `${stc} `)], { env: { STC_AUDIT_DIR: dir } });
}

test("every question has an answer here", () => {
  const unanswered = questions.filter(([title]) => !Object.keys(ANSWERS).some((begin) => title.startsWith(begin)));
  expect(unanswered.map(([title]) => title)).toEqual([]);
  expect(questions.length).toBe(Object.keys(ANSWERS).length);
});

test.concurrent.each(questions)("%s", async (title, commands) => {
  const [, answer] = Object.entries(ANSWERS).find(([begin]) => title.startsWith(begin)) ?? [];
  const { code, out, err } = await paste(commands);
  expect({ code, err: err.replace(/^continue with .*\n/, "") }).toEqual({ code: 0, err: "" });
  if (answer?.ids !== undefined) {
    const ids = [...out.matchAll(/0198d000-0000-7000-8000-0*([0-9a-f]+)/g)].map(([, id]) => id ?? "");
    expect(ids).toEqual([...answer.ids]);
  }
  if (answer?.says !== undefined) expect(out).toMatch(answer.says);
});
