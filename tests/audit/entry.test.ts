import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { CHAIN_BYTES_MAX } from "../../src/audit/chain/chain.ts";
import { type AuditEntry, LINE_BYTES_MAX, serializeEntry, stampEntry } from "../../src/audit/entry.ts";
import { escapeName } from "../../src/audit/escape.ts";
import { unknownOutcome } from "../../src/audit/journal/journal.ts";
import { callerSumEntry, sumEntry } from "../../src/audit/unauthenticated.ts";
import { draftOf, entryOf } from "./support/open.ts";

const MISLEADING: readonly (readonly [string, string])[] = [
  ["a line end", "\n"],
  ["a carriage return", "\r"],
  ["an escape sequence", "\u001b[2K"],
  ["NUL", "\u0000"],
  ["DEL", "\u007f"],
  ["C1 next line", "\u0085"],
  ["C1 control sequence introducer", "\u009b"],
  ["line separator", "\u2028"],
  ["paragraph separator", "\u2029"],
  ["arabic letter mark", "\u061c"],
  ["left-to-right mark", "\u200e"],
  ["right-to-left override", "\u202e"],
  ["bidi isolate", "\u2066"],
  ["zero-width space", "\u200b"],
  ["zero-width joiner", "\u200d"],
  ["word joiner", "\u2060"],
  ["soft hyphen", "\u00ad"],
  ["byte order mark", "\ufeff"],
  ["mongolian vowel separator", "\u180e"],
  ["hangul filler", "\u3164"],
  ["variation selector", "\ufe0f"],
  ["no-break space", "\u00a0"],
  ["private use", "\ue000"],
  ["interlinear annotation", "\ufff9"],
  ["tag letter", "\u{e0041}"],
  ["supplementary variation selector", "\u{e0100}"],
  ["lone high surrogate", "\ud800"],
  ["lone low surrogate", "\udc00"],
];

describe("stampEntry", () => {
  test("every field of a draft is in the entry, the time first, and its own stamp is ignored", () => {
    const draft = draftOf("t-1", {
      denial: { reason: "no", stage: "AUTH" },
      protocol: { name: "mcp", version: "2026-07-28", client: { name: "c", version: "1" } },
      decisionReasons: [{ point: "permissions", verdict: "deny", reason: "a:b" }],
      policyVersion: "44",
      dryRun: true,
      dataFlow: { before: ["untrusted"], after: ["private", "untrusted"] },
      error: { code: "UNAUTHENTICATED" },
      approval: { by: "rule" },
      sessionMode: "yolo",
      plan: { digest: "22" },
      stages: { AUTH: 1 },
      trace: { traceId: "33" },
      count: 2,
    });
    const forged = { ...draft, timestamp: "forged", instance: "forged", tenant: "forged" };
    const entry = stampEntry(forged as never, {
      timestamp: "2026-02-16T12:00:00.000Z",
      instance: "test",
      tenant: "acme",
      id: "1",
      intentSeq: 2,
    });
    expect(entry).toStrictEqual({
      ...draft,
      timestamp: "2026-02-16T12:00:00.000Z",
      id: "1",
      instance: "test",
      tenant: "acme",
      intentSeq: 2,
    });
    expect(Object.keys(entry)[0]).toBe("timestamp");
  });

  const sum = { source: '["agent-1",null]', code: "AUDIT_UNAVAILABLE", count: 2 } as const;

  test.each([
    ["a sum of unauthenticated clients", sumEntry(sum, "t-1")],
    ["a sum of a caller", callerSumEntry(sum, "t-1")],
    ["a call that was interrupted", unknownOutcome({ seq: 0, traceId: "t-1", facts: {} })],
  ])("the entry of %s begins with time, id and trace id", (_name, draft) => {
    const stamp = { timestamp: "2026-02-16T12:00:00.000Z", instance: "test", tenant: undefined, id: "1" };
    const line = serializeEntry(stampEntry(draft, stamp));
    expect(line).toStartWith('{"timestamp":"2026-02-16T12:00:00.000Z","id":"1","traceId":"t-1",');
    expect(line).toEndWith(',"instance":"test"}');
  });
});

