import { describe, expect, test } from "bun:test";
import { introspectionFromSchema } from "graphql";
import { z } from "zod";
import { zodFromJson } from "../../../../src/core/json-schema/zod.ts";
import type { Json } from "../../../../src/core/types.ts";
import { GraphqlContracts } from "../../../../src/targets/http/graphql/contracts.ts";
import { draftOfOperation } from "../../../../src/targets/http/graphql/draft.ts";
import { readSchema } from "../../../../src/targets/http/graphql/schema.ts";
import { faultsOf, type GraphqlToolOptions, SHOP, schema } from "./support.ts";

const Id = z.string().max(20);
const ORDER = "query Order($id: ID!) { order(id: $id) { id status total } }";
const OrderOutput = z.object({
  order: z.object({ id: z.string(), status: z.enum(["OPEN", "SENT", "CANCELLED"]), total: z.number() }).nullable(),
});

/** A query of one order, with changes. */
function order(changes: Partial<GraphqlToolOptions> = {}): GraphqlToolOptions {
  const base = { document: ORDER, variables: { id: "{id}" }, input: z.strictObject({ id: Id }), output: OrderOutput };
  return { ...base, ...changes };
}

/** A query without variables that selects this of a member of the root. */
function selecting(selection: string, output: z.ZodType, more: Partial<GraphqlToolOptions> = {}): GraphqlToolOptions {
  return { document: `query Q ${selection}`, input: z.strictObject({}), output, ...more };
}

describe("a document", () => {
  test("that fits its tool has no errors", () => {
    expect(faultsOf(order())).toEqual([]);
    expect(faultsOf(order({ variables: "{*}" }))).toEqual([]);
  });

  test.each([
    ["two operations", `${ORDER} query B { version }`, "must have exactly one operation; it has 2"],
    ["only a fragment", "fragment F on Order { id }", "must have exactly one operation; it has 0"],
    ["no name", "{ version }", "must name its operation: query OrderGet { … }"],
    ["a subscription", "subscription S { changed { id } }", "is a subscription, which no tool can have"],
    ["introspection", "query Q { __schema { types { name } } }", "GraphQL introspection has been disabled"],
    ["introspection below an alias", 'query Q { version: __type(name: "Staff") { name } }', "introspection"],
    ["an unknown field", "query Q { order(id: 1) { nope } }", 'Cannot query field "nope" on type "Order"'],
    ["an unknown variable", "query Q { order(id: $id) { id } }", 'Variable "$id" is not defined'],
    ["an unused variable", "query Q($id: ID) { version }", 'Variable "$id" is never used'],
    ["a variable of another type", "query Q($id: Int!) { order(id: $id) { id } }", "expecting type"],
    [
      "a fragment that contains itself",
      "query Q { order(id: 1) { ...F } } fragment F on Order { customer { orders { ...F } } }",
      "Cannot spread fragment",
    ],
    ["no GraphQL", "select 1", "cannot be read: Syntax Error"],
    ["a type definition", `${ORDER} type X { a: Int }`, "is not executable"],
    ["an alias with a reserved name", "query Q { __x: version }", "has the alias __x: __ is reserved"],
    ["an alias that looks like the type's name", "query Q { __typename: version }", "has the alias __typename"],
    ["an answer in several parts", "query Q { order(id: 1) @defer { id } }", "Unknown directive"],
    ["an answer that goes on", "query Q @live { version }", "uses @live: a tool has one answer"],
    [
      "a directive that gives a value to another field",
      'query Q($v: ID = 1) { order(id: 1) { secret @export(as: "v") } customer(id: $v) { id } }',
      "uses @export on a selection: only @include and @skip leave values as they are",
    ],
  ])("with %s does not load", (_, document, message) => {
    const faults = faultsOf(order({ document }));
    expect(faults.join("\n")).toContain(message);
    expect(faults.every((fault) => fault.startsWith("target.http.graphql"))).toBe(true);
  });

  test("may have directives of its operation", () => {
    const document = ORDER.replace(") {", ") @cached(seconds: 5) {");
    expect(faultsOf(order({ document }))).toEqual([]);
  });

  test("a mutation is no read, and a query no change", () => {
    const mutation = "mutation M($id: ID!) { cancelOrder(id: $id) { id } }";
    const output = z.object({ cancelOrder: z.object({ id: z.string() }).nullable() });
    expect(faultsOf(order({ document: mutation, output }))).toEqual([
      "classification: is read, but the document is a mutation: write or destructive",
    ]);
    expect(faultsOf(order({ document: mutation, output, classification: "destructive" }))).toEqual([]);
    expect(faultsOf(order({ classification: "write" }))).toEqual([
      "classification: is write, but the document is a query: read",
    ]);
  });
});

