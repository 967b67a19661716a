import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { renderView } from "../../src/approvals/view.ts";
import { headlineText, quotedCommand, WHAT_CHARACTERS_MAX } from "../../src/core/headline.ts";
import { SHELL_ARGV } from "../../src/core/shell-script.ts";
import type { Binding, ExecutionPlan, Headline, Json, Tool } from "../../src/core/types.ts";
import { namesSecret } from "../../src/detection/sanitize-args.ts";
import { filterSecrets } from "../../src/detection/sensitive.ts";
import { commandHeadline } from "../../src/targets/command/headline.ts";
import { fsHeadline } from "../../src/targets/files/headline.ts";
import { unifiedDiff } from "../../src/targets/files/write-plan.ts";
import { grpcHeadline } from "../../src/targets/grpc/headline.ts";
import { httpHeadline } from "../../src/targets/http/headline.ts";
import { mcpHeadline } from "../../src/targets/mcp/headline.ts";

const TOKEN = `ghp_${"aB3dE6gH9j".repeat(4).slice(0, 36)}`;

const tool = {
  ...{ name: "deed", description: "Does it", classification: "write", category: "write" },
  ...{ approval: {}, target: { system: "shop" } },
} as unknown as Tool;

interface Call {
  readonly plan: ExecutionPlan;
  readonly input?: Json;
  readonly headline?: Binding["headline"];
  /** Whether the call wants an answer from the approver. */
  readonly asks?: boolean;
}

/** Returns the headline in the view of a call. */
function headlineOf({ plan, input = {}, headline, asks = false }: Call): Headline {
  const rendered = renderView({
    ...{
      tool: asks ? ({ ...tool, approval: { answer: {} } } as unknown as Tool) : tool,
      plan,
      input,
      planDigest: "a".repeat(64),
      risk: "low",
      rules: [],
      notes: [],
      reason: undefined,
    },
    binding: { ...(headline !== undefined && { headline }) } as Binding,
    requester: { issuer: "https://idp.example", subject: "agent-7", actors: [], session: undefined },
    filterSecrets: (text) => filterSecrets(text).text,
    findSecrets: (text) => filterSecrets(text).findings,
    namesSecret,
  });
  if (rendered === undefined) throw new Error("too much to be shown");
  return rendered.view.headline as unknown as Headline;
}

const script = (text: string): Call => ({
  plan: { kind: "cli", command: "/bin/bash", argv: [...SHELL_ARGV, text] },
  headline: commandHeadline,
});
const command = (program: string, ...argv: string[]): Call => ({
  plan: { kind: "cli", command: program, argv },
  headline: commandHeadline,
});
const call = (input: Json): Call => ({ plan: { kind: "inline", input }, input });
const http = (plan: Record<string, Json>): Call => ({ plan: { kind: "http", ...plan }, headline: httpHeadline });
const grpc = (path: string, message: Json): Call => ({
  plan: { kind: "grpc", path, message },
  headline: grpcHeadline,
});
const mcp = (name: string, given: Json): Call => ({
  plan: { kind: "mcp", tool: name, arguments: given },
  headline: mcpHeadline,
});
const file = (plan: Record<string, Json>): Call => ({ plan: { kind: "fs", ...plan }, headline: fsHeadline });
const change = (before: string | undefined, after: string): Call =>
  file({
    ...{ operation: "write", path: "@project/notes.md", content: after },
    ...{ currentSha256: before === undefined ? null : "b".repeat(64), diff: unifiedDiff("notes.md", before, after) },
  });

const numbered = (count: number): string => Array.from({ length: count }, (_, at) => `line ${at}\n`).join("");

