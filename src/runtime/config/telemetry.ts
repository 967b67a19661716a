import { z } from "zod";
import { collectorFaults } from "./export.ts";

const URL_CHARACTERS_MAX = 2_048;

const traces = z
  .strictObject({
    /** Of a collector that takes OTLP over HTTP. Without a path the usual one: /v1/traces. */
    endpoint: z
      .url({ protocol: /^https?$/, error: "must be a URL that begins with https:// or http://" })
      .max(URL_CHARACTERS_MAX),
    /** Lines of `Name: value`, such as credentials. */
    headersFile: z.string().min(1).optional(),
    /** Which share of the traces that begin here is recorded; a request that belongs to a trace is recorded where that one is. */
    sampleRatio: z
      .number("must be a number from 0 to 1")
      .min(0, "must be a number from 0 to 1")
      .max(1, "must be a number from 0 to 1")
      .default(1),
    /** Between two requests to the collector; each carries what has ended since. Sooner when 512 spans wait. */
    sendEveryMs: z.int().min(10).max(60_000).default(1_000),
  })
  .superRefine(({ endpoint, headersFile }, context) => {
    for (const message of collectorFaults(endpoint, headersFile)) {
      context.addIssue({ code: "custom", path: ["endpoint"], message });
    }
  });

/** `telemetry`: nothing leaves unless it stands here. */
export const telemetry = z
  .strictObject({
    /** What the service is called among the traces of others. */
    serviceName: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, "must be a name of letters, digits, dot, dash, underscore")
      .default("safe-tool-call"),
    /** Where the traces of calls are sent. Without the section there are none. */
    traces: traces.optional(),
  })
  .prefault({});
