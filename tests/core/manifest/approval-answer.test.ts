import { expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError } from "../../../src/core/errors.ts";
import { defineTool } from "../../../src/index.ts";

const question = {
  ...{ name: "ask_somebody", description: "Asks", classification: "read", category: "ask" },
  permissions: { required: ["people:ask"] },
  ...{ input: z.strictObject({}), output: z.object({}), outputPolicy: {}, handler: () => ({}) },
};

const grpc = { system: "s", grpc: { package: "p", service: "S", method: "M" } };

const ROWS: readonly (readonly [title: string, more: Record<string, unknown>, fields: readonly string[]])[] = [
  ["any text", { approval: { answer: {} } }, []],
  ["one of its choices", { approval: { answer: { choices: () => ["a"] } } }, []],
  ["no table", { approval: { answer: true } }, ["approval.answer"]],
  ["choices that are no function", { approval: { answer: { choices: ["a"] } } }, ["approval.answer.choices"]],
  ["another key", { approval: { answer: { text: "x" } } }, ["approval.answer.text"]],
  ["of another category", { approval: { answer: {} }, category: "command" }, ["approval.answer"]],
  ["of no function", { approval: { answer: {} }, handler: undefined, target: grpc }, ["approval.answer"]],
];

test.each(ROWS)("approval.answer: %s", (_title, more, fields) => {
  let found: readonly string[] = [];
  try {
    defineTool({ ...question, ...more } as never);
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    found = error.faults.map(({ field }) => field);
  }
  expect(found).toEqual(fields);
});