describe("a headline of each kind of target", () => {
  const rows: readonly (readonly [string, Call, string | RegExp])[] = [
    ["a script of one line", script("git push origin main"), "Runs git push origin main"],
    [
      "a script without its comments and options",
      script("#!/bin/sh\n# fine\n\nset -euo pipefail\ncd api\nnpm ci\n"),
      "Runs cd api\\u{a}npm ci",
    ],
    ["a script that changes the shell's variables", script("set -a\nmake"), "Runs set -a\\u{a}make"],
    ["a comment that a backslash does not continue", script("# fine \\\nrm -rf x"), "Runs rm -rf x"],
    [
      "a long script",
      script(`make all\n${numbered(60)}`),
      /^Runs make all\\u\{a\}line 0\\u\{a\}.* \(\d+ more lines\)$/,
    ],
    ["a command", command("/usr/bin/git", "log", "--format=%H x"), "Runs git log '--format=%H x'"],
    ["a function's arguments", call({ orderId: 17, status: "shipped" }), 'orderId: 17, status: "shipped"'],
    ["a function without arguments", call({}), ""],
    [
      "a recipient before a long text",
      call({ body: "x".repeat(500), to: ["ann@shop.example"] }),
      `to: ["ann@shop.example"], body: "${"x".repeat(60)}"…`,
    ],
    [
      "a request with a body",
      http({ method: "POST", url: "https://shop.example/v1/orders/17/status?x=1", body: { status: "shipped" } }),
      'POST /v1/orders/17/status?x=1 status: "shipped"',
    ],
    [
      "a request without a body",
      http({ method: "DELETE", url: "https://shop.example/v1/orders/17" }),
      "DELETE /v1/orders/17",
    ],
    [
      "a method",
      grpc("/shop.orders.v1.OrderService/UpdateStatus", { order_id: "17", status: "SHIPPED" }),
      'OrderService/UpdateStatus order_id: "17", status: "SHIPPED"',
    ],
    ["a method without a package", grpc("/Orders/Drop", {}), "Orders/Drop "],
    ["a tool of a server", mcp("create_issue", { title: "It fails" }), 'create_issue title: "It fails"'],
    ["a change", change("a\nb\nc\n", "a\nB\nc\nd\n"), "Writes @project/notes.md (+2 −1 lines)"],
    ["a new file", change(undefined, "a\n"), "Creates @project/notes.md (+1 −0 lines)"],
    ["no change", change("a\n", "a\n"), "Writes @project/notes.md (no difference)"],
    [
      "a large change",
      change(undefined, numbered(500)),
      "Creates @project/notes.md (more than 400 lines of difference)",
    ],
    ["a reading", file({ operation: "read", order: { path: "@project/.env" } }), 'Reads path: "@project/.env"'],
  ];
  test.each(rows)("%s", (_title, given, want) => {
    const text = headlineText(headlineOf(given));
    if (typeof want === "string") expect(text).toBe(want);
    else expect(text).toMatch(want);
  });

  test("a command's words are quoted where a shell would split or change them", () => {
    expect(quotedCommand(["git", "push", "-f", "a b", "it's", "", "$HOME", "x;y"])).toBe(
      "git push -f 'a b' 'it'\\''s' '' '$HOME' 'x;y'",
    );
  });
});