describe("variables", () => {
  const filter = (input: z.ZodType, variables: GraphqlToolOptions["variables"] = { filter: "{filter}" }) =>
    faultsOf({
      document: "query Q($filter: Filter) { orders(filter: $filter) { id } }",
      ...{ variables, input: z.strictObject({ filter: input }), output: z.object({}) },
    });
  const only = (type: string, argument: string, input: z.ZodType, settings = {}) =>
    faultsOf(
      {
        document: `query Q($v: ${type}) { ${argument} }`,
        ...{ variables: { v: "{v}" }, input: z.strictObject({ v: input }), output: z.object({}) },
      },
      settings,
    );

  test.each([
    ["Int", z.int32(), undefined],
    ["Int", z.int().min(1).max(100).optional(), undefined],
    ["Int", z.int(), "input.v: may be larger than an Int, which has 32 bits"],
    ["Int", z.int().min(0), "may be larger than an Int"],
    ["Int", z.number(), "input.v: is number here, and Int in the document"],
    ["Int", z.literal([1, 2_147_483_648]), "Int cannot represent non 32-bit signed integer value: 2147483648"],
    ["Int", z.string(), "is string here, and Int"],
    ["Int", z.int32().nullable(), undefined],
    ["Int! = 3", z.int32().optional(), undefined],
    ["Int! = 3", z.int32().nullable(), "input.v: may be null, and the document wants Int!"],
    ["Int!", z.int32().optional(), "target.http.graphql.variables.v: may be missing, and the document wants Int!"],
    ["Int!", z.int32().default(5), undefined],
    ["Int!", z.unknown(), "input.v: accepts any value, and the document wants Int!"],
    ["Int!", z.union([z.int32(), z.array(z.int32())]), "input.v: is array here, and Int in the document"],
  ])("of the type %s: %#", (type, input, message) => {
    const faults = only(type, "customer(id: 1) { orders(first: $v) { id } }", input);
    expect(faults.join("\n")).toContain(message ?? "");
    expect(faults.length).toBe(message === undefined ? 0 : 1);
  });

  test("null is refused where a default does not replace it", () => {
    const nullable = z.int32().nullish();
    for (const type of ["Int", "Int = 3"])
      expect(only(type, "orders(first: $v) { id }", nullable)).toEqual([
        "input.v: may be null, and the document wants Int!",
      ]);
    expect(only("Int = 3", "orders(first: $v) { id }", z.int32().optional())).toEqual([]);
    expect(only("Int = 3", "customer(id: 1) { orders(first: $v) { id } }", nullable)).toEqual([]);
    const inFragment = "...F } fragment F on Query { orders(first: $v) { id }";
    expect(only("Int = 3", inFragment, nullable)).toHaveLength(1);
  });

  test("an ID is text or a whole number, and a Float any number", () => {
    expect(only("ID!", "order(id: $v) { id }", z.union([z.string(), z.int()]))).toEqual([]);
    expect(only("ID!", "order(id: $v) { id }", z.number())).toHaveLength(1);
    expect(only("ID!", "order(id: $v) { id }", z.boolean())).toEqual([
      "input.v: is boolean here, and ID in the document",
    ]);
  });

  test("a scalar of the schema must be in the system's scalars", () => {
    const document = "since(at: $v) { id }";
    expect(only("DateTime!", document, z.string())).toEqual([
      "input.v: is the scalar DateTime, whose values only its service knows: say what they are in the system's graphql.scalars",
    ]);
    expect(only("DateTime!", document, z.string(), { scalars: { DateTime: "string" } })).toEqual([]);
    expect(only("DateTime!", document, z.int(), { scalars: { DateTime: "string" } })).toHaveLength(1);
    expect(only("DateTime!", document, z.unknown(), { scalars: { DateTime: "any" } })).toHaveLength(1);
    expect(only("DateTime!", document, z.union([z.int(), z.string()]), { scalars: { DateTime: "any" } })).toEqual([]);
  });

  test("input objects are closed, with what they require", () => {
    expect(
      filter(z.strictObject({ text: z.string().optional(), status: z.array(z.enum(["OPEN"])).optional() })),
    ).toEqual([]);
    expect(filter(z.object({ text: z.string() }))).toEqual([]);
    expect(filter(z.looseObject({ text: z.string() }))).toEqual([
      "input.filter: takes members that Filter may not have",
    ]);
    expect(filter(z.record(z.string(), z.string()))).toEqual(["input.filter: takes members that Filter may not have"]);
    expect(filter(z.strictObject({ text: z.string(), role: z.string() }))).toEqual([
      "input.filter.role: is not a member of Filter",
    ]);
    expect(filter(z.strictObject({ status: z.array(z.string()) }))).toEqual([
      "input.filter.status[]: must list its values: Status has OPEN, SENT, CANCELLED",
    ]);
    expect(filter(z.strictObject({ status: z.array(z.enum(["OPEN", "GONE"])) }))).toEqual([
      'input.filter.status[]: Value "GONE" does not exist in "Status" enum',
    ]);
    expect(filter(z.strictObject({ status: z.array(z.enum(["OPEN"]).nullable()) }))).toEqual([
      "input.filter.status[]: may be null, and the document wants Status!",
    ]);
  });

  test("a schema that contains itself is compared once", () => {
    interface Sub {
      readonly text?: string | undefined;
      readonly sub?: Sub | undefined;
    }
    const Good: z.ZodType<Sub> = z.lazy(() => z.strictObject({ text: z.string().optional(), sub: Good.optional() }));
    expect(filter(Good)).toEqual([]);
    const Bad: z.ZodType<Sub> = z.lazy(
      () => z.strictObject({ sub: Bad.optional(), text: z.number().optional() }) as never,
    );
    expect(filter(Bad)).toEqual(["input.filter.text: is number here, and String in the document"]);
    const Nullable: z.ZodType<Sub | null> = z.lazy(
      () => z.strictObject({ sub: Nullable.optional() }).nullable() as never,
    );
    expect(filter(Nullable)).toEqual([]);
    const deep = Array.from({ length: 50 }).reduce<z.ZodType>((sub) => z.strictObject({ sub }), z.strictObject({}));
    expect(filter(deep).join()).toContain("is too large to be compared with the document");
  });

  test("templates are compared as well as arguments", () => {
    const text = z.string();
    expect(filter(text, { filter: { text: "{filter}", status: ["OPEN"] } })).toEqual([]);
    expect(filter(text, { filter: { text: "like {filter}" } })).toEqual([]);
    expect(filter(text, { filter: { minTotal: "{filter}" } })).toEqual([
      "input.filter: is string here, and Float in the document",
    ]);
    expect(filter(text, { filter: { status: ["{filter}"] } }).join()).toContain("must list its values");
    expect(filter(text, { filter: { status: ["NOPE"], text: "{filter}" } }).join()).toContain(
      'Value "NOPE" does not exist',
    );
    expect(filter(text, { filter: { nope: "{filter}" } }).join()).toContain("is not a member of Filter");
    expect(filter(text, { other: "{filter}" }).join()).toContain("variables.other: is not a variable of the document");
    expect(filter(text, { filter: "x{filter}" }).join()).toContain("is string here, and Filter in the document");
  });

  test("one value for a list, and an object for a scalar, are compared as well", () => {
    const of = (type: string, field: string, template: Json, input: z.ZodType, scalars = {}) =>
      faultsOf(
        {
          document: `query Q($v: ${type}) { ${field} }`,
          ...{ variables: { v: template }, input: z.strictObject({ x: input }), output: z.object({}) },
        },
        { scalars },
      );
    const listed = (input: z.ZodType) => of("[Filter!]", "matching(filters: $v)", { text: "{x}" }, input);
    expect(listed(z.string())).toEqual([]);
    expect(listed(z.unknown())).toEqual(["input.x: accepts any value, and the document wants String"]);
    const json = (scalars: object) => of("Json", "matching(extra: $v)", { text: "{x}" }, z.unknown(), scalars);
    expect(json({}).join()).toContain("is the scalar Json, whose values only its service knows");
    expect(json({ Json: "string" })).toEqual(["target.http.graphql.variables.v: is string, and no object or list"]);
    expect(json({ Json: "any" })).toEqual([]);
  });

  test("exactly one member of a @oneOf object is always given", () => {
    const key = (input: z.ZodType) => only("OrderKey!", "orderBy(key: $v) { id }", input);
    const [byId, byNumber] = [z.strictObject({ id: z.string() }), z.strictObject({ number: z.int32() })];
    const message = "input.v: must always have exactly one member of OrderKey: write a union of objects with one each";
    expect(key(z.union([byId, byNumber]))).toEqual([]);
    expect(key(byId)).toEqual([]);
    expect(key(z.strictObject({ id: z.string(), number: z.int32() }))).toEqual([message]);
    expect(key(z.strictObject({ id: z.string().optional() }))).toEqual([message]);
    expect(key(z.strictObject({ id: z.string().nullable() }))).toEqual([
      "input.v.id: may be null, and the document wants ID!",
    ]);
  });

  test("JSON Schemas of data-only manifests are compared as they are written", () => {
    const declared = {
      type: "object",
      properties: { v: { type: "integer", minimum: 1, maximum: 50 } },
      required: ["v"],
    };
    const { schema: input } = zodFromJson("input", declared);
    const check = (properties: object) =>
      faultsOf({
        document: "query Q($v: Int!) { orders(first: $v) { id } }",
        variables: { v: "{v}" },
        input: zodFromJson("input", { ...declared, properties }).schema as z.ZodObject,
        output: z.object({}),
      });
    expect(
      faultsOf({
        document: "query Q($v: Int!) { orders(first: $v) { id } }",
        variables: "{*}",
        input: input as z.ZodObject,
        output: z.object({}),
      }),
    ).toEqual([]);
    expect(check({ v: { type: "integer" } }).join()).toContain("may be larger than an Int");
    expect(check({ v: { type: "number", minimum: 1, maximum: 50 } }).join()).toContain("is number here");
    expect(check({ v: { type: ["integer", "null"], minimum: 1, maximum: 50 } }).join()).toContain("may be null");
  });
});

