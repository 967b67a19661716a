import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { releasableText, withoutFrames } from "../../src/pipeline/target-text.ts";
import { filler } from "../detection/secret-examples.ts";

const heard = (said: string) => releasableText(said, DETECTOR)?.message;
const WITHHELD = "[withheld: it contained personal data]";

test("a target's text is marked as data", () => {
  expect(releasableText("no such order", DETECTOR)).toEqual({ message: "no such order", untrusted: true });
});

test.each([
  ["undefined", undefined],
  ["nothing", ""],
  ["blanks", " \n\t\n"],
  ["frames alone", "    at run (/app/x.js:1:2)"],
])("%s gives no text", (_title, said) => {
  expect(releasableText(said, DETECTOR)).toBeUndefined();
});

describe("useful text stays", () => {
  test.each([
    'Error from server (NotFound): pods "web-7d9" not found',
    "deploy.yaml:12: mapping values are not allowed here",
    "code:404 line:12 at 12:34:56, retry 3/10, 50% of / used",
    "see https://git-scm.com/docs/git-log for more",
    "refs/heads/main and origin/main differ, a/b/c is new, text/plain, apps/v1",
    "The order 4711 is closed; at least one item must be open (see order 12).",
    '2024-01-02T03:04:05Z level=error msg="not found"',
    "revision v1.2.3 of 7a1b9c3 not found; std::string is no such type",
    "no customer 3f0c9a52-6b1e-4c77-9d3a-00000000dead",
    "at the end of the list",
    "naïve café 王小明 ok",
  ])("%s", (line) => {
    expect(heard(line)).toBe(line);
  });
});

describe("private text does not", () => {
  test.each<[string, string, string | undefined]>([
    ["a token", `bad token ghp_${filler(36)}`, "bad token [REDACTED]"],
    ["a password", "login failed, password=hunter2abc", "login failed, password=[REDACTED]"],
    [
      "a password in an address",
      "cannot open postgres://app:s3cr3t-Pw@db:5432/x",
      expect.not.stringContaining("s3cr3t"),
    ],
    [
      "a private key",
      `bad key:\n-----BEGIN PRIVATE KEY-----\n${filler(64)}\n-----END PRIVATE KEY-----\nuse another`,
      expect.stringMatching(/^bad key:\n\[REDACTED\]\nuse another$/),
    ],
    ["the rest of a key", `${filler(64)}\n-----END PRIVATE KEY-----\nuse another`, "use another"],
    [
      "personal data, with all around it",
      "first line\nJohn Smith <john.smith@example.com>, Leeds\nlast line",
      WITHHELD,
    ],
    ["a telephone number", "call +44 7700 900123 to go on", WITHHELD],
    ["a card", "card 4111 1111 1111 1111 was declined", WITHHELD],
    ["a path", "cannot open /etc/stc/kubeconfig: denied", "cannot open [path] denied"],
    ["a path with a blank, quoted", "cannot open '/srv/my files/x': denied", "cannot open '[path]': denied"],
    ["a path after =", "bad --kubeconfig=/etc/x", "bad --kubeconfig=[path]"],
    ["a path of a home", "no ~/secret/x, no ~root/x", "no [path], no [path]"],
    ["a path of Windows", "no C:\\Users\\joe\\x.txt", "no [path]"],
    ["a share", "no \\\\srv\\share, no //srv/share", "no [path], no [path]"],
    ["a socket", "dial unix:///run/x.sock and file:///etc/x", "dial [path] and [path]"],
    ["an address", "dial tcp 10.0.0.12:5432: connection refused", "dial tcp [address]: connection refused"],
    ["a bare address", "10.2.3.4 is gone", "[address] is gone"],
    ["an address of six", "dial [::1]:8080 and 2001:db8::17", "dial [address] and [address]"],
    ["a host and its port", "customer-master:9090 and redis:6379 are gone", "[address] and [address] are gone"],
    [
      "a private name",
      "lookup db.prod.internal, a.b.svc.cluster.local, localhost",
      "lookup [address], [address], [address]",
    ],
    ["a private URL", 'Get "https://argocd.internal/api/v1?x=1" failed', 'Get "https://[address][path]" failed'],
    ["colours", "\u001b[31merror:\u001b[0m no \u001b]0;title\u0007such", "error: no such"],
    ["what cannot be seen", "no\u200b such\u{e0041}\u{e0042}", "no such"],
    ["a bare carriage return", "all is well\rno such", "all is wellno such"],
  ])("%s", (_title, said, want) => {
    expect(heard(said)).toEqual(want as string);
  });

  test.each<[string, string, string]>([
    [
      "JavaScript",
      "TypeError: x\n    at Object.run (/app/x.js:1:2)\n    at async /app/y.js:3:4\n\nNode.js v22.1.0",
      "TypeError: x",
    ],
    [
      "Python",
      'Traceback (most recent call last):\n  File "/a.py", line 3, in f\n    f(secret)\n    ^^^^\nValueError: x',
      "ValueError: x",
    ],
    [
      "Java",
      "x.StateException: closed\n\tat a.b.C.d(C.java:12)\n\t... 12 more\nCaused by: y",
      "x.StateException: closed\nCaused by: y",
    ],
    ["Go", "panic: x\n\ngoroutine 1 [running]:\nmain.main()\n\t/go/x.go:12 +0x1d\n\nend", "panic: x\nend"],
    [".NET", "System.Exception: x\n   at A.B.C() in C:\\x.cs:line 3", "System.Exception: x"],
    [
      "Rust",
      "panicked: x\nstack backtrace:\n   0: std::panicking::begin\n             at /rustc/x.rs:5\nnote: run with `RUST_BACKTRACE=1`",
      "panicked: x",
    ],
    ["Ruby", "boom (RuntimeError)\n\tfrom x.rb:12:in `run'", "boom (RuntimeError)"],
    [
      "PHP",
      "PHP Fatal error: x\n#0 /var/x.php(12): f()\n#1 {main}\n  thrown in /x.php on line 12",
      "PHP Fatal error: x",
    ],
  ])("a stack trace of %s", (_title, said, want) => {
    expect(heard(said)).toBe(want);
  });
});