describe("secrets and hostile text in a headline", () => {
  const secrets: readonly (readonly [string, Call])[] = [
    ["in a script", script(`curl -H "Authorization: Bearer ${TOKEN}" https://api.example`)],
    ["at the end of what is shown of a script", script(`${"x".repeat(WHAT_CHARACTERS_MAX - 20)} ${TOKEN} y`)],
    ["after a command's option", command("/usr/bin/tool", "--password", "hunter2")],
    ["in a command", command("/usr/bin/tool", `--token=${TOKEN}`)],
    ["of an argument's name", call({ password: "hunter2" })],
    ["deep in an argument", call({ db: [{ password: "hunter2" }], note: `use ${TOKEN}` })],
    ["in an argument that is cut", call({ note: `${"x ".repeat(20)}${TOKEN} ${"y ".repeat(200)}` })],
    ["in a path", http({ method: "GET", url: `https://shop.example/v1/${TOKEN}?password=hunter2` })],
    ["in a body", http({ method: "POST", url: "https://shop.example/v1", body: { apiKey: "hunter2", x: TOKEN } })],
    ["in a message", grpc("/a.B/C", { password: "hunter2", nested: { text: TOKEN } })],
    ["in a server's arguments", mcp("post", { text: TOKEN, password: "hunter2" })],
    ["in a file's path", file({ operation: "write", path: `@project/${TOKEN}`, currentSha256: null, diff: [] })],
  ];
  test.each(secrets)("a secret %s is hidden", (_title, given) => {
    const text = JSON.stringify(headlineOf(given));
    expect(text).not.toContain("hunter2");
    // Neither the secret nor its start.
    expect(text).not.toContain("ghp_");
  });

  test("a text is quoted, so that it cannot look like another argument", () => {
    expect(headlineOf(call({ note: 'x", to: "ann' })).what).toBe('note: "x\\", to: \\"ann"');
    expect(headlineOf(call({ 'to: "ann", x': 1 })).what).toBe('"to: \\"ann\\", x": 1');
    expect(headlineOf(call({ note: "x…", more: "(3 more arguments)" }))).toEqual({
      what: 'note: "x…", more: "(3 more arguments)"',
    });
  });

  test("an argument cannot look like a text that the service shortened, and hide its other members", () => {
    const given = { shortened: true, characters: 9_000, sha256: "a".repeat(64), begins: "harmless", ends: "rm -rf /" };
    const { what } = headlineOf(call({ body: given }));
    expect(what).toStartWith(`body: {"shortened'": true, `);
    expect(headlineOf(mcp("post", given)).what).toContain('ends: "rm -rf /"');
  });

  test("a path cannot look like the size of its change, and a long one shows the file's name", () => {
    const write = (path: string): Headline =>
      headlineOf(file({ operation: "write", path, currentSha256: null, diff: unifiedDiff(path, undefined, "x\n") }));
    expect(headlineText(write("@project/a (+0 −0 lines)"))).toBe('Creates "@project/a (+0 −0 lines)" (+1 −0 lines)');
    const { what } = write(`@project/${"safe/".repeat(80)}.bashrc`);
    expect(what).toMatch(/^@project\/safe\/.*….*safe\/\.bashrc$/);
    expect(what.length).toBeLessThanOrEqual(WHAT_CHARACTERS_MAX);
  });

  test("many arguments do not displace each other in silence", () => {
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`argument${at}`, `value ${at}`]));
    const { what, more } = headlineOf(call(many));
    const shown = what.split(", ").length;
    expect(more).toBe(`${40 - shown} more arguments`);
  });

  test("spaces, line ends and invisible characters do not push the command out of sight", () => {
    const gap = `${" ".repeat(400)}${"\t".repeat(100)}${"\n".repeat(100)}`;
    expect(headlineOf(script(`true${gap}; rm -rf /`))).toEqual({
      ...{ does: "Runs", what: "true   \\u{9}\\u{a}; rm -rf /" },
    });
    expect(headlineOf(script(`true${" \n\t\n".repeat(60)}rm -rf /`)).what).toBe("true \\u{a}rm -rf /");
    expect(headlineOf(script("\n\n\u200b\nrm -rf /")).what).toBe("\\u{200b}\\u{a}rm -rf /");
    expect(headlineOf(call({ text: "\u202eevil" })).what).toBe('text: "\\u{202e}evil"');
  });

  test("a headline of any arguments is bounded, well formed and without raw invisible characters", () => {
    const kinds: readonly ((input: Json) => Call)[] = [
      call,
      (input) => mcp(JSON.stringify(input), input),
      (input) => grpc(JSON.stringify(input), input),
      (input) => http({ method: "POST", url: `https://shop.example/${JSON.stringify(input)}`, body: input }),
      (input) => script(JSON.stringify(input)),
      (input) => file({ operation: "write", path: JSON.stringify(input), currentSha256: null, diff: [] }),
    ];
    const text = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("\u{1f600}".repeat(300), "\\u{a}".repeat(99)));
    const value = fc.dictionary(
      text,
      fc.jsonValue({ stringUnit: "binary" }).map((json) => json as Json),
    );
    fc.assert(
      fc.property(value, fc.constantFrom(...kinds), (input, kind) => {
        const { does = "", what, more = "" } = headlineOf(kind(input));
        expect(what.length).toBeLessThanOrEqual(WHAT_CHARACTERS_MAX + 2);
        expect(more.length).toBeLessThan(80);
        expect(`${does}${what}`.isWellFormed()).toBe(true);
        expect(`${does}${what}`).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
      }),
      { seed: 41, numRuns: 150 },
    );
  });
});

test("a question to a person is its own headline, before its choices; other arguments are those of a call", () => {
  const question = { choices: ["yes", "no"], question: "Go on?" };
  expect(headlineOf({ ...call(question), asks: true })).toEqual({ does: "Asks", what: "Go on?" });
  expect(headlineOf({ ...call({ question: "x".repeat(900) }), asks: true }).what).toBe(
    `${"x".repeat(WHAT_CHARACTERS_MAX)}…`,
  );
  expect(headlineOf({ ...call({ text: "Go on?" }), asks: true })).toEqual({ what: 'text: "Go on?"' });
  const further = { question: "Go on?", cents: 900 };
  expect(headlineOf({ ...call(further), asks: true })).toEqual({ what: 'question: "Go on?", cents: 900' });
  expect(headlineOf(call(question)).what).toStartWith("choices: ");
});
