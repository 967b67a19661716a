import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { buildSchema } from "graphql";
import { z } from "zod";
import { Refusal } from "../../../../src/core/errors.ts";
import { isTable } from "../../../../src/core/json.ts";
import { HttpFailure } from "../../../../src/targets/http/answer.ts";
import { type GraphqlOperation, readData } from "../../../../src/targets/http/graphql/answer.ts";
import { findings } from "../../../../src/targets/http/graphql/contracts.ts";
import { checkedDocument, DocumentFaults } from "../../../../src/targets/http/graphql/document.ts";
import { faultsOf, graphqlTool, schema } from "./support.ts";

/** Reads a document, or returns what is wrong with it. Fails for any other error. */
function read(text: string): "read" | readonly string[] {
  try {
    checkedDocument(schema, text);
    return "read";
  } catch (error) {
    if (!(error instanceof DocumentFaults)) throw error;
    return error.faults.map(({ message }) => message);
  }
}

const nested = (open: string, close: string, times: number): string =>
  `query Q { ${open.repeat(times)} id ${close.repeat(times)} }`;
const fragments = Array.from(
  { length: 40 },
  (_, at) =>
    `fragment F${at} on Order { a${at}: customer { orders { ...F${at + 1} } } b${at}: customer { orders { ...F${at + 1} } } }`,
);

describe("a hostile document ends in an error, in bounded time", () => {
  test.each([
    ["deep fields", nested("order(id: 1) { customer { orders {", "} } }", 300), /levels deep|Cannot query/],
    ["deeper fields than its tokens", nested("order(id: 1) {", "}", 20_000), /contains more that 5000 tokens/],
    ["deep fragments without a type", `query Q { ${"... {".repeat(1_600)} version ${"}".repeat(1_600)} }`, /^$/],
    ["deep lists", `query Q { orders(filter: ${"[".repeat(2_000)}1${"]".repeat(2_000)}) { id } }`, /./],
    [
      "lists deeper than the stack",
      `query Q { orders(filter: ${"[".repeat(500_000)}`,
      /contains more that 5000 tokens/,
    ],
    [
      "fragments that double 40 times",
      `query Q { order(id: 1) { ...F0 } } ${fragments.join(" ")} fragment F40 on Order { id }`,
      /more than 5000 fields|levels deep/,
    ],
    ["very many aliases", `query Q { ${Array.from({ length: 1_000 }, (_, at) => `a${at}: version`).join(" ")} }`, /^$/],
    [
      "the same field very often",
      `query Q { ${"version ".repeat(2_400)} }`,
      /has too many fields with one name to be compared/,
    ],
    [
      "very many errors",
      `query Q { ${Array.from({ length: 2_000 }, (_, at) => `nope${at}`).join(" ")} }`,
      /Too many validation errors/,
    ],
    ["text of a megabyte", `query Q { node(id: "${"x".repeat(1_000_000)}") { id } }`, /^$/],
  ])("%s", (_, text, message) => {
    const found = read(text);
    expect((found === "read" ? "" : found.join("\n")).slice(0, 3_000)).toMatch(message);
  });
});

test("thousands of types behind an interface do not multiply with the fields of a document", () => {
  const types = Array.from({ length: 4_000 }, (_, at) => `type T${at} implements N { id: ID }`).join(" ");
  const large = buildSchema(`interface N { id: ID } type Query { n: N } ${types}`);
  const aliases = Array.from({ length: 1_200 }, (_, at) => `a${at}: id`).join(" ");
  const [member] = checkedDocument(large, `query Q { n { ${aliases} } }`).fields;
  expect([member?.fields.length, member?.fields[0]?.origins.length]).toEqual([1_200, 4_001]);
});

/** Words of documents, in an order that is sometimes right. */
const words = fc.constantFrom(
  ...[
    "query Q",
    "mutation M",
    "subscription S",
    "fragment F on Order",
    "fragment C on Contact",
    "{",
    "}",
    "(",
    ")",
    "...F",
    "...C",
  ],
  ...[
    "... on Customer",
    "...",
    "order(id: 1)",
    "customer",
    "email",
    "name: email",
    "id",
    "__typename",
    "__schema",
    "$x",
    "$x: Boolean!",
  ],
  ...[
    "@include(if: $x)",
    "@skip(if: true)",
    'search(text: "x")',
    "node(id: $x)",
    "[",
    "]",
    "!",
    ":",
    '"""',
    "#",
    "\u0000",
    "\ufeff",
    "é",
  ],
);
const documents = fc.array(words, { maxLength: 60 }).map((all) => all.join(" "));