describe("serializeEntry", () => {
  test.each(MISLEADING)("%s is escaped and restored by JSON.parse", (_name, text) => {
    const line = serializeEntry(
      entryOf({ request: { args: { [text]: `a${text}b` }, argsHash: "", hashAlg: "sha256" } }),
    );
    expect(line).not.toContain(text);
    expect(JSON.parse(line).request.args).toEqual({ [text]: `a${text}b` });
  });

  test.each(["Jürgen Müller", "日本語", "привет", "€ 5 – „gut“", "👍", 'quotes " and \\ and \\u202e'])(
    "%s stays unchanged",
    (text) => {
      const line = serializeEntry(entryOf({ approval: { by: text } }));
      expect(line).toContain(JSON.stringify(text));
    },
  );

  test("the fields are in the order of the schema, the timestamp first", () => {
    expect(serializeEntry(entryOf())).toStartWith(
      '{"timestamp":"2026-02-16T12:00:00.000Z","traceId":"t-1","caller":{"sub":',
    );
  });

  test("any entry is one line of JSON that parses to the same value and shows no misleading character", () => {
    const text = fc.oneof(fc.string({ unit: "binary" }), fc.string(), hostileText());
    const entry = fc.record({ sub: text, args: fc.dictionary(text, fc.jsonValue()), reason: text, details: text });
    fc.assert(
      fc.property(entry, ({ sub, args, reason, details }) => {
        const given = entryOf({
          caller: { sub, permissions: [sub] },
          request: { args, argsHash: "", hashAlg: "sha256", reason },
          denial: { reason, stage: "AUTH", details: { [sub]: details } },
        });
        const line = serializeEntry(given);
        expect(JSON.parse(line)).toEqual(JSON.parse(JSON.stringify(given)));
        expect(misleadingIn(line)).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  const big = "x".repeat(LINE_BYTES_MAX);
  test.each<readonly [string, AuditEntry["request"]["args"]]>([
    ["too many short texts", { texts: Array.from({ length: 1_000 }, () => "x".repeat(100)) }],
    ["too many long texts", Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`t${index}`, big]))],
    ["a value that JSON does not have", { number: 1n }],
  ])("arguments with %s are replaced, and the rest stays", (_name, args) => {
    const given = entryOf({ request: { args, argsHash: "hash", hashAlg: "sha256", callId: "c-1" } });
    const line = serializeEntry(given);
    const request = { args: {}, argsHash: "hash", hashAlg: "sha256", callId: "c-1", truncated: true };
    expect(JSON.parse(line)).toEqual({ ...given, request });
  });

  test.each([
    ["too many bytes", "x".repeat(LINE_BYTES_MAX)],
    ["too many bytes only after escaping", "\u202e".repeat(LINE_BYTES_MAX / 4)],
    ["too many bytes of few characters", "日".repeat(LINE_BYTES_MAX / 2.5)],
    ["twelve bytes for each character", "\u{e0041}".repeat(8_192)],
  ])("a text of %s keeps its beginning and its end, and the rest stays", (_name, filler) => {
    const args = { list: [{ text: `rm -r docs #${filler}; ls` }], folder: "docs" };
    const given = entryOf({ request: { args, argsHash: "hash", hashAlg: "sha256" } });
    const { request, ...rest } = JSON.parse(serializeEntry(given));
    const { request: _whole, ...others } = given;
    expect(rest).toEqual(others);
    expect(request).toMatchObject({ truncated: true, args: { folder: "docs" } });
    expect(request.args.list[0].text).toMatch(/^rm -r docs #.{2036}….{2044}; ls$/s);
  });

  test("a cut within a surrogate pair leaves no half of it", () => {
    const text = `a${"😀".repeat(LINE_BYTES_MAX / 4)}b`;
    const args = { text };
    const short = JSON.parse(serializeEntry(entryOf({ request: { args, argsHash: "hash", hashAlg: "sha256" } })));
    expect(short.request.args.text).toMatch(/^a(?:😀){1023}\ufffd…\ufffd(?:😀){1023}b$/u);
    const reduced = JSON.parse(serializeEntry(entryOf({ approval: { by: text.repeat(8) } })));
    expect(reduced.approval.by).toMatch(/^a(?:😀){63}\ufffd$/u);
  });

  test("a line of exactly the limit is kept whole, one byte more is not", () => {
    const bodyMax = LINE_BYTES_MAX - CHAIN_BYTES_MAX;
    const room = bodyMax - serializeEntry(withText("")).length;
    expect(Buffer.byteLength(serializeEntry(withText("x".repeat(room))))).toBe(bodyMax);
    expect(JSON.parse(serializeEntry(withText("x".repeat(room + 1)))).request.truncated).toBe(true);
  });

  test("an entry with enormous texts and lists that need escaping still fits and keeps who and what", () => {
    const huge = "\u{e0041}".repeat(LINE_BYTES_MAX);
    const list = Array.from({ length: 5_000 }, () => huge.slice(0, 1_000));
    const line = serializeEntry({
      timestamp: "2026-02-16T12:00:00.000Z",
      traceId: huge,
      caller: { sub: `agent-1${huge}`, permissions: list, iss: huge, act: list },
      tool: { name: huge, classification: "unknown", targetSystem: huge },
      request: { args: { huge }, argsHash: huge, hashAlg: huge, session: huge, callId: huge, reason: huge },
      decision: "DENIED",
      denial: { reason: huge, stage: "AUTH", details: { list } },
      error: { code: "UNAUTHENTICATED" },
      response: { filteredFields: list, outputHash: huge },
      duration: 1,
      approval: { by: huge },
      plan: { digest: huge },
      stages: Object.fromEntries(list.map((_text, index) => [`S${index}`, index])),
      trace: { traceId: huge, spanId: huge, parentSpanId: huge },
      instance: huge,
      count: 2,
    });
    expect(Buffer.byteLength(line)).toBeLessThanOrEqual(LINE_BYTES_MAX);
    const parsed = JSON.parse(line);
    expect(parsed.caller.sub).toStartWith("agent-1");
    expect(parsed).toMatchObject({
      decision: "DENIED",
      error: { code: "UNAUTHENTICATED" },
      request: { truncated: true },
    });
  });
});

describe("escapeName", () => {
  test.each([
    ["a plain name", "git_diff", 128, "git_diff"],
    ["a line end", "a\nb", 128, "a\\u000ab"],
    ["a look-alike letter", "gіt", 128, "g\\u0456t"],
    ["a spelled-out escape", "\\u000a", 128, "\\\\u000a"],
    ["a tag letter", "\u{e0041}", 128, "\\udb40\\udc41"],
    ["a lone surrogate", "\ud800", 128, "\\ud800"],
    ["a long name", "x".repeat(1_000), 128, "x".repeat(128)],
    ["an escape that does not fit whole", "abc\n", 8, "abc"],
    ["an escape that just fits", "abc\n", 9, "abc\\u000a"],
    ["nothing", "", 128, ""],
  ])("%s", (_name, text, max, escaped) => {
    expect(escapeName(text, max)).toBe(escaped);
  });

  test("for any input the output is short plain ASCII", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: "binary" }), hostileText()), fc.nat(200), (text, max) => {
        expect(escapeName(text, max)).toMatch(/^[\x20-\x7e]*$/);
        expect(escapeName(text, max).length).toBeLessThanOrEqual(max);
      }),
    );
  });
});

function withText(text: string): AuditEntry {
  return entryOf({ request: { args: { text }, argsHash: "", hashAlg: "sha256" } });
}

function hostileText(): fc.Arbitrary<string> {
  const pieces = [...MISLEADING.map(([, text]) => text), "a", "\\", '"', "\\u", "ü"];
  return fc.array(fc.constantFrom(...pieces), { maxLength: 20 }).map((chosen) => chosen.join(""));
}

/** Spelled out by code point, so that it does not share a mistake with the pattern under test. */
function misleadingIn(line: string): readonly string[] {
  return Array.from(line).filter((character) => {
    const code = character.codePointAt(0) ?? 0;
    const ranges = [
      [0, 0x1f],
      [0x7f, 0x9f],
      [0xad, 0xad],
      [0x61c, 0x61c],
      [0x180b, 0x180e],
      [0x200b, 0x200f],
      [0x2028, 0x202e],
      [0x2060, 0x206f],
      [0xd800, 0xdfff],
      [0xfe00, 0xfe0f],
      [0xfeff, 0xfeff],
      [0xe0000, 0xe0fff],
    ] as const;
    return ranges.some(([from, to]) => code >= from && code <= to);
  });
}
