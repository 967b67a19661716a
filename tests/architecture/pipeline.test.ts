import { expect, test } from "bun:test";
import { REFUSALS } from "../../src/core/refusals.ts";
import { sources } from "./sources.ts";

test("every refusal code is thrown somewhere", async () => {
  const code = sources("src")
    .filter(({ path }) => path !== "src/core/refusals.ts")
    .map((source) => source.code)
    .join("\n");
  const unused = Object.keys(REFUSALS).filter((name) => !code.includes(`"${name}"`));
  expect(unused).toEqual([]);
});

test("the pipeline fits on one screen", () => {
  const [proxy] = sources("src/pipeline").filter(({ path }) => path === "src/pipeline/proxy.ts");
  const text = proxy?.text ?? "";
  const from = text.indexOf("async function decide(");
  const pipeline = text.slice(from, text.indexOf("\n}\n", from)).split("\n");
  expect(from).toBeGreaterThan(0);
  expect(pipeline.length).toBeLessThan(30);
});