describe("an output", () => {
  test.each([
    [z.object({ nope: z.string() }), "output.nope: is not in the document's answer"],
    [z.object({ order: z.object({ id: z.string() }) }), "output.order: may be null (Order): it must be nullable"],
    [z.object({ order: z.object({ id: z.int() }).nullable() }), "output.order.id: does not read ID, which is string"],
    [z.object({ order: z.object({ total: z.string() }).nullable() }), "output.order.total: does not read Float"],
    [z.object({ order: z.string().nullable() }), "output.order: must be an object"],
    [z.object({ order: z.object({ status: z.array(z.string()) }).nullable() }), "output.order.status: does not read"],
    [z.array(z.string()), "output: must be an object"],
  ])("that does not read the answer: %#", (output, message) => {
    expect(faultsOf(order({ output })).join("\n")).toContain(message);
  });

  test("what a directive or a type may leave out is optional", () => {
    const document = "query Q($x: Boolean!) { order(id: 1) { id secret @include(if: $x) } }";
    const input = z.strictObject({ x: z.boolean() });
    const of = (secret: z.ZodType) =>
      faultsOf({
        document,
        variables: { x: "{x}" },
        input,
        output: z.object({ order: z.object({ secret }).nullable() }),
      });
    expect(of(z.string().nullable())).toEqual([
      "output.order.secret: may be missing in an answer: it must be optional",
    ]);
    expect(of(z.string().nullish())).toEqual([]);
    const node = (email: z.ZodType) =>
      faultsOf(
        selecting("{ node(id: 1) { ... on Customer { email } } }", z.object({ node: z.object({ email }).nullable() })),
      );
    expect(node(z.string().nullable())).toHaveLength(1);
    expect(node(z.string().nullish())).toEqual([]);
    const merged = "{ order(id: 1) { id } order(id: 1) @skip(if: true) { total } }";
    const total = (schema: z.ZodType) =>
      faultsOf(selecting(merged, z.object({ order: z.object({ total: schema }).nullable() })));
    expect(total(z.number())).toHaveLength(1);
    expect(total(z.number().optional())).toEqual([]);
  });

  test("partial data has a member for the paths of its errors", () => {
    const partial = (output: z.ZodType, document = ORDER) => faultsOf(order({ document, output, partial: "allow" }));
    expect(partial(OrderOutput)).toEqual([
      "output.errorPaths: is missing: z.array(z.string()).optional(), the paths of errors",
    ]);
    const whole = OrderOutput.extend({ errorPaths: z.array(z.string()).optional() });
    expect(partial(whole)).toEqual(["outputPolicy.errorPaths[]: must be allow: a null may come from an error"]);
    const released = { document: ORDER, output: whole, partial: "allow" } as const;
    for (const outputPolicy of [{ "errorPaths[]": "allow" }, { "*": "allow" }] as const)
      expect(faultsOf(order({ ...released, outputPolicy }))).toEqual([]);
    expect(faultsOf(order({ ...released, outputPolicy: { "*": "allow", "errorPaths[]": "mask" } }))).toHaveLength(1);
    const taken = "query Order($id: ID!) { errorPaths: order(id: $id) { id } }";
    expect(partial(z.object({ errorPaths: z.array(z.string()).optional() }), taken)).toContain(
      "output.errorPaths: is a member of the document: give it another alias",
    );
  });
});

