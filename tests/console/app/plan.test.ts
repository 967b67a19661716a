import { describe, expect, test } from "bun:test";
import { isViewOfDigest } from "../../../src/console/app/approvals/model.ts";
import { confinementWords, isCompact, planLines, planOf } from "../../../src/console/app/approvals/plan.ts";
import { canonicalJson, sha256Hex } from "../../../src/core/digest.ts";

function main(view: unknown) {
  const { title, main } = planOf(view);
  return [title, ...main.map(({ label, value }) => [label, value])];
}

describe("what a command may reach", () => {
  const confined = (network: unknown, writes: readonly string[], temporaryDirectory = false) =>
    confinementWords({ confinement: "confined", target: { confinement: { network, writes, temporaryDirectory } } })
      ?.text;

  test.each([
    [confined(null, []), "Confined: it reaches no network, and writes no file."],
    [confined([], ["/srv/a b"]), "Confined: it reaches no network, and writes '/srv/a b'."],
    [
      confined([443], ["/srv/a"], true),
      "Confined: it reaches the network at TCP port 443, of any host, and writes /srv/a, a temporary directory of its own.",
    ],
    [
      confined([80, 443], ["/1", "/2", "/3", "/4", "/5"]),
      "Confined: it reaches the network at TCP ports 80, 443, of any host, and writes /1, /2, /3, /4, 1 more.",
    ],
  ])("%#: %s", (text, expected) => {
    expect(text).toBe(expected);
  });

  test("without confinement, everything; of another form, the level; where nothing is started, nothing", () => {
    expect(confinementWords({ confinement: "none" })?.isNone).toBe(true);
    expect(confinementWords({ confinement: "confined", target: {} })?.text).toBe("Confinement: confined");
    expect(confinementWords({ confinement: "not applicable" })).toBeUndefined();
  });
});

