import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { storyOf } from "../../../core/call-story.ts";
import { refusalSentence } from "../../../core/refusal-words.ts";
import { members } from "../api.ts";
import type { AgentName } from "../caller.tsx";
import { Failed, SourceLine } from "../calls/fleet.tsx";
import { callOf, type Line, verdictOf } from "../calls/model.ts";
import { HaltedBy, HaltedMark, haltOf, readHalts, StopAgent, sumOf, useHalts } from "../halting.tsx";
import { Ago, Badge, Countdown, Heading, localTime, Party, Problem } from "../parts.tsx";
import { Columns, ROLE, Scrolling, Section, Unread, useRead } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { route } from "../state.ts";
import { Text } from "../text.tsx";
import { counted } from "../words.ts";
import { Partial } from "./list.tsx";
import { refusedIn, type ShownActivity } from "./model.ts";
import { activityPath, callerFilter, callsHref, queryText } from "./paths.ts";
import { Standing } from "./standing.tsx";

/** One agent: what it did in the last hour and day, what it has, and a way to stop it. */

export function Agent(who: AgentName): VNode {
  const { query } = route.value;
  const { read, again } = useRead<ShownActivity>(activityPath(callerFilter(who), query));
  const [readings, setReadings] = useState(0);
  const refresh = (): void => {
    again();
    setReadings(readings + 1);
  };
  const shown = { path: ["agents", who.iss, who.sub], query };
  return (
    <article class="sheet story agent">
      <a class="back-link" href={hrefOf("agents")}>
        ← All agents
      </a>
      <header class="sheet-head">
        <Heading focusKey={`${who.iss} ${who.sub}`}>
          <Party {...who} />
        </Heading>
        <HaltedMark {...who} />
        <button type="button" onClick={refresh}>
          Refresh
        </button>
        <StopAgent {...who} />
      </header>
      <Halted {...who} />
      {read.error !== undefined && <Failed error={read.error} {...shown} onRetry={again} />}
      {read.value !== undefined && <SourceLine answer={read.value} {...shown} />}
      <div class="story-columns">
        <div>
          {read.value === undefined && read.error === undefined && <Unread read={read} again={again} />}
          {read.value !== undefined && <Did key={read.value.dayFrom} who={who} activity={read.value} query={query} />}
        </div>
        <div>
          <Standing key={readings} {...who} />
        </div>
      </div>
    </article>
  );
}

/** The halt that stops the agent: why, by whom, and until when. */
function Halted(who: AgentName): VNode | null {
  const { error } = useHalts();
  const halt = haltOf(who);
  if (halt === undefined)
    return error === undefined ? null : <Problem error={error} onRetry={() => void readHalts()} />;
  return (
    <p class="callout tone-bad">
      Its calls are refused. Halted <Ago iso={halt.setAt} /> by <HaltedBy sub={halt.setBy?.subject} />,{" "}
      {halt.until === undefined ? (
        "until it is lifted"
      ) : (
        <>
          for <Countdown iso={halt.until} /> more
        </>
      )}
      {halt.reason === undefined ? (
        "."
      ) : (
        <>
          : <Text value={halt.reason} max={300} />
        </>
      )}{" "}
      <a href={hrefOf("limits")}>All halts</a>
    </p>
  );
}

interface DidProps {
  readonly who: AgentName;
  readonly activity: ShownActivity;
  readonly query: URLSearchParams;
}

interface Page {
  readonly entries: readonly Line[];
}

const CALLS_READ = 60;
const CALLS_SHOWN = 12;

/** Reads the calls after the counts: an operator may ask the audit two questions at once. */
function Did({ who, activity, query }: DidProps): VNode {
  const filter = callerFilter(who);
  const { read, again } = useRead<Page>(`/audit${queryText({ ...filter, limit: String(CALLS_READ) }, query)}`);
  const lines = read.value?.entries ?? [];
  const { hour, day, lastAt } = activity.all;
  return (
    <>
      <Partial activity={activity} />
      <ul class="figures">
        <Figure words="in the last hour" calls={hour} />
        <Figure words="in the last day" calls={day} />
        <li>
          <strong>{lastAt === null ? "–" : <Ago iso={lastAt} />}</strong> <span class="dim">last call</span>
          <span class="figure-more">
            <a href={callsHref({ ...filter, order: "oldest" })}>Its first calls</a>
          </span>
        </li>
      </ul>
      {sumOf(day) > 0 && (
        <>
          <Tools activity={activity} filter={filter} />
          <Refusals activity={activity} filter={filter} lines={lines} />
        </>
      )}
      <Section id="last-calls" title="Last calls">
        {read.error !== undefined && <Problem error={read.error} onRetry={again} />}
        {read.value !== undefined && lines.length === 0 && <p class="dim">The audit has no call of this agent.</p>}
        {lines.length > 0 && (
          <>
            <LastCalls lines={lines.slice(0, CALLS_SHOWN)} />
            <p>
              <a href={callsHref(filter)}>All its calls</a>
            </p>
          </>
        )}
      </Section>
    </>
  );
}

/** Decisions other than allowed, in the order in which they are shown. */
const WORDS: Readonly<Record<string, string>> = {
  DENIED: "denied",
  ERROR: "failed",
  PENDING: "asked a person",
  DRY_RUN: "dry runs",
};

