import fastify from "fastify";
import { defineTool, httpRequest } from "safe-tool-call";
import { z } from "zod";

/** Time that the service waits before each answer, as for one query of its database. */
const THINK_MS = 2;

const order = z.strictObject({
  id: z.string(),
  placedAt: z.string(),
  state: z.enum(["open", "shipped", "returned"]),
  items: z.int(),
  total: z.number(),
});

const customer = z.strictObject({
  id: z.string(),
  segment: z.string(),
  since: z.string(),
  isActive: z.boolean(),
  orders: z.array(order).max(50),
});

/** An answer of about 1 KB. */
function customerOf(id: string): z.output<typeof customer> {
  const orders = Array.from({ length: 9 }, (_, index) => ({
    ...{ id: `order-2026-${1_000 + index}`, placedAt: `2026-03-0${index + 1}T09:30:00Z`, state: "shipped" as const },
    ...{ items: index + 1, total: 19.95 * (index + 1) },
  }));
  return { id, segment: "small business", since: "2019-04-01", isActive: true, orders };
}

/** Starts an ordinary HTTP service; returns its port. */
export async function startCustomerApi(): Promise<number> {
  const app = fastify();
  app.get<{ Params: { id: string } }>("/v1/customers/:id", async ({ params: { id } }) => {
    await Bun.sleep(THINK_MS);
    return customerOf(id);
  });
  return Number(new URL(await app.listen({ port: 0, host: "127.0.0.1" })).port);
}

/** The same request as a governed tool, whose output policy releases every field. */
export const customerTool = defineTool({
  name: "bench_customer",
  description: "Read a customer with the last orders",
  classification: "read",
  permissions: { required: ["bench:run"] },
  input: z.strictObject({ id: z.string().max(40) }),
  target: httpRequest("customers", { method: "GET", path: "/customers/{id}" }),
  output: customer,
  outputPolicy: {
    ...{ id: "allow", segment: "allow", since: "allow", isActive: "allow" },
    ...{ "orders[].id": "allow", "orders[].placedAt": "allow", "orders[].state": "allow" },
    ...{ "orders[].items": "allow", "orders[].total": "allow" },
  },
});
