import { expect, test } from "bun:test";
import { sources } from "./sources.ts";

/** Which file may hand out which evidence. */
const MINTS: Readonly<Record<string, readonly string[]>> = {
  Found: ["src/proxy/registry.ts"],
  Verified: ["src/proxy/caller-context.ts"],
  Admitted: ["src/proxy/admission.ts"],
  Known: ["src/proxy/registry.ts"],
  Authorized: ["src/proxy/permission-engine.ts"],
  Paced: ["src/proxy/admission.ts"],
  Parsed: ["src/proxy/schema-validator.ts"],
  Elevated: ["src/proxy/permission-engine.ts"],
  Fresh: ["src/proxy/repeats.ts"],
  Planned: ["src/proxy/planner.ts"],
  Approved: ["src/proxy/approval-gate.ts"],
  Executed: ["src/proxy/executor.ts"],
  Released: ["src/proxy/output-filter.ts", "src/proxy/repeats.ts"],
  Receipt: ["src/audit/json-logger.ts", "src/audit/strangers.ts"],
};

test("evidence is minted only by the step that earned it", () => {
  const found = sources("src").flatMap(({ path, code }) =>
    [...code.matchAll(/\bmint(?:<(\w+)>)?\(/g)].map(([, kind = "(untyped)"]) => [kind, path] as const),
  );
  const minted = Object.fromEntries(
    Object.keys(MINTS).map((kind) => [
      kind,
      [...new Set(found.filter(([is]) => is === kind).map(([, path]) => path))].sort(),
    ]),
  );
  expect(minted as typeof MINTS).toEqual(MINTS);
  const strangers = found.filter(([kind, path]) => !(kind in MINTS) && path !== "src/core/evidence.ts");
  expect(strangers).toEqual([]);
});

test("nobody casts into evidence", () => {
  const kinds = Object.keys(MINTS).join("|");
  const casts = sources("src").filter(({ code }) => new RegExp(`\\bas (unknown as )?(${kinds})\\b`).test(code));
  expect(casts.map(({ path }) => path)).toEqual([]);
});

test("only the decoder of answers vouches for what it has made", () => {
  const vouching = sources("src").filter(({ code }) => /\bvouchFor\(/.test(code));
  expect(vouching.map(({ path }) => path).sort()).toEqual([
    "src/core/digest.ts",
    "src/handlers/grpc/codec/answer-reader.ts",
  ]);
});
