import { beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseLogQuery, writeLogQuery } from "../../../tools/platform/logql.ts";
import { PlatformStand, SYSTEMS } from "./platform-stand.ts";

const stand = new PlatformStand();
const logcli = stand.recorder("logcli");
beforeAll(async () => {
  await stand.open();
});

const entry = (line: string, labels: Readonly<Record<string, string>> = {}) =>
  JSON.stringify({ labels, line, timestamp: "2024-02-03T04:05:06.123456789Z" });

const call = async (args: Readonly<Record<string, unknown>> = {}) =>
  (await stand.call("query_logs", { namespace: "payments", ...args })) as {
    readonly lines: readonly Record<string, string>[];
    readonly droppedLines: number;
  };

test("logcli's arguments and environment", async () => {
  logcli.answers("");
  await call({ app: "web", contains: 'status="500"', since: "6h", limit: 20 });
  expect(logcli.argv()).toEqual([
    ...["query", "--addr=http://loki.logging:3100", "--org-id=t1", `--bearer-token-file=${stand.folder}/token`],
    ...["--quiet", "--timezone=UTC", "--output=jsonl", "--include-label=namespace", "--include-label=app"],
    ...["--include-label=pod", "--include-label=container", "--since=6h", "--limit=20", "--"],
    '{namespace="payments", app="web"} |= "status=\\"500\\""',
  ]);
  const names = Object.keys(logcli.environment()).filter((name) => /^(?:LOKI|HTTP|NO_PROXY|ALL_PROXY)/i.test(name));
  expect(names.sort()).toEqual(["LOKI_ADDR", "LOKI_ORG_ID"]);
  expect(logcli.environment()).toMatchObject({ LOKI_ADDR: "http://loki.logging:3100", LOKI_ORG_ID: "t1" });
});

test("without token and tenant neither is mentioned", async () => {
  const { address, namespaces } = SYSTEMS.loki;
  const plain = await new PlatformStand().open({ ...SYSTEMS, loki: { address, namespaces } });
  await plain.call("query_logs", { namespace: "payments" });
  expect(plain.recorder("logcli").argv().join(" ")).not.toMatch(/org-id|bearer/);
  expect(plain.recorder("logcli").argv().at(-1)).toBe('{namespace="payments"}');
});

describe("answers", () => {
  test("lines with the declared labels", async () => {
    const labels = { namespace: "payments", app: "web", pod: "web-1", container: "c", secret_label: "LABEL-SECRET" };
    logcli.answers(`${entry("one\u001b[31m red", labels)}\n${entry("two")}\n`);
    expect(await call()).toEqual({
      lines: [
        { timestamp: "2024-02-03T04:05:06.123456789Z", line: "one red", app: "web", pod: "web-1", container: "c" },
        { timestamp: "2024-02-03T04:05:06.123456789Z", line: "two", app: "", pod: "", container: "" },
      ],
      droppedLines: 0,
    });
  });

  test.each([
    ["lines that do not parse are counted", `{"line":\n${entry("ok")}\nnot json\n`, ["ok"], 2],
    ["a cut last line is counted", `${entry("ok")}\n{"labels":{"pod":"x`, ["ok"], 1],
    ["what is no entry is counted", `7\n[]\n{}\n"x"\nnull\n${entry("ok")}\n`, ["ok"], 5],
    ["another namespace's line is dropped", `${entry("x", { namespace: "ledger" })}\n${entry("ok")}\n`, ["ok"], 1],
    ["empty lines are nothing", `\n\n${entry("ok")}\n\n`, ["ok"], 0],
    ["nothing", "", [], 0],
  ])("%s", async (_title, stdout, want, droppedLines) => {
    logcli.answers(stdout);
    const answer = await call();
    expect(answer.lines.map(({ line }) => line)).toEqual(want);
    expect(answer.droppedLines).toBe(droppedLines);
  });

  test("lines over the limit are dropped from the old end, and counted", async () => {
    logcli.answers(Array.from({ length: 200 }, (_, at) => `${entry(`${at} ${"x".repeat(8_000)}`)}\n`).join(""));
    const answer = await call({ limit: 200 });
    expect(answer.lines[0]?.["line"]).toStartWith("0 ");
    expect(answer.lines.length + answer.droppedLines).toBe(200);
    expect(answer.droppedLines).toBeGreaterThan(100);
  });
});

describe("queries", () => {
  const namespace = { label: "namespace", operator: "=", value: "payments" } as const;

  test("any query selects the namespace first", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary" }).filter((value) => value.isWellFormed()),
      fc
        .array(fc.constantFrom('"', "\\", "}", "{", "#", "`", "|=", "\n", "\0", "u0041", "é", "🚀", " ", "=~", ","), {
          maxLength: 12,
        })
        .map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(text, text, (app, phrase) => {
        const query = {
          matchers: [namespace, { label: "app", operator: "=", value: app } as const],
          contains: [phrase],
        };
        const written = writeLogQuery(query);
        expect(written).toStartWith('{namespace="payments", app="');
        expect(written).toMatch(/^[\x20-\x7e]*$/);
        expect(parseLogQuery(written)).toEqual(query);
      }),
      { numRuns: 2_000 },
    );
  });

  test.each([
    ...[
      "",
      "{}",
      "{a}",
      '{a="b"',
      'a="b"}',
      '{a="b"} # x',
      '{a="b"} |~ "x"',
      '{a="b"} |= `x`',
      '{a="b",}',
      '{a="b" b="c"}',
    ],
    ...['{a="b"} |= "x', '{a="b\n"}', '{a="\\x41"}', '{a="\\u00"}', '{1a="b"}', '{a="b"}{c="d"}', '{a="b"} or {c="d"}'],
    ...['sum({a="b"})', '{a="b"} | json', "{a='b'}", "{a=b}", '{a~"b"}', '{="b"}', '{a="b"} |=', '{a="\\U00110000"}'],
  ])("%p cannot be read", (query) => {
    expect(() => parseLogQuery(query)).toThrow();
  });

  test("other matchers are read correctly", () => {
    expect(parseLogQuery('{a=~".*",b!="c", d!~"e"} |= "x" |= "y"')).toEqual({
      matchers: [
        { label: "a", operator: "=~", value: ".*" },
        { label: "b", operator: "!=", value: "c" },
        { label: "d", operator: "!~", value: "e" },
      ],
      contains: ["x", "y"],
    });
  });

  test("the reader ends on any input", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (query) => {
        try {
          expect(parseLogQuery(query).matchers.length).toBeGreaterThan(0);
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
        }
      }),
    );
  });
});
