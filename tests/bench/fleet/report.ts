/** A measured figure. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit?: string;
  /** It may be at most this. */
  readonly reach?: number;
  /** It is to be at most this. */
  readonly aim?: number;
  readonly note?: string;
}

export function missed(figures: readonly Figure[]): readonly Figure[] {
  return figures.filter(({ value, reach }) => reach !== undefined && !(value <= reach));
}

export function asMarkdown(figures: readonly Figure[]): string {
  const rows = figures.map(({ what, value, unit = "", reach, aim, note = "" }) => [
    what,
    `${shown(value)} ${unit}`.trim(),
    reach === undefined ? "" : `${reach} ${unit}`.trim(),
    aim === undefined ? "" : `${aim} ${unit}`.trim(),
    note,
  ]);
  return [["what", "measured", "reach", "aim", "note"], ["---", "---", "---", "---", "---"], ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n");
}

function shown(value: number): string {
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}
