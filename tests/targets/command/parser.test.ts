import { describe, expect, test } from "bun:test";
import { AmbiguousValue } from "../../../src/core/ambiguous-value.ts";
import type { Refusal } from "../../../src/core/errors.ts";
import { decode, parseStdout } from "../../../src/targets/command/parser.ts";

const bytes = (...values: readonly number[]) => Uint8Array.from(values);
const reading = { parse: "text", textField: "text", input: undefined, exitCode: 0 } as const;

describe("decode", () => {
  test.each([
    ["a byte order mark stays", bytes(0xef, 0xbb, 0xbf, 0x61), "\ufeffa"],
    ["invalid UTF-8 is shown as such", bytes(0x61, 0xff, 0xfe, 0x62), "a\ufffd\ufffdb"],
    ["an overlong form is not a character", bytes(0xc0, 0xaf), "\ufffd\ufffd"],
    ["a surrogate is not a character", bytes(0xed, 0xa0, 0x80), "\ufffd\ufffd\ufffd"],
    ["a cut sequence", bytes(0x61, 0xe2, 0x82), "a\ufffd"],
  ])("%s", (_title, given, want) => {
    expect(decode(given)).toBe(want);
  });
});

describe("parsing stdout", () => {
  test("text keeps line ends", () => {
    expect(parseStdout(Buffer.from("a\r\nb\n"), reading)).toEqual({ text: "a\r\nb\n" });
  });

  test("json after a byte order mark, in colour", () => {
    const stdout = Buffer.from('\ufeff{"a":\u001b[32m1\u001b[0m}\n');
    expect(parseStdout(stdout, { ...reading, parse: "json" })).toEqual({ a: 1 });
  });

  test("json keeps the digits of a number that would be rounded, and cleans its other texts", () => {
    const stdout = Buffer.from('{"id":9007199254740993,"a":{"\\u001b[2Jt":"x\\u001b[1m"},"a":{"t":"y\\u001b[1m"}}');
    const answer = parseStdout(stdout, { ...reading, parse: "json" }) as { readonly id: unknown; readonly a: unknown };
    expect(String(answer.id)).toBe("9007199254740993");
    expect(AmbiguousValue.factsOf(answer.a as AmbiguousValue)).toMatchObject({ reading: { t: "y" } });
  });

  test("json keeps an own __proto__ key as data", () => {
    const answer = parseStdout(Buffer.from('{"__proto__":{"polluted":true}}'), { ...reading, parse: "json" });
    expect(Object.keys(answer as object)).toEqual(["__proto__"]);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test.each([
    ["json", "json", "not JSON that can be read (SyntaxError; 21 bytes, exit code 0)"],
    [
      "the manifest's own",
      (text: string) => JSON.parse(text) as unknown,
      "the manifest's parse threw (SyntaxError; 21 bytes, exit code 0)",
    ],
  ] as const)("output that %s cannot read is INVALID_OUTPUT, and its text is not in the cause", (_, parse, says) => {
    try {
      parseStdout(Buffer.from('{"a": hunter2planted}'), { ...reading, parse });
      expect.unreachable();
    } catch (error) {
      const { code, message, cause } = error as Refusal;
      expect([code, message, String(cause)]).toEqual([
        "INVALID_OUTPUT",
        "The command's output could not be read.",
        `Error: stdout: ${says}`,
      ]);
    }
  });

  test("escapes that spell a hidden character are joined before the check", () => {
    const answer = parseStdout(Buffer.from('"\\udb40\\u0007\\udc41"'), { ...reading, parse: "json" });
    expect(answer).toBe("\ufffd\ufffd");
  });
});
