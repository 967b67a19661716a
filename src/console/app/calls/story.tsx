import type { VNode } from "preact";
import { dataFlowSentences } from "../../../core/data-flow.ts";
import { asString, asStrings } from "../../../core/json.ts";
import { members } from "../api.ts";
import { CallerLink } from "../caller.tsx";
import { AgentSays, Badge, Facts, Heading, localTime } from "../parts.tsx";
import { codeRow, jsonLines, Names, Section, Sentences, Unread, useRead } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { Block, Text } from "../text.tsx";
import { counted } from "../words.ts";
import { download } from "./download.ts";
import { Failed, isOwnOnly, SOURCE, type Sourced, SourceLine } from "./fleet.tsx";
import {
  callOf,
  durationText,
  eventsOf,
  type Line,
  type StageShown,
  type StoryEvent,
  stagesOf,
  verdictOf,
} from "./model.ts";

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
  /** Where the lines are from. */
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
            <Stages line={line} />
            <Asked line={line} />
            <Decided line={line} />
            <Answered line={line} />
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
  const { decision, code, tool, system, classification, timestamp, durationMs, count } = callOf(line);
  const [words, tone] = verdictOf(decision);
  return (
    <>
      <header class="story-head">
        <div class="badges">
          <Badge tone={tone}>{words}</Badge>
          {classification !== undefined && (
            <Badge tone={classification === "destructive" ? "bad" : "plain"}>
              <Text value={classification} max={40} />
            </Badge>
          )}
        </div>
        <Heading focusKey={asString(line["traceId"]) ?? ""}>
          <span class="mono">
            <Text value={tool ?? "(no tool)"} max={200} />
          </span>
          {system !== undefined && system !== "unknown" && (
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
      <Outcome line={line} code={code} tone={tone} />
    </>
  );
}

interface OutcomeProps {
  readonly line: Line;
  readonly code: string | undefined;
  readonly tone: string;
}

function Outcome({ line, code, tone }: OutcomeProps): VNode | null {
  const { reason, stage, details } = members(line["denial"]);
  if (code === undefined && typeof reason !== "string") return null;
  return (
    <div class={`callout tone-${tone}`}>
      <p>
        {code !== undefined && (
          <code>
            <Text value={code} max={60} />
          </code>
        )}{" "}
        {typeof stage === "string" && (
          <span class="dim">
            at <Text value={stage} max={40} />
          </span>
        )}
      </p>
      {typeof reason === "string" && (
        <p>
          <Text value={reason} max={1_000} />
        </p>
      )}
      {details !== undefined && <Block value={jsonLines(details)} label="Details of the refusal" />}
    </div>
  );
}

function Stages({ line }: { readonly line: Line }): VNode | null {
  const stages = stagesOf(line);
  if (stages.length === 0) return null;
  const totalMs = stages.reduce((sum, { ms }) => sum + ms, 0);
  return (
    <Section id="stages" title="Where the time went">
      <ol class="stages-axis">
        {stages.map((stage) => (
          <Stage key={stage.name} stage={stage} totalMs={totalMs} />
        ))}
      </ol>
      <p class="axis" aria-hidden="true">
        <span>0</span>
        <span>{durationText(totalMs)}</span>
      </p>
    </Section>
  );
}

/** A bar is never thinner than this, so that a short stage can be seen. */
const BAR_PERCENT_MIN = 0.6;

function Stage({
  stage: { name, ms, startMs },
  totalMs,
}: {
  readonly stage: StageShown;
  readonly totalMs: number;
}): VNode {
  const percent = (part: number): number => (totalMs === 0 ? 0 : (part / totalMs) * 100);
  const width = Math.max(BAR_PERCENT_MIN, percent(ms));
  return (
    <li>
      <span class="stage-name">
        <Text value={name.toLowerCase()} max={40} />
      </span>
      <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect class="track" width="100" height="10" />
        <rect class="part" x={Math.min(percent(startMs), 100 - width)} width={width} height="10" />
      </svg>
      <span class="stage-ms">{durationText(ms)}</span>
    </li>
  );
}

function Asked({ line }: { readonly line: Line }): VNode {
  const caller = members(line["caller"]);
  const asked = members(line["request"]);
  const protocol = members(line["protocol"]);
  const client = members(protocol["client"]);
  const { args, reason } = asked;
  const act = asStrings(caller["act"]);
  return (
    <Section id="asked" title="What was asked">
      <Facts
        rows={[
          ["Caller", <CallerLink key="sub" sub={asString(caller["sub"]) ?? "unknown"} iss={asString(caller["iss"])} />],
          act.length === 0 ? undefined : ["Acts through", <Names key="act" names={act} />],
          codeRow("Session", asked["session"]),
          codeRow("Call id of the model", asked["callId"]),
          asString(protocol["name"]) === undefined
            ? undefined
            : [
                "Protocol",
                <Text key="p" value={`${asString(protocol["name"])} ${asString(protocol["version"]) ?? ""}`} />,
              ],
          asString(client["name"]) === undefined
            ? undefined
            : [
                "Client",
                <span key="client">
                  <Text value={asString(client["name"]) ?? ""} max={120} /> <span class="dim">(its own statement)</span>
                </span>,
              ],
          asStrings(asked["secrets"]).length === 0
            ? undefined
            : ["Secrets found in", <Names key="secrets" names={asStrings(asked["secrets"])} />],
        ]}
      />
      {args !== undefined && <Block value={jsonLines(args)} label="Arguments, as far as the log may hold them" />}
      {asked["truncated"] === true && <p class="omission">The arguments were too long for the log and are cut.</p>}
      <AgentSays text={reason} />
    </Section>
  );
}

function Decided({ line }: { readonly line: Line }): VNode {
  const reasons = Array.isArray(line["decisionReasons"]) ? line["decisionReasons"].map(members) : [];
  const approval = members(line["approval"]);
  const { dataFlow } = line;
  // A line of an earlier version names the refusal's code when nobody approved.
  const [named, id] = [asString(approval["by"]), asString(approval["id"])];
  const by = named !== undefined && /^[A-Z_]+$/.test(named) ? undefined : named;
  const { decision } = callOf(line);
  return (
    <Section id="decided" title="Who decided, and why">
      {reasons.length === 0 && by === undefined && id === undefined && (
        <p class="dim">
          {decision === "ALLOWED"
            ? "Every policy allowed the call, and no approval was needed."
            : "No policy denied the call, and no approver was asked: it ended for the reason above."}
        </p>
      )}
      {reasons.length > 0 && (
        <ul class="reasons">
          {reasons.map((reason, at) => (
            <li key={at}>
              <Badge tone={reason["verdict"] === "deny" ? "bad" : "plain"}>
                {reason["verdict"] === "deny" ? "denies" : "asks for approval"}
              </Badge>
              <span>
                <strong>
                  <Text value={asString(reason["point"]) ?? "unknown"} max={80} />
                </strong>{" "}
                <Text value={asString(reason["reason"]) ?? ""} max={600} />
              </span>
            </li>
          ))}
        </ul>
      )}
      {dataFlow !== undefined && (
        <Sentences label="Data flow" value={dataFlow} sentences={dataFlowSentences(dataFlow)} />
      )}
      <Facts
        rows={[
          codeRow(by?.startsWith("human:") ? "Approved by" : "Allowed by", by),
          codeRow("Configuration", line["policyVersion"]),
          id === undefined
            ? undefined
            : [
                "Approval request",
                <a key="approval" href={hrefOf("approvals", [id])}>
                  <Text value={id} max={120} />
                </a>,
              ],
        ]}
      />
    </Section>
  );
}

function Answered({ line }: { readonly line: Line }): VNode | null {
  const response = members(line["response"]);
  const plan = members(line["plan"]);
  const fields = asStrings(response["filteredFields"]);
  const redactions = Object.entries(members(response["redactions"]));
  if (Object.keys(response).length === 0 && plan["confinement"] === undefined) return null;
  return (
    <Section id="answered" title="What came back">
      <Facts
        rows={[
          [
            "Fields not released",
            fields.length === 0 ? <span class="dim">none</span> : <Names key="fields" names={fields} />,
          ],
          [
            "Redacted in text",
            redactions.length === 0 ? (
              <span class="dim">nothing</span>
            ) : (
              <Names key="redactions" names={redactions.map(([rule, count]) => `${rule} × ${String(count)}`)} />
            ),
          ],
          response["truncated"] === true ? ["Size", "over the tool's limit: only a part was released"] : undefined,
          codeRow("Confinement", plan["confinement"]),
        ]}
      />
    </Section>
  );
}

interface EventsProps {
  readonly events: readonly StoryEvent[];
  readonly own: Line | undefined;
  readonly isOfFleet: boolean;
}

function Events({ events, own, isOfFleet }: EventsProps): VNode {
  return (
    <Section id="events" title={`What happened, in ${counted(events.length, "step")}`}>
      <ol class="events">
        {events.map((event) => (
          <li key={event.key} class={`event tone-${event.tone}`}>
            <p>
              <strong>
                <Text value={event.what} max={200} />
              </strong>
              {event.who !== undefined && (
                <>
                  {" "}
                  <span class="dim">{event.callId === undefined ? "by" : "for"}</span>{" "}
                  <Text value={event.who} max={80} />
                </>
              )}
              {event.line !== own && event.callId !== undefined && (
                <>
                  {" "}
                  <a href={hrefOf("calls", [event.callId])}>Open this call</a>
                </>
              )}
            </p>
            {event.said !== undefined && (
              <p class="said">
                “<Text value={event.said} max={600} />”
              </p>
            )}
            <details>
              <summary>
                <time dateTime={event.timestamp}>{localTime(event.timestamp)}</time>
                {isOfFleet && event.instance !== undefined && (
                  <span class="dim">
                    {" "}
                    · on <Text value={event.instance} max={80} />
                  </span>
                )}
                <span class="dim"> · the line</span>
              </summary>
              <Block value={jsonLines(event.line)} label={`Line of ${event.timestamp}`} />
            </details>
          </li>
        ))}
      </ol>
    </Section>
  );
}

const HASHES: readonly (readonly [string, readonly string[]])[] = [
  ["Line in the chain (seq)", ["seq"]],
  ["Hash of the line", ["hash"]],
  ["Hash of the line before", ["prev"]],
  ["Hash of the arguments", ["request", "argsHash"]],
  ["Hash of the target's answer", ["response", "outputHash"]],
  ["Digest of the plan", ["plan", "digest"]],
  ["Trace id", ["traceId"]],
  ["W3C trace id", ["trace", "traceId"]],
  ["Replica", ["instance"]],
];

interface EvidenceProps {
  readonly line: Line;
  /** Id of the line's log; undefined where the service has one log. */
  readonly log: string | undefined;
  /** Whether the line may be one of another replica, whose log is not here. */
  readonly isOfFleet: boolean;
}

function Evidence({ line, log, isOfFleet }: EvidenceProps): VNode {
  const traceId = asString(line["traceId"]);
  const { seq } = line;
  return (
    <Section id="evidence" title="Evidence">
      <Facts
        rows={HASHES.map(([name, path]) => {
          const value = path.reduce<unknown>((inner, key) => members(inner)[key], line);
          return typeof value === "string" || typeof value === "number" ? codeRow(name, String(value)) : undefined;
        }).concat([codeRow("Log", log)])}
      />
      {isOfFleet && log !== undefined && typeof seq === "number" && (
        <div class="prove">
          <p class="help">
            Prove this line from the audit store, or on its replica with <code>--dir</code>:
          </p>
          <Block
            label="Commands that prove this line"
            value={[
              `stc audit prove ${log}:${seq} --from-store URL-FILE > proof.json`,
              "stc audit verify-proof proof.json --key KEY",
            ]}
          />
        </div>
      )}
      {traceId !== undefined && !isOfFleet && (
        <div class="buttons">
          <button
            type="button"
            onClick={() =>
              void download(
                `/audit/${encodeURIComponent(traceId)}/proof`,
                `proof-${traceId.replace(/[^\w-]/g, "_")}.json`,
              )
            }
          >
            Download inclusion proof
          </button>
          <p class="help">
            Proves to anybody who has the public key that the log holds this line:{" "}
            <code>stc audit verify-proof FILE --key KEY</code>
          </p>
        </div>
      )}
    </Section>
  );
}
