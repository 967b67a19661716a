import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync } from "node:fs";
import { dirname } from "node:path";
import fc from "fast-check";
import { z } from "zod";
import { floorVerdict } from "../../src/approvals/risk-point.ts";
import { readApproval } from "../../src/cli/approvals/answers.ts";
import { approvalLines } from "../../src/cli/approvals/view.ts";
import type { Tool } from "../../src/core/types.ts";
import { defineTool } from "../../src/index.ts";
import { AskingWorld, codeOf, recordingTool } from "../approvals/asking-world.ts";
import { EventClient } from "../http/event-reader.ts";
import { Recorder } from "../support/recorder.ts";

const recorder = new Recorder("deploy-tool");
const lookalike = new Recorder("deploy-tool");
const deeds: unknown[] = [];
const input = z.strictObject({ what: z.string().max(100) });

const deploy = defineTool({
  ...({ name: "deploy", description: "Deploys", classification: "write", category: "command" } as const),
  permissions: { required: ["deeds:do"] },
  input: z.strictObject({ place: z.enum(["test", "live"]) }),
  target: {
    system: "deploy",
    cli: {
      command: "deploy-tool",
      options: ["--place="],
      lookups: { revision: () => [{ args: ["revision"], answer: /^[0-9a-f]{8}$/ }] },
      argsBuilder: ({ place }: { readonly place: string }, { revision }: { readonly revision: string }) => [
        "deploy",
        `--place=${place}`,
        "--",
        revision,
      ],
      environment: { DEPLOY_COLOR: "off" },
    },
  },
  output: z.strictObject({ text: z.string() }),
  outputPolicy: { text: "allow" },
} as never);

const world = new AskingWorld({
  tools: [recordingTool("deed", deeds, input, { description: "A harmless read, approved, safe" }), deploy],
  commands: ["deploy-tool"],
  path: dirname(recorder.program),
  approvals: { pendingPerCallerMax: 1_000, coolDownSeconds: 60 },
});

beforeAll(async () => {
  recorder.answers("0123abcd\n");
  lookalike.answers("0123abcd\n");
  await world.start();
});
afterAll(() => world.end());

let subjects = 0;
function newToken(): Promise<string> {
  subjects += 1;
  return world.agent({ sub: `asker-${subjects}` });
}

/** Asked and approved. */
async function approved(token: string): Promise<string> {
  const id = await world.ask("deploy", { place: "test" }, { token });
  expect((await world.decide(id, "approve")).http).toBe(200);
  recorder.forget();
  return id;
}

const claim = (token: string, id: string) => world.call("deploy", { place: "test" }, { token, approval: { id } });

test("APR-07: control characters in an argument do not affect the terminal", async () => {
  const id = await world.ask("deed", { what: "\u001b[2K\rsafe" }, { token: await newToken() });
  const shown = readApproval({ approval: await world.show(id) });
  if (shown === undefined) throw new Error("the answer was not understood");
  const text = approvalLines(shown, { columns: 80, now: undefined }).join("\n");
  expect(text).toContain("\\u{1b}[2K\\u{d}safe");
  expect(text.replaceAll("\n", "")).not.toMatch(/\p{Cc}/u);
});

describe("APR-12: a change after the approval voids it, and nothing runs", () => {
  test("files that the arguments name", async () => {
    const token = await newToken();
    const id = await approved(token);
    recorder.answers("ffff0000\n");
    expect(codeOf(await claim(token, id))).toBe("APPROVAL_MISMATCH");
    expect(recorder.argv()).toEqual(["revision"]);
    recorder.answers("0123abcd\n");
    expect((await claim(token, id)).http).toBe(200);
    expect(recorder.argv()).toEqual(["deploy", "--place=test", "--", "0123abcd"]);
  });

  test("the program", async () => {
    const token = await newToken();
    const id = await approved(token);
    appendFileSync(recorder.program, "\n# changed\n");
    const reply = await claim(token, id);
    expect(reply.http).toBeGreaterThanOrEqual(400);
    expect(recorder.wasRun() && recorder.argv()[0] === "deploy").toBe(false);
  });
});

test("APR-13: the environment is the one that was shown", async () => {
  const token = await newToken();
  const id = await approved(token);
  const { view } = await world.show(id);
  await claim(token, id);
  const ran = recorder.environment();
  const own = new Set(["STC_CALL_ID", "PWD", "OLDPWD", "SHLVL", "_"]);
  const names = Object.keys(ran).filter((name) => !own.has(name));
  expect(names.toSorted()).toEqual(
    Object.keys(view.environment)
      .filter((name) => !own.has(name))
      .toSorted(),
  );
  expect(view.environment["DEPLOY_COLOR"]).toBe("off");
});

describe("APR-20: a command that could run anything is not a tool", () => {
  test.each(["sh", "bash", "python3", "node", "perl", "env", "xargs", "/tmp/git", "./git"])("%s", (command) => {
    const cli = { command, argsBuilder: () => ["-c", "x"], options: ["-c"] };
    expect(() => defineTool({ ...deploy, target: { system: "x", cli } } as never)).toThrow();
  });
});

test("APR-21: a program of the same name elsewhere is another program", async () => {
  const token = await newToken();
  const id = await approved(token);
  await world.stop();
  await world.start({ path: `${dirname(lookalike.program)}:${dirname(recorder.program)}` });
  expect(codeOf(await claim(token, id))).toBe("APPROVAL_MISMATCH");
  await world.stop();
  await world.start();
  expect((await world.show(id)).view.command[0]).toBe(recorder.program);
  expect((await claim(token, id)).http).toBe(200);
});

