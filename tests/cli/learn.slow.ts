import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import { dayFilesText, journalEntries } from "../support/audit-files.ts";
import { blockNamed } from "../support/documented.ts";
import { callHeaders, type IdentityStand, issuers, startIdentityService } from "../support/identity-service.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { RunningStc, runStc } from "../support/stc.ts";
import { until } from "../support/until.ts";

const text = z.string();
const order = z.object({ id: text, state: text, email: text, contact: text, buyer: text, note: text });

const listOrders = defineTool({
  name: "list_orders",
  description: "Lists orders",
  classification: "read",
  permissions: { required: ["self:read"] },
  limits: { outputBytesMax: 100_000 },
  input: z.strictObject({}),
  handler: async () => ({
    orders: ["new", "paid", "sent", "paid"].map((state, index) => ({
      ...{ id: `ORD-${index}`, state, email: "ann@example.com", contact: `ann${index}@example.com` },
      ...{ buyer: "Ann Lee", note: "Leave it with the neighbour.\nThe bell is broken." },
    })),
  }),
  output: z.object({ orders: z.array(order) }),
  outputPolicy: {},
});

const whoami = defineTool({
  name: "whoami",
  description: "Answers with a word",
  classification: "read",
  permissions: { required: ["self:read"] },
  input: z.strictObject({}),
  handler: async () => ({ ok: true }),
  output: z.strictObject({ ok: z.boolean() }),
  outputPolicy: { ok: "allow" },
});

let stand: IdentityStand;
let env: Record<string, string>;
beforeAll(async () => {
  stand = await startIdentityService({ rest: { tools: [listOrders, whoami] } });
  const file = join(stand.folder, "operator.token");
  writeFileSync(file, await issuers.token({ kind: "operator", sub: "olga", permissions: ["tools:learn"] }));
  env = { STC_URL: stand.service.url, STC_TOKEN_FILE: file };
});
afterAll(() => stand.close());

async function callOnce(tool = "whoami"): Promise<void> {
  const headers = await callHeaders();
  const init = { method: "POST", headers, body: JSON.stringify({ tool, args: {} }) };
  expect((await fetch(`${stand.service.url}/call`, init)).status).toBe(200);
}

/** Runs `stc learn`, and makes a call as soon as it observes. */
async function learnOnce(...options: readonly string[]): Promise<RunningStc> {
  const running = new RunningStc(["learn", "whoami", ...options], { env });
  await until("that it observes", () => running.err.includes("observing whoami") || undefined);
  await callOnce();
  return running;
}

test("stc learn prints a policy that YAML reads, after enough answers", async () => {
  const running = await learnOnce("--answers", "1");
  expect(await running.child.exited).toBe(0);
  await until("the policy", () => running.out.includes("allow") || undefined);
  expect(running.out).toContain("# whoami: 1 answers observed by this replica (enough answers).");
  expect(running.out).toContain("# hint: only 1 answers were seen");
  expect(parse(running.out)).toEqual({ outputPolicy: { ok: "allow" } });
});

test("the guide's example is what stc learn prints, and what the guide says about the answers", async () => {
  const [program, ...words] = blockNamed("docs/manifests.md: stc learn list_orders --for").text.trim().split(" ");
  expect(program).toBe("stc");
  const running = new RunningStc(words, { env });
  await until("that it observes", () => running.err.includes("observing list_orders") || undefined);
  for (let calls = 0; calls < 50; calls += 1) await callOnce("list_orders");
  expect(await running.child.exited).toBe(0);
  await until("the last line", () => running.out.includes('orders[].note": allow') || undefined);
  const shown = blockNamed("docs/manifests.md: # list_orders").text;
  expect(running.out).toBe(shown);
});

test("an observation leaves its start and one reading in the journal, however long it takes", async () => {
  const journaled = () =>
    journalEntries(join(stand.folder, "audit")).filter(({ type }) => String(type).startsWith("learning."));
  const before = journaled().length;
  await (await learnOnce("--for", "8s")).child.exited;
  expect(
    journaled()
      .slice(before)
      .map(({ type }) => type),
  ).toEqual(["learning.started", "learning.read"]);
});

