import type { VNode } from "preact";
import { asString } from "../../../core/json.ts";
import { Badge, Heading, localTime } from "../parts.tsx";
import { Unread, useRead } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { Text } from "../text.tsx";
import { UNNAMED_SYSTEMS } from "../words.ts";
import { Failed, isOwnOnly, SOURCE, type Sourced, SourceLine } from "./fleet.tsx";
import { callOf, durationText, eventsOf, type Line, verdictOf } from "./model.ts";
import { Events, Evidence } from "./story-events.tsx";
import { Lead, StopAsker } from "./story-lead.tsx";
import { Answered, Stages } from "./story-run.tsx";

/** Everything about one call: what was asked, what was decided and why, what came back, and how to prove it. */

interface History extends Sourced {
  readonly entries: readonly Line[];
  readonly journal: readonly Line[];
  readonly more: boolean;
  readonly warnings?: readonly string[];
  /** Ids of the logs of the entries, where there are several logs. */
  readonly logs?: { readonly entries?: readonly (string | null)[] };
}

export function Story({ id, shownQuery }: { readonly id: string; readonly shownQuery: URLSearchParams }): VNode {
  const only = isOwnOnly(shownQuery) ? `?${SOURCE}=replica` : "";
  const { read, again } = useRead<History>(`/audit/${encodeURIComponent(id)}${only}`);
  const shown = { path: ["calls", id], query: shownQuery };
  return (
    <article class="sheet story">
      <a class="back-link" href={hrefOf("calls", [], shownQuery)}>
        ← All calls
      </a>
      {read.error !== undefined && (
        <>
          <Heading focusKey={read.path}>Call</Heading>
          <Failed error={read.error} {...shown} onRetry={again} />
        </>
      )}
      {read.value === undefined && read.error === undefined && <Unread title="Call" read={read} again={again} />}
      {read.value !== undefined && (
        <Contents id={id} history={read.value}>
          <SourceLine answer={read.value} {...shown} />
        </Contents>
      )}
    </article>
  );
}

interface ContentsProps {
  readonly id: string;
  readonly history: History;
  /** Says from which logs the lines are. */
  readonly children: VNode;
}

function Contents({ id, history, children }: ContentsProps): VNode {
  const { entries, journal, more, warnings = [], source, logs } = history;
  const isOfFleet = source === "fleet";
  const line = entries.find((each) => callOf(each).traceId === id) ?? entries.at(-1);
  return (
    <>
      {line !== undefined ? <Head line={line} /> : <Heading focusKey={id}>An approval without a call</Heading>}
      {children}
      {more && <p class="callout">The audit is large: older lines of this call may be missing here.</p>}
      {warnings.map((warning) => (
        <p key={warning} class="callout tone-bad">
          <Text value={warning} />
        </p>
      ))}
      <div class="story-columns">
        {line !== undefined && (
          <div>
            <Lead line={line} journal={journal} />
            <Answered line={line} />
            <Stages line={line} />
          </div>
        )}
        <div>
          <Events events={eventsOf(entries, journal)} own={line} isOfFleet={isOfFleet} />
          {line !== undefined && (
            <Evidence line={line} log={logs?.entries?.[entries.indexOf(line)] ?? undefined} isOfFleet={isOfFleet} />
          )}
        </div>
      </div>
    </>
  );
}

function Head({ line }: { readonly line: Line }): VNode {
  const { decision, tool, system, classification, timestamp, durationMs, count } = callOf(line);
  const [words, tone] = verdictOf(decision);
  return (
    <header class="story-head">
      <div class="story-top">
        <div class="badges">
          <Badge tone={tone}>{words}</Badge>
          {classification !== undefined && (
            <Badge tone={classification === "destructive" ? "bad" : "plain"}>
              <Text value={classification} max={40} />
            </Badge>
          )}
        </div>
        <div class="story-actions">
          <button type="button" onClick={() => window.print()}>
            Print
          </button>
          <StopAsker line={line} />
        </div>
      </div>
      <Heading focusKey={asString(line["traceId"]) ?? ""}>
        <span class="mono">
          <Text value={tool ?? "(no tool)"} max={200} />
        </span>
        {system !== undefined && !UNNAMED_SYSTEMS.has(system) && (
          <span class="on-system">
            {" "}
            on <Text value={system} max={200} />
          </span>
        )}
      </Heading>
      <p class="meta">
        <time dateTime={timestamp}>{localTime(timestamp)}</time>
        {durationMs !== undefined && ` · ${durationText(durationMs)}`}
        {count > 1 && ` · ${count} refusals in one line`}
      </p>
    </header>
  );
}
