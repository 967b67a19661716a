import { expect, test } from "bun:test";
import { StartupError } from "../../../src/core/errors.ts";
import { readConfig } from "../../../src/runtime/config/config.ts";

function read(exported: unknown) {
  const written = {
    tools: ["./tools"],
    audit: { dir: "./audit-logs", ...(exported !== undefined && { export: exported }) },
    jwt: { issuers: [{ issuer: "https://idp.test", jwksFile: "./jwks.json" }] },
  };
  return readConfig(written, { folder: "/srv", environment: {}, origin: "config.yaml" }).audit;
}

test("nothing is sent unless configured, and nothing is deleted", () => {
  expect(read(undefined)).toMatchObject({ export: [] });
  expect(read(undefined).retentionDays).toBeUndefined();
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
  expect(read(exported).export.map(({ name }) => name)).toEqual(names);
});

test.each([
  [[{ type: "kafka", url: "https://a.example" }], "audit.export[0].type"],
  [[{ type: "otlp" }], "audit.export[0].url"],
  [[{ type: "otlp", url: "file:///etc/passwd" }], "must be a URL that begins with https://"],
  [[{ type: "otlp", url: "https://user:key@a.example" }], "holds credentials: put them into headersFile"],
  [[{ type: "otlp", url: "http://a.example", headersFile: "./h" }], "must be https where headersFile is set"],
  [[{ type: "otlp", url: "https://a.example", name: "../x" }], "must consist of small letters, digits and dashes"],
  [[{ type: "otlp", url: "https://a.example", token: "x" }], "token"],
  [
    [
      { type: "otlp", url: "https://a.example" },
      { type: "otlp", url: "https://b.example" },
    ],
    "audit.export[1].name: appears twice",
  ],
])("%j is refused", (exported, message) => {
  let problems = "";
  try {
    read(exported);
  } catch (error) {
    if (error instanceof StartupError) problems = error.problems.join("\n");
  }
  expect(problems).toContain(message);
});
