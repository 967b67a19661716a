import { afterAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { introspectionFromSchema } from "graphql";
import { stringify } from "yaml";
import { readOperations } from "../../../src/targets/http/graphql/draft.ts";
import { runStc } from "../../support/stc.ts";
import { SHOP, schema } from "../../targets/http/graphql/support.ts";

const folder = mkdtempSync(join(tmpdir(), "stc import "));
afterAll(() => rmSync(folder, { recursive: true }));

const OPERATIONS = `# A comment is not part of a document.
query OrderGet($id: ID!, $first: Int = 5) { order(id: $id) { ...Parts customer { orders(first: $first) { id } } } }
fragment Parts on Order { id status total placedAt customer { ...Person } }
mutation CancelOrder($id: ID!, $reason: String) { cancelOrder(id: $id, reason: $reason) { id status } }
query FindOrders($filter: Filter, $key: OrderKey!) { orders(filter: $filter) { id secret } orderBy(key: $key) { id } }
query Since($at: DateTime!) { since(at: $at) { id } }
query Wrong { nope }
subscription Changes { changed { id } }
`;
const PERSON = "fragment Person on Customer { name mail: email }\n";

/** Writes a configuration whose system has these settings, and returns the words that name it. */
function configured(name: string, graphql: object | undefined): readonly string[] {
  const own = join(folder, name);
  mkdirSync(join(own, "tools"), { recursive: true });
  writeFileSync(join(own, "shop.graphql"), SHOP);
  const config = {
    tools: ["tools"],
    audit: { dir: "audit" },
    jwt: {
      issuers: [{ issuer: "https://issuer.test", audience: "stc", publicKeyFile: "key.pem", algorithms: ["EdDSA"] }],
    },
    systems: { shop: { http: { baseUrl: "https://shop.test", ...(graphql && { graphql }) } } },
  };
  writeFileSync(join(own, "stc.yaml"), stringify(config));
  const { publicKey } = generateKeyPairSync("ed25519");
  writeFileSync(join(own, "key.pem"), publicKey.export({ type: "spki", format: "pem" }));
  return ["--config", join(own, "stc.yaml")];
}

const SETTINGS = { schemaFile: "shop.graphql", scalars: { DateTime: "string" }, fields: { "Customer.email": "mask" } };
const WORDS = configured("one", SETTINGS);
const OUT = join(folder, "one", "tools");
const FILES = [join(folder, "orders.graphql"), join(folder, "person.graphql")];
writeFileSync(FILES[0] ?? "", OPERATIONS);
writeFileSync(FILES[1] ?? "", PERSON);
const IMPORT = ["import", "graphql", "shop"];

/** Writes a file, and returns its path. */
function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

describe("stc import graphql", () => {
  test("lists the operations, with the reason for each that cannot be imported", async () => {
    const { code, out, err } = await runStc([...IMPORT, "--list", ...WORDS, "--operations", ...FILES]);
    expect([code, err]).toEqual([0, ""]);
    const rows = out.split("\n").map((line) => line.split(/ {2,}/));
    expect(rows.map(([name, type, , note]) => [name, type, note ?? ""])).toEqual([
      ["OPERATION", "TYPE", "NOTE"],
      ["OrderGet", "query", ""],
      ["CancelOrder", "mutation", ""],
      ["FindOrders", "query", ""],
      ["Since", "query", ""],
      ["Wrong", "query", 'cannot be imported: Cannot query field "nope" on type "Query". Did you mean "node"?'],
      ["Changes", "subscription", "cannot be imported: is a subscription, which no tool can have"],
      ["", undefined as unknown as string, ""],
    ]);
  });

  test("writes a manifest for each operation that is named, with the fragments of all files", async () => {
    const words = [
      ...IMPORT,
      "OrderGet",
      "CancelOrder",
      "FindOrders",
      "Since",
      "--out",
      OUT,
      ...WORDS,
      "--operations",
      ...FILES,
    ];
    expect(await runStc(words)).toMatchObject({ code: 0, err: "" });
    expect(readdirSync(OUT).sort()).toEqual([
      ...[
        "shop_cancel_order.tool.yaml",
        "shop_find_orders.tool.yaml",
        "shop_order_get.tool.yaml",
        "shop_since.tool.yaml",
      ],
    ]);
    expect(readFileSync(join(OUT, "shop_cancel_order.tool.yaml"), "utf8")).toMatchInlineSnapshot(`
      "# yaml-language-server: $schema=tool.schema.json
      # Written by stc import graphql. Judge the classification and the permission, then write the output policy.
      # The document is a mutation: judge whether it is write or destructive.

      name: shop_cancel_order
      description: Cancels an order that was not sent.
      classification: destructive
      permissions: { required: ["shop:delete"] }

      target:
        system: shop
        http:
          method: POST
          path: "/graphql"
          graphql:
            document: |-
              mutation CancelOrder($id: ID!, $reason: String) {
                cancelOrder(id: $id, reason: $reason) {
                  id
                  status
                }
              }
            variables: { id: "{id}", reason: "{reason}" }

      input:
        type: object
        properties: { id: { type: string }, reason: { type: string } }
        required: [id]

      output:
        type: object
        properties:
          cancelOrder:
            type: [object, "null"]
            properties:
              id: { type: [string, "null"] }
              status: { type: [string, "null"], enum: [OPEN, SENT, CANCELLED, null] }
            description: Cancels an order that was not sent.

      # Fields without a line here are left out of every answer. Remove the # of what agents may see; mask hides most of a value.
      outputPolicy:
        # cancelOrder.id: allow
        # cancelOrder.status: allow

      # Hides personal data that has a shape, such as e-mail addresses, in what is allowed.
      scan: { "*": balanced }

      # What the target says about a failure, without secrets; a text with personal data is withheld.
      # errors: filtered
      "
    `);
    expect(readFileSync(join(OUT, "shop_order_get.tool.yaml"), "utf8")).toMatchInlineSnapshot(`
      "# yaml-language-server: $schema=tool.schema.json
      # Written by stc import graphql. Judge the classification and the permission, then write the output policy.

      name: shop_order_get
      description: query OrderGet
      classification: read
      permissions: { required: ["shop:read"] }

      target:
        system: shop
        http:
          method: POST
          path: "/graphql"
          graphql:
            document: |-
              query OrderGet($id: ID!, $first: Int = 5) {
                order(id: $id) {
                  ...Parts
                  customer {
                    orders(first: $first) {
                      id
                    }
                  }
                }
              }

              fragment Parts on Order {
                id
                status
                total
                placedAt
                customer {
                  ...Person
                }
              }

              fragment Person on Customer {
                name
                mail: email
              }
            variables: { id: "{id}", first: "{first}" }

      input:
        type: object
        properties:
          id: { type: string }
          first: { type: integer, minimum: -2147483648, maximum: 2147483647, description: "Default: 5." }
        required: [id]

      output:
        type: object
        properties:
          order:
            type: [object, "null"]
            properties:
              id: { type: [string, "null"] }
              status: { type: [string, "null"], enum: [OPEN, SENT, CANCELLED, null] }
              total: { type: [number, "null"] }
              placedAt: { type: [string, "null"] }
              customer:
                type: [object, "null"]
                properties:
                  name: { type: [string, "null"] }
                  mail: { type: [string, "null"] }
                  orders:
                    type: [array, "null"]
                    items:
                      type: [object, "null"]
                      properties:
                        id: { type: [string, "null"] }

      # Fields without a line here are left out of every answer. Remove the # of what agents may see; mask hides most of a value.
      outputPolicy:
        # order.id: allow
        # order.status: allow
        # order.total: allow
        # order.placedAt: allow
        # order.customer.name: mask # personal data, by its name
        # order.customer.mail: mask # personal data, by its name
        # order.customer.orders[].id: allow

      # Hides personal data that has a shape, such as e-mail addresses, in what is allowed.
      scan: { "*": balanced }

      # What the target says about a failure, without secrets; a text with personal data is withheld.
      # errors: filtered
      "
    `);
    expect(readFileSync(join(OUT, "shop_find_orders.tool.yaml"), "utf8")).toMatchInlineSnapshot(`
      "# yaml-language-server: $schema=tool.schema.json
      # Written by stc import graphql. Judge the classification and the permission, then write the output policy.
      # Optional members of input objects that no argument fills, because they contain themselves: Filter.sub.

      name: shop_find_orders
      description: query FindOrders
      classification: read
      permissions: { required: ["shop:read"] }

      target:
        system: shop
        http:
          method: POST
          path: "/graphql"
          graphql:
            document: |-
              query FindOrders($filter: Filter, $key: OrderKey!) {
                orders(filter: $filter) {
                  id
                  secret
                }
                orderBy(key: $key) {
                  id
                }
              }
            variables: { filter: "{filter}", key: "{key}" }

      input:
        type: object
        properties:
          filter:
            type: object
            properties:
              status:
                type: array
                items: { type: string, enum: [OPEN, SENT, CANCELLED] }
              minTotal: { type: number }
              text: { type: string }
            additionalProperties: false
          key:
            anyOf:
              -
                type: object
                properties: { id: { type: string } }
                required: [id]
                additionalProperties: false
              -
                type: object
                properties: { number: { type: integer, minimum: -2147483648, maximum: 2147483647 } }
                required: [number]
                additionalProperties: false
        required: [key]

      output:
        type: object
        properties:
          orders:
            type: [array, "null"]
            items:
              type: [object, "null"]
              properties:
                id: { type: [string, "null"] }
                secret: { type: [string, "null"] }
          orderBy:
            type: [object, "null"]
            properties:
              id: { type: [string, "null"] }

      # Fields without a line here are left out of every answer. Remove the # of what agents may see; mask hides most of a value.
      outputPolicy:
        # orders[].id: allow
        # orders[].secret: redact # a secret, by its name
        # orderBy.id: allow

      # Hides personal data that has a shape, such as e-mail addresses, in what is allowed.
      scan: { "*": balanced }

      # What the target says about a failure, without secrets; a text with personal data is withheld.
      # errors: filtered
      "
    `);
    const check = await runStc(["check", ...WORDS]);
    expect(check).toMatchObject({ code: 0, err: "" });
    expect(check.out).toContain("contract shop sha256:");
    const plan = await runStc(["plan", "shop_order_get", '{"id":"7"}', "--json", ...WORDS]);
    expect(JSON.parse(plan.out)).toMatchObject({ operation: "query OrderGet", body: { variables: { id: "7" } } });
    const again = await runStc(words);
    expect(again.code).toBe(1);
    expect(again.err).toContain("exists and is left as it is");
  });

  test("accepts no suggestion that releases more than the system's fields allow", async () => {
    const rules = configured("rules", { ...SETTINGS, fields: { "Customer.name": "redact" } });
    const out = join(folder, "rules", "tools");
    const { code, err } = await runStc([
      ...IMPORT,
      "OrderGet",
      "--accept",
      "--out",
      out,
      ...rules,
      "--operations",
      ...FILES,
    ]);
    expect(code).toBe(1);
    expect(err).toContain(
      "outputPolicy.order.customer.name: must be redact, as the system's fields say of Customer.name",
    );
    const accepted = await runStc([
      ...IMPORT,
      "OrderGet",
      "--accept",
      "--out",
      OUT,
      "--rename",
      "OrderGet=order_accepted",
      ...WORDS,
      "--operations",
      ...FILES,
    ]);
    expect(accepted).toMatchObject({ code: 0, err: "" });
    expect(readFileSync(join(OUT, "order_accepted.tool.yaml"), "utf8")).toContain("\n  order.customer.mail: mask");
  });

  test("needs the types of scalars, and names what cannot be read", async () => {
    const plain = configured("plain", { schemaFile: "shop.graphql" });
    const since = await runStc([
      ...IMPORT,
      "Since",
      "--out",
      join(folder, "plain", "tools"),
      ...plain,
      "--operations",
      ...FILES,
    ]);
    expect(since.code).toBe(1);
    expect(since.err).toContain("Since: a variable is the scalar DateTime, whose values only its service knows");
    for (const [text, message] of [
      ["query {", "a.graphql: cannot be read: Syntax Error"],
      ["{ version }", "a.graphql: an operation has no name"],
      ["query A { version } query A { version }", "a.graphql: several operations are called A"],
      [`${PERSON} ${PERSON}`, "a.graphql: several fragments are called Person"],
    ] as const) {
      expect(() => readOperations([{ file: "a.graphql", text }])).toThrow(message);
    }
    const missing = await runStc([...IMPORT, "--list", ...WORDS, "--operations", join(folder, "nowhere.graphql")]);
    expect(missing.err).toContain("nowhere.graphql cannot be read (ENOENT)");
  });

  test("drafts with a schema that the configuration does not name yet", async () => {
    const words = configured("none", undefined);
    const introspection = file("shop.json", JSON.stringify({ data: introspectionFromSchema(schema) }));
    const out = join(folder, "none", "drafts");
    const made = [
      ...IMPORT,
      "CancelOrder",
      "--schema",
      introspection,
      "--out",
      out,
      ...words,
      "--operations",
      ...FILES,
    ];
    expect(await runStc(made)).toMatchObject({ code: 0, err: "" });
    expect(readFileSync(join(out, "shop_cancel_order.tool.yaml"), "utf8")).toContain(
      "# Set systems.shop.http.graphql.schemaFile: without it, the tool does not load.",
    );
    const without = await runStc([...IMPORT, "--list", ...words, "--operations", ...FILES]);
    expect([without.code, without.err]).toEqual([64, expect.stringContaining("systems.shop.http.graphql is not set")]);
  });

  test("says how another schema differs from the saved one", async () => {
    const compare = (text: string, ...more: string[]) =>
      runStc([...IMPORT, "--schema", file("new.graphql", text), ...more, ...WORDS]);
    expect(await compare(SHOP)).toMatchObject({
      code: 0,
      out: expect.stringContaining("0 changes, 0 of them breaking"),
    });
    const broken = await compare(SHOP.replace("secret: String", "").replace("OPEN\n", "OPEN\n  LOST\n"));
    expect(broken.code).toBe(1);
    expect(broken.out).toContain("breaking: Order.secret was removed.");
    expect(broken.out).toContain("note: LOST was added to enum type Status.");
    expect(broken.out).toContain("2 changes, 1 of them breaking; sha256:");
    const json = await compare(SHOP.replace("version: String", "version: String!"), "--json");
    expect(JSON.parse(json.out)).toMatchObject({ changes: [] });
    expect((await runStc([...IMPORT, ...WORDS])).err).toContain("name files with --operations");
  });
});

describe("a tool whose document does not fit the schema any more", () => {
  test("does not load, and a pinned schema stops the service", async () => {
    const words = configured("drift", SETTINGS);
    const tools = join(folder, "drift", "tools");
    await runStc([...IMPORT, "CancelOrder", "--out", tools, ...words, "--operations", ...FILES]);
    expect((await runStc(["check", ...words])).code).toBe(0);
    writeFileSync(
      join(folder, "drift", "shop.graphql"),
      SHOP.replace("cancelOrder(id: ID!", "cancelOrder(id: ID!, by: ID!"),
    );
    const drifted = await runStc(["check", ...words]);
    expect(drifted.code).toBe(78);
    expect(drifted.err).toContain("target.http.graphql.document");
    expect(drifted.err).toContain('argument "by" of type "ID!" is required');
    const pinned = configured("pinned", { ...SETTINGS, sha256: "0".repeat(64) });
    const found = await runStc(["check", ...pinned]);
    expect(found.code).toBe(78);
    expect(found.err).toContain("systems.shop.http.graphql: shop.graphql has changed: its SHA-256 is");
  });
});
