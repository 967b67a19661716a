import { expect, test } from "bun:test";
import fc from "fast-check";
import { Refusal } from "../../src/core/errors.ts";
import { checkBodyHeaders } from "../../src/http/request-guard.ts";

const LIMITS = { bodyBytesMax: 1_024, bodyDepthMax: 8, bodyKeysMax: 8, requestTimeoutMs: 1_000 };
const HEADER_CHARACTERS = 65_536;

/** Whether a body of this media type is read. */
function isRead(type: string): boolean {
  try {
    checkBodyHeaders({ "content-type": type }, LIMITS);
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.code === "UNSUPPORTED_MEDIA_TYPE") return false;
    throw error;
  }
}

const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}$/);
const quoted = fc.stringMatching(/^[^"\\;]{0,12}$/).map((text) => `"${text}"`);
const blank = fc.stringMatching(/^[ \t]{0,3}$/);

test("parameters other than charset change nothing", () => {
  const parameter = fc
    .tuple(token, fc.oneof(token, quoted))
    .filter(([name]) => !/^charset/i.test(name))
    .map(([name, value]) => `${name}=${value}`);
  fc.assert(
    fc.property(fc.array(fc.tuple(blank, fc.option(parameter, { nil: "" }), blank)), (parameters) => {
      expect(isRead(`application/json${parameters.map((parts) => `;${parts.join("")}`).join("")}`)).toBe(true);
    }),
  );
});

test("a charset is UTF-8, in any position", () => {
  const other = fc.oneof(token, quoted).filter((value) => !/^"?utf-?8"?$/i.test(value));
  fc.assert(
    fc.property(other, fc.boolean(), (value, isFirst) => {
      const [first, second] = isFirst ? [value, "utf-8"] : ["utf-8", value];
      expect(isRead(`application/json; charset=${first}; charset=${second}`)).toBe(false);
    }),
  );
});

test("no other type is accepted", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii" }), (text) => {
      if (!/^[ \t]*application\/json[ \t]*(?:;|$)/i.test(text)) expect(isRead(text)).toBe(false);
      expect(isRead(`${text},application/json`)).toBe(false);
    }),
  );
});

test.each([
  ["blanks", `application/json;${" ".repeat(HEADER_CHARACTERS)}x`],
  ["semicolons", `application/json${";".repeat(HEADER_CHARACTERS)}=`],
  ["a name without an end", `application/json;${"a".repeat(HEADER_CHARACTERS)}`],
  ["a quotation without an end", `application/json;a="${"b".repeat(HEADER_CHARACTERS)}`],
])("up to the length of headers: %s", (_title, type) => {
  expect(isRead(type)).toBe(false);
});
