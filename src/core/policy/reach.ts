import type { Place, Places } from "../schema/walk.ts";
import type { FieldPattern, Segment, Step } from "./field-path.ts";
import { advance, element, otherKey, startPosition } from "./field-path.ts";

/** Why a pattern can match no value that the schema gives, with a hint where one helps; `undefined` when it can. */
export function unreachable(pattern: FieldPattern, places: Places): string | undefined {
  if (isReachable(pattern, places)) return undefined;
  const suggestion = suggest(pattern, places);
  return `matches no field of the schema${suggestion === undefined ? "" : `; did you mean "${suggestion}"?`}`;
}

function isReachable(pattern: FieldPattern, places: Places): boolean {
  const seen = new Set<string>();
  const todo = [{ place: places.root, position: startPosition(pattern) }];
  for (let from = todo.pop(); from !== undefined; from = todo.pop()) {
    const { place, position } = from;
    if (position === pattern.segments.length) return true;
    const name = `${place.id}:${position}`;
    if (seen.has(name)) continue;
    seen.add(name);
    for (const [step, next] of stepsFrom(places, place, pattern.segments[position])) {
      for (const after of advance(pattern, position, step)) todo.push({ place: next, position: after });
    }
  }
  return false;
}

/** The steps that a value can take from here, one for all the keys that no one spells out. */
function stepsFrom(places: Places, place: Place, awaited: Segment | undefined): readonly (readonly [Step, Place])[] {
  const keys = typeof awaited === "string" ? [...place.keys, awaited] : place.keys;
  const found: (readonly [Step, Place | undefined])[] = keys.map((key) => [key, places.key(place, key)]);
  found.push([otherKey, places.otherKey(place)], [element, places.element(place)]);
  return found.filter((entry): entry is readonly [Step, Place] => entry[1] !== undefined);
}

/** The pattern with `[]` put in or left out where the schema has or lacks an array; `undefined` when that is no help. */
function suggest(pattern: FieldPattern, places: Places): string | undefined {
  if (pattern.hasWildcard) return undefined;
  let place = places.root;
  let text = "";
  for (const segment of pattern.segments.filter((part) => typeof part === "string")) {
    for (let inner = places.element(place); inner !== undefined && places.key(place, segment) === undefined; ) {
      text += "[]";
      place = inner;
      inner = places.element(place);
    }
    const next = places.key(place, segment);
    if (next === undefined) return undefined;
    text += text === "" ? segment : `.${segment}`;
    place = next;
  }
  if (pattern.segments.at(-1) === element && places.element(place) !== undefined) text += "[]";
  return text === pattern.text ? undefined : text;
}
