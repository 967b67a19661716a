import { expect, test } from "bun:test";
import { problemsOf, read } from "./reading.ts";

const audit = (exported: unknown) => ({ audit: { dir: "./audit-logs", export: exported } });

test("nothing is sent unless configured, and nothing is deleted", () => {
  expect(read({}).audit.export).toEqual([]);
  expect(read({}).audit.retentionDays).toBeUndefined();
});

test.each([
  [[{ type: "otlp", url: "https://otel.example/v1/logs" }], ["otlp"]],
  [[{ type: "loki", url: "http://loki.logging:3100" }], ["loki"]],
  [[{ type: "loki", url: "http://127.0.0.1:3100", headersFile: "./h" }], ["loki"]],
  [
    [
      { type: "loki", url: "https://a.example" },
      { type: "loki", url: "https://b.example", name: "loki-b" },
    ],
    ["loki", "loki-b"],
  ],
])("%j", (exported, names) => {
  expect(read(audit(exported)).audit.export.map(({ name }) => name)).toEqual(names);
});

test.each([
  [[{ type: "kafka", url: "https://a.example" }], "audit.export[0].type"],
  [[{ type: "otlp" }], "audit.export[0].url"],
  [[{ type: "otlp", url: "file:///etc/passwd" }], "must be a URL that begins with https://"],
  [[{ type: "otlp", url: "https://user:key@a.example" }], "holds credentials: put them into headersFile"],
  [[{ type: "otlp", url: "http://a.example", headersFile: "./h" }], "must be https where headersFile is set"],
  [[{ type: "otlp", url: "https://a.example", name: "../x" }], "must consist of lowercase letters, digits and dashes"],
  [[{ type: "otlp", url: "https://a.example", token: "x" }], "token"],
  [
    [
      { type: "otlp", url: "https://a.example" },
      { type: "otlp", url: "https://b.example" },
    ],
    "audit.export[1].name: appears twice",
  ],
])("%j is refused", (exported, message) => {
  expect(problemsOf(audit(exported)).join("\n")).toContain(message);
});
