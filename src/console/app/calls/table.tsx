import type { ComponentChildren, VNode } from "preact";
import { CONSOLE_COLUMNS } from "../../../core/audit-fields.ts";
import { CallerLink } from "../caller.tsx";
import { Badge, localTime } from "../parts.tsx";
import { Columns, ROLE, useRowsOnce } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { Text } from "../text.tsx";
import { UNNAMED_SYSTEMS } from "../words.ts";
import { argumentsOf, type CallShown, durationText, type Line, verdictOf, whyOf } from "./model.ts";
import { query } from "./search.ts";

/** The table of the calls that a search found. */

interface TableProps {
  readonly list: readonly CallShown[];
  readonly isOfFleet: boolean;
}

export function Table({ list, isOfFleet }: TableProps): VNode {
  const wanted = query.value;
  const shownQuery = new URLSearchParams(wanted);
  const rowOf = useRowsOnce<CallShown>(
    (call) => <Row key={call.key} call={call} shownQuery={shownQuery} isOfFleet={isOfFleet} />,
    [wanted, isOfFleet],
  );
  const titles = [...CONSOLE_COLUMNS.map(({ title }) => title), ...(isOfFleet ? [REPLICA] : [])];
  return (
    <table class="records long" {...ROLE.table}>
      <caption class="sr-only">Calls</caption>
      <Columns titles={titles} classes={CLASSES} />
      <tbody {...ROLE.group}>{list.map(rowOf)}</tbody>
    </table>
  );
}

interface CellProps {
  readonly call: CallShown;
  readonly shownQuery: URLSearchParams;
}

/** Title of the column that names the replica which wrote a line. */
const REPLICA = "Replica";

function Row({ isOfFleet, ...props }: CellProps & Pick<TableProps, "isOfFleet">): VNode {
  return (
    <tr {...ROLE.row}>
      {CONSOLE_COLUMNS.map((column) => {
        const cell = CELLS[column.name];
        return cell === undefined ? (
          <td key={column.name} data-label={column.title} {...ROLE.cell}>
            <Text value={column.textIn(props.call.line) ?? "–"} max={60} />
          </td>
        ) : (
          <td key={column.name} class={cell.class} {...ROLE.cell}>
            {cell.view(props)}
          </td>
        );
      })}
      {isOfFleet && (
        <td data-label={REPLICA} {...ROLE.cell}>
          <Text value={props.call.instance ?? "–"} max={60} />
        </td>
      )}
    </tr>
  );
}

/** The arguments that the log holds, on one line. */
function Does({ line }: { readonly line: Line }): VNode | null {
  const text = argumentsOf(line);
  return text === undefined ? null : (
    <span class="cell-does">
      <Text value={text} max={200} isFixed />
    </span>
  );
}

/** Why it was refused or asks, on one line. */
function Why({ line }: { readonly line: Line }): VNode | null {
  const text = whyOf(line);
  return text === undefined ? null : (
    <span class="cell-why">
      <Text value={text} max={200} isFixed />
    </span>
  );
}

interface Cell {
  readonly class: string;
  readonly view: (props: CellProps) => ComponentChildren;
}

/** Cells that show more than the text of their field, by its name. */
const CELLS: Readonly<Record<string, Cell>> = {
  timestamp: {
    class: "cell-time",
    view: ({ call: { timestamp, traceId }, shownQuery }) => {
      const time = <time dateTime={timestamp}>{localTime(timestamp)}</time>;
      return traceId === undefined ? time : <a href={hrefOf("calls", [traceId], shownQuery)}>{time}</a>;
    },
  },
  decision: {
    class: "cell-decision",
    view: ({ call: { decision, code, line } }) => {
      const [words, tone] = verdictOf(decision);
      return (
        <>
          <Badge tone={tone}>{words}</Badge>
          {code !== undefined && (
            <code>
              <Text value={code} max={60} />
            </code>
          )}
          <Why line={line} />
        </>
      );
    },
  },
  tool: {
    class: "cell-tool",
    view: ({ call: { tool, system, count, line } }) => (
      <>
        <code>
          <Text value={tool ?? "–"} max={80} />
        </code>
        {system !== undefined && !UNNAMED_SYSTEMS.has(system) && (
          <span class="dim">
            {" "}
            <Text value={system} max={60} />
          </span>
        )}
        {count > 1 && <span class="dim"> × {count}</span>}
        <Does line={line} />
      </>
    ),
  },
  sub: { class: "cell-who", view: ({ call: { sub = "–", iss } }) => <CallerLink sub={sub} iss={iss} isShort /> },
  duration: {
    class: "cell-number",
    view: ({ call: { durationMs } }) => (durationMs === undefined ? "–" : durationText(durationMs)),
  },
};

const CLASSES = Object.fromEntries(CONSOLE_COLUMNS.map(({ name, title }) => [title, CELLS[name]?.class]));
