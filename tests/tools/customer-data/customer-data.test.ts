import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { JOHN_SMITH_LEGACY_ID, KNOWN_CUSTOMERS } from "../../../src/cli/development/customers.ts";
import { Refusal } from "../../../src/core/errors.ts";
import { compileInputPolicy, sanitizeInput } from "../../../src/core/manifest/input-policy.ts";
import { applyPolicy, compilePolicy } from "../../../src/core/output-policy/output-policy.ts";
import type { Json, Tool } from "../../../src/core/types.ts";
import { createCustomer } from "../../../tools/customer-data/create-customer.ts";
import { getCustomer } from "../../../tools/customer-data/get-customer.ts";
import { getLegacyCustomer } from "../../../tools/customer-data/get-legacy-customer.ts";
import { listCustomers } from "../../../tools/customer-data/list-customers.ts";
import { updateCustomer } from "../../../tools/customer-data/update-customer.ts";
import { updateCustomerStatus } from "../../../tools/customer-data/update-customer-status.ts";
import { openStand, type Stand } from "./stand.ts";

const TOOLS: readonly Tool[] = [
  getCustomer,
  getLegacyCustomer,
  listCustomers,
  createCustomer,
  updateCustomer,
  updateCustomerStatus,
];

let stand: Stand;
beforeAll(async () => {
  stand = await openStand();
});
afterAll(() => stand.close());

type Answer = { readonly customer: Readonly<Record<string, unknown>> };

const call = async (tool: Tool, args: unknown): Promise<Answer> => (await stand.call(tool, args)) as Answer;

async function codeOf(tool: Tool, args: unknown): Promise<unknown> {
  try {
    return await stand.call(tool, args);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return [error.code, error.details?.["status"]];
  }
}

test.each(TOOLS.map((tool) => [tool.name, tool] as const))("%s fits its method and examples", (_name, tool) => {
  expect(stand.bind(tool)).toBeDefined();
});

test.each(
  TOOLS.flatMap((tool) => tool.examples.accepts.map((example, index) => [tool.name, index, tool, example] as const)),
)("%s, example %d: every argument is in the message", async (_name, _index, tool, example) => {
  const plan = await stand.bind(tool).plan(tool.input.parse(example), { signal: new AbortController().signal });
  const keys = Object.keys(plan["message"] as object);
  expect(keys.sort()).toEqual(Object.keys(example as object).sort());
});

const CONTEXT = { mode: "default", caller: { issuer: "i", subject: "s", permissions: [] } } as const;

