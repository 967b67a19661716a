import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { buildSchema } from "graphql";
import { draftOfOperation, readOperations } from "../../../../src/targets/http/graphql/draft.ts";
import { blocksOf } from "../../../support/documented.ts";
import { GuideService } from "../guide-service.ts";
import { answered, type GraphqlBody } from "./support.ts";

const blocks = blocksOf("docs/graphql.md");
const [schemaText = "", operations = ""] = blocks
  .filter(({ language }) => language === "graphql")
  .map(({ text }) => text);
const [settings = "", change = ""] = blocks.filter(({ language }) => language === "yaml").map(({ text }) => text);
const [read = ""] = blocks.filter(({ language }) => language === "ts").map(({ text }) => text);
const schema = buildSchema(schemaText);
const CANARY = "canary-51e0";

interface Order {
  readonly id: string;
  status: string;
}

/** The service of the guide to GraphQL. */
class ShopService extends GuideService {
  readonly seen: (GraphqlBody & { readonly token: string | null })[] = [];
  readonly order: Order = { id: "7", status: "OPEN" };
  readonly #root = {
    order: ({ id }: { readonly id: string }) => {
      if (id === "fails") throw new Error(CANARY);
      return { ...this.order, totalCents: 1250, customer: { name: "Ann", email: "ann@example.com" } };
    },
    cancelOrder: ({ id }: { readonly id: string }) => {
      this.order.status = "CANCELLED";
      if (id === "fails") throw new Error(CANARY);
      return this.order;
    },
  };

  constructor() {
    super(["shop:read", "shop:delete"]);
  }

  start(): Promise<void> {
    const files = {
      "secrets/shop-token": "the-token\n",
      "apis/shop.graphql": schemaText,
      "tools/order.ts": read,
      "tools/cancel.tool.yaml": change,
    };
    const guide = { settings, system: "shop", baseUrl: "https://shop.internal:8443", files };
    return this.serve(guide, async (request) => {
      const body = (await request.json()) as GraphqlBody;
      this.seen.push({ ...body, token: request.headers.get("authorization") });
      return Response.json({ ...(await answered(body, this.#root, schema)), extensions: { canary: CANARY } });
    });
  }
}

describe("the guide's service", () => {
  const service = new ShopService();
  beforeAll(() => service.start());
  afterAll(() => service.end());

  test("reads: the answer is filtered by its aliases, the request carries the credentials", async () => {
    const { http, body } = await service.call("shop_order", { order: "7" });
    expect([http, body.result.order.status, body.result.order.totalCents]).toEqual([200, "OPEN", 1250]);
    expect(body.result.order.contact.address).not.toBe("ann@example.com");
    expect(JSON.stringify(body)).not.toMatch(/ann@example|canary/);
    expect(service.seen.at(-1)).toMatchObject({
      operationName: "ShopOrder",
      variables: { id: "7" },
      token: "Bearer the-token",
    });
    expect(service.entry(body.traceId)).toMatchObject({
      decision: "ALLOWED",
      tool: { name: "shop_order", targetSystem: "shop" },
    });
  });

  test("an unknown argument, or one of another type, is refused before anything is sent", async () => {
    const before = service.seen.length;
    for (const args of [{ order: "7", id: "8" }, { order: 7 }, { order: ["7"] }, { order: { id: "7" } }, {}]) {
      const { body } = await service.call("shop_order", args);
      expect(body.error).toMatchObject({ code: "INVALID_INPUT", stage: "VALIDATION" });
      expect(service.entry(body.traceId)).toMatchObject({ decision: "DENIED" });
    }
    expect(service.seen).toHaveLength(before);
  });

  test("errors are refused: nothing of the service's texts is in answer, audit or journal", async () => {
    const { body } = await service.call("shop_order", { order: "fails" });
    expect(body.error).toMatchObject({
      code: "TARGET_REFUSED",
      stage: "EXECUTION",
      details: { status: "UNKNOWN", httpStatus: 200 },
    });
    expect(service.entry(body.traceId)).toMatchObject({ decision: "ERROR", error: { code: "TARGET_REFUSED" } });
    expect(JSON.stringify([body, service.entries(), service.journal()])).not.toContain(CANARY);
  });

  test("a change asks with its operation, document and variables, in the list and in the view", async () => {
    const before = service.seen.length;
    const args = { id: "7", reason: "stock" };
    const asked = await service.call("shop_cancel_order", args);
    expect([asked.http, service.seen.length]).toEqual([202, before]);
    const { id } = asked.body.approval;
    const token = await service.person();
    const shown = await service.send("GET", `/approvals/${id}`, { token });
    expect(shown.body.approval.view.target).toMatchObject({
      ...{ system: "shop", kind: "http", method: "POST", operation: "mutation ShopCancelOrder" },
      documentSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      body: {
        operationName: "ShopCancelOrder",
        query: expect.stringContaining("cancelOrder(id: $id"),
        variables: args,
      },
    });
    const list = await service.send("GET", "/approvals?state=pending&headlinesFrom=1970-01-01T00:00:00.000Z", {
      token,
    });
    expect(list.body.approvals[0].headline).toMatchObject({
      ...{ does: "mutation ShopCancelOrder", what: 'id: "7", reason: "stock"' },
    });
    await service.decide(id, "approve");
    const done = await service.call("shop_cancel_order", args, { approval: { id } });
    expect(done).toMatchObject({ http: 200, body: { result: { cancelOrder: { id: "7", status: "CANCELLED" } } } });
    expect(service.seen.length).toBe(before + 1);
    expect(service.entry(done.body.traceId)).toMatchObject({ decision: "ALLOWED", approval: { id } });
  });

  test("a change whose answer has errors may have happened: the approval is used up", async () => {
    const asked = await service.call("shop_cancel_order", { id: "fails" });
    const { id } = asked.body.approval;
    await service.decide(id, "approve");
    const { body } = await service.call("shop_cancel_order", { id: "fails" }, { approval: { id } });
    expect(body.error).toMatchObject({ code: "OUTCOME_UNKNOWN", retryable: false });
    expect(service.entry(body.traceId)).toMatchObject({ decision: "ERROR", error: { code: "OUTCOME_UNKNOWN" } });
    const again = await service.call("shop_cancel_order", { id: "fails" }, { approval: { id } });
    expect(again.body.error.code).toMatch(/^APPROVAL_/);
    expect(JSON.stringify([body, service.entries(), service.journal()])).not.toContain(CANARY);
  });
});

test("the operations of the guide can be imported with its schema", () => {
  const [operation, another] = readOperations([{ file: "operations.graphql", text: operations }]);
  expect([operation?.name, another]).toEqual(["OpenOrders", undefined]);
  const draft = draftOfOperation(schema, operation ?? { document: "" }, {
    path: "/graphql",
    scalars: { DateTime: "string" },
  });
  expect(draft).toMatchObject({ classification: "read", http: { graphql: { variables: { first: "{first}" } } } });
});
