import { z } from "zod";
import { json } from "../../src/http/answers.ts";
import { type Endpoint, endpointsWith } from "../../src/http/endpoint.ts";
import type { Registry } from "../../src/pipeline/registry.ts";

/** What it needs of the service: it gets nothing else. */
interface ToysPart {
  readonly registry: Registry;
}

const { endpoint } = endpointsWith<ToysPart, "toys:count">();

/** An endpoint that the product does not have: everything that a build needs to know of it is in this file. */
export const endpoints: readonly Endpoint<ToysPart>[] = [
  endpoint({
    method: "GET",
    path: "/toys/:color",
    summary: "Counts the toys of a color.",
    audience: "operators",
    permission: "toys:count",
    params: z.object({ color: z.enum(["red", "green"]) }),
    query: z.strictObject({ size: z.enum(["small", "large"]).optional() }),
    responses: {
      200: { schema: z.strictObject({ color: z.string(), count: z.int(), by: z.string(), tools: z.int() }) },
    },
    audited: "toys.counted",
    handle({ caller, params: { color }, query: { size = "small" } }, { registry }) {
      const count = size === "small" ? 12 : 3;
      return json(200, { color, count, by: caller.subject, tools: registry.list().length }, { recorded: { color } });
    },
  }),
];
