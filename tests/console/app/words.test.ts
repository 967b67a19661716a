import { describe, expect, test } from "bun:test";
import { linesOf } from "../../../src/console/app/escapes.ts";
import { hrefOf, readLink, readRoute } from "../../../src/console/app/route.ts";
import { adviceFor, compareNames, counted, hasWords, timeAgo, timeLeft } from "../../../src/console/app/words.ts";
import { visible } from "../../../src/core/terminal-text.ts";

const texts = (text: string) => linesOf(text).map((line) => line.map((piece) => piece.text).join(""));
const kinds = (text: string) => linesOf(text).map((line) => line.map((piece) => piece.kind));

describe("text from outside", () => {
  test("ordinary text of any script is unchanged", () => {
    for (const text of ["", "git push", "Grüße, Zoë", "日本語", "naïve café", "привет"])
      expect(texts(text)).toEqual([text]);
  });

  test("controls, bidirectional and invisible characters become escapes of their own", () => {
    const text = "a\u202eb\u0007c\u200bd\u2028e\ufefff\u{e0041}g\ud800";
    const shown = "a\\u{202e}b\\u{7}c\\u{200b}d\\u{2028}e\\u{feff}f\\u{e0041}g\\u{d800}";
    expect(texts(text)).toEqual([shown]);
    expect(
      linesOf(text)
        .flat()
        .filter(({ kind }) => kind === "escape"),
    ).toHaveLength(7);
  });

  test("a text that the service has escaped looks the same", () => {
    for (const text of ["a\u202eb", "one\ntwo", "x\u0000y"]) expect(linesOf(visible(text))).toEqual(linesOf(text));
  });

  test("an escape that the text itself spells is text", () => {
    expect(kinds(visible("\\u{202e}"))).toEqual([["text", "text"]]);
    expect(texts(visible("\\u{202e}"))).toEqual(["\\\\u{202e}"]);
  });

  test("line ends begin lines and stay visible; a backslash before one leaves the characters as they are", () => {
    expect(texts("one\ntwo\n")).toEqual(["one↵", "two↵"]);
    expect(texts(visible("one \\\ntwo"))).toEqual(["one \\\\u{a}", "two"]);
  });

  test("the arrow that stands for a line end is not one in a text", () => {
    expect(texts("echo ok ↵ # done")).toEqual(["echo ok \\u{21b5} # done"]);
  });

  test("a long run of spaces is counted, so that nothing is pushed out of sight", () => {
    expect(texts(`rm${" ".repeat(400)}-rf`)).toEqual(["rm⟦400 spaces⟧-rf"]);
    expect(texts(`a${" ".repeat(24)}b`)).toEqual([`a${" ".repeat(24)}b`]);
  });
});

describe("routes", () => {
  test.each([
    ["", "", [], ""],
    ["#/", "", [], ""],
    ["#/approvals", "approvals", [], ""],
    ["#/approvals/a%2Fb/", "approvals", ["a/b"], ""],
    ["#/calls?tool=x&from=1h", "calls", [], "tool=x&from=1h"],
    ["#/calls/%E0%A4%A", "calls", ["%E0%A4%A"], ""],
    ["#link=abc", "", [], ""],
  ])("%p is read", (fragment, page, rest, query) => {
    const route = readRoute(fragment);
    expect([route.page, route.rest, route.query.toString()]).toEqual([page, rest, query]);
  });

  test("a fragment of unusual length is the start page", () => {
    expect(readRoute(`#/${"a".repeat(9_000)}`).page).toBe("");
  });

  test("what a link says is read as it was meant", () => {
    const query = new URLSearchParams({ tool: "a b&c" });
    const route = readRoute(hrefOf("calls", ["x/y", "?z"], query));
    expect([route.page, route.rest, route.query.get("tool")]).toEqual(["calls", ["x/y", "?z"], "a b&c"]);
  });

  test("only a one-time link is one", () => {
    expect(readLink("#link=Ab-c_1")).toBe("Ab-c_1");
    for (const text of ["", "#/link=a", "#link=", "#link=a b", "#link=<b>"]) expect(readLink(text)).toBeUndefined();
  });
});

describe("words", () => {
  test("times that are left and that have passed", () => {
    expect([0, 1, 59_001, 61_000, 3_600_000, 7_320_000, 1_976_400_000].map(timeLeft)).toEqual([
      ...["none", "1 s", "1 min 00 s", "1 min 01 s", "1 h 00 min", "2 h 02 min", "22 d 21 h"],
    ]);
    expect([0, 5_000, 60_000, 7_200_000, 86_400_000, 200_000_000].map(timeAgo)).toEqual([
      ...["just now", "5 s ago", "1 min ago", "2 h ago", "1 day ago", "2 days ago"],
    ]);
    expect([counted(1, "request"), counted(2, "request")]).toEqual(["1 request", "2 requests"]);
  });

  test("advice exists for codes that a person can do something about, and only own members count", () => {
    expect(adviceFor("RATE_LIMITED")).toContain("Wait");
    expect(adviceFor("toString")).toBeUndefined();
  });
});

test("names are ordered by their numbers, and a search finds each of its words anywhere, in any order and case", () => {
  expect(["agent-10", "agent-2", "Agent-1"].toSorted(compareNames)).toEqual(["Agent-1", "agent-2", "agent-10"]);
  const texts = ["crm_update_order", "warehouse", "orders:write"];
  expect(["", " ", "WRITE crm", "house  order"].map((wanted) => hasWords(texts, wanted))).toEqual([
    true,
    true,
    true,
    true,
  ]);
  expect(["crm billing", "order_warehouse"].map((wanted) => hasWords(texts, wanted))).toEqual([false, false]);
});
