import { expect, test } from "bun:test";
import fc from "fast-check";
import { Refusal } from "../../../src/core/errors.ts";
import { causeText, loggable, openLog } from "../../../src/runtime/log/log.ts";

/** What the log writes when it is told these. */
function written(tell: (logger: ReturnType<typeof openLog>["logger"]) => void, level = "debug"): readonly string[] {
  const lines: string[] = [];
  const sink = { write: (line: string) => void lines.push(line), dropped: 0, flush: async () => {} };
  tell(openLog({ level, sink }).logger);
  return lines;
}

test("a line is a JSON object: time, severity, message", () => {
  const [line = ""] = written((logger) => logger.warn({ tools: 3, url: undefined }, "listening"));
  const { time, ...rest } = JSON.parse(line) as Record<string, unknown>;
  expect(rest).toEqual({ severity: "WARN", tools: 3, msg: "listening" });
  expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  expect(line.endsWith("}\n")).toBe(true);
});

test("the line of a call carries W3C ids", () => {
  const trace = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" };
  const [line = ""] = written((logger) =>
    logger.error({ traceId: "our own", trace, code: "INTERNAL" }, "call refused"),
  );
  expect(JSON.parse(line)).toMatchObject({ traceId: "our own", trace_id: trace.traceId, span_id: trace.spanId });
  expect(JSON.parse(line)).not.toHaveProperty("trace");
});

test("lines below the level are not written", () => {
  expect(written((logger) => logger.info("quiet"), "warn")).toEqual([]);
});

const SECRET = "hunter2-Xq91LmZp0Tt";
const PLANTED: readonly (readonly [string, unknown])[] = [
  ["a database's address", new Error(`connect to postgres://stc:${SECRET}@db.internal:5432/approvals failed`)],
  ["a header in a message", new Error(`400 for Authorization: Bearer ${SECRET}`)],
  ["the cause of a cause", new Error("a", { cause: new Error("b", { cause: new Error(`password=${SECRET}`) }) })],
  ["a fact", { system: "x", password: SECRET }],
  ["a fact within a fact", { request: { headers: { authorization: `Basic ${SECRET}` } } }],
  ["the cause of a refusal", new Refusal("TARGET_FAILED", "m", { cause: { hint: `--token=${SECRET}` } })],
  ["a text that was thrown", `api_key: ${SECRET}`],
  ["JSON in a message", new Error(JSON.stringify({ body: { client_secret: SECRET } }))],
  ["the name of an error", Object.assign(new Error("m"), { name: `token=${SECRET}` })],
];

test.each(PLANTED)("%s: the secret is not in the line, in any field", (_title, cause) => {
  const lines = written((logger) => {
    logger.error({ cause: causeText(cause) }, "call refused");
    logger.error({ cause }, "call refused");
    logger.error(`said in passing: ${causeText(cause)}`);
    logger.info({}, causeText(cause));
  });
  expect(lines).toHaveLength(4);
  expect(lines.join("")).not.toContain(SECRET);
  expect(lines.every((line) => typeof JSON.parse(line) === "object")).toBe(true);
});

test("text without secrets is unchanged", () => {
  const cause = new Error("connect ECONNREFUSED 127.0.0.1:5432", { cause: new Error("no route to host") });
  const [line = ""] = written((logger) =>
    logger.error({ cause: causeText(cause), tool: "customer_lookup" }, "call refused"),
  );
  expect(JSON.parse(line)).toMatchObject({
    cause: "Error: connect ECONNREFUSED 127.0.0.1:5432 ← Error: no route to host",
    tool: "customer_lookup",
  });
});

test("nothing in a line controls a terminal, and it reads as it was logged", () => {
  const odd = "a\u001b[2J\u009b2J\u202eb\u2028c\u200bd\ud800e\nf";
  const [line = ""] = written((logger) => logger.error({ cause: odd }, "call refused"));
  expect(line).toMatch(/^[ -~]+\n$/);
  expect(JSON.parse(line)).toMatchObject({ cause: odd });
});

test("a secret is found before a text is cut", () => {
  for (const before of [8_180, 8_190, 16_376]) {
    const lines = written((logger) => logger.error(`${"x ".repeat(before / 2)}password=${SECRET} and more`));
    expect(lines.join("")).not.toContain(SECRET.slice(0, 8));
  }
});

const circular: Record<string, unknown> = {};
circular["self"] = circular;

test.each<readonly [string, unknown]>([
  [
    "members that throw",
    {
      get x() {
        throw new Error("no");
      },
    },
  ],
  [
    "an error whose message throws",
    Object.defineProperty(new Error("m"), "message", {
      get() {
        throw new Error("no");
      },
    }),
  ],
  [
    "a proxy that throws",
    new Proxy(
      {},
      {
        ownKeys() {
          throw new Error("no");
        },
      },
    ),
  ],
  ["an object that holds itself", circular],
  ["a symbol", Symbol("s")],
  ["a function", () => 1],
  ["a big number", 10n],
  ["nothing", undefined],
  ["null", null],
  ["a very long text", "x".repeat(5_000_000)],
  [
    "very many members",
    Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`k${index}`, "x".repeat(100)])),
  ],
])("%s does not break the log, and its line is limited", (_title, odd) => {
  const lines = written((logger) => {
    logger.error({ cause: causeText(odd) }, "call refused");
    logger.error({ cause: odd }, "call refused");
    logger.error(odd as object, "call refused");
  });
  expect(lines).toHaveLength(3);
  for (const line of lines) {
    expect(line.length).toBeLessThan(100_000);
    expect(JSON.parse(line)).toHaveProperty("severity", "ERROR");
  }
});

test("any input gives a readable line", () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      expect(() => JSON.stringify(loggable(value))).not.toThrow();
    }),
  );
});