describe("the system's fields", () => {
  const fields = {
    "Customer.email": "mask",
    "Customer.notes": "redact",
    "Staff.*": "never",
    "Contact.email": "mask",
  } as const;
  const email = (
    selection: string,
    output: z.ZodType,
    outputPolicy: NonNullable<GraphqlToolOptions["outputPolicy"]>,
    rules = {},
  ) => faultsOf(selecting(selection, output, { outputPolicy }), { fields: { ...fields, ...rules } });
  const text = z.string().nullish();

  test.each([
    ["by its name", "{ customer(id: 1) { email } }", "customer", "email"],
    ["by an alias", "{ customer(id: 1) { name: email } }", "customer", "name"],
    ["by aliases of its parents", "{ a: customer(id: 1) { b: email } }", "a", "b"],
    ["in a fragment", "{ customer(id: 1) { ...F } } fragment F on Customer { x: email }", "customer", "x"],
    ["in a fragment of an interface", "{ customer(id: 1) { ... on Contact { x: email } } }", "customer", "x"],
    ["of one type of several", "{ node(id: 1) { ... on Customer { x: email } } }", "node", "x"],
    [
      "in a fragment that a variable leaves out",
      "{ customer(id: 1) { id ... @skip(if: true) { x: email } } }",
      "customer",
      "x",
    ],
    ["below another object", "{ order(id: 1) { customer { x: email } } }", "order", "customer.x"],
  ])("protect a field %s", (_, selection, key, path) => {
    const shape = path.split(".").reduceRight<z.ZodType>((inner, name) => z.object({ [name]: inner }).nullish(), text);
    const output = z.object({ [key]: shape });
    const field = `${key}.${path}`;
    expect(email(selection, output, { [field]: "allow" }).join()).toMatch(
      /^outputPolicy\.[a-z.]+: must be mask, as the system's fields say of (?:Customer|Contact)\.email$/,
    );
    expect(email(selection, output, { "*": "allow" })).toHaveLength(1);
    for (const action of ["mask", "redact"] as const) expect(email(selection, output, { [field]: action })).toEqual([]);
    expect(email(selection, output, {})).toEqual([]);
  });

  test("personal data by the name of its field needs a reason under every alias, without a rule as well", () => {
    const selection = "{ a: customer(id: 1) { b: email c: orders { d: customer { e: name } } } }";
    const output = z.object({
      a: z.object({ b: text, c: z.array(z.object({ d: z.object({ e: z.string() }).nullable() })) }).nullable(),
    });
    const released = (outputPolicy: NonNullable<GraphqlToolOptions["outputPolicy"]>) =>
      faultsOf(selecting(selection, output, { outputPolicy }));
    expect(released({ "a.b": "allow", "a.c[].d.e": "allow" })).toEqual([
      'outputPolicy: a.b is personal data by the name of its field, customer.email, and is released; write "a.b": "mask" or, if it must be released, "a.b": { action: "allow", reason: "…" }',
      expect.stringContaining("a.c[].d.e is personal data by the name of its field, customer.orders.customer.name"),
    ]);
    expect(released({ "*": "allow" })).toHaveLength(2);
    expect(released({ "*": "mask" })).toEqual([]);
    expect(released({ "a.b": { action: "allow", reason: "The agent writes to them" } })).toEqual([]);
    expect(released({ "*": { action: "allow", reason: "Everything" } })).toHaveLength(2);
    const draft = draftOfOperation(schema, { document: `query Q ${selection}` }, { path: "/graphql", scalars: {} });
    expect(draft.fields["a.b"]).toEqual({ names: ["customer", "email"] });
  });

  test("a field of an interface is one of each type behind it", () => {
    const output = z.object({ contact: z.object({ x: text }).nullable() });
    const selection = "{ contact(id: 1) { x: email } }";
    const without = { fields: { "Customer.email": "mask" } } as const;
    const allowed = selecting(selection, output, { outputPolicy: { "contact.x": "allow" } });
    expect(faultsOf(allowed, without).join()).toContain("must be mask");
    // Staff has the interface, too.
    expect(email(selection, output, { "contact.x": "mask" }).join()).toContain("selects Staff.email as contact.x");
  });

  test("a field that is never released is not selected either", () => {
    const output = z.object({ node: z.object({}).nullable() });
    expect(email("{ node(id: 1) { ... on Staff { s: salary } } }", output, {})).toEqual([
      "target.http.graphql.document: selects Staff.salary as node.s, which the system's fields never release",
    ]);
    expect(email('{ search(text: "x") { __typename } }', z.object({}), {})).toEqual([]);
  });

  test("the rule of an object holds for everything in it", () => {
    const output = z.object({ order: z.object({ c: z.object({ name: z.string() }).nullable() }).nullable() });
    const selection = "{ order(id: 1) { c: customer { name } } }";
    const rules = { "Order.customer": "mask" } as const;
    expect(email(selection, output, { "order.c.name": "allow" }, rules)).toEqual([
      "outputPolicy.order.c.name: must be mask, as the system's fields say of Order.customer",
    ]);
    expect(email(selection, output, { "order.c.name": "mask" }, rules)).toEqual([]);
  });

  test("an output that may be anything, or that code makes, hides no field", () => {
    const selection = "{ customer(id: 1) { x: notes y: email } }";
    const open = z.object({ customer: z.object({ x: z.unknown() }).nullable() });
    expect(email(selection, open, { "customer.x.inner": "allow" }).join()).toContain("must be redact");
    expect(email(selection, z.object({ customer: z.unknown() }), { "customer.y": "allow" }).join()).toContain(
      "must be mask",
    );
    expect(email(selection, z.record(z.string(), z.unknown()), { "customer.y": "allow" }).join()).toContain(
      "must be mask",
    );
    const nested = z.record(z.string(), z.record(z.string(), z.string().nullable()));
    expect(email(selection, nested, { "*": "allow" }).join()).toContain("must be");
    // Members that no schema lists, released by name.
    const loose = z.object({ customer: z.looseObject({}).nullable() });
    for (const inner of [loose, z.object({ customer: z.json() })]) {
      expect(email(selection, inner, { "customer.y": "allow" }).join()).toContain("must be mask");
      expect(email(selection, inner, { "customer.y": "mask" })).toEqual([]);
    }
    const both = { decode: (all: { y: string }) => ({ id: all.y }), encode: (all: { id: string }) => ({ y: all.id }) };
    const coded = z.object({ customer: z.codec(z.object({ y: z.string() }), z.object({ id: z.string() }), both) });
    expect(email(selection, coded, { "customer.id": "allow" }).join()).toContain("output: is changed by code");
    const made = z.object({
      customer: z
        .object({ y: z.string().nullable() })
        .nullable()
        .transform((all) => all?.y ?? ""),
    });
    expect(email(selection, made, {}).join()).toContain("output: is changed by code");
    const early = z.preprocess((all) => ({ other: JSON.stringify(all) }), z.object({ other: z.string() }));
    expect(email(selection, early, { other: "allow" }).join()).toContain("output: is changed by code");
    const caught = z.object({
      customer: z.object({ other: z.string() }).catch(({ input: all }) => ({ other: String(all) })),
    });
    expect(email(selection, caught, { "customer.other": "allow" }).join()).toContain("output: is changed by code");
  });
});

