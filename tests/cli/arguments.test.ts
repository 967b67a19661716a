import { describe, expect, test } from "bun:test";
import { argumentsIn } from "../../src/cli/arguments.ts";
import { CommandError } from "../../src/cli/output.ts";

describe("the arguments of a call that somebody types", () => {
  test.each([
    "{}",
    '{"id":9007199254740991,"text":"9007199254740993","list":[{"a":1},{"a":1}]}',
    ' { "score" : 1e-7 } ',
  ])("%s", (text) => {
    expect(argumentsIn(text)).toEqual(JSON.parse(text));
  });

  test.each([
    ['{"id":9007199254740993}', "the arguments are not a JSON object: an integer beyond 2^53-1 (in id)"],
    ['{"a":{"b":1,"b":2}}', "the arguments are not a JSON object: duplicate key (in a.b)"],
    ['{"__proto__":{}}', "the arguments are not a JSON object: the key __proto__ (in __proto__)"],
    ['{"a":"\\ud800"}', "the arguments are not a JSON object: a lone surrogate (in a)"],
    ["[1]", "the arguments are not a JSON object"],
    ["{", "the arguments are not a JSON object: unexpected end"],
    ["", "the arguments are not a JSON object: it is empty"],
  ])("%s is refused with the reason", (text, message) => {
    expect(() => argumentsIn(text)).toThrow(CommandError);
    expect(() => argumentsIn(text)).toThrow(message);
  });
});
