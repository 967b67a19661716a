import { expect, test } from "bun:test";
import { problemsOf, read } from "./reading.ts";

test("nothing is sent unless configured", () => {
  expect(read({}).telemetry).toEqual({ serviceName: "safe-tool-call" });
});

test.each([
  [{ endpoint: "http://otel-collector.monitoring:4318" }],
  [{ endpoint: "https://otel.example/custom/v1/traces" }],
  [{ endpoint: "http://127.0.0.1:4318", headersFile: "./headers", sampleRatio: 0 }],
  [{ endpoint: "https://otel.example", headersFile: "./headers", sampleRatio: 0.01, sendEveryMs: 5_000 }],
])("%j", (traces) => {
  expect(read({ telemetry: { traces } }).telemetry.traces).toEqual({ sampleRatio: 1, sendEveryMs: 1_000, ...traces });
});

test.each([
  [{ traces: {} }, "telemetry.traces.endpoint: must be a URL"],
  [{ traces: { endpoint: "collector:4317" } }, "telemetry.traces.endpoint: must be a URL that begins with https://"],
  [{ traces: { endpoint: "file:///tmp/traces" } }, "must be a URL that begins with https://"],
  [{ traces: { endpoint: "https://user:key@otel.example" } }, "holds credentials: put them into headersFile"],
  [{ traces: { endpoint: "http://otel.example", headersFile: "./h" } }, "must be https where headersFile is set"],
  [
    { traces: { endpoint: "https://otel.example", sampleRatio: 10 } },
    "telemetry.traces.sampleRatio: must be a number from 0 to 1",
  ],
  [
    { traces: { endpoint: "https://otel.example", sampleRatio: "0.1" } },
    "telemetry.traces.sampleRatio: must be a number from 0 to 1",
  ],
  [{ traces: { endpoint: "https://otel.example", sendEveryMs: 0 } }, "telemetry.traces.sendEveryMs"],
  [
    { traces: { endpoint: "https://otel.example", headers: { a: "b" } } },
    "telemetry.traces.headers: is not a known key",
  ],
  [{ serviceName: "a b" }, "telemetry.serviceName: must be a name of letters, digits, dot, dash, underscore"],
])("%j is an error", (telemetry, message) => {
  expect(problemsOf({ telemetry }).join("\n")).toContain(message);
});
