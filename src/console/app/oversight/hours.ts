import type { ApproverHour, ReportHour } from "../../../core/api/report.ts";

/** The model of the chart of approval requests per approver and hour. */

export interface Bar extends ApproverHour {
  readonly from: string;
  /** Approvals within three seconds. */
  readonly quick: number;
  /** Left edge in CSS pixels, as all lengths here. */
  readonly x: number;
  readonly askedHeight: number;
  readonly decidedHeight: number;
  readonly quickHeight: number;
}

export interface ApproverRow {
  readonly iss: string;
  readonly sub: string;
  readonly asked: number;
  readonly decided: number;
  readonly quick: number;
  readonly bars: readonly Bar[];
}

export interface HoursChart {
  readonly width: number;
  readonly hourWidth: number;
  /** Number of requests or decisions that a bar of full height shows. */
  readonly highest: number;
  /** The busiest approvers first. */
  readonly rows: readonly ApproverRow[];
  /** Approvers that only the table has. */
  readonly rowsLeftOut: number;
  readonly ticks: readonly { readonly x: number; readonly atMs: number; readonly isDay: boolean }[];
}

const HOUR_MS = 3_600_000;
const ROWS_MAX = 12;
/** A chart is never narrower than a day. */
const HOURS_MIN = 24;
const HOUR_WIDTH = { min: 6, max: 28 } as const;
const WIDTH_WANTED = 1_100;
/** A bar that is not empty can be seen. */
const HEIGHT_MIN = 3;
/** Height of the tallest bar, on each side of the line. */
export const BAR_HEIGHT = 34;
/** Periods up to this long have ticks within the day. */
const HOURS_WITH_TICKS = 48;

/** Returns the chart of these hours up to `endMs`; undefined when nobody was asked or decided. */
export function hoursChart(
  hours: readonly Pick<ReportHour, "from" | "approvers">[],
  endMs: number,
): HoursChart | undefined {
  const cells = hours.flatMap(({ from, approvers }) => approvers.map((one) => ({ ...one, from })));
  if (cells.length === 0) return undefined;
  const last = Math.floor((endMs - 1) / HOUR_MS);
  const hourOf = (from: string): number => Math.floor(Date.parse(from) / HOUR_MS);
  const first = Math.min(last - HOURS_MIN + 1, ...cells.map(({ from }) => hourOf(from)));
  const count = last - first + 1;
  const hourWidth = Math.min(HOUR_WIDTH.max, Math.max(HOUR_WIDTH.min, Math.floor(WIDTH_WANTED / count)));
  const highest = Math.max(1, ...cells.flatMap(({ asked, decided }) => [asked, decided]));
  const heightOf = (value: number): number =>
    value === 0 ? 0 : Math.max(HEIGHT_MIN, Math.round((value / highest) * BAR_HEIGHT));
  const byApprover = Map.groupBy(cells, ({ iss, sub }) => JSON.stringify([iss, sub]));
  const rows = [...byApprover.values()].map((own): ApproverRow => {
    const bars = own.map((cell): Bar => {
      const quick = quickOf(cell);
      const { asked, decided } = cell;
      const heights = { askedHeight: heightOf(asked), decidedHeight: heightOf(decided), quickHeight: heightOf(quick) };
      return { ...cell, quick, x: (hourOf(cell.from) - first) * hourWidth, ...heights };
    });
    const sum = (of: (bar: Bar) => number): number => bars.reduce((total, bar) => total + of(bar), 0);
    const { iss = "", sub = "" } = own[0] ?? {};
    const totals = {
      asked: sum((bar) => bar.asked),
      decided: sum((bar) => bar.decided),
      quick: sum((bar) => bar.quick),
    };
    return { iss, sub, ...totals, bars };
  });
  rows.sort((a, b) => b.asked + b.decided - (a.asked + a.decided));
  const ticks = Array.from({ length: count }, (_, at) => ({ x: at * hourWidth, atMs: (first + at) * HOUR_MS }))
    .map((tick) => ({ ...tick, hour: new Date(tick.atMs).getHours() }))
    .filter(({ hour }) => (count > HOURS_WITH_TICKS ? hour === 0 : hour % 6 === 0))
    .map(({ hour, ...tick }) => ({ ...tick, isDay: hour === 0 }));
  return {
    width: count * hourWidth,
    hourWidth,
    highest,
    ticks,
    rows: rows.slice(0, ROWS_MAX),
    rowsLeftOut: Math.max(0, rows.length - ROWS_MAX),
  };
}

/** Returns how many of the decisions were approvals within three seconds. */
export function quickOf({ decided, quickApprovalShare }: ApproverHour): number {
  return Math.round((quickApprovalShare ?? 0) * decided);
}