test("stc learn prints a policy for TypeScript, when its time is over", async () => {
  const running = await learnOnce("--for", "3s", "--format", "typescript");
  expect(await running.child.exited).toBe(0);
  await until("the policy", () => running.out.includes("},") || undefined);
  expect(running.out).toContain("(the time is over)");
  expect(running.out).toContain('outputPolicy: {\n  "ok": "allow", // the schema lists its values\n},');
});

test("Ctrl-C stops the observation and prints what was seen", async () => {
  const running = await learnOnce("--json");
  running.child.kill("SIGINT");
  expect(await running.child.exited).toBe(0);
  await until("the JSON", () => running.out.endsWith("\n") || undefined);
  expect(JSON.parse(running.out)).toMatchObject({ state: "ended", ended: "stopped", answersSeen: 1 });
});

test("an unknown tool and a token without the permission are refused", async () => {
  const unknown = await runStc(["learn", "nothing"], { env });
  expect([unknown.code, unknown.err]).toEqual([1, expect.stringContaining("TOOL_NOT_FOUND")]);
  const file = join(stand.folder, "other.token");
  writeFileSync(file, await issuers.token({ kind: "operator", sub: "olga", permissions: ["audit:read"] }));
  const other = await runStc(["learn", "whoami"], { env: { ...env, STC_TOKEN_FILE: file } });
  expect([other.code, other.err]).toEqual([1, expect.stringContaining("tools:learn")]);
});

test("no value and no key of an answer is in the service's log, its audit, or what stc learn prints", async () => {
  const planted = {
    ...{ id: "planted-id-17", token: `ghp_${"a1B2".repeat(9)}`, mail: "ann.lee@example.com" },
    note: "planted prose\nof two lines",
  };
  const world = new ReloadService({ log: { level: "debug" } });
  world.write(
    "tools/hello.ts",
    manifest({ body: `return { said: "x", ...${JSON.stringify(planted)}, map: { "planted-key": 1 } };` })
      .replace("said: z.string() }", "said: z.string(), ...texts, map: z.record(z.string(), z.number()) }")
      .replace(
        "export const tool",
        'const texts = Object.fromEntries(["id", "token", "mail", "note"].map((name) => [name, z.string()]));\nexport const tool',
      ),
  );
  const service = new RunningStc(["serve", "--config", world.file]);
  try {
    const url = /"url":"(http[^"]+)"/.exec(await service.printed(/"url":"http/))?.[1];
    const file = join(world.folder, "operator.token");
    writeFileSync(file, await world.operator(["tools:learn"]));
    const learning = new RunningStc(["learn", "hello", "--answers", "3", "--json"], {
      env: { STC_URL: url, STC_TOKEN_FILE: file },
    });
    await until("that it observes", () => learning.err.includes("observing hello") || undefined);
    const headers = { authorization: `Bearer ${await world.agent()}`, "content-type": "application/json" };
    for (let calls = 0; calls < 3; calls += 1) {
      const answer = await fetch(`${url}/call`, { method: "POST", headers, body: '{"tool":"hello","args":{}}' });
      expect(await answer.json()).toMatchObject({ status: "success", result: { said: "x" } });
    }
    expect(await learning.child.exited).toBe(0);
    await until("the JSON", () => learning.out.endsWith("\n") || undefined);
    expect(JSON.parse(learning.out)).toMatchObject({ answersSeen: 3, answersFailed: 0 });
    await service.end("SIGTERM");
    const audit = join(world.folder, "audit");
    const written = [service.out, service.err, learning.out, learning.err, dayFilesText(audit)].join("\n");
    const all = written + dayFilesText(join(audit, "journal"));
    expect(all).toContain("learning.started");
    const found = [...Object.values(planted), "planted"].filter((value) => all.includes(value));
    expect(found).toEqual([]);
  } finally {
    await service.end("SIGKILL");
    await world.end();
  }
});
