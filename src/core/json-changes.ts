import { asString, isSameJson, isTable } from "./json.ts";

/** A part that differs. `before` is missing where it was added, `after` where it was removed. */
export interface JsonChange {
  /** Such as `approvals.rules[refunds].verdict`: a member of a list of named things is named. */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

const DEPTH_MAX = 32;

/** Returns how two JSON values differ, in the order of their members. Lists of named things are compared by name, others by position. */
export function changesBetween(before: unknown, after: unknown, path = "", depth = 0): readonly JsonChange[] {
  if (isSameJson(before, after, DEPTH_MAX)) return [];
  const areNamed = namesOf(before) !== undefined && namesOf(after) !== undefined;
  const [one, other] = [membersOf(before, areNamed), membersOf(after, areNamed)];
  const isSameKind = one !== undefined && other !== undefined && Array.isArray(before) === Array.isArray(after);
  if (!isSameKind || depth >= DEPTH_MAX)
    return [{ path, ...(before !== undefined && { before }), ...(after !== undefined && { after }) }];
  return [...new Set([...one.keys(), ...other.keys()])].flatMap((key) =>
    changesBetween(one.get(key), other.get(key), joined(path, key, Array.isArray(after)), depth + 1),
  );
}

function joined(path: string, key: string, isItem: boolean): string {
  if (isItem) return `${path}[${key}]`;
  return path === "" ? key : `${path}.${key}`;
}

function membersOf(value: unknown, areNamed: boolean): ReadonlyMap<string, unknown> | undefined {
  if (!Array.isArray(value)) return isTable(value) ? new Map(Object.entries(value)) : undefined;
  const names = areNamed ? namesOf(value) : undefined;
  return new Map(value.map((item, at) => [names?.[at] ?? String(at), item]));
}

/** Returns the names of the items of a list; undefined when one has none, or two have the same. */
function namesOf(list: unknown): readonly string[] | undefined {
  if (!Array.isArray(list)) return undefined;
  const names = list.flatMap((item) => (isTable(item) ? (asString(item["name"] ?? item["issuer"]) ?? []) : []));
  return names.length === list.length && new Set(names).size === names.length ? names : undefined;
}
