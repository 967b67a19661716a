import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { realpathSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { checked, codeOf, ended, HostileWorld, hostileTool, isAlive, textOf } from "./world.ts";

const READS = [
  ...[
    "echo",
    "looks_around",
    "asks",
    "who",
    "crash",
    "flood",
    "flood_of_bytes",
    "twice",
    "other_id",
    "text_id",
    "nulls",
    "is_error",
    "protocol_error",
  ],
  ...["bad_params", "asks_input", "task", "huge", "noise", "much_noise", "image", "no_content", "neither", "hides"],
  ...["structured", "not_structured", "deep", "spawns", "announces"],
].map((tool) => hostileTool(tool));
const CHANGES = ["echo", "crash", "is_error", "asks_input", "task", "huge", "neither", "protocol_error"].map((tool) =>
  hostileTool(tool, { change: true }),
);
const hanging = (timeoutMs: number) => [false, true].map((change) => hostileTool("hang", { timeoutMs, change }));
/** Nothing is sent within this time, because the server is not ready. */
const SHORT = hanging(300);
/** The call is sent within this time, also on a busy machine. */
const LONG = hanging(1_500);

test.each(["initialize", "tools_list"])(
  "a change whose deadline ends while the server leaves %s unanswered was not sent",
  async (method) => {
    const world = new HostileWorld();
    try {
      await world.start(SHORT);
      world.tell(`ignores_${method}`, "");
      const reply = await world.call("change_hang");
      expect(reply.body.error).toMatchObject({ code: "TARGET_UNAVAILABLE", stage: "EXECUTION" });
      expect(reply.body.error.message).toBe(
        "The target was not ready in time. Nothing was sent, and nothing has changed.",
      );
      expect(world.entry(reply.body.traceId)).toMatchObject({ error: { code: "TARGET_UNAVAILABLE" } });
      expect(codeOf(await world.call("hang"))).toBe("DEADLINE_EXCEEDED");
    } finally {
      await world.end();
    }
  },
);

test("a Python that may not read its own library gets a hint with the folder to add", async () => {
  const world = new HostileWorld();
  try {
    const hint = `hint: add Python's own folder to reads: ${dirname(dirname(realpathSync(process.execPath)))}`;
    world.tell("says", "ModuleNotFoundError: No module named 'encodings'");
    expect((await checked(world, [hostileTool("echo")])).logged).toContain(hint);
    world.tell("says", "ModuleNotFoundError: No module named 'requests'");
    expect((await checked(world, [hostileTool("echo")])).logged.join()).not.toContain("hint");
  } finally {
    await world.end();
  }
});

describe("a confined server that misbehaves", () => {
  const world = new HostileWorld();
  const canary = join(world.folder, "canary");

  beforeAll(async () => {
    writeFileSync(canary, "secret");
    await world.start([...READS, ...CHANGES, ...LONG], { env: { STC_CANARY_FILE: canary } });
  });
  afterAll(() => world.end());

  test("an answer that names its request as text, or has null for absent members, is the answer", async () => {
    expect(textOf(await world.call("text_id"))).toBe("the number as a text");
    expect(textOf(await world.call("nulls"))).toBe("nulls");
  });

  test("a call reaches the tool with exactly its arguments, and is audited", async () => {
    const reply = await world.call("echo", "exact “arguments” \n");
    expect(reply.http).toBe(200);
    expect(reply.body.result).toEqual({ text: "exact “arguments” \n" });
    const entry = world.entry(reply.body.traceId);
    expect(entry).toMatchObject({
      decision: "ALLOWED",
      tool: { name: "echo", targetSystem: "hostile" },
    });
  });

  test("the server reads no file of others, and sees no variable of the service", async () => {
    const seen = JSON.parse(textOf(await world.call("looks_around")));
    expect(seen.tried.at(-1)).toBe("refused");
    expect(seen.tried[1]).toBe("refused");
    const given = ["HOME", "LANG", "LC_ALL", "PATH", "STC_CALL_ID", "STC_CANARY_FILE", "TMPDIR", "TZ"];
    expect(seen.names).toEqual(given);
    expect(seen.first.capabilities).toEqual({});
  });

  test("requests of the server are refused, and only a ping is answered", async () => {
    const heard = JSON.parse(textOf(await world.call("asks")));
    expect(heard.map(({ id, error }: { id: string; error?: { code: number } }) => [id, error?.code])).toEqual([
      ["s1", -32_601],
      ["s2", -32_601],
      ["s3", -32_601],
      ["s4", undefined],
    ]);
  });

  test("each caller has a process of its own", async () => {
    const other = await world.agent({ sub: "agent-8" });
    const mine = textOf(await world.call("who"));
    expect(textOf(await world.call("who"))).toBe(mine);
    const theirs = textOf(await world.call("who", "x", { token: other }));
    expect(theirs).not.toBe(mine);
    const acting = await world.agent({ claims: { act: { sub: "somebody-else" } } });
    expect(textOf(await world.call("who", "x", { token: acting }))).not.toBe(mine);
  });

  test("a server that ends during a read is unavailable, and starts again with the next call", async () => {
    expect(codeOf(await world.call("crash"))).toBe("TARGET_UNAVAILABLE");
    expect(textOf(await world.call("echo"))).toBe("hello");
  });

  test("a change whose answer is lost has an unknown outcome", async () => {
    const reply = await world.call("change_crash");
    expect(codeOf(reply)).toBe("OUTCOME_UNKNOWN");
    expect(reply.body.error.retryable).toBe(false);
    expect(world.entry(reply.body.traceId)?.denial).toMatchObject({ stage: "EXECUTION" });
  });

  test("a server that ends before it gets a change has not run it: a new process does", async () => {
    world.tell("lists_once", "");
    const pid = textOf(await world.call("who"));
    await world.call("announces");
    expect(textOf(await world.call("change_echo"))).toBe("hello");
    expect(textOf(await world.call("who"))).not.toBe(pid);
    world.untell("lists_once");
  });

  test("a server that does not answer: a read is late, and the outcome of a change is unknown", async () => {
    expect(codeOf(await world.call("hang"))).toBe("DEADLINE_EXCEEDED");
    expect(codeOf(await world.call("change_hang"))).toBe("OUTCOME_UNKNOWN");
    expect(textOf(await world.call("echo"))).toBe("hello");
  });

  test("a flood of messages ends the server, by their number or their bytes", async () => {
    expect(codeOf(await world.call("flood"))).toBe("TARGET_UNAVAILABLE");
    expect(textOf(await world.call("echo"))).toBe("hello");
    expect(codeOf(await world.call("flood_of_bytes"))).toBe("TARGET_UNAVAILABLE");
    expect(textOf(await world.call("echo"))).toBe("hello");
  });

  test("a second answer and an answer to another request are ignored", async () => {
    expect(textOf(await world.call("twice"))).toBe("first");
    expect(textOf(await world.call("other_id"))).toBe("for you");
    expect(textOf(await world.call("echo"))).toBe("hello");
  });

  test("an error of the tool is a definite failure, for changes too, and its text is withheld", async () => {
    for (const tool of ["is_error", "change_is_error", "protocol_error", "change_protocol_error"]) {
      const reply = await world.call(tool);
      expect(codeOf(reply)).toBe("TARGET_FAILED");
      expect(JSON.stringify(reply.body)).not.toContain("order");
      expect(JSON.stringify(reply.body)).not.toContain("broke");
    }
  });

  test("arguments that the server refuses are TARGET_REFUSED", async () => {
    const reply = await world.call("bad_params");
    expect(reply.body.error).toMatchObject({ code: "TARGET_REFUSED", details: { status: "INVALID_ARGUMENT" } });
  });

  test("a result that asks for input or names a task fails a read, and leaves a change unknown", async () => {
    for (const tool of ["asks_input", "task"]) {
      expect(codeOf(await world.call(tool))).toBe("TARGET_FAILED");
      expect(codeOf(await world.call(`change_${tool}`))).toBe("OUTCOME_UNKNOWN");
    }
  });

  test("a message over the limit ends the server", async () => {
    expect(codeOf(await world.call("huge"))).toBe("OUTPUT_TOO_LARGE");
    expect(codeOf(await world.call("change_huge"))).toBe("OUTCOME_UNKNOWN");
    expect(textOf(await world.call("echo"))).toBe("hello");
  });

  test("lines that are not messages are ignored, until they are too many", async () => {
    expect(textOf(await world.call("noise"))).toBe("after some noise");
    expect(codeOf(await world.call("much_noise"))).toBe("TARGET_UNAVAILABLE");
    expect(textOf(await world.call("echo"))).toBe("hello");
  });

  test("contents that are not text are described, without their data", async () => {
    expect(textOf(await world.call("image")).split("\n")).toEqual([
      "Here it is:",
      "[omitted: image, image/png, 3 bytes]",
      "[omitted: audio, 3 bytes]",
      "inner text",
      "[omitted: link to a resource]",
      "[omitted: content of an unknown kind]",
      "[not readable]",
    ]);
  });

  test("an answer without a result is never an empty success", async () => {
    expect(codeOf(await world.call("no_content"))).toBe("INVALID_OUTPUT");
    expect(codeOf(await world.call("deep"))).not.toBeUndefined();
    expect(textOf(await world.call("echo"))).toBe("hello");
  });

  test("structured content goes through the output policy", async () => {
    const reply = await world.call("structured");
    expect(reply.body.result).toEqual({ name: "Ann" });
    expect(reply.body.filteredFields).toEqual(["*"]);
    expect(codeOf(await world.call("not_structured"))).toBe("INVALID_OUTPUT");
  });

  test("text is searched for secrets", async () => {
    const reply = await world.call("hides");
    expect(textOf(reply)).not.toContain("hunter2");
    expect(reply.body.untrusted).toBe(true);
  });

  test("the token of the caller does not reach the server", async () => {
    const token = await world.agent();
    const seen = textOf(await world.call("looks_around", "x", { token }));
    expect(seen).not.toContain(token);
    expect(seen).not.toContain("agent-7");
  });

  test("what a server started ends with the service", async () => {
    const server = Number(textOf(await world.call("who")));
    const child = Number(textOf(await world.call("spawns")));
    expect([isAlive(server), isAlive(child)]).toEqual([true, true]);
    await world.stop();
    await Promise.all([ended(server), ended(child)]);
  });
});
