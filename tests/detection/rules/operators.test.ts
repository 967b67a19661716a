import { describe, expect, test } from "bun:test";
import { type OperatorRow, operatorRuleProblems, operatorRules } from "../../../src/detection/rules/operators.ts";
import { DETECTOR_RULES } from "../../../src/detection/rules/rules.ts";
import { Detector, hideFindings } from "../../../src/detection/sensitive.ts";
import { releasableText } from "../../../src/pipeline/target-text.ts";
import { loggable } from "../../../src/runtime/log/log.ts";

const ROW: OperatorRow = {
  id: "acme-key",
  anchors: ["acme-"],
  pattern: "\\bACME-\\d{6}\\b",
  level: "secrets",
  matches: ["ACME-123456"],
  misses: ["ACME-12"],
};

const FAULTS: readonly (readonly [field: string, change: Partial<OperatorRow>])[] = [
  ["[0].pattern", { pattern: "(" }],
  ["[0].pattern", { pattern: "(?=a)b" }],
  ["[0].pattern", { pattern: "a*" }],
  ["[0].pattern", { pattern: "(?:a{900}){9}" }],
  ["[0].matches[1]", { matches: ["ACME-123456", "acme 1"] }],
  ["[0].misses[0]", { misses: ["see ACME-123456"] }],
  ["[0].matches[0]", { anchors: ["other"] }],
];

describe("rules of operators", () => {
  test("a rule that matches its examples has no problem", () => {
    expect(operatorRuleProblems([ROW])).toEqual([]);
  });

  test.each(FAULTS)("the problem names %s: %j", (field, change) => {
    expect(operatorRuleProblems([{ ...ROW, ...change }])).toEqual([expect.stringContaining(`${field}: `)]);
  });

  test("two rules with one id are a problem", () => {
    expect(operatorRuleProblems([ROW, ROW])).toEqual([expect.stringContaining("[1].id: ")]);
  });

  const detector = new Detector([...Object.values(DETECTOR_RULES).flat(), ...operatorRules([ROW])]);

  test("every match in a line is hidden, also beyond the first window", () => {
    const text = `${"x ".repeat(20)}ACME-111111 `.repeat(40);
    expect(hideFindings(text, detector.find(text, "secrets"))).not.toContain("ACME-1");
  });

  test("the built-in rules still apply", () => {
    expect(detector.filterSecrets("password: hunter2, ACME-111111").text).toBe("password: [REDACTED], [REDACTED]");
  });

  test("a target's error text and a line of the log are filtered by them", () => {
    expect(releasableText("cannot open ACME-111111", detector)?.message).toBe("cannot open [REDACTED]");
    expect(loggable({ cause: "cannot open ACME-111111" }, detector)).toEqual({ cause: "cannot open [REDACTED]" });
  });

  test("a text full of anchors is withheld or filtered, never released", () => {
    const text = "ACME-ACME-111111 ".repeat(10_000);
    expect(detector.filterSecrets(text).text).not.toContain("111111");
  });
});
