import { describe, expect, test } from "bun:test";
import { approvingOf, programsIn, reasonMeanings, ruleMeanings } from "../../src/core/decision-words.ts";
import { refusalSentence } from "../../src/core/refusal-words.ts";
import { REFUSALS } from "../../src/core/refusals.ts";
import { SHELL_RULE_NOTES } from "../../src/core/shell-rule-notes.ts";
import { SHELL_RULES, SHELL_TABLES } from "../../src/shell-rules/shell-rules.ts";

test("the programs that notes of shell rules name are read, and no others", () => {
  const { notes } = SHELL_RULES.judge("curl a; wget b; pip install c", { cwd: "/w", home: "/h" });
  expect(programsIn(notes).toSorted()).toEqual(["curl", "pip", "wget"]);
  expect(programsIn(["Something else (curl).", "Talks to the network."])).toEqual([]);
});

describe("the meaning of a rule", () => {
  test.each([
    ["default", "default", "No rule lets this call run by itself, so a person decides."],
    ["floor:destructive", "destructive", "The tool is destructive: a person decides about each of its calls."],
    ["floor:risk:high", "risk:high", "The risk of the call is high: a person decides about each such call."],
    ["operator:refunds", "operator:refunds", "The operators' rule refunds matches the call."],
    ["policy:cedar", "policy:cedar", "The decision point cedar wants a person to decide."],
    ["network", "network", "Talks to the network."],
    ["ships-to-customers", "ships-to-customers", "The rule ships-to-customers matches the call."],
  ])("%s", (name, rule, text) => {
    expect(ruleMeanings([name])).toEqual([{ rule, text }]);
  });

  test("of a floor of several rules is that of each, and each is said once", () => {
    const rules = ruleMeanings(["floor:network,operator:a", "network", "operator:a"]).map(({ rule }) => rule);
    expect(rules).toEqual(["network", "operator:a"]);
  });

  test("of a built-in shell rule is its note", () => {
    const rows = Object.values(SHELL_TABLES).flatMap((table) => table.map(({ id, note }) => [id, note] as const));
    expect(Object.fromEntries(rows)).toEqual(SHELL_RULE_NOTES);
    expect(Object.keys(SHELL_RULE_NOTES)).toHaveLength(rows.length);
  });
});

describe("the reason of a policy point", () => {
  test.each([
    ["permissions", "orders:write", "The caller's token lacks the permission orders:write."],
    ["risk", "floor:installs", SHELL_RULE_NOTES.installs],
    ["halts", "halt h-1", "Operators have halted such calls: halt h-1."],
    [
      "halts",
      "the halts are not known",
      "Whether operators have halted such calls could not be checked: the halts are not known.",
    ],
    ["tenant", "the claim is missing", "The token names another tenant, or none: the claim is missing."],
    ["cedar", "no-refunds", "The decision point cedar denies the call: no-refunds."],
  ])("%s", (point, reason, text) => {
    expect(reasonMeanings({ point, verdict: "deny", reason }).map((meaning) => meaning.text)).toEqual([text]);
  });
});

describe("who let a call run", () => {
  test("people are named, with what their approval covers", () => {
    expect(approvingOf("human:https://idp.example|alice, human:bob", "session")).toEqual({
      people: [
        { issuer: "https://idp.example", subject: "alice" },
        { issuer: undefined, subject: "bob" },
      ],
      text: "Approved by alice and bob for this session.",
    });
  });

  test("a name cannot be a sentence of its own, or look like a further person", () => {
    const { people, text } = approvingOf("human:https://idp.example|bob. Denied by carol") ?? {};
    expect({ people, text }).toEqual({
      people: [{ issuer: "https://idp.example", subject: "bob. Denied by carol" }],
      text: 'Approved by "bob. Denied by carol".',
    });
    expect(ruleMeanings(["operator:x. All is well"])[0]?.text).toBe(
      'The operators\' rule "x. All is well" matches the call.',
    );
  });

  test("a grant is named by its id", () => {
    expect(approvingOf("grant:g-1")).toMatchObject({ people: [], grant: "g-1" });
  });

  test("a rule is a rule, also one of another version", () => {
    expect(approvingOf("mode:yolo")?.text).toBe("Approved by the mode of the session: yolo asks nobody.");
    expect(approvingOf("mode:late")?.text).toBe("Approved by the rule mode:late.");
  });

  test.each(["APPROVAL_DENIED", "INTERNAL", undefined])("nobody did where the line has %p", (by) => {
    expect(approvingOf(by)).toBeUndefined();
  });
});

describe("why a call ended", () => {
  test("the missing permissions, the quota and the limit are named", () => {
    expect(refusalSentence("PERMISSION_DENIED", { missingPermissions: ["a:read", "a:write"] })).toBe(
      "The caller's token lacks the permissions a:read, a:write.",
    );
    expect(refusalSentence("QUOTA_EXCEEDED", { quota: "refunds" })).toBe("The quota refunds is used up.");
    expect(refusalSentence("RATE_LIMITED", { limit: "tool" })).toContain("all callers together");
    expect(refusalSentence("APPROVAL_DENIED", { rule: "default" })).toContain("no approver is configured");
    expect(refusalSentence("APPROVAL_DENIED", { approval: { id: "a" } })).toBe("An approver denied the call.");
  });

  test("every code has a sentence, whatever its details are", () => {
    for (const code of Object.keys(REFUSALS))
      for (const details of [undefined, null, "x", { limit: "constructor", quota: 1 }])
        expect(refusalSentence(code, details)).toMatch(/^[A-Z].*\.$/);
    expect(refusalSentence("toString")).toBeUndefined();
  });
});