describe("the amount of text", () => {
  const bytes = (text: string | undefined) => Buffer.byteLength(text ?? "");

  test("the last whole lines", () => {
    const said = Array.from({ length: 5_000 }, (_, at) => `this is line ${at}`).join("\n");
    const lines = heard(said)?.split("\n") ?? [];
    expect(lines.at(-1)).toBe("this is line 4999");
    expect(lines[0]).toMatch(/^this is line 4\d{3}$/);
    expect(bytes(heard(said))).toBeLessThanOrEqual(2_048);
    expect(bytes(heard(said))).toBeGreaterThan(2_000);
  });

  test.each([
    ["ASCII", "word "],
    ["two bytes", "é "],
    ["four bytes", "🙂 "],
  ])("of one long line its beginning: %s", (_title, word) => {
    const said = heard(word.repeat(2_000)) ?? "";
    expect(said).toMatch(/^.{400,}…$/u);
    expect(said).not.toContain("\uFFFD");
    expect(bytes(said)).toBeLessThanOrEqual(2_048);
  });

  test("a line longer than the scanned part is left out completely", () => {
    expect(heard(`${"word ".repeat(10_000)}\nthe end`)).toBe("the end");
    expect(heard("word ".repeat(10_000))).toBeUndefined();
  });
});

test("any target text: limited, and without control characters, local paths or planted secrets", () => {
  const part = fc.oneof(
    fc.string({ unit: "binary", maxLength: 40 }),
    fc.constantFrom(
      "/etc/passwd",
      "10.1.2.3:80",
      "db.internal",
      "\n",
      "\r",
      "\u001b[31m",
      `ghp_${filler(36)}`,
      "at x (y:1)",
      "://",
      "'",
      "[",
      "::",
    ),
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 40 }), (parts) => {
      const said = heard(parts.join(" ")) ?? "";
      expect(Buffer.byteLength(said)).toBeLessThanOrEqual(2_048);
      expect(said).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
      expect(said).not.toContain(`ghp_${filler(36)}`);
      expect(said).not.toContain(" /etc/passwd ");
    }),
  );
});

test("a stack trace ends at its last frame", () => {
  expect(withoutFrames(["a", "  at x (y:1)", "    source", "b", "    kept"])).toEqual(["a", "b", "    kept"]);
});

describe("a Go frame is recognized by its arguments", () => {
  test.each([
    ["main.run(0xc000012345, {0x4, 0x5})", true],
    ["main.(*Server).serve(0xc0000a2000)", true],
    ["main.run(...)", true],
    ["main.run({0x1, ...}, 0x2)", true],
    ["main.run(?, 0x2)", true],
    ["main.run()", false],
    ["main.run(0x)", false],
    ["main.run(0xc000012345) failed", false],
    ["cannot run (0x1f)", false],
    ["(0x1f)", false],
    ["run(a b, 0x1f)", false],
    ["run(0x1f) + run(a)", false],
    ["f(a)(0x1f)", true],
  ])("%s: %j", (line, isFrame) => {
    expect(withoutFrames([line])).toEqual(isFrame ? [] : [line]);
  });
});
