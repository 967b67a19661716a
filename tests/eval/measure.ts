import type { Json } from "../../src/core/types.ts";
import { redact } from "../../src/detection/redact.ts";
import { findSensitive } from "../../src/detection/sensitive.ts";
import { KINDS, numbers, pick, plant } from "./corpora.ts";
import { EVASIONS } from "./evasions.ts";
import { machineText, ownText } from "./negatives.ts";

export interface Score {
  readonly kind: string;
  readonly precision: number;
  readonly recall: number;
}

/** Plants values of each kind; right is what covers the planted value and says its kind. */
export function scores(perKind: number): readonly Score[] {
  return Object.keys(KINDS).map((kind) => {
    const next = numbers(kind.length * 7_919);
    let hits = 0;
    let reported = 0;
    for (let count = 0; count < perKind; count += 1) {
      const { text, value, start } = plant(next, kind);
      const found = findSensitive(text, "balanced");
      reported += found.length;
      const hit = found.find((one) => one.start <= start && one.end >= start + value.length);
      if (hit !== undefined && (hit.rule === kind || (kind === "SECRET" && hit.kind === "secret"))) hits += 1;
    }
    return { kind, precision: reported === 0 ? 1 : hits / reported, recall: hits / perKind };
  });
}

export interface EvasionScore {
  readonly evasion: string;
  readonly kind: string;
  readonly isExpected: boolean;
  readonly recall: number;
}

/** Whether the value as it was written is gone, for each way of writing and each kind. */
export function evasionScores(perPair: number): readonly EvasionScore[] {
  return EVASIONS.flatMap(({ name, write, found }) =>
    Object.entries(KINDS).map(([kind, { make, beside }]) => {
      const next = numbers(name.length * 31 + kind.length);
      let hits = 0;
      for (let count = 0; count < perPair; count += 1) {
        const written = write(make(next));
        const text = pick(next, beside).replace("~", () => written);
        if (findSensitive(text, "balanced").some(({ start, end }) => end - start >= written.length - 2)) hits += 1;
      }
      return { evasion: name, kind, isExpected: found.includes(kind), recall: hits / perPair };
    }),
  );
}

export interface FalseAlarms {
  readonly megabytes: number;
  readonly found: readonly string[];
}

/** Of one answer. */
const ANSWER_CHARS = 2 ** 20;

/** What is found where nothing is. */
export function falseAlarms(machineChars: number): FalseAlarms {
  const answers = Array.from({ length: Math.ceil(machineChars / ANSWER_CHARS) }, (_, seed) => ({
    path: "machine text",
    text: machineText(7 + seed, ANSWER_CHARS),
  }));
  const texts = [...answers, ...ownText()];
  const found = texts.flatMap(({ path, text }) =>
    findSensitive(text, "balanced").map(
      ({ rule, start, end }) => `${path}: ${rule}: ${text.slice(start - 20, end + 10)}`,
    ),
  );
  return { megabytes: texts.reduce((sum, { text }) => sum + text.length, 0) / 2 ** 20, found };
}

/** Values that survive when so many are planted in a tree at any depth. */
export function survivors(count: number): readonly string[] {
  const next = numbers(11);
  const values: string[] = [];
  const grow = (depth: number): Json => {
    const shape = next();
    if (depth === 0 || shape < 0.2) {
      const { text, value } = plant(next, pick(next, Object.keys(KINDS)));
      values.push(value);
      return text;
    }
    const children = Array.from({ length: 1 + Math.floor(next() * 4) }, () => grow(depth - 1));
    return shape < 0.6 ? children : Object.fromEntries(children.map((child, index) => [`field${index}`, child]));
  };
  const tree: Json[] = [];
  while (values.length < count) tree.push(grow(6));
  const left = JSON.stringify(redact(tree, { level: "balanced" }).value);
  return values.filter((value) => left.includes(JSON.stringify(value).slice(1, -1)));
}
