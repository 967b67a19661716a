import { signal, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { ApprovalReport, Decisions, ReportHour } from "../../../core/api/report.ts";
import { Badge, Facts, Heading, localTime, Party } from "../parts.tsx";
import { Columns, ROLE, Scrolling, Section, Unread, useRead } from "../records.tsx";
import type { PageContent } from "../state.ts";
import { Text } from "../text.tsx";
import { counted } from "../words.ts";
import { type ApproverRow, BAR_HEIGHT, type HoursChart, hoursChart, quickOf } from "./hours.ts";

/** The decisions of people: how often they are asked, how they answer, and how long they read. */

const range = signal("7d");
const RANGES = [
  ["1d", "last day"],
  ["7d", "last 7 days"],
  ["30d", "last 30 days"],
] as const;

function ReportView(): VNode {
  const { read, again } = useRead<{ readonly report: ApprovalReport }>(`/approvals/report?from=${range.value}`);
  return (
    <div class="sheet story">
      <header class="sheet-head">
        <Heading>Report</Heading>
        <button type="button" onClick={() => window.print()}>
          Print
        </button>
        <select
          class="head-range"
          aria-label="Period"
          value={range.value}
          onChange={({ currentTarget }) => {
            range.value = currentTarget.value;
          }}
        >
          {RANGES.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      </header>
      {read.value === undefined ? <Unread read={read} again={again} /> : <Shown report={read.value.report} />}
    </div>
  );
}

const TOOL_FIGURES = ["Asked", "Approved", "Median", "Approved within 3 s"];
const APPROVER_FIGURES = ["Decided", "Approved", "Median", "Approved within 3 s", "Per hour", "Busiest hour"];

function Shown({ report }: { readonly report: ApprovalReport }): VNode {
  const { asked, pending, expired, cancelled, tools, deciders, suggestions, isWhole } = report;
  return (
    <>
      <p class="meta">
        {localTime(report.from)} – {localTime(report.to)}
        {!isWhole && "; the oldest requests of the period are left out"}
      </p>
      <Alerts of={report} />
      <ul class="figures">
        <Figure value={String(asked)} words="requests" />
        <Figure value={shareText(report.approvalRate)} words="of the decisions are approvals" />
        <Figure value={secondsText(report.medianSeconds)} words="until a decision (median)" />
        <Figure value={shareText(report.hastyShare)} words="of the decisions are approvals within 3 s" />
      </ul>
      <Section id="states" title={`Outcomes of the ${counted(asked, "request")}`}>
        <Facts
          rows={[
            ["Approved", String(report.approved)],
            ["Denied", String(report.denied)],
            ["Expired", `${expired} (nobody decided in time)`],
            ["Cancelled", String(cancelled)],
            ["Waiting", String(pending)],
          ]}
        />
      </Section>
      <Hours report={report} />
      {suggestions.length > 0 && (
        <Section id="suggestions" title="Ways to reduce approval requests">
          <ul class="notes">
            {suggestions.map(({ kind, tool, prompts }) => (
              <li key={`${kind} ${tool ?? ""}`}>
                {SUGGESTIONS[kind] ?? kind}
                {tool !== undefined && (
                  <>
                    {" "}
                    <code>
                      <Text value={tool} max={80} />
                    </code>
                  </>
                )}{" "}
                <span class="dim">({counted(prompts, "request")} saved)</span>
              </li>
            ))}
          </ul>
        </Section>
      )}
      {tools.length > 0 && (
        <Section id="tools" title="Tools">
          <Scrolling label="Figures of the tools">
            <table class="records wide" {...ROLE.table}>
              <caption class="sr-only">Tools</caption>
              <Columns titles={["Tool", ...TOOL_FIGURES]} numbers={TOOL_FIGURES} />
              <tbody {...ROLE.group}>
                {tools.map((one) => (
                  <tr key={one.tool} {...ROLE.row}>
                    <td {...ROLE.cell}>
                      <code>
                        <Text value={one.tool} max={80} />
                      </code>{" "}
                      <Alerts of={one} />
                    </td>
                    <NumberCell value={one.asked} />
                    <NumberCell value={shareText(one.approvalRate)} />
                    <NumberCell value={secondsText(one.medianSeconds)} />
                    <NumberCell value={shareText(one.hastyShare)} />
                  </tr>
                ))}
              </tbody>
            </table>
          </Scrolling>
        </Section>
      )}
      {deciders.length > 0 && (
        <Section id="deciders" title="Approvers">
          <p class="help">{votesText(report)}</p>
          <Scrolling label="Figures of the approvers">
            <table class="records wide" {...ROLE.table}>
              <caption class="sr-only">Approvers</caption>
              <Columns titles={["Approver", ...APPROVER_FIGURES]} numbers={APPROVER_FIGURES} />
              <tbody {...ROLE.group}>
                {deciders.map((one) => (
                  <tr key={`${one.iss} ${one.sub}`} {...ROLE.row}>
                    <td {...ROLE.cell}>
                      <Party sub={one.sub} iss={one.iss} /> <Alerts of={one} />
                    </td>
                    <NumberCell value={one.approved + one.denied} />
                    <NumberCell value={shareText(one.approvalRate)} />
                    <NumberCell value={secondsText(one.medianSeconds)} />
                    <NumberCell value={shareText(one.hastyShare)} />
                    <NumberCell value={one.perHour} />
                    <NumberCell value={one.busiestHour} />
                  </tr>
                ))}
              </tbody>
            </table>
          </Scrolling>
        </Section>
      )}
    </>
  );
}

/** Says why the approvers' decisions are more than the decided requests. */
function votesText({ approved, denied, deciders }: ApprovalReport): string {
  const votes = deciders.reduce((sum, one) => sum + one.approved + one.denied, 0);
  const requests = `${counted(approved + denied, "request")} ${approved + denied === 1 ? "was" : "were"} decided`;
  return `${requests}. Approvers made ${counted(votes, "decision")}: where a policy wants several, each counts, also on a request that still waits.`;
}

/** Requests and decisions of each approver, hour by hour: as a chart, and as a table that says the same in words. */
function Hours({ report: { hours, to } }: { readonly report: ApprovalReport }): VNode | null {
  const chart = hoursChart(hours, Date.parse(to));
  if (chart === undefined) return null;
  return (
    <Section id="hours" title="Hour by hour">
      <ul class="legend">
        <li>
          <Key part="asked" /> above the line: asked
        </li>
        <li>
          <Key part="decided" /> below: decided
        </li>
        <li>
          <Key part="quick" /> striped: approved within 3 s
        </li>
      </ul>
      <p class="help">
        Asked are the approvers whom a policy names, and those who decided. Where a policy asks for a permission, nobody
        is named before the decision.
      </p>
      <Chart chart={chart} />
      <HoursTable hours={hours} />
    </Section>
  );
}

/** A text that begins closer to the end of the axis would be cut off. */
const TICK_TEXT_WIDTH = 60;

function Chart({ chart }: { readonly chart: HoursChart }): VNode {
  const { rows, rowsLeftOut, width, highest, ticks } = chart;
  const end = useRef<HTMLDivElement>(null);
  // The newest hours are what a narrow screen shows first.
  useEffect(() => {
    const scrolling = end.current?.parentElement;
    if (scrolling != null) scrolling.scrollLeft = scrolling.scrollWidth;
  }, [width]);
  return (
    <>
      <Scrolling label="Chart of requests and decisions by approver and hour">
        <div class="hours-chart" ref={end}>
          <svg width="0" height="0" aria-hidden="true">
            <pattern id="stripes" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect class="stripe-ground" width="4" height="4" />
              <rect class="stripe" width="2" height="4" />
            </pattern>
          </svg>
          {rows.map((row) => (
            <ChartRow key={`${row.iss} ${row.sub}`} row={row} chart={chart} />
          ))}
          <svg class="hours-axis" width={width} height="18" aria-hidden="true">
            {ticks.map(({ x, atMs, isDay }) => {
              const isAtEnd = width - x < TICK_TEXT_WIDTH;
              return (
                <text key={atMs} x={isAtEnd ? x - 3 : x + 3} y="13" text-anchor={isAtEnd ? "end" : "start"}>
                  {tickText(atMs, isDay)}
                </text>
              );
            })}
          </svg>
        </div>
      </Scrolling>
      <p class="dim help">
        The tallest bar shows {highest}.{rowsLeftOut > 0 && ` The table has ${counted(rowsLeftOut, "more approver")}.`}
      </p>
    </>
  );
}

function ChartRow({
  row,
  chart: { width, hourWidth, ticks },
}: {
  readonly row: ApproverRow;
  readonly chart: HoursChart;
}): VNode {
  const { sub, iss, asked, decided, quick, bars } = row;
  const words = `${asked} asked, ${decided} decided, ${quick} approved within 3 s`;
  const height = 2 * BAR_HEIGHT + 1;
  return (
    <figure>
      <figcaption>
        <Party sub={sub} iss={iss} /> <span class="dim">{words}</span>
      </figcaption>
      <svg width={width} height={height} role="img" aria-label={`${words}; the table has each hour`}>
        {ticks.map(({ x, atMs }) => (
          <rect key={atMs} class="tick" x={x} y="0" width="1" height={height} />
        ))}
        <rect class="line" x="0" y={BAR_HEIGHT} width={width} height="1" />
        {bars.map((bar) => (
          <g key={bar.from}>
            <title>
              {localTime(bar.from)}: asked {bar.asked}, decided {bar.decided}, approved within 3 s {bar.quick}
            </title>
            <rect class="hour" x={bar.x} y="0" width={hourWidth} height={height} />
            <rect
              {...placeOf(bar.x, hourWidth)}
              class="asked"
              y={BAR_HEIGHT - bar.askedHeight}
              height={bar.askedHeight}
            />
            <rect {...placeOf(bar.x, hourWidth)} class="decided" y={BAR_HEIGHT + 1} height={bar.decidedHeight} />
            <rect {...placeOf(bar.x, hourWidth)} class="quick" y={BAR_HEIGHT + 1} height={bar.quickHeight} />
          </g>
        ))}
      </svg>
    </figure>
  );
}

function placeOf(x: number, hourWidth: number): { readonly x: number; readonly width: number } {
  return { x: x + 1, width: hourWidth - 1 };
}

function Key({ part }: { readonly part: "asked" | "decided" | "quick" }): VNode {
  return (
    <svg class="key" width="14" height="14" aria-hidden="true">
      <rect class={part} width="14" height="14" />
    </svg>
  );
}

function tickText(atMs: number, isDay: boolean): string {
  const at = new Date(atMs);
  return isDay
    ? at.toLocaleDateString(undefined, { day: "numeric", month: "short" })
    : at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}

function HoursTable({ hours }: { readonly hours: readonly ReportHour[] }): VNode {
  const isOpen = useSignal(false);
  return (
    <details
      class="hours-table"
      onToggle={({ currentTarget }) => {
        isOpen.value = currentTarget.open;
      }}
    >
      <summary>As a table</summary>
      {isOpen.value && (
        <Scrolling label="Requests and decisions by approver and hour">
          <table class="records wide" {...ROLE.table}>
            <caption class="sr-only">Requests and decisions by approver and hour</caption>
            <Columns titles={["Hour from", "Approver", "Asked", "Decided", "Median", "Approved within 3 s"]} />
            <tbody {...ROLE.group}>
              {hours.flatMap(({ from, approvers }) =>
                approvers.map((one) => (
                  <tr key={`${from} ${one.iss} ${one.sub}`} {...ROLE.row}>
                    <td {...ROLE.cell}>
                      <time dateTime={from}>{localTime(from)}</time>
                    </td>
                    <td {...ROLE.cell}>
                      <Party sub={one.sub} iss={one.iss} />
                    </td>
                    <td {...ROLE.cell}>{one.asked}</td>
                    <td {...ROLE.cell}>{one.decided}</td>
                    <td {...ROLE.cell}>{secondsText(one.medianSeconds)}</td>
                    <td {...ROLE.cell}>
                      {quickOf(one)} ({shareText(one.quickApprovalShare)})
                    </td>
                  </tr>
                )),
              )}
            </tbody>
          </table>
        </Scrolling>
      )}
    </details>
  );
}

function NumberCell({ value }: { readonly value: string | number }): VNode {
  return (
    <td class="cell-number" {...ROLE.cell}>
      {value}
    </td>
  );
}

function Figure({ value, words }: { readonly value: string; readonly words: string }): VNode {
  return (
    <li>
      <strong>{value}</strong> <span class="dim">{words}</span>
    </li>
  );
}

const ALERTS: Readonly<Record<string, string>> = {
  approval_rate: "nearly everything is approved",
  hasty_share: "most decisions are approvals within 3 s",
};

function Alerts({ of: { alerts } }: { readonly of: Decisions }): VNode {
  return (
    <>
      {alerts.map((alert) => (
        <Badge key={alert} tone="warn">
          {ALERTS[alert] ?? alert}
        </Badge>
      ))}
    </>
  );
}

const SUGGESTIONS: Readonly<Record<string, string>> = {
  session_scope: "Approve for the session what is requested again and again:",
  read_tool: "Let the mode allow a tool that only reads and is always approved:",
  bounded_grant: "Approve several calls at once, within bounds, where calls are approved one by one:",
  auto_edit: "Set the mode autoEdit for sessions whose file changes are always approved.",
};

function shareText(share: number | null): string {
  return share === null ? "–" : `${Math.round(share * 100)} %`;
}

function secondsText(seconds: number | null): string {
  if (seconds === null) return "–";
  return seconds < 60
    ? `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
    : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export const reportPage: PageContent = {
  view: ReportView,
};
