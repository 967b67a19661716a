import { expect, test } from "bun:test";
import { REFUSALS, STAGE_NAMES, STAGES } from "../../src/core/refusals.ts";
import { sources } from "./sources.ts";

test("every refusal code is thrown somewhere", async () => {
  const code = sources("src")
    .filter(({ path }) => path !== "src/core/refusals.ts")
    .map((source) => source.code)
    .join("\n");
  const unused = Object.keys(REFUSALS).filter((name) => !code.includes(`"${name}"`));
  expect(unused).toEqual([]);
});

const [proxy] = sources("src/pipeline").filter(({ path }) => path === "src/pipeline/proxy.ts");
const [, decide = ""] = proxy?.text.split("async function decide(") ?? [];
const [pipeline = ""] = decide.split("\n}\n");

test("the pipeline fits on one screen", () => {
  expect(pipeline.split("\n").length).toBeWithin(20, 30);
});

test("a refusal says nothing about an earlier call with the same key when its stage comes before the key is looked up", () => {
  const stages = pipeline.matchAll(/record\.at\("(\w+)"\)\.keep\((.*)\);$/gm);
  const passed = [...stages].map(([, stage = "", work = ""]) => ({ stage, work }));
  const lookup = passed.findIndex(({ work }) => work.includes("checkRepeat("));
  const before = new Set(passed.slice(0, lookup).map(({ stage }) => stage));
  expect(before.delete(passed[lookup]?.stage ?? "")).toBe(true);
  const unread = STAGE_NAMES.filter((stage) => STAGES[stage].run === "unread");
  expect(["REQUEST", ...before].sort()).toEqual([...unread].sort());
});
