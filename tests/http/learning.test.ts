import { afterEach, beforeEach, expect, test } from "bun:test";
import { join, relative } from "node:path";
import { dayFilesText } from "../support/audit-files.ts";
import { manifest, ReloadService, type Reply } from "../support/reload-service.ts";
import { PROJECT } from "../support/world.ts";

const SECRET = `ghp_${"a1B2".repeat(9)}`;
const KEY = "ann.lee@example.com";

/** A tool whose answers hold a secret, an address as a key, and identifiers. */
const THINGS = `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
let number = 0;
export const tool = defineTool({
  name: "things",
  description: "Lists things",
  classification: "read",
  permissions: { required: ["hello:say"] },
  input: z.strictObject({}),
  target: { system: "things", handler: async () => ({
    id: "A-" + ++number, token: "${SECRET}", owners: { "${KEY}": "planted-owner" }, left: "planted-left",
  }) },
  output: z.object({ id: z.string(), token: z.string(), owners: z.record(z.string(), z.string()) }),
  outputPolicy: { },
});
`;

let stand: ReloadService;
let learner: string;
beforeEach(async () => {
  stand = new ReloadService();
  stand.write("tools/things.ts", THINGS);
  await stand.start();
  learner = await stand.operator(["tools:learn"]);
});
afterEach(() => stand.end());

const PATH = "/tools/things/learning";
const start = (body: object = {}, path = PATH): Promise<Reply> => stand.send("POST", path, { token: learner, body });
const read = (path = PATH): Promise<Reply> => stand.send("GET", path, { token: learner });
const stop = (): Promise<Reply> => stand.send("DELETE", PATH, { token: learner });
const codeOf = ({ http, body }: Reply) => [http, body.error?.code];

async function callThings(count: number): Promise<void> {
  for (let calls = 0; calls < count; calls += 1) {
    const { http, body } = await stand.call({ tool: "things" });
    expect([http, body.result]).toEqual([200, {}]);
  }
}

test("an operator observes a tool, and reads a proposal without any value", async () => {
  const started = await start({ seconds: 60, answers: 4 });
  expect([started.http, started.body.learning.state]).toEqual([201, "observing"]);
  await callThings(5);
  const answer = await read();
  const { state, ended, answersSeen, proposal } = answer.body.learning;
  expect([answer.http, state, ended, answersSeen]).toEqual([200, "ended", "answers", 4]);
  expect(proposal.outputPolicy.map(({ path, action }: Record<string, unknown>) => [path, action])).toEqual([
    ["id", "allow"],
    ["token", "redact"],
    ["owners", null],
  ]);
  const written = JSON.stringify([started.body, answer.body]) + dayFilesText(join(stand.folder, "audit", "journal"));
  const planted = [SECRET, KEY, "planted", "left", '"A-1"'].filter((text) => written.includes(text));
  expect(planted).toEqual([]);
});

test("the journal names who started, read and stopped an observation", async () => {
  await start({ seconds: 60 });
  await read();
  expect((await stop()).body.learning).toMatchObject({ state: "ended", ended: "stopped" });
  await stop();
  const lines = ["started", "read", "stopped"].flatMap((what) => stand.journal(`learning.${what}`));
  const by = { sub: "olga", iss: "https://people.test", tool: "things" };
  expect(lines).toEqual([
    expect.objectContaining({ type: "learning.started", ...by, seconds: 60, answers: 50 }),
    expect.objectContaining({ type: "learning.read", ...by }),
    expect.objectContaining({ type: "learning.stopped", ...by }),
  ]);
});

test("the progress of an observation is not journaled, has no proposal, and can be awaited", async () => {
  await start({ answers: 2 });
  const progress = (query = "") => stand.send("GET", `${PATH}/progress${query}`, { token: learner });
  const now = await progress();
  expect(now.body.learning).toMatchObject({ tool: "things", state: "observing", answersSeen: 0, answersMax: 2 });
  expect(Object.keys(now.body.learning)).not.toContain("proposal");
  const awaited = progress("?wait=50");
  await callThings(2);
  expect((await awaited).body.learning).toMatchObject({ state: "ended", ended: "answers", answersSeen: 2 });
  expect((await progress("?wait=50")).body.learning.state).toBe("ended");
  expect(codeOf(await progress("?wait=56"))).toEqual([400, "MALFORMED_REQUEST"]);
  expect(stand.journal("learning.read")).toEqual([]);
  await read();
  expect(stand.journal("learning.read")).toEqual([expect.objectContaining({ tool: "things", ended: "answers" })]);
});

