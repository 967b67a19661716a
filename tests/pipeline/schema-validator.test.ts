import { expect, test } from "bun:test";
import { z } from "zod";
import { Refusal } from "../../src/core/errors.ts";
import type { Tool } from "../../src/core/types.ts";
import { defineTool } from "../../src/index.ts";
import { parseInput } from "../../src/pipeline/schema-validator.ts";

/** Its sides do not meet where the number came as text: Zod throws. */
const sides = z.intersection(z.object({ count: z.coerce.number() }), z.looseObject({}));

const tool = defineTool({
  name: "count",
  description: "Counts",
  classification: "read",
  permissions: { required: ["counts:read"] },
  input: z.strictObject({ sides }),
  handler: () => null,
  output: z.null(),
  outputPolicy: {},
}) as unknown as Tool;

const parse = (args: unknown): unknown => parseInput({ tool } as never, args).input;

test("a schema that throws has refused the arguments, and its message is not passed on", () => {
  const planted = "4711";
  try {
    parse({ sides: { count: planted } });
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal);
    const { code, message, details, cause } = error as Refusal;
    expect([code, message, details]).toEqual([
      "INVALID_INPUT",
      "The arguments do not match the tool's input schema.",
      undefined,
    ]);
    expect(String(cause)).toContain("input schema of count: threw");
    expect(String(cause)).not.toContain(planted);
  }
});

test("the same schema accepts values that it can combine", () => {
  expect(parse({ sides: { count: 7 } })).toEqual({ sides: { count: 7 } });
});
