import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Ajv from "ajv";
import { Glob } from "bun";
import fc from "fast-check";
import { parse } from "yaml";
import { createDefineTool } from "../../../src/core/define-tool.ts";
import { readDataOnly } from "../../../src/runtime/manifests/data-only.ts";
import { MODULES } from "../../../src/runtime/modules.ts";
import { anySchema } from "../../core/json-schema/generated.ts";
import { PROJECT } from "../../support/world.ts";
import { FILE, fileContent } from "./editor-schema-file.ts";

const validate = new Ajv({ strict: false, allErrors: true }).compile(JSON.parse(fileContent()));
const BUILD = { kinds: MODULES.targetKinds, define: createDefineTool(MODULES.targetKinds) };
const SHIPPED = [...new Glob("tools/**/*.tool.yaml").scanSync(PROJECT)];

test("the file that editors read is current: else `bun run docs:tool-schema`", () => {
  expect(readFileSync(FILE, "utf8")).toBe(fileContent());
});

describe.each(SHIPPED)("%s", (path) => {
  const source = readFileSync(join(PROJECT, path), "utf8");

  test("fits it, and names it in its first line", () => {
    expect(validate(parse(source)) || validate.errors).toBe(true);
    expect(source).toMatch(/^# yaml-language-server: \$schema=(?:\.\.\/)+docs\/tool\.schema\.json\n/);
  });

  test.each([
    ["classification: read", "classification: raed"],
    ["classification: read", "clasification: read"],
    ["required: [", "requires: ["],
    ["method:", "methd:"],
    ["type: object", "type: objct"],
    ["properties:", "propertis:"],
    [": allow", ": alow"],
    ["examples:", "handler: x\nexamples:"],
    ["examples:", "timeoutMs: 0\nexamples:"],
    ["examples:", "limits: { outputBytesMax: 1.5 }\nexamples:"],
    ["examples:", "approval: { risk: low }\nexamples:"],
    ["accepts:", "acepts:"],
  ])("an editor and the loader both refuse %j as %j", (from, to) => {
    expect(source).toContain(from);
    const changed = source.replace(from, to);
    expect(validate(parse(changed))).toBe(false);
    expect("problems" in readDataOnly(changed, BUILD)).toBe(true);
  });
});

test("an editor accepts every schema that the loader accepts", () => {
  fc.assert(
    fc.property(anySchema, (output) => {
      const manifest = { ...parse(readFileSync(join(PROJECT, SHIPPED[0] ?? ""), "utf8")), output };
      expect(validate(manifest) || validate.errors).toBe(true);
    }),
    { seed: Number(process.env["STC_TEST_SEED"] ?? 1), numRuns: 100 },
  );
});
