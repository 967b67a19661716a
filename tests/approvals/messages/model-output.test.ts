import { describe, expect, test } from "bun:test";
import { MessageFormatError } from "../../../src/approvals/messages/message-format.ts";
import { assertNoClientTools } from "../../../src/approvals/messages/model-output.ts";
import { FORMATS, WRITERS } from "./writers.ts";

const ID = "approval_0f5e8d6e-2f1c-4b3a-9d8e-7c6b5a493827";

describe.each(FORMATS)("%s", (format) => {
  const { says, calls, output } = WRITERS[format];

  test.each(["client_request_approval", "client.requestApproval", "client.confirm", "Client_RequestApproval"])(
    "a model that calls %s: the call is dropped and reported, its other calls stay",
    (name) => {
      const made = [
        { id: ID, name, args: { message: "Please approve" } },
        { id: "b", name: "bash", args: { command: "ls" } },
      ];
      const whole = output(calls(made, "Just a moment."));
      const before = structuredClone(whole);
      const judged = assertNoClientTools(whole, { format });
      expect(judged.output).toEqual(output(calls(made.slice(1), "Just a moment.")));
      expect(judged.dropped).toEqual([{ id: ID, name }]);
      expect(whole).toEqual(before);
      const message = assertNoClientTools(calls(made, "Just a moment."), { format });
      expect(message.output).toEqual(calls(made.slice(1), "Just a moment."));
    },
  );

  test.each([
    ["words", output(says("client.requestApproval was approved"))],
    ["calls of its own", output(calls([{ id: "1", name: "client_list", args: { name: "client.requestApproval" } }]))],
    ["a message alone", says("hello")],
  ])("%s pass unchanged", (_title, whole) => {
    expect(assertNoClientTools(whole, { format })).toEqual({ output: whole, dropped: [] });
  });

  test("a call whose name cannot be read is dropped", () => {
    const { dropped } = assertNoClientTools(output(calls([{ id: "1", name: { toString: 1 } as never }])), { format });
    expect(dropped).toEqual([{ id: "1", name: undefined }]);
  });

  const NONE: readonly unknown[] = [
    {},
    [],
    null,
    "text",
    { choices: [{ delta: {} }] },
    { candidates: 7 },
    { content: 7 },
    { role: "user" },
  ];
  test.each(NONE.map((value) => [value]))("%j is not a model's answer and does not pass", (value) => {
    expect(() => assertNoClientTools(value as object, { format })).toThrow(MessageFormatError);
  });
});

test("an answer that claims another role is checked all the same", () => {
  const message = { ...WRITERS.anthropic.calls([{ id: "1", name: "client.x" }]), role: "user" };
  expect(assertNoClientTools(message, { format: "anthropic" }).dropped).toHaveLength(1);
  const { parts } = WRITERS.google.calls([{ id: "1", name: "client.x" }]);
  expect(assertNoClientTools({ candidates: [{ content: { parts } }] }, { format: "google" }).dropped).toHaveLength(1);
});

test("google: content that is a list loses the dropped calls too", () => {
  const parts = [{ text: "Wait." }, { functionCall: { name: "client.requestApproval", args: {} } }];
  const judged = assertNoClientTools({ candidates: [{ content: parts }] }, { format: "google" });
  expect(judged.dropped).toEqual([{ id: undefined, name: "client.requestApproval" }]);
  expect(judged.output as unknown).toEqual({ candidates: [{ content: [{ text: "Wait." }] }] });
});

test("answers that were blocked or cut off pass", () => {
  const blocked = {
    candidates: [{ finishReason: "SAFETY" }, { content: { role: "model" }, finishReason: "MAX_TOKENS" }],
  };
  expect(assertNoClientTools(blocked, { format: "google" })).toEqual({ output: blocked, dropped: [] });
});

test("each choice is checked", () => {
  const { calls, says } = WRITERS.openai;
  const choices = [says("a"), calls([{ id: "1", name: "client.x" }], "b")].map((message, index) => ({
    index,
    message,
  }));
  const { output, dropped } = assertNoClientTools({ choices }, { format: "openai" });
  expect(dropped).toHaveLength(1);
  expect(output.choices.map(({ message }) => message)).toEqual([says("a"), says("b")]);
});