describe("a saved schema", () => {
  const settings = { schemaFile: "shop.graphql", fields: {}, scalars: {} };
  const added = (bytes: string | Buffer, more = {}): string => {
    try {
      new GraphqlContracts().add("shop", () => Buffer.from(bytes), { ...settings, ...more });
      return "";
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  };

  test("is SDL or an introspection result, with and without `data`", () => {
    const introspection = introspectionFromSchema(schema);
    for (const bytes of [SHOP, JSON.stringify(introspection), JSON.stringify({ data: introspection })]) {
      expect(readSchema(Buffer.from(bytes)).schema.getType("OrderKey")).toMatchObject({ isOneOf: true });
    }
  });

  test.each([
    ["type Query {", "is neither a schema in SDL nor an introspection result: Syntax Error"],
    ["type Query { a: Nope }", 'Unknown type "Nope"'],
    ["type A { a: Int }", "Query root type must be provided"],
    ["schema { query: A, mutation: A } type A { a: Int }", "queries and mutations have the same type"],
    ["{}", "is JSON without __schema: save an introspection result"],
    ['{"a":1,"a":2}', "is not JSON that can be used"],
    [`type Query { a: ${"[".repeat(1_000_000)}Int${"]".repeat(1_000_000)} }`, "nested too deeply"],
    [Buffer.from([0xff, 0xfe]), "is not UTF-8"],
  ])("that cannot be used is named: %#", (bytes, message) => {
    expect(added(bytes)).toContain(message);
  });

  test("has the digest that the configuration pins", () => {
    const { sha256 } = readSchema(Buffer.from(SHOP));
    expect(added(SHOP, { sha256 })).toBe("");
    expect(added(`${SHOP}\n`, { sha256 })).toContain("has changed: its SHA-256 is");
  });

  test("has the types and fields that the rules name: a wrong name would protect nothing", () => {
    expect(added(SHOP, { fields: { "Customer.emial": "mask" } })).toBe(
      "fields.Customer.emial: Customer has no such field; did you mean email?",
    );
    expect(added(SHOP, { fields: { "Custmer.*": "mask" } })).toContain("has no type Custmer with fields");
    expect(added(SHOP, { fields: { "Found.*": "mask" } })).toContain("has no type Found with fields");
    expect(added(SHOP, { scalars: { Datetime: "string" } })).toContain("did you mean DateTime?");
    expect(added(SHOP, { scalars: { Int: "string" } })).toContain("has no scalar of its own");
  });
});
