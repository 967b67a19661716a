import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  isClientTool,
  type MessageFormat,
  MessageFormatError,
} from "../../../src/approvals/messages/message-format.ts";
import { assertNoClientTools, prepareMessagesForLLM } from "../../../src/approvals/messages/model-messages.ts";
import { toApprovalRequestMessage, toApprovalResultMessage } from "../../../src/approvals/messages/written.ts";
import { FORMATS, isConsistent, pairsIn, WRITERS } from "./writers.ts";

const ID = "0f5e8d6e-2f1c-4b3a-9d8e-7c6b5a493827";
const PENDING = {
  status: "pending",
  approval: {
    ...{ id: ID, decideBy: "2026-11-22T02:10:00.000Z", statusUrl: `/approvals/${ID}` },
    ...{ options: ["cancel", "once"] as const, message: "An approver is asked whether bash may run." },
  },
  traceId: "t",
} as const;

/** The conversation as it is kept: a call that had to wait, the question, its answer, the result. */
function kept(format: MessageFormat) {
  const { user, says, calls, results } = WRITERS[format];
  const call = { tool: "bash", args: { command: "ls" }, callId: "call_1" };
  const asked = calls([{ id: "call_1", name: "bash", args: call.args }], "Let me look.");
  const question = toApprovalRequestMessage(PENDING, { format, call });
  const answer = toApprovalResultMessage({ approvalId: ID, decision: "approve", receipt: "e.y.J" }, { format });
  const told = results([{ id: "call_1", name: "bash", content: { stdout: "a" } }]);
  return { user, says, calls, results, asked, question, answer, told };
}

