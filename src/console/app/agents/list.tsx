import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { agentHref } from "../caller.tsx";
import { Failed, SourceLine } from "../calls/fleet.tsx";
import { sumOf, useHalts } from "../halting.tsx";
import { Ago, Badge, Empty, Heading } from "../parts.tsx";
import { ROLE, useRead, useRowsOnce } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { route } from "../state.ts";
import { Text } from "../text.tsx";
import { counted } from "../words.ts";
import { type AgentRow, agentRows, type ShownActivity, type Sort, shownRows } from "./model.ts";
import { activityPath } from "./paths.ts";

/** Every agent that called in the last day. */

const filter = signal("");
const sort = signal<Sort>("lastAt");
const ROWS_SHOWN = 100;
const rowsMax = signal(ROWS_SHOWN);

export function List(): VNode {
  const { query } = route.value;
  const { read, again } = useRead<ShownActivity>(activityPath({}, query));
  const shown = { path: ["agents"], query };
  return (
    <div class="sheet">
      <header class="sheet-head">
        <Heading>
          Agents <span class="dim">of the last day</span>
        </Heading>
        <input
          class="head-filter"
          type="search"
          placeholder="Name or issuer …"
          aria-label="Filter agents by name or issuer"
          value={filter.value}
          onInput={({ currentTarget }) => {
            filter.value = currentTarget.value;
          }}
        />
        <button type="button" onClick={again}>
          Refresh
        </button>
      </header>
      {read.error !== undefined && <Failed error={read.error} {...shown} onRetry={again} />}
      {read.value === undefined && read.error === undefined && <p class="loading">Reading …</p>}
      {read.value !== undefined && (
        <>
          <SourceLine answer={read.value} {...shown} />
          <Partial activity={read.value} />
          <Rows activity={read.value} />
        </>
      )}
    </div>
  );
}

/** Says what is missing from the counts. */
export function Partial({ activity: { isPartial, warnings = [] } }: { readonly activity: ShownActivity }): VNode {
  return (
    <>
      {isPartial && (
        <p class="callout tone-warn">
          There are too many calls to count at once: the oldest of the day are missing here.
        </p>
      )}
      {warnings.map((warning) => (
        <p key={warning} class="callout tone-bad">
          <Text value={warning} />
        </p>
      ))}
    </>
  );
}

function Rows({ activity }: { readonly activity: ShownActivity }): VNode {
  const halts = useHalts().value?.halts;
  const all = useMemo(() => agentRows(activity, halts ?? []), [activity, halts]);
  const rowOf = useRowsOnce<AgentRow>((row) => <Row key={`${row.iss} ${row.sub}`} row={row} />);
  const found = shownRows(all, filter.value, sort.value);
  const rows = found.slice(0, rowsMax.value);
  const others = sumOf(activity.all.day) - all.reduce((sum, { day }) => sum + day, 0);
  if (all.length === 0) {
    return (
      <Empty title="No call in the last day">
        <p>An agent appears here with its first call, refused ones included.</p>
      </Empty>
    );
  }
  if (found.length === 0) return <Empty title="No agent matches" />;
  return (
    <>
      <table class="records long agents" {...ROLE.table}>
        <caption class="sr-only">Agents</caption>
        <thead {...ROLE.group}>
          <tr {...ROLE.row}>
            {COLUMNS.map(([name, title, isNumber]) => (
              <SortedHead key={name} name={name} title={title} isNumber={isNumber} />
            ))}
            <th scope="col" {...ROLE.head}>
              State
            </th>
          </tr>
        </thead>
        <tbody {...ROLE.group}>{rows.map(rowOf)}</tbody>
      </table>
      <footer class="table-foot">
        {found.length > rows.length ? (
          <button
            type="button"
            onClick={() => {
              rowsMax.value += ROWS_SHOWN;
            }}
          >
            Show more of {counted(found.length, "agent")}
          </button>
        ) : (
          <span class="dim">
            {counted(found.length, "agent")}
            {others > 0 && `; ${others.toLocaleString()} calls are of agents with fewer calls, which are not listed`}
          </span>
        )}
      </footer>
    </>
  );
}

const COLUMNS: readonly (readonly [name: Sort, title: string, isNumber?: true])[] = [
  ["name", "Agent"],
  ["lastAt", "Last call"],
  ["hour", "Last hour", true],
  ["day", "Last day", true],
  ["refused", "Refused", true],
];

interface SortedHeadProps {
  readonly name: Sort;
  readonly title: string;
  readonly isNumber: true | undefined;
}

function SortedHead({ name, title, isNumber }: SortedHeadProps): VNode {
  const isSorted = sort.value === name;
  const order = name === "name" ? "ascending" : "descending";
  const width = name === "name" ? "cell-lead" : undefined;
  return (
    <th scope="col" class={isNumber ? "cell-number" : width} aria-sort={isSorted ? order : undefined} {...ROLE.head}>
      <button
        type="button"
        class="sort"
        onClick={() => {
          sort.value = name;
        }}
      >
        {title}
        {isSorted && <span aria-hidden="true"> {name === "name" ? "↑" : "↓"}</span>}
      </button>
    </th>
  );
}

/** An agent's own page, or for callers without a token their calls. */
function hrefFor({ sub, iss }: AgentRow): string {
  return agentHref({ sub, iss }) ?? hrefOf("calls", [], new URLSearchParams({ sub, from: "24h" }));
}

function Row({ row }: { readonly row: AgentRow }): VNode {
  const { sub, iss, lastAt, hour, day, refused, asked, isHalted } = row;
  return (
    <tr {...ROLE.row}>
      <td class="cell-lead" {...ROLE.cell}>
        <a href={hrefFor(row)}>
          <strong>
            <Text value={sub} max={120} isFixed />
          </strong>
        </a>{" "}
        <span class="issuer">{iss === undefined ? "without a token" : <Text value={iss} max={80} />}</span>
      </td>
      <td data-label="Last call" {...ROLE.cell}>
        {lastAt === null ? <span class="dim">not in the last day</span> : <Ago iso={lastAt} />}
      </td>
      <td data-label="Last hour" class="cell-number" {...ROLE.cell}>
        {hour.toLocaleString()}
      </td>
      <td data-label="Last day" class="cell-number" {...ROLE.cell}>
        {day.toLocaleString()}
      </td>
      <td data-label="Refused" class="cell-number" {...ROLE.cell}>
        <span class={refused === 0 ? "dim" : undefined}>{refused.toLocaleString()}</span>
      </td>
      <td class="cell-state" {...ROLE.cell}>
        {isHalted && <Badge tone="bad">halted</Badge>}
        {asked > 0 && <Badge>{asked.toLocaleString()} asked a person</Badge>}
      </td>
    </tr>
  );
}
