import { expect, test } from "bun:test";
import { problemsOf, read } from "./reading.ts";

const audit = (exported: unknown) => ({ audit: { dir: "./audit-logs", export: exported } });

const S3 = { type: "s3", endpoint: "https://s3.example", bucket: "audit-archive", credentialsFile: "./c" };

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
  [
    [
      S3,
      { ...S3, name: "second", endpoint: "https://s3.example/storage/v1", prefix: "fleet/eu-1", intervalMs: 60_000 },
    ],
    ["s3", "second"],
  ],
  [[{ ...S3, endpoint: "http://127.0.0.1:9000", region: "eu-central-1", caFile: "./ca", pathStyle: false }], ["s3"]],
])("%j", (exported, names) => {
  expect(read(audit(exported)).audit.export.map(({ name }) => name)).toEqual(names);
});

test.each([
  [[{ type: "carbon", url: "https://a.example" }], "audit.export[0].type"],
  [[{ type: "otlp" }], "audit.export[0].url"],
  [[{ type: "otlp", url: "file:///etc/passwd" }], "must be a URL that begins with https://"],
  [[{ type: "otlp", url: "https://user:key@a.example" }], "holds credentials: put them into headersFile"],
  [[{ type: "otlp", url: "http://a.example", headersFile: "./h" }], "must be https where headersFile is set"],
  [[{ type: "otlp", url: "https://a.example", name: "../x" }], "must consist of lowercase letters, digits and dashes"],
  [[{ type: "otlp", url: "https://a.example", token: "x" }], "token"],
  [[{ ...S3, endpoint: "http://s3.example" }], "must be https where credentialsFile is set"],
  [[{ ...S3, endpoint: "https://user:key@s3.example" }], "holds credentials: put them into credentialsFile"],
  [[{ ...S3, endpoint: "https://s3.example/?x" }], "must not have a query or a fragment"],
  [[{ ...S3, bucket: "../x" }], "must be the name of a bucket"],
  [[{ ...S3, prefix: "a/../b" }], "must consist of names of letters, digits, ., _ and -"],
  [[{ ...S3, prefix: "/a" }], "must consist of names of letters, digits, ., _ and -"],
  [[{ ...S3, region: "eu/x" }], "must be the name of a region"],
  [[{ ...S3, intervalMs: 3_600_000 }], "audit.export[0].intervalMs"],
  [[{ type: "s3", endpoint: "https://s3.example", bucket: "audit-archive" }], "audit.export[0].credentialsFile"],
  [[{ type: "otlp", url: "https://a.example", bucket: "audit-archive" }], "bucket"],
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