test("who waits for the end of an observation gets an answer when somebody stops it", async () => {
  await start();
  const awaited = stand.send("GET", `${PATH}/progress?wait=50`, { token: learner });
  await stop();
  expect((await awaited).body.learning).toMatchObject({ state: "ended", ended: "stopped" });
});

test.each(["POST", "GET", "DELETE"])("%s needs an operator's token with tools:learn", async (method) => {
  const body = method === "POST" ? {} : undefined;
  const send = (token: string) => stand.send(method, PATH, { token, ...(body !== undefined && { body }) });
  const agent = await send(await stand.agent(["hello:say", "tools:learn"]));
  const other = await send(await stand.operator(["audit:read", "approvals:decide"]));
  expect([codeOf(agent), codeOf(other)]).toEqual([
    [403, "PERMISSION_DENIED"],
    [403, "PERMISSION_DENIED"],
  ]);
  expect(stand.journal("operator.refused")).toEqual(
    method === "GET"
      ? []
      : [expect.objectContaining({ sub: "olga", reason: "permission_missing", permission: "tools:learn" })],
  );
  expect(codeOf(await read())).toEqual([404, "LEARNING_NOT_FOUND"]);
});

test("what cannot be observed is refused, with the reason", async () => {
  expect(codeOf(await start({}, "/tools/nothing/learning"))).toEqual([404, "TOOL_NOT_FOUND"]);
  expect(codeOf(await start({ seconds: 3_601 }))).toEqual([400, "MALFORMED_REQUEST"]);
  expect(codeOf(await start({ answers: 0 }))).toEqual([400, "MALFORMED_REQUEST"]);
  expect(codeOf(await start({ values: true }))).toEqual([400, "MALFORMED_REQUEST"]);
  expect(codeOf(await stop())).toEqual([404, "LEARNING_NOT_FOUND"]);
  await start();
  expect(codeOf(await start())).toEqual([409, "LEARNING_IN_PROGRESS"]);
  expect((await start({}, "/tools/hello/learning")).http).toBe(201);
});

test("more than four tools at once are refused", async () => {
  for (const name of ["a", "b", "c", "d"]) stand.write(`tools/${name}.ts`, manifest({ name: `tool_${name}` }));
  expect((await stand.reload()).http).toBe(200);
  for (const name of ["a", "b", "c", "d"]) expect((await start({}, `/tools/tool_${name}/learning`)).http).toBe(201);
  const { http, body } = await start();
  expect([http, body.error.code, body.error.details]).toEqual([503, "OVERLOADED", { limit: "learning" }]);
});

test("an observation survives a reload of something else, and ends when its tool changes", async () => {
  await start();
  await callThings(1);
  stand.write("tools/hello.ts", manifest({ says: "second" }));
  expect((await stand.reload()).http).toBe(200);
  await callThings(1);
  expect((await read()).body.learning).toMatchObject({ state: "observing", answersSeen: 2 });
  stand.write("tools/things.ts", THINGS.replace("Lists things", "Lists all things"));
  expect((await stand.reload()).http).toBe(200);
  await callThings(1);
  expect((await read()).body.learning).toMatchObject({ state: "ended", ended: "changed", answersSeen: 2 });
  expect((await start()).body.learning).toMatchObject({ state: "observing", answersSeen: 0 });
});

test("a service in which nobody observes loads no code for it", () => {
  const program = `
    await import("./src/runtime/composition/wiring.ts");
    const { MODULES } = await import("./src/modules.ts");
    await Promise.all(MODULES.endpoints.map((file) => file.declared()));
    process.stdout.write(JSON.stringify(Object.keys(require.cache)));`;
  const { stdout } = Bun.spawnSync([process.execPath, "-e", program], { cwd: PROJECT });
  const loaded = (JSON.parse(stdout.toString()) as string[]).map((path) => relative(PROJECT, path));
  expect(loaded).toContain("src/http/routes/learning.ts");
  expect(loaded.filter((path) => path.startsWith("src/pipeline/learning/"))).toEqual([]);
});