function Figure({ words, calls }: { readonly words: string; readonly calls: ShownActivity["all"]["day"] }): VNode {
  const others = Object.keys(WORDS).filter((decision) => calls[decision] !== undefined);
  const all = sumOf(calls);
  return (
    <li>
      <strong>{all.toLocaleString()}</strong>{" "}
      <span class="dim">
        {all === 1 ? "call" : "calls"} {words}
      </span>
      <span class="figure-more">
        {others.map((decision) => `${calls[decision]?.toLocaleString()} ${WORDS[decision]}`).join(", ")}
      </span>
    </li>
  );
}

interface CountsProps {
  readonly activity: ShownActivity;
  readonly filter: Readonly<Record<string, string>>;
}

const ROWS_SHOWN = 12;

function Tools({ activity: { tools }, filter }: CountsProps): VNode {
  return (
    <Section id="tools" title="Tools">
      <Scrolling label="Calls by tool">
        <table class="records wide" {...ROLE.table}>
          <Columns
            titles={["Tool", "Last hour", "Last day", "Allowed", "Refused", "Asked", "Last call"]}
            numbers={["Last hour", "Last day", "Allowed", "Refused", "Asked"]}
          />
          <tbody>
            {tools.slice(0, ROWS_SHOWN).map(({ tool, hour, day, lastAt }) => (
              <tr key={tool}>
                <td class="cell-tool">
                  <a href={callsHref({ ...filter, tool, from: "24h" })}>
                    <code>
                      <Text value={tool} max={60} isFixed />
                    </code>
                  </a>
                </td>
                <td class="cell-number">{sumOf(hour).toLocaleString()}</td>
                <td class="cell-number">{sumOf(day).toLocaleString()}</td>
                <td class="cell-number">{(day["ALLOWED"] ?? 0).toLocaleString()}</td>
                <td class="cell-number">{refusedIn(day).toLocaleString()}</td>
                <td class="cell-number">{(day["PENDING"] ?? 0).toLocaleString()}</td>
                <td>{lastAt !== null && <Ago iso={lastAt} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolling>
      {tools.length > ROWS_SHOWN && (
        <p class="help">{counted(tools.length - ROWS_SHOWN, "more tool")}, each with fewer calls.</p>
      )}
    </Section>
  );
}

/** Refusals by code, each with the reason of its newest call. */
function Refusals({
  activity: { codes },
  filter,
  lines,
}: CountsProps & {
  readonly lines: readonly Line[];
}): VNode {
  const refused = codes.filter(({ day }) => refusedIn(day) > 0);
  return (
    <Section id="refusals" title="Refusals">
      {refused.length === 0 ? (
        <p class="dim">No call was refused in the last day.</p>
      ) : (
        <Scrolling label="Refusals by code">
          <table class="records wide" {...ROLE.table}>
            <Columns titles={["Why", "Last hour", "Last day", "Newest"]} numbers={["Last hour", "Last day"]} />
            <tbody>
              {refused.slice(0, ROWS_SHOWN).map(({ code, hour, day, lastAt }) => (
                <tr key={code}>
                  <td class="cell-why">
                    <a href={callsHref({ ...filter, code, from: "24h" })}>
                      <code>
                        <Text value={code} max={60} isFixed />
                      </code>
                    </a>
                    <p class="help">
                      <Text value={reasonOf(code, lines)} max={300} />
                    </p>
                  </td>
                  <td class="cell-number">{refusedIn(hour).toLocaleString()}</td>
                  <td class="cell-number">{refusedIn(day).toLocaleString()}</td>
                  <td>{lastAt !== null && <Ago iso={lastAt} />}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scrolling>
      )}
    </Section>
  );
}

/** Returns what the code means; with the details of the newest such call where it is among the lines. */
function reasonOf(code: string, lines: readonly Line[]): string {
  const newest = lines.find((line) => callOf(line).code === code);
  const sentence = refusalSentence(code, members(newest?.["denial"])["details"]) ?? "";
  const denials = newest === undefined ? [] : storyOf(newest, []).decisions.filter(({ does }) => does === "denies");
  const rules = code === "POLICY_DENIED" ? denials.flatMap(({ meanings }) => meanings.map(({ text }) => text)) : [];
  return rules.length === 0 ? sentence : `${sentence} The newest: ${rules.join(" ")}`;
}

function LastCalls({ lines }: { readonly lines: readonly Line[] }): VNode {
  return (
    <table class="records" {...ROLE.table}>
      <caption class="sr-only">Last calls</caption>
      <Columns titles={["Time", "Decision", "Tool"]} />
      <tbody {...ROLE.group}>
        {lines.map((line) => {
          const { key, timestamp, traceId, decision, code, tool = "–", count } = callOf(line);
          const [words, tone] = verdictOf(decision);
          return (
            <tr key={key} {...ROLE.row}>
              <td class="cell-time" {...ROLE.cell}>
                <StoryLink id={traceId}>
                  <time dateTime={timestamp}>{localTime(timestamp)}</time>
                </StoryLink>
              </td>
              <td class="cell-decision" {...ROLE.cell}>
                <Badge tone={tone}>{words}</Badge>
                {code !== undefined && (
                  <code>
                    <Text value={code} max={60} />
                  </code>
                )}
              </td>
              <td class="cell-tool" {...ROLE.cell}>
                <code>
                  <Text value={tool} max={80} />
                </code>
                {count > 1 && <span class="dim"> × {count}</span>}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function StoryLink({ id, children }: { readonly id: string | undefined; readonly children: VNode }): VNode {
  return id === undefined ? children : <a href={hrefOf("calls", [id])}>{children}</a>;
}