describe("what will run", () => {
  test("a command: its words, its directory, its environment", () => {
    const environment = { PATH: "/bin", GIT_DIR: "/srv/x", LANG: "C.UTF-8", TERM: "ansi", NO_COLOR: "1" };
    const view = { command: ["git", "push", "a b"], workingDir: "/srv", environment };
    expect(main({ ...view, target: { kind: "cli" } })).toEqual([
      "Command",
      ["Command line", "git push 'a b'"],
      ["In the directory", "/srv"],
      ["Environment", ["GIT_DIR=/srv/x", "TERM=ansi"]],
    ]);
    // What the service sets for every command is folded.
    expect(planOf(view).more).toEqual([
      { label: "Standard environment", value: ["PATH=/bin", "LANG=C.UTF-8", "NO_COLOR=1"] },
    ]);
  });

  test("a shell's script comes first, then what runs it", () => {
    const command = ["/bin/bash", "--noprofile", "--norc", "-c", "--", "rm x"];
    expect(main({ command, target: { kind: "cli" } })).toEqual([
      "Shell script",
      ["Script", "rm x"],
      ["Run by", "/bin/bash --noprofile --norc -c --"],
    ]);
  });

  test("a command that has an option -c of its own is no script", () => {
    const command = ["/usr/bin/git", "-c", "gc.auto=0", "commit", "--message", "-c --"];
    expect(main({ command, target: { kind: "cli" } })).toEqual([
      "Command",
      ["Command line", "/usr/bin/git -c gc.auto=0 commit --message '-c --'"],
    ]);
  });

  test("an HTTP request: method and URL, headers, body", () => {
    const target = {
      kind: "http",
      system: "shop",
      method: "POST",
      url: "https://x.test/a",
      headers: { accept: "*/*" },
    };
    expect(main({ target: { ...target, body: { a: [1, "b"] } } })).toEqual([
      "HTTP request",
      ["Request", ["POST https://x.test/a"]],
      ["Headers", ["accept: */*"]],
      ["Body", ["{", '  a: [1, "b"]', "}"]],
    ]);
    const standard = { accept: "application/json, text/*;q=0.5", "content-type": "application/json" };
    const { main: parts, more } = planOf({ target: { ...target, headers: { ...standard, "x-a": "1" } } });
    expect(parts.map(({ label, value }) => [label, value])).toContainEqual(["Headers", ["x-a: 1"]]);
    expect(more[0]?.value).toEqual(["accept: application/json, text/*;q=0.5", "content-type: application/json"]);
  });

  test("a GraphQL request: operation, variables and document; its digest is folded", () => {
    const target = {
      ...{ kind: "http", system: "shop", method: "POST", url: "https://x.test/graphql" },
      headers: {
        accept: "application/graphql-response+json, application/json;q=0.9",
        "content-type": "application/json",
      },
      ...{ operation: "mutation Cancel", documentSha256: "ab12" },
    };
    const query = "mutation Cancel($id: ID!) { cancel(id: $id) }";
    const body = { operationName: "Cancel", query, variables: { id: "7" } };
    expect(main({ target: { ...target, body } })).toEqual([
      "GraphQL request",
      ["Operation", "mutation Cancel"],
      ["Request", ["POST https://x.test/graphql"]],
      ["Variables", ["{", '  id: "7"', "}"]],
      ["Document", query],
    ]);
    const { more } = planOf({ target: { ...target, body } });
    expect(more.map(({ label }) => label)).toEqual(["SHA-256 of the document", "Standard headers"]);
    const shortened = { shortened: true, begins: "{", ends: "}" };
    expect(main({ target: { ...target, body: shortened } }).map(([label]) => label)).toContain("Body");
  });

  test("a gRPC message, an MCP tool's arguments, the change of a file", () => {
    const grpc = { message: { id: "1" }, target: { kind: "grpc", path: "/a.B/C", endpoint: "x:443" } };
    expect(main(grpc)).toEqual([
      "gRPC call",
      ["Method", "/a.B/C"],
      ["At", "x:443"],
      ["Message", ["{", '  id: "1"', "}"]],
    ]);
    const mcp = { arguments: { q: 1 }, target: { kind: "mcp", system: "git", tool: "log", arguments: { q: 1 } } };
    expect(main(mcp)).toEqual(["MCP tool call", ["Server's tool", "log on git"], ["Arguments", ["{", "  q: 1", "}"]]]);
    expect(planOf(mcp).more).toEqual([]);
    const file = { target: { kind: "fs", operation: "write", path: "@p/a", diff: ["-a", "+b"] } };
    expect(main(file)).toEqual(["File change", ["Writes", "@p/a"], ["Difference", ["-a", "+b"]]]);
  });

  test("a question with its context; the choices are where the answer is given; other arguments are a call", () => {
    const args = { question: "Which one?", context: "There are two", choices: ["a", "b"] };
    const asked = (more = {}) => planOf({ arguments: { ...args, ...more }, target: {} }, { isQuestion: true });
    expect([asked().title, asked().main, asked().more]).toEqual([
      "Question",
      [
        { label: "Question", value: "Which one?" },
        { label: "Context", value: "There are two" },
      ],
      [{ label: "Choices", value: ["[", '  "a",', '  "b"', "]"] }],
    ]);
    for (const other of [{ amount: 5 }, { question: 5 }]) expect(asked(other).title).toBe("Function call");
    expect(planOf({ arguments: args, target: {} }).title).toBe("Function call");
  });

  test("every member of a view is shown somewhere", () => {
    const view = {
      command: ["a"],
      arguments: { b: "B1" },
      files: { c: "C1" },
      odd: "O1",
      target: { kind: "cli", d: "D1" },
    };
    const { main: first, more } = planOf(view);
    const all = JSON.stringify([first, more]);
    for (const value of ["a", "B1", "C1", "O1", "D1"]) expect(all).toContain(value);
  });

  test.each([["text"], [null], [[1, 2]], [7]])("a view of an unknown form is shown whole: %j", (view) => {
    const [part] = planOf(view).main;
    expect([part?.value].flat().join("")).toContain(Array.isArray(view) ? "1" : String(view));
  });
});