describe("APR-22, APR-23: an additional check never loosens", () => {
  type Assessed = Parameters<typeof floorVerdict>[1];
  const risks = ["low", "medium", "high", "critical"] as const;
  const verdicts = ["none", "ask", "deny"] as const;
  const rank = { allow: 0, ask: 1, deny: 2 } as const;
  const tool = (more: object) => ({ classification: "write", category: "write", approval: {}, ...more }) as Tool;
  const strictness = (one: Tool, assessed: Assessed) => rank[floorVerdict(one, assessed)?.verdict ?? "allow"];

  test("on any call", () => {
    const assessed = fc.record({ risk: fc.nat(3), verdict: fc.nat(2) });
    const tools = fc.constantFrom(
      ...[tool({}), tool({ classification: "destructive" }), tool({ category: "ask" })],
      tool({ approval: { required: true } }),
    );
    fc.assert(
      fc.property(tools, assessed, assessed, (one, first, second) => {
        const read = ({ risk, verdict }: { risk: number; verdict: number }): Assessed => ({
          risk: risks[risk] ?? "low",
          verdict: verdicts[verdict] ?? "none",
          rules: ["r"],
        });
        const both = { risk: Math.max(first.risk, second.risk), verdict: Math.max(first.verdict, second.verdict) };
        const alone = [strictness(one, read(first)), strictness(one, read(second))];
        expect(strictness(one, read(both))).toBe(Math.max(...alone) as never);
      }),
    );
  });
});

test("APR-28: words in a description allow nothing, and undeclared ones do not load", async () => {
  expect(codeOf(await world.call("deed", { what: "a" }, { token: await newToken() }))).toBe("PENDING");
  expect(() => recordingTool("undeclared", deeds, input, { category: undefined })).toThrow("category");
  expect(() => recordingTool("undeclared", deeds, input, { classification: undefined })).toThrow("classification");
});

test("APR-34: nobody edits what they approve", async () => {
  const token = await newToken();
  const id = await world.ask("deed", { what: "a" }, { token });
  for (const more of [{ args: { what: "b" } }, { params: { what: "b" } }, { arguments: {} }, { tool: "deploy" }]) {
    expect(codeOf(await world.decide(id, "approve", more))).toBe("MALFORMED_REQUEST");
  }
  const rpc = { jsonrpc: "2.0", id: 1, method: "exec.approve", params: { approvalId: id, command: "other" } };
  const answer = await world.send("POST", "/rpc", { token: await world.person(), body: rpc });
  expect(answer.body.error.message).toBe("invalid params");
  expect((await world.show(id)).state).toBe("pending");
});

test("APR-37, APR-38: notifications name the approval request and none of its contents", async () => {
  const token = await newToken();
  const events = await EventClient.open(world.url, token);
  try {
    const asked = await world.call("deed", { what: "private words" }, { token, reason: "private reason" });
    const { id, statusUrl } = asked.body.approval;
    expect(statusUrl).toBe(`/approvals/${id}`);
    const [event] = await events.take(1);
    expect(Object.keys(event?.data as object).toSorted()).toEqual(["at", "id", "summary", "tool"]);
    const list = await world.send("GET", "/approvals?state=pending", { token: await world.person() });
    for (const told of [asked.body, event, list.body]) expect(JSON.stringify(told)).not.toContain("private");
  } finally {
    events.leave();
  }
});

test("APR-51: decisions survive every restart, and without a store nothing is approved", async () => {
  const own = new AskingWorld({ tools: [recordingTool("deed", deeds, input)] });
  const before = deeds.length;
  try {
    await own.start();
    const [no, yes] = [await own.ask("deed", { what: "a" }), await own.ask("deed", { what: "b" })];
    await own.decide(no, "deny");
    await own.decide(yes, "approve");
    await own.stop();
    await own.start({ approvals: { store: undefined } });
    for (const [id, what] of [
      [no, "a"],
      [yes, "b"],
    ] as const) {
      expect(codeOf(await own.call("deed", { what }, { approval: { id } }))).toBe("APPROVAL_NOT_FOUND");
    }
    await own.stop();
    await own.start();
    expect(codeOf(await own.call("deed", { what: "a" }, { approval: { id: no } }))).toBe("APPROVAL_DENIED");
    expect(deeds).toHaveLength(before);
    expect((await own.call("deed", { what: "b" }, { approval: { id: yes } })).http).toBe(200);
  } finally {
    await own.end();
  }
});

test("APR-58: a late listener sees what is pending, and nothing that has ended", async () => {
  const token = await newToken();
  const [open, over] = [
    await world.ask("deed", { what: "open" }, { token }),
    await world.ask("deed", { what: "over" }, { token }),
  ];
  await world.decide(over, "deny");
  const person = await world.person({ sub: "latecomer" });
  const page = await world.send("GET", "/approvals?state=pending&limit=200", { token: person });
  const ids = page.body.approvals.map((approval: { readonly id: string }) => approval.id);
  expect([ids.includes(open), ids.includes(over)]).toEqual([true, false]);
});

test("APR-64: a call that must be approved is asked about, whatever the manifest's own function says", async () => {
  const judge = () => Promise.resolve(false);
  const own = new AskingWorld({
    tools: [
      recordingTool("required", deeds, input, { approval: { required: true, needsApproval: judge } }),
      recordingTool("destroys", deeds, input, { classification: "destructive", approval: { needsApproval: judge } }),
      recordingTool("grave", deeds, input, { approval: { risk: "high", needsApproval: judge } }),
    ],
    approvals: { mode: "yolo" },
  });
  try {
    await own.start();
    for (const tool of ["required", "destroys", "grave"]) {
      expect(codeOf(await own.call(tool, { what: "a" }))).toBe("PENDING");
    }
  } finally {
    await own.end();
  }
});