describe("reading", () => {
  test("one customer, by either id", async () => {
    const { customer } = await call(getCustomer, { customerId: KNOWN_CUSTOMERS.johnSmith });
    expect(customer).toMatchObject({
      customerId: KNOWN_CUSTOMERS.johnSmith,
      legacyId: JOHN_SMITH_LEGACY_ID,
      fullName: "John Smith",
      status: "ACTIVE",
      createdAt: "2024-01-01T00:00:00Z",
      accountIds: ["ACC-000001-1", "ACC-000001-2"],
    });
    expect(await call(getLegacyCustomer, { legacyId: JOHN_SMITH_LEGACY_ID })).toEqual({ customer });
    expect(await call(getCustomer, { customerId: KNOWN_CUSTOMERS.johnSmith.toUpperCase() })).toEqual({ customer });
  });

  test("pages do not overlap and end", async () => {
    const seen: unknown[] = [];
    let pageToken: string | undefined;
    do {
      const page = (await stand.call(listCustomers, { pageSize: 7, ...(pageToken && { pageToken }) })) as {
        readonly customers: readonly { readonly customerId: string }[];
        readonly nextPageToken: string;
      };
      seen.push(...page.customers.map((customer) => customer.customerId));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    expect(seen.length).toBeGreaterThanOrEqual(20);
    expect(new Set(seen).size).toBe(seen.length);
  });

  test.each([
    ["a part of the name", { nameContains: "smith" }, ["John Smith", "Jonathan Smithson"]],
    ["a status", { status: "OFFBOARDED" }, ["Søren Østergård"]],
    ["both, nobody", { nameContains: "smith", status: "OFFBOARDED" }, []],
  ])("a list by %s", async (_title, args, names) => {
    const page = (await stand.call(listCustomers, args)) as { customers: readonly { fullName: string }[] };
    expect(page.customers.map((customer) => customer.fullName)).toEqual(names);
  });

  test.each([
    ["missing", getCustomer, { customerId: KNOWN_CUSTOMERS.missing }, ["TARGET_REFUSED", "NOT_FOUND"]],
    ["an unknown legacy id", getLegacyCustomer, { legacyId: "LEG-9" }, ["TARGET_REFUSED", "NOT_FOUND"]],
    ["unavailable", getCustomer, { customerId: KNOWN_CUSTOMERS.unavailable }, ["TARGET_UNAVAILABLE", "UNAVAILABLE"]],
    [
      "leaking",
      getCustomer,
      { customerId: KNOWN_CUSTOMERS.leaksAsPrecondition },
      ["TARGET_REFUSED", "FAILED_PRECONDITION"],
    ],
    ["leaking", getCustomer, { customerId: KNOWN_CUSTOMERS.leaksAsInternal }, ["TARGET_FAILED", "INTERNAL"]],
    ["a foreign page token", listCustomers, { pageToken: "AAAA" }, ["TARGET_REFUSED", "INVALID_ARGUMENT"]],
  ])("%s", async (_title, tool, args, want) => expect(await codeOf(tool as Tool, args)).toEqual(want));

  test("an answer that the contract forbids does not pass the output schema", async () => {
    const work = stand.call(getCustomer, { customerId: KNOWN_CUSTOMERS.breaksContract });
    await expect(work).rejects.toThrow(/customerId/);
  });

  test("a customer whose lookup never answers", async () => {
    const work = stand.call(getCustomer, { customerId: KNOWN_CUSTOMERS.hangs }, { signal: AbortSignal.timeout(200) });
    await expect(work).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  });
});

describe("changing", () => {
  const ada = { fullName: "Ada Lovelace", email: "ada@example.com", nationalId: "QQ777777C" };

  test("created and changed records are there afterwards", async () => {
    const { customer } = await call(createCustomer, ada);
    expect(customer).toMatchObject({ ...ada, status: "PENDING", address: null });
    const { customerId } = customer;
    await call(updateCustomer, {
      customerId,
      phone: "+447700900123",
      annualIncome: { currency: "GBP", minorUnits: 5 },
    });
    await call(updateCustomerStatus, { customerId, status: "ACTIVE", reason: "checked" });
    expect((await call(getCustomer, { customerId })).customer).toMatchObject({
      ...ada,
      phone: "+447700900123",
      annualIncome: { currency: "GBP", minorUnits: "5" },
      status: "ACTIVE",
    });
  });

  test.each([
    ["a taken e-mail address", createCustomer, { fullName: "J", email: "JOHN.SMITH@example.com" }, "ALREADY_EXISTS"],
    [
      "a taken national id",
      createCustomer,
      { fullName: "J", email: "j@example.com", nationalId: "QQ000001C" },
      "ALREADY_EXISTS",
    ],
    [
      "an offboarded customer",
      updateCustomer,
      { customerId: KNOWN_CUSTOMERS.offboarded, phone: "+447700900123" },
      "FAILED_PRECONDITION",
    ],
    [
      "back from offboarded",
      updateCustomerStatus,
      { customerId: KNOWN_CUSTOMERS.offboarded, status: "ACTIVE" },
      "FAILED_PRECONDITION",
    ],
    [
      "from blocked to dormant",
      updateCustomerStatus,
      { customerId: KNOWN_CUSTOMERS.blocked, status: "DORMANT" },
      "FAILED_PRECONDITION",
    ],
    ["nobody", updateCustomerStatus, { customerId: KNOWN_CUSTOMERS.missing, status: "ACTIVE" }, "NOT_FOUND"],
  ])("%s is refused", async (_title, tool, args, status) => {
    expect(await codeOf(tool as Tool, args)).toEqual(["TARGET_REFUSED", status]);
  });

  test("an unavailable service leaves the outcome open", async () => {
    const args = { customerId: KNOWN_CUSTOMERS.unavailable, status: "ACTIVE" };
    expect(await codeOf(updateCustomerStatus, args)).toEqual(["OUTCOME_UNKNOWN", "UNAVAILABLE"]);
  });
});

describe("permissions and approvals", () => {
  test.each([
    ["ACTIVE", false],
    ["PENDING", false],
    ["DORMANT", false],
    ["BLOCKED", true],
    ["OFFBOARDED", true],
  ])("to %s: elevated and asked is %p", (status, destructive) => {
    const tool: Tool = updateCustomerStatus;
    const input = tool.input.parse({ customerId: KNOWN_CUSTOMERS.johnSmith, status });
    expect(tool.permissions.elevatedIf?.when(input as never)).toBe(destructive);
    expect(tool.permissions.elevatedIf?.required).toEqual(["customer-data:status:destructive"]);
    expect(tool.approval.needsApproval?.(input as never, CONTEXT)).toBe(destructive);
  });

  test("creating always needs its own permission", () => {
    const tool: Tool = createCustomer;
    expect(tool.permissions.elevatedIf?.when({} as never)).toBe(true);
    expect(tool.permissions.elevatedIf?.required).toEqual(["customer-data:create"]);
  });
});

const PERSONAL =
  /John|Smith|Ada|Lovelace|example\.com|\+44|QQ|Station|Leeds|Rail|GB-|-7"|1957|Byron|Dorset|Analytical|London|minorUnits|currency/;

describe("personal data", () => {
  test("an agent sees ids, status and times, a masked name and nothing else", async () => {
    const raw = (await stand.call(getCustomer, { customerId: KNOWN_CUSTOMERS.blocked })) as Json;
    const { result } = applyPolicy(compilePolicy(getCustomer.outputPolicy, getCustomer.output), raw);
    const { customer } = result as unknown as Answer;
    expect(customer).toMatchObject({
      customerId: KNOWN_CUSTOMERS.blocked,
      status: "BLOCKED",
      createdAt: "2024-01-05T00:00:00Z",
    });
    expect(customer["externalReferences"]).toEqual([{ system: "crm", reference: "CRM-000005" }]);
    expect(JSON.stringify(result)).not.toMatch(
      /Raghunathan|@example|\+447|QQ0|Station Road|Chennai|Coromandel|IN-0|minorUnits|sibling/,
    );
  });

  test("lists are filtered the same way", async () => {
    const raw = (await stand.call(listCustomers, { nameContains: "john smith" })) as Json;
    const { result } = applyPolicy(compilePolicy(listCustomers.outputPolicy, listCustomers.output), raw);
    expect(JSON.stringify(result)).toContain(KNOWN_CUSTOMERS.johnSmith);
    expect(JSON.stringify(result)).not.toMatch(PERSONAL);
  });

  test.each(
    [createCustomer, updateCustomer, updateCustomerStatus].flatMap((tool: Tool) =>
      tool.examples.accepts.map((example) => [tool.name, tool, example] as const),
    ),
  )("%s leaves no personal data in the audit", (_name, tool, example) => {
    const shown = sanitizeInput(compileInputPolicy(tool.inputPolicy, tool.input), tool.input.parse(example));
    expect(JSON.stringify(Object.values(shown))).not.toMatch(
      /Ada|Lovelace|John|Smith|@|\+44|QQ|Station|GB-|18|Leeds|London|closed|000_000|5000000|3715000/,
    );
  });
});
