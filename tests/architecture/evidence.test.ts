import { expect, test } from "bun:test";
import { sources } from "./sources.ts";

/** Which file may hand out which evidence. */
const MINTS: Readonly<Record<string, readonly string[]>> = {
  Found: ["src/pipeline/registry.ts"],
  Verified: ["src/pipeline/caller-context.ts"],
  Admitted: ["src/pipeline/admission.ts"],
  // evaluation.ts asks the policy points about a call that nobody makes: its evidence never leaves it.
  Known: ["src/pipeline/evaluation.ts", "src/pipeline/registry.ts"],
  Authorized: ["src/pipeline/policy-points.ts"],
  WithinRate: ["src/pipeline/admission.ts", "src/pipeline/evaluation.ts"],
  Parsed: ["src/pipeline/evaluation.ts", "src/pipeline/schema-validator.ts"],
  Elevated: ["src/pipeline/policy-points.ts"],
  Fresh: ["src/pipeline/repeats.ts"],
  Planned: ["src/pipeline/planner.ts"],
  Assessed: ["src/pipeline/policy-points.ts"],
  Approved: ["src/pipeline/approval/gate.ts"],
  Judged: ["src/pipeline/approval/gate.ts"],
  Executed: ["src/pipeline/executor.ts"],
  Released: ["src/pipeline/output-filter.ts", "src/pipeline/repeats.ts"],
  Receipt: ["src/audit/audit-log.ts", "src/audit/unauthenticated.ts"],
};

test("evidence is minted only by the stage that owns it", () => {
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

test("no cast creates evidence", () => {
  const kinds = Object.keys(MINTS).join("|");
  const casts = sources("src").filter(({ code }) => new RegExp(`\\bas (unknown as )?(${kinds})\\b`).test(code));
  expect(casts.map(({ path }) => path)).toEqual([]);
});

test("only the answer decoder vouches for the values it created", () => {
  const vouching = sources("src").filter(({ code }) => /\bvouchFor\(/.test(code));
  expect(vouching.map(({ path }) => path).sort()).toEqual([
    "src/core/digest.ts",
    "src/targets/grpc/codec/answer-reader.ts",
  ]);
});
