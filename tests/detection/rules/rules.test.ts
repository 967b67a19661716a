import { expect, test } from "bun:test";
import { DETECTOR_RULES } from "../../../src/detection/rules/rules.ts";
import { findSensitive } from "../../../src/detection/sensitive.ts";

const RULES = Object.values(DETECTOR_RULES).flat();

const ROWS = RULES.flatMap(({ id, level = "secrets", matches = [], misses = [] }) =>
  [...matches, ...misses].map((text) => [id, text, level] as const),
);

test.each(ROWS)("%s finds exactly what is marked in %j", (_id, marked, level) => {
  const text = marked.replace(/[«»]/g, "");
  const found = findSensitive(text, level);
  let shown = text;
  for (const { start, end } of found.toReversed()) {
    shown = `${shown.slice(0, start)}«${shown.slice(start, end)}»${shown.slice(end)}`;
  }
  expect(shown).toBe(marked);
});
