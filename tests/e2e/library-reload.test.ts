import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { defineTool, SafeToolCall, type SafeToolCallOptions, StartupError } from "../../src/index.ts";
import { journalEntries } from "../support/audit-files.ts";
import { manifest } from "../support/reload-service.ts";
import { until } from "../support/until.ts";
import { openWorld, type World } from "../support/world.ts";

let world: World;
let folder: string;
let stc: SafeToolCall;
let token: string;

beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  folder = realpathSync(mkdtempSync(join(world.folder, "library-reload-")));
  token = await world.issuers.token({ kind: "good", sub: "agent-7", permissions: ["hello:say"] });
});
afterEach(() => stc.close());

function says(word: string, handler: () => unknown = () => ({ said: word })) {
  return defineTool({
    ...{ name: "hello", description: "Says something", classification: "read" },
    ...{ permissions: { required: ["hello:say"] }, input: z.strictObject({}) },
    handler: handler as () => { said: string },
    output: z.strictObject({ said: z.string() }),
    outputPolicy: { said: "allow" },
  });
}

function optionsWith(changes: Partial<SafeToolCallOptions> = {}): SafeToolCallOptions {
  const jwt = { issuers: world.issuers.profiles() as never };
  return { folder, tools: [says("first")], audit: { dir: "./audit", durability: "write" }, jwt, ...changes };
}

function create(changes: Partial<SafeToolCallOptions> = {}): SafeToolCall {
  stc = SafeToolCall.create(optionsWith(changes));
  return stc;
}

/** What the tool says now, or the code of its refusal. */
async function said(): Promise<unknown> {
  const result = await stc.call("hello", {}, token);
  if (result.status === "success") return (result.result as { readonly said: unknown }).said;
  return "error" in result ? result.error.code : result.status;
}

test("changed options are adopted and recorded in the journal", async () => {
  create();
  expect(await said()).toBe("first");
  expect(await stc.reload(optionsWith({ tools: [says("second")] }))).toMatchObject({
    outcome: "changed",
    generation: 2,
  });
  expect(await said()).toBe("second");
  const [line] = journalEntries(join(folder, "audit")).filter(({ type }) => type === "configuration.changed");
  expect(line).toMatchObject({ generation: 2, by: "library" });
});

test("without options, files are read again, and the last adopted options still apply", async () => {
  writeFileSync(join(folder, "hello.ts"), manifest());
  create();
  const named = optionsWith({ tools: ["./hello.ts"] });
  expect(await stc.reload(named)).toMatchObject({ outcome: "changed" });
  writeFileSync(join(folder, "hello.ts"), manifest({ says: "second" }));
  expect(await said()).toBe("first");
  expect(await stc.reload()).toMatchObject({ outcome: "changed", generation: 3 });
  expect(await said()).toBe("second");
});

const BAD: readonly (readonly [string, Partial<SafeToolCallOptions>, RegExp])[] = [
  ["a key that is none", { limits: { rate: {} } as never }, /limits\.rate: is not a known key/],
  ["a tool that is none", { tools: ["./gone.ts"] }, /gone\.ts/],
  ["no tokens at all", { jwt: undefined as never }, /reload: /],
  ["another audit", { audit: { dir: "./other" } }, /audit\.dir: needs a restart/],
  ["another folder", { folder: "/" }, /folder: needs a restart/],
];

test.each(BAD)("%s refuses all of it, and the former options stay in use", async (_title, changes, problem) => {
  create();
  expect(await said()).toBe("first");
  const reloaded = await stc.reload(optionsWith({ tools: [says("second")], ...changes }));
  expect(reloaded.outcome).toBe("refused");
  expect("problems" in reloaded ? reloaded.problems.join("\n") : "").toMatch(problem);
  expect(await said()).toBe("first");
  expect(await stc.reload()).toMatchObject({ outcome: "changed" });
  expect(await said()).toBe("first");
});

test("a call in progress ends with its own configuration, and its limit keeps counting", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let entered = 0;
  const waits = says("", async () => {
    entered += 1;
    await promise;
    return { said: "waited" };
  });
  const caller = (calls: number) => ({ rates: { caller: { calls, seconds: 86_400 } } });
  create({ tools: [waits], limits: caller(2) });
  const first = said();
  await until("the call", () => entered || undefined);
  await stc.reload(optionsWith({ tools: [says("second")], limits: caller(2) }));
  expect(await said()).toBe("second");
  expect(await said()).toBe("RATE_LIMITED");
  resolve();
  expect(await first).toBe("waited");
  await stc.reload(optionsWith({ tools: [says("third")], limits: caller(3) }));
  expect([await said(), await said()]).toEqual(["third", "RATE_LIMITED"]);
});

test("several at once: the last options apply to all; one without options reverts none", async () => {
  create();
  await stc.ready();
  const words = ["one", "two", "three"];
  const reloads = words.map((word) => stc.reload(optionsWith({ tools: [says(word)] })));
  const outcomes = await Promise.all([...reloads, stc.reload()]);
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(["changed", "changed", "changed", "changed"]);
  expect(await said()).toBe("three");
  const refused = await Promise.all([
    stc.reload(optionsWith({ tools: ["./gone.ts"] })),
    stc.reload(optionsWith({ tools: ["./gone.ts"] })),
  ]);
  expect(refused.map(({ outcome }) => outcome)).toEqual(["refused", "refused"]);
  expect(await said()).toBe("three");
});

test("a failed start has nothing to reload, and neither has a closed service", async () => {
  create({ tools: ["./gone.ts"] });
  await expect(stc.reload()).rejects.toThrow(StartupError);
  create();
  await stc.ready();
  await stc.close();
  expect(await stc.reload()).toMatchObject({ outcome: "busy", reason: "closing" });
});

test("a process that changes directory or PATH meanwhile changes nothing", async () => {
  const [directory, path] = [process.cwd(), process.env["PATH"]];
  const { folder: _, ...rest } = optionsWith({ audit: { dir: join(folder, "audit") } });
  stc = SafeToolCall.create(rest);
  await stc.ready();
  try {
    process.chdir("/");
    process.env["PATH"] = "/nowhere";
    expect(await stc.reload()).toMatchObject({ outcome: "changed" });
  } finally {
    process.chdir(directory);
    process.env["PATH"] = path;
  }
});
