import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError } from "../../src/core/errors.ts";
import { type GrpcHandler, grpcHandler } from "../../src/targets/grpc/handler.ts";
import { type Lab, labSystem, startLab } from "../targets/grpc/support/lab.ts";
import { labTool, runContext, type ToolOptions } from "../targets/grpc/support/tool.ts";

let lab: Lab;
let handler: GrpcHandler;
beforeAll(async () => {
  lab = await startLab();
  handler = grpcHandler({ systems: new Map([["lab", labSystem(lab.port)]]) });
});
afterAll(async () => {
  await handler.close();
  lab.close();
});

type Extra = Partial<ToolOptions> & { readonly output?: z.ZodType };

function bind({ output = z.unknown(), ...options }: Extra) {
  return handler.bind({ ...labTool({ method: "Echo", input: z.looseObject({}), ...options }), output });
}

/** What the output schema makes of the service's answer to `input`. */
async function answer(output: z.ZodType, input: unknown = {}): Promise<unknown> {
  const binding = bind({ output });
  return output.parse(await binding.run(await binding.plan(input, runContext()), runContext()));
}

function faultsOf(options: Extra): readonly string[] {
  try {
    bind(options);
    return [];
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return error.faults.map(({ field, message }) => `${field}: ${message}`);
  }
}

const node = z.object({ label: z.string() });

describe("a message field that the service did not set", () => {
  test.each([
    ["may be optional", z.object({ at: z.iso.datetime().optional() }), {}],
    ["may be nullable", z.object({ at: z.iso.datetime().nullable() }), { at: null }],
    ["may be both", z.object({ at: z.iso.datetime().nullish() }), { at: null }],
    ["may have a default", z.object({ node: node.default({ label: "none" }) }), { node: { label: "none" } }],
    ["may stand in a choice", z.union([z.object({ node: node.optional() }), z.object({ x: z.string() })]), {}],
    ["may be refused", z.object({ at: z.iso.datetime() }), undefined],
  ] as const)("%s", async (_title, output, want) => {
    const got = answer(output);
    if (want === undefined) await expect(got).rejects.toThrow("received undefined");
    else expect(await got).toEqual(want);
  });

  test("in a list too, while null in a map of values stays", async () => {
    const output = z.object({ nodes: z.array(z.object({ label: z.string(), kind: z.string() })) });
    expect(await answer(output, { nodes: [{ label: "a" }] })).toEqual({
      nodes: [{ label: "a", kind: "KIND_UNSPECIFIED" }],
    });
  });

  test("scalars have their proto3 defaults, so that required fields are there", async () => {
    const output = z.object({
      text: z.string(),
      flag: z.boolean(),
      small: z.number(),
      big: z.string(),
      color: z.enum(["COLOR_UNSPECIFIED", "RED", "NEGATIVE"]),
      texts: z.array(z.string()),
      labels: z.record(z.string(), z.string()),
    });
    const zeros = { text: "", flag: false, small: 0, big: "0", color: "COLOR_UNSPECIFIED", texts: [], labels: {} };
    expect(await answer(output)).toEqual(zeros as never);
  });
});

describe("a schema that can never fit its message is reported at load", () => {
  test.each([
    [
      "a field that is not there",
      { output: z.object({ txt: z.string() }) },
      "output.txt: lab.v1.Everything has no such",
    ],
    ["one further down", { output: z.object({ node: z.object({ lbl: z.string() }) }) }, "output.node.lbl: lab.v1.Node"],
    [
      "one in a list",
      { output: z.object({ nodes: z.array(z.object({ lbl: z.string() })) }) },
      "output.nodes[].lbl: lab",
    ],
    [
      "64 bits as a number",
      { output: z.object({ big: z.number() }) },
      "output.big: is 64 bits wide and comes as a decimal",
    ],
    ["text for a number", { input: z.object({ small: z.string() }) }, "input.small: is string here, and number in the"],
    ["a number for text", { output: z.object({ text: z.number() }) }, "output.text: is number here, and string in the"],
  ] as const)("%s", (_title, options, want) => {
    expect(faultsOf(options)).toEqual([expect.stringMatching(new RegExp(`^${want.replace(/[[\].]/g, "\\$&")}`))]);
  });

  test.each([
    ["what may be missing", { output: z.object({ soon: z.string().optional() }) }],
    ["64 bits, coerced", { output: z.object({ big: z.coerce.number() }) }],
    ["64 bits, sent as a number", { input: z.object({ big: z.int() }) }],
    ["64 bits, transformed", { output: z.object({ big: z.string().transform(Number) }) }],
    ["text that becomes a number", { input: z.object({ small: z.string().transform(Number) }) }],
    ["text that becomes a number, checked", { input: z.object({ small: z.stringbool().pipe(z.coerce.number()) }) }],
    ["which member is set", { output: z.object({ contact: z.enum(["phone", "person"]) }) }],
    ["a choice", { output: z.object({ text: z.union([z.string(), z.null()]) }) }],
    ["a message that contains itself", { output: z.object({ node: z.object({ children: z.array(node) }) }) }],
    ["anything", { output: z.unknown() }],
  ] as const)("%s fits", (_title, options) => {
    expect(faultsOf(options)).toEqual([]);
  });
});
