import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { RefusedError, SafeToolCallClient, unwrap } from "../../clients/typescript/src/client.ts";
import { ClientService } from "../support/client-service.ts";

const service = new ClientService();

beforeAll(async () => {
  await service.start();
});
afterAll(() => service.end());

async function client(options: Partial<ConstructorParameters<typeof SafeToolCallClient>[0]> = {}) {
  return new SafeToolCallClient({ url: service.url, token: await service.token(), ...options });
}

describe("a call", () => {
  test("that succeeds returns the service's own answer, and unwrap its result", async () => {
    const result = await (await client()).call<{ done: string }>("read_note", { title: "a" });
    expect(result).toMatchObject({ status: "success", tool: "read_note", untrusted: true, result: { done: "read a" } });
    expect(unwrap(result).done).toBe("read a");
  });

  test("that is refused is a value, and unwrap throws it", async () => {
    const result = await (await client()).call("read_note", { title: 7 });
    expect(result).toMatchObject({ status: "denied", error: { code: "INVALID_INPUT", stage: "VALIDATION" } });
    expect(() => unwrap(result)).toThrow(RefusedError);
  });

  test("that is retryable is repeated until it succeeds", async () => {
    service.failures = 2;
    const result = await (await client()).call("flaky_note", { title: "later" });
    expect(result).toMatchObject({ status: "success", result: { done: "read later" } });
  });
});

describe("a call that a person must approve", () => {
  test("is pending; the same call with the approval runs", async () => {
    const agent = await client();
    const asked = await agent.call("send_note", { to: "ada", note: "hello" });
    if (asked.status !== "pending") throw new Error(JSON.stringify(asked));
    await service.approve(asked.approval.id);
    expect(await agent.waitForApproval(asked.approval.id)).toMatchObject({ state: "approved", tool: "send_note" });
    const done = await agent.call("send_note", { to: "ada", note: "hello" }, { approvalId: asked.approval.id });
    expect(done).toMatchObject({ status: "success", result: { done: "sent to ada" } });
    expect(service.deeds.filter((deed) => deed === "sent to ada")).toHaveLength(1);
  });

  test("runs after the approval, in one line", async () => {
    const result = await (await client()).run(
      "send_note",
      { to: "bob", note: "hello" },
      { onPending: ({ approval }) => void service.approve(approval.id) },
    );
    expect(result).toMatchObject({ status: "success", result: { done: "sent to bob" } });
  });

  test("is denied with the person's reason", async () => {
    const result = await (await client()).run(
      "send_note",
      { to: "eve", note: "hello" },
      { onPending: ({ approval }) => void service.deny(approval.id, "not to eve") },
    );
    expect(result).toMatchObject({ status: "denied", error: { code: "APPROVAL_DENIED" } });
    expect(JSON.stringify(result)).toContain("not to eve");
  });
});

test("the tools of the caller, in each format", async () => {
  const agent = await client();
  expect((await agent.tools()).map(({ name }) => name).sort()).toEqual([
    "flaky_note",
    "read_note",
    "save_note",
    "send_note",
  ]);
  expect((await agent.tools("openai"))[0]).toMatchObject({ type: "function" });
  expect((await agent.tools("openai-responses"))[0]).toMatchObject({ type: "function", strict: false });
  expect((await agent.tools("anthropic"))[0]).toHaveProperty("input_schema.type", "object");
  expect((await agent.tools("google"))[0]).toHaveProperty("parametersJsonSchema.type", "object");
  expect((await agent.tools("mcp"))[0]).toHaveProperty("annotations.readOnlyHint");
});

test("in a strict mode, every argument is required, and null means absent", async () => {
  const agent = await client();
  const tools = await agent.tools("openai", { strict: true });
  expect(tools.find((tool) => tool.function.name === "save_note")?.function).toMatchObject({
    strict: true,
    parameters: { required: ["title", "waitMs"], additionalProperties: false },
  });
  const result = await agent.call("save_note", { title: "strict", waitMs: null });
  expect(result).toMatchObject({ status: "success", result: { done: "saved strict" } });
});
