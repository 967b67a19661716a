import { type ParameterType, parameterForm, type ValueForm } from "../values.ts";
import { entriesOf } from "./tree.ts";

/** Returns whether a value keeps all its characters or digits in a type of that size. */
interface Size {
  readonly fits: (text: string) => boolean;
  /** Description of the size, for agents. */
  readonly says: string;
}

/** The functions that cut values to the size of their type, by object id, and the size that each reads from a number. */
const SIZES: Readonly<Record<string, (stored: number) => Size>> = {
  668: characters,
  669: characters,
  1703: (stored) => decimals(Math.max(0, (((stored - 4) & 0x7ff) ^ 0x400) - 0x400)),
  1961: decimals,
  1967: decimals,
  1968: decimals,
};

/** The functions that round a number to a whole one, by object id. */
const ROUNDS = new Set(["237", "238", "317", "319", "483", "653", "1744", "1779", "1783"]);

function characters(stored: number): Size {
  const most = stored - 4;
  return { fits: (text) => [...text].length <= most, says: `of at most ${most} characters` };
}

function decimals(most: number): Size {
  return {
    fits: (text) => (/\.(\d*[1-9])/.exec(text)?.[1] ?? "").length <= most,
    says: `with at most ${most} decimals`,
  };
}

/** Matches a parameter, also within a cast that changes nothing, or as the first value of COALESCE. */
const PARAMETER = String.raw`(?:\{(?:RELABELTYPE :arg |COALESCEEXPR [^{}]*:args \())*\{PARAM :paramkind 0 :paramid (?<at>\d+) `;
const CUT = String.raw`\{FUNCEXPR :funcid (?<id>\d+) [^{}]*:args \(`;
const CUTS = [
  new RegExp(`${CUT}(?=${PARAMETER})`, "g"),
  new RegExp(`\\{ARRAYCOERCEEXPR :arg ${PARAMETER}[^{}]*\\} :elemexpr ${CUT}`, "g"),
];
/** The bytes of a number, the lowest one first. */
const NUMBER = /^\{CONST :consttype 23 [^{}]*:constvalue 4 \[ (-?\d+) (-?\d+) (-?\d+) (-?\d+) /;

/**
 * Returns the types of parameters with the sizes to which a statement cuts their values without an error, by a cast (`$1::varchar(5)`) or
 * by the column that they are stored in: the approved value would be another one than the stored value.
 */
export function sizedTypes(tree: string, types: readonly ParameterType[]): readonly ParameterType[] {
  const found = CUTS.flatMap((cut) => [...tree.matchAll(cut)]).flatMap(({ 0: text, index, groups = {} }) => {
    const size = sizeIn(groups["id"] ?? "", entriesOf(tree, index + text.length)[1]);
    return size === undefined ? [] : [{ at: Number(groups["at"]) - 1, size }];
  });
  return types.map((type, index) => {
    const sizes = found.flatMap(({ at, size }) => (at === index ? [size] : []));
    const form = parameterForm(type);
    return sizes.length === 0 || form === undefined ? type : { ...type, form: sizes.reduce(sized, form) };
  });
}

/** Returns the size to which a function cuts. `stored`: its second argument. */
function sizeIn(id: string, stored = ""): Size | undefined {
  if (ROUNDS.has(id)) return decimals(0);
  const [, ...bytes] = NUMBER.exec(stored) ?? [];
  if (bytes.length === 0) return undefined;
  return SIZES[id]?.(bytes.reduce((number, byte, at) => number | ((Number(byte) & 0xff) << (8 * at)), 0));
}

function sized(form: ValueForm, { fits, says }: Size): ValueForm {
  return { textOf: form.textOf, fits: (text) => form.fits(text) && fits(text), says: `${form.says}, ${says}` };
}
