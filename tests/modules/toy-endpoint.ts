import { z } from "zod";
import { json } from "../../src/http/answers.ts";
import { type Endpoint, endpoint } from "../../src/http/endpoint.ts";

/** An endpoint that the product does not have: everything that a build needs to know of it is in this file. */
export const endpoints: readonly Endpoint[] = [
  endpoint({
    method: "GET",
    path: "/toys/:color",
    summary: "Counts the toys of a color.",
    audience: "operators",
    permission: "toys:count",
    params: z.object({ color: z.enum(["red", "green"]) }),
    query: z.strictObject({ size: z.enum(["small", "large"]).optional() }),
    responses: { 200: { schema: z.strictObject({ color: z.string(), count: z.int(), by: z.string() }) } },
    audited: "toys.counted",
    handle({ caller, params: { color }, query: { size = "small" } }) {
      const count = size === "small" ? 12 : 3;
      return json(200, { color, count, by: caller.subject }, { recorded: { color } });
    },
  }),
];