describe.each(FORMATS)("%s", (format) => {
  const prepare = (messages: readonly object[]) => prepareMessagesForLLM(messages, { format });
  const { user, says, calls, results, asked, question, answer, told } = kept(format);

  test("of an approval the model sees its call and the result", () => {
    const messages = [user("List it."), asked, question, answer, ...told, says("There is a.")];
    expect(prepare(messages)).toEqual([user("List it."), asked, ...told, says("There is a.")]);
  });

  test("kept messages stay unchanged, and the result shares nothing with its input", () => {
    const messages = [user("List it."), asked, question, answer, ...told];
    const before = structuredClone(messages);
    const prepared = prepare(messages);
    for (const message of prepared) Object.assign(message, { role: "changed", content: [], parts: [], tool_calls: [] });
    expect(messages).toEqual(before);
  });

  test.each(["client.requestApproval", "client.confirm", "Client.RequestApproval", "functions.client.requestApproval"])(
    "%s is left out, whoever wrote it",
    (name) => {
      const message = calls([
        { id: "c", name },
        { id: "b", name: "bash" },
      ]);
      const answers = [
        { id: "c", name, content: { decision: "approve" } },
        { id: "b", name: "bash", content: {} },
      ];
      const [first, second] = answers as [(typeof answers)[0], (typeof answers)[0]];
      expect(prepare([user("x"), message, ...results([first, second])])).toEqual([
        user("x"),
        calls([{ id: "b", name: "bash" }]),
        ...results([second]),
      ]);
    },
  );

  test("a conversation without approvals is unchanged", () => {
    const messages = [
      ...[
        user("a"),
        says("b"),
        user("c"),
        calls([{ id: "1", name: "t" }], "so"),
        ...results([{ id: "1", name: "t", content: { n: 1 } }]),
      ],
      ...[
        calls([
          { id: "2", name: "t" },
          { id: "3", name: "client_list" },
        ]),
      ],
      ...results([
        { id: "2", name: "t", content: {} },
        { id: "3", name: "client_list", content: { decision: "approve" } },
      ]),
      ...[says("d"), user("client.requestApproval: approve")],
    ];
    expect(prepare(messages)).toEqual(messages);
  });

  test("a call without a result and a result without a call are dropped", () => {
    const orphan = results([{ id: "gone", name: "other", content: {} }]);
    const pair = results([{ id: "1", name: "t", content: {} }]);
    const message = calls(
      [
        { id: "1", name: "t" },
        { id: "2", name: "t2" },
      ],
      "both",
    );
    expect(prepare([user("x"), ...orphan, message, ...pair])).toEqual([
      user("x"),
      calls([{ id: "1", name: "t" }], "both"),
      ...pair,
    ]);
    expect(prepare([user("x"), calls([{ id: "2", name: "t" }])])).toEqual([user("x")]);
    expect(prepare([user("x"), calls([{ id: "2", name: "t" }], "words stay"), user("y")])).toEqual([
      user("x"),
      format === "openai" ? { role: "assistant", content: "words stay" } : says("words stay"),
      user("y"),
    ]);
  });

  test("a late result is moved after its call", () => {
    const prepared = prepare([user("x"), asked, question, user("Is it done?"), says("Not yet."), answer, ...told]);
    expect(prepared).toEqual([user("x"), asked, ...told, user("Is it done?"), says("Not yet.")]);
  });

  test("an id that occurs twice means two calls", () => {
    const once = [calls([{ id: "1", name: "t" }]), ...results([{ id: "1", name: "t", content: { n: 1 } }])];
    const again = [calls([{ id: "1", name: "t" }]), ...results([{ id: "1", name: "t", content: { n: 2 } }])];
    expect(prepare([user("x"), ...once, ...again])).toEqual([user("x"), ...once, ...again]);
  });

  test("output is consistent for any input order, and preparing it again changes nothing", () => {
    const id = fc.constantFrom("1", "2", "3", "4", "approval_1");
    const name = fc.constantFrom("t", "bash", "client.requestApproval", "client_request_approval", "client_list");
    const message = fc.oneof(
      fc.string({ minLength: 1 }).map((text) => [user(text)]),
      fc.string({ minLength: 1 }).map((text) => [says(text)]),
      fc
        .uniqueArray(fc.record({ id, name }), { selector: (one) => one.id, minLength: 1, maxLength: 3 })
        .map((made) => [calls(made)]),
      fc
        .uniqueArray(fc.record({ id, name, content: fc.constant({ ok: true }) }), {
          selector: (one) => one.id,
          minLength: 1,
          maxLength: 3,
        })
        .map((given) => results(given)),
    );
    fc.assert(
      fc.property(fc.array(message, { maxLength: 14 }), (parts) => {
        const messages = parts.flat();
        const prepared = prepare(messages);
        expect(isConsistent(prepared as Record<string, unknown>[], format)).toBe(true);
        expect(prepare(prepared)).toEqual(prepared);
        expect(JSON.stringify(prepared)).not.toMatch(/"name":"client[._]request/);
        const words = (list: readonly object[]) =>
          list.filter((one) => pairsIn([one as Record<string, unknown>], format).calls.length === 0);
        const said = words(messages).filter(
          (one) => pairsIn([one as Record<string, unknown>], format).results.length === 0,
        );
        const left = words(prepared).filter(
          (one) => pairsIn([one as Record<string, unknown>], format).results.length === 0,
        );
        expect(left).toEqual(said);
      }),
      { numRuns: 300 },
    );
  });

  test("any input is answered or reported as an invalid message", () => {
    const odd = fc.record(
      {
        role: fc.constantFrom("assistant", "user", "tool", "model", "function", 7),
        content: fc.anything(),
        parts: fc.anything(),
        tool_calls: fc.anything(),
        tool_call_id: fc.anything(),
        function_call: fc.anything(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(odd, fc.anything())), (messages) => {
        try {
          expect(Array.isArray(prepare(messages as object[]))).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(MessageFormatError);
        }
      }),
    );
  });

  test("a name that cannot be read, or is on the wrong side, is not a call", () => {
    const nameless = calls([{ id: "1", name: 7 as never }]);
    expect(prepare([nameless, ...results([{ id: "1", name: "t", content: {} }])])).toEqual([]);
    const wrong = { ...calls([{ id: "1", name: "bash" }], "I am the model."), role: "user" };
    const [after] = prepare([wrong, ...results([{ id: "1", name: "bash", content: {} }])]) as [Record<string, unknown>];
    expect(pairsIn([after], format).calls).toEqual([]);
  });
});

test("Anthropic: a user's text next to a result stays next to it, thinking blocks alone are not sent", () => {
  const { calls, says } = WRITERS.anthropic;
  const results = (ids: readonly string[]) =>
    ids.map((id) => ({ type: "tool_result", tool_use_id: id, content: "{}" }));
  const text = { type: "text", text: "and hurry" };
  const messages = [calls([{ id: "1", name: "t" }]), { role: "user", content: [...results(["1"]), text] }, says("ok")];
  expect(prepareMessagesForLLM(messages, { format: "anthropic" })).toEqual(messages);
  const mixed = [
    calls([
      { id: "1", name: "t" },
      { id: "a", name: "client_request_approval" },
    ]),
    { role: "user", content: [...results(["a"]), text] },
    { role: "user", content: results(["1"]) },
  ];
  expect(prepareMessagesForLLM(mixed, { format: "anthropic" })).toEqual([
    calls([{ id: "1", name: "t" }]),
    { role: "user", content: results(["1"]) },
    { role: "user", content: [text] },
  ]);
  const late = [
    ...[calls([{ id: "1", name: "t" }]), { role: "user", content: "hi" }],
    { role: "user", content: [...results(["1"]), text] },
  ];
  expect(prepareMessagesForLLM(late, { format: "anthropic" })).toEqual([
    calls([{ id: "1", name: "t" }]),
    ...[
      { role: "user", content: results(["1"]) },
      { role: "user", content: "hi" },
      { role: "user", content: [text] },
    ],
  ]);
  const thought = { type: "thinking", thinking: "hm", signature: "s" };
  const asking = {
    role: "assistant",
    content: [thought, ...(calls([{ id: "a", name: "client.x" }])["content"] as object[])],
  };
  expect(prepareMessagesForLLM([asking], { format: "anthropic" })).toEqual([]);
});

test("Google: calls without ids are paired by name and order", () => {
  const call = (name: string, n: number) => ({ functionCall: { name, args: { n } }, thoughtSignature: `s${n}` });
  const result = (name: string, n: number) => ({ functionResponse: { name, response: { n } } });
  const messages = [
    { role: "model", parts: [call("t", 1), call("u", 2), call("t", 3)] },
    { role: "user", parts: [result("t", 1), result("u", 2), result("t", 3)] },
  ];
  expect(prepareMessagesForLLM(messages, { format: "google" })).toEqual(messages);
  const withIds = [
    { role: "model", parts: [{ functionCall: { id: "x", name: "t", args: {} } }] },
    { role: "function", parts: [result("t", 1)] },
  ];
  expect(prepareMessagesForLLM(withIds, { format: "google" })).toEqual(withIds);
  const short = [
    { role: "model", parts: [call("t", 1), call("t", 2)] },
    { role: "user", parts: [result("t", 1)] },
  ];
  expect(prepareMessagesForLLM(short, { format: "google" })).toEqual([
    { role: "model", parts: [call("t", 1)] },
    { role: "user", parts: [result("t", 1)] },
  ]);
});

test("Google: a part that both calls and answers does neither", () => {
  const both = { functionCall: { name: "t", args: {} }, functionResponse: { name: "t", response: {} } };
  const messages = [
    ...[
      { role: "user", parts: [both] },
      { role: "model", parts: [both] },
    ],
    { role: "user", parts: [{ functionResponse: { name: "t", response: {} } }] },
  ];
  expect(prepareMessagesForLLM(messages, { format: "google" })).toEqual([]);
});

test("OpenAI: function calls from before tools", () => {
  const call = (name: string) => ({ role: "assistant", content: null, function_call: { name, arguments: "{}" } });
  const result = (name: string) => ({ role: "function", name, content: "{}" });
  const messages = [
    call("t"),
    result("t"),
    call("client.requestApproval"),
    result("client.requestApproval"),
    call("t"),
    result("t"),
  ];
  expect(prepareMessagesForLLM(messages, { format: "openai" })).toEqual([
    call("t"),
    result("t"),
    call("t"),
    result("t"),
  ]);
});

test.each([
  ["client.requestApproval", true],
  ["client.anything", true],
  ["CLIENT.requestapproval", true],
  ["client_request_approval", true],
  ["client_requestApproval", true],
  ["client-request-approval", true],
  ["clientRequestApproval", true],
  ["ｃlient.requestApproval", true],
  [" client.requestApproval", true],
  ["functions.client_request_approval", true],
  ["default_api:client_request_approval", true],
  ["client_list", false],
  ["client_get_request", false],
  ["clients.list", false],
  ["get_client_request_approval", false],
  ["client_request_approvals", false],
  ["request_approval", false],
  ["crm.client.list", false],
  ["", false],
])("%p belongs to the application: %p", (name, is) => {
  expect(isClientTool(name)).toBe(is);
});

test.each([["responses"], ["constructor"], ["__proto__"]])("the format %s is unknown", (format) => {
  expect(() => prepareMessagesForLLM([], { format: format as never })).toThrow(MessageFormatError);
});

test("a long conversation is read in one pass", () => {
  const { calls, results } = WRITERS.openai;
  const many = Array.from({ length: 4_900 }, (_, n) => [
    calls([{ id: `${n}`, name: "t" }]),
    ...results([{ id: `${n}`, name: "t", content: {} }]),
  ]).flat();
  expect(prepareMessagesForLLM(many, { format: "openai" })).toHaveLength(9_800);
  expect(() => prepareMessagesForLLM([...many, ...many], { format: "openai" })).toThrow("more than 10000 messages");
});

const CALL_ID = "approval_0f5e8d6e-2f1c-4b3a-9d8e-7c6b5a493827";

describe.each(FORMATS)("%s", (format) => {
  const { says, calls, output } = WRITERS[format];

  test.each(["client_request_approval", "client.requestApproval", "client.confirm", "Client_RequestApproval"])(
    "a model that calls %s: the call is dropped and reported, its other calls stay",
    (name) => {
      const made = [
        { id: CALL_ID, name, args: { message: "Please approve" } },
        { id: "b", name: "bash", args: { command: "ls" } },
      ];
      const whole = output(calls(made, "Just a moment."));
      const before = structuredClone(whole);
      const judged = assertNoClientTools(whole, { format });
      expect(judged.output).toEqual(output(calls(made.slice(1), "Just a moment.")));
      expect(judged.dropped).toEqual([{ id: CALL_ID, name }]);
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