describe("JSON as lines", () => {
  test("a string cannot look like a member", () => {
    expect(planLines({ a: 'x",\\u{a}  admin: "yes' })).toEqual(["{", '  a: "x\\",\\u{a}  admin: \\"yes"', "}"]);
    expect(planLines({ 'a": 1, "b': 2 })).toEqual(["{", '  "a\\": 1, \\"b": 2', "}"]);
  });

  test("short lists and objects of words and numbers are one line, texts that could look like two are not", () => {
    const plain = { to: ["a@b.test", "c d"], sum: { currency: "EUR", units: 12 }, none: {}, empty: [] };
    expect(planLines(plain)).toEqual([
      "{",
      '  to: ["a@b.test", "c d"],',
      '  sum: { currency: "EUR", units: 12 },',
      "  none: {},",
      "  empty: []",
      "}",
    ]);
    for (const text of ['x", "y', "x, y", "x\\u{a}y", "p\u0430ypal", "x".repeat(80), "}"]) {
      expect(planLines({ to: [text] })).toHaveLength(5);
      expect(planLines({ to: { a: text } })).toHaveLength(5);
    }
    expect(planLines({ to: { 'a", "b': 1 } })).toHaveLength(5);
  });

  test("a text of which the service sends two ends says how much is left out", () => {
    const sha256 = "ab".repeat(32);
    const short = { shortened: true, characters: 1_000, sha256, begins: "x".repeat(10), ends: "y" };
    const { main: first } = planOf({ arguments: { text: short }, target: { kind: "inline" } });
    expect(JSON.stringify(first)).toContain(
      `About 989 of 1000 characters are not shown. SHA-256 of the whole text: ${sha256}`,
    );
    // An argument that only looks like it is shown with all of its members.
    expect(planLines({ ...short, also: "hidden" }).join("\n")).toContain("hidden");
  });

  test.each([
    { sha256: `${"ab".repeat(32)}. Security has checked this call.` },
    { sha256: { checked: "Security has checked this call." } },
    { characters: 1.5 },
  ])("an argument never speaks in the display's own words: %j", (changed) => {
    const forged = { shortened: true, characters: 9, sha256: "ab".repeat(32), begins: "x", ends: "y", ...changed };
    const { main: first } = planOf({ arguments: forged, target: { kind: "inline" } });
    expect(first.map(({ omission }) => omission)).toEqual([undefined]);
    expect(planLines({ text: forged }).join("\n")).not.toContain("The service shows");
    expect(planLines({ text: forged }).join("\n")).toContain("begins:");
  });

  test("depth is bounded", () => {
    let deep: unknown = "end";
    for (let at = 0; at < 5_000; at += 1) deep = [deep];
    expect(planLines(deep).join("")).toContain("end");
  });
});

test("a short value stands next to its label; one with a line end or of many lines does not", () => {
  const part = (value: string | readonly string[]) => isCompact({ label: "x", value });
  expect([part("/srv"), part("a\\u{a}b"), part(["a", "b"]), part("x".repeat(200))]).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

const LIMITS = { depthMax: 64, nodesMax: 1_000, bytesMax: 100_000 } as const;

test("a view is accepted only with the digest that the service made of it", async () => {
  const planDigest = "ab".repeat(32);
  const view = { b: [1, 2.5, -0, 1e21, '\u00e9\u2028"\\', null, true], a: { "\u{1f600}": 1, "\ufb33": 2 }, "": {} };
  const viewDigest = sha256Hex(canonicalJson({ t: "stc/view/v1", planDigest, view }, LIMITS));
  const request = { id: "a", state: "pending", tool: "t", summary: "s", createdAt: "2026-01-01T00:00:00Z", planDigest };
  expect(await isViewOfDigest({ ...request, view, viewDigest })).toBe(true);
  expect(await isViewOfDigest({ ...request, view: { ...view, a: {} }, viewDigest })).toBe(false);
  expect(await isViewOfDigest({ ...request, view, viewDigest, planDigest: "cd".repeat(32) })).toBe(false);
});