/** Selections of an order that are valid, with the aliases under which they have the customer's address. */
const selections = fc.letrec((tie) => ({
  order: fc.oneof(
    { maxDepth: 3 },
    fc.constant("id"),
    tie("customer").map((inner) => `customer { ${String(inner)} }`),
    fc
      .tuple(tie("order"), tie("order"))
      .map(([a, b]) => `... @include(if: true) { ${String(a)} } id ... on Node { id } ${String(b)}`),
  ),
  customer: fc.oneof(
    { maxDepth: 3 },
    fc.constant("email"),
    fc.constantFrom("name", "notes", "totals").map((alias) => `${alias}: email`),
    tie("customer").map((inner) => `... on Contact { x: email } ... on Customer { ${String(inner)} }`),
    tie("order").map((inner) => `orders { ${String(inner)} }`),
  ),
}));

const operation = (type: "query" | "mutation", isPartial: boolean): GraphqlOperation => {
  const text = `${type} Q { order: ${type === "query" ? "order" : "cancelOrder"}(id: 1) { id tags customer { orders { secret } } } }`;
  const tool = graphqlTool({
    document: text,
    classification: type === "query" ? "read" : "write",
    input: z.strictObject({}),
    output: isPartial ? z.object({ errorPaths: z.array(z.string()).optional() }) : z.object({}),
    ...(isPartial && { partial: "allow", outputPolicy: { "errorPaths[]": "allow" } }),
  });
  if (!("http" in tool.target)) throw new Error("not an HTTP tool");
  const found = findings(schema, tool, tool.target.http, { fields: {}, scalars: {} });
  if (found.operation === undefined || found.faults.length > 0) throw new Error(JSON.stringify(found.faults));
  return found.operation;
};

const CANARY = "canary-9c1d";
const step = fc.oneof(
  fc.constantFrom("order", "customer", "orders", "secret", "tags", CANARY),
  fc.integer({ max: 3, min: -1 }),
);
const errors = fc.oneof(
  fc.constantFrom(null, [], {}, CANARY, 0, [null], [CANARY]),
  fc.array(fc.record({ message: fc.constant(CANARY), path: fc.array(step, { maxLength: 6 }) }, { requiredKeys: [] }), {
    maxLength: 3,
  }),
);
const data = fc.oneof(
  fc.constantFrom(null, [], CANARY, {}, { order: null }),
  fc.record(
    { order: fc.record({ id: fc.constant("1"), customer: fc.constant(null) }), errorPaths: fc.constant([CANARY]) },
    { requiredKeys: [] },
  ),
);
const answers = fc.oneof(
  fc.jsonValue(),
  fc.record({ data, errors, extensions: fc.constant({ trace: CANARY }), hasNext: fc.boolean() }, { requiredKeys: [] }),
);

describe("any answer", () => {
  test("is data without a word of the service's errors, or is refused", () => {
    const operations = (["query", "mutation"] as const).flatMap((type) => [
      operation(type, false),
      operation(type, true),
    ]);
    fc.assert(
      fc.property(answers, fc.constantFrom(...operations), (sent, checked) => {
        const body: Readonly<Record<string, unknown>> = isTable(sent) ? sent : {};
        const headers = { "content-type": "application/json" };
        try {
          const result = readData({ status: 200, headers, body: Buffer.from(JSON.stringify(sent)) }, checked) as Record<
            string,
            unknown
          >;
          const hasErrors = Array.isArray(body["errors"]) && body["errors"].length > 0;
          expect("errorPaths" in result).toBe(
            hasErrors || (!checked.isPartial && isTable(body["data"]) && "errorPaths" in body["data"]),
          );
          if (hasErrors) expect([checked.isPartial, JSON.stringify(result).includes(CANARY)]).toEqual([true, false]);
          expect(JSON.stringify(result)).not.toContain("trace");
        } catch (error) {
          if (error instanceof Refusal) expect(JSON.stringify([error.message, error.cause])).not.toContain(CANARY);
          else if (error instanceof HttpFailure) expect(error.message).not.toContain(CANARY);
          else throw error;
          // A change that was executed is never reported as refused.
          if (checked.type === "mutation" && error instanceof HttpFailure) expect(error.meaning).toBe("unknown");
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("any document", () => {
  test("is read or has errors", () => {
    fc.assert(
      fc.property(
        fc.oneof(documents, fc.string({ maxLength: 200 })),
        (text) => Array.isArray(read(text)) || read(text) === "read",
      ),
    );
  });

  test("that reads a protected field somewhere never releases it by a policy that allows everything", () => {
    const fields = { "Customer.email": "mask" } as const;
    fc.assert(
      fc.property(selections.order, (selection) => {
        const text = String(selection);
        const document = `query Q { order(id: 1) { ${text} } }`;
        if (read(document) !== "read") return;
        const open = { document, input: z.strictObject({}), output: z.object({ order: z.unknown() }) };
        const faults = faultsOf({ ...open, outputPolicy: { "*": "allow" } }, { fields });
        expect(faults.length > 0).toBe(text.includes("email"));
        expect(faultsOf({ ...open, outputPolicy: { "*": "mask" } }, { fields })).toEqual([]);
      }),
    );
  });
});
