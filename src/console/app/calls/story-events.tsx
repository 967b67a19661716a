import type { VNode } from "preact";
import { asString } from "../../../core/json.ts";
import { nameInSentence } from "../../../core/printable.ts";
import { members } from "../api.ts";
import { Facts, localTime } from "../parts.tsx";
import { Command, codeRow, jsonLines, Section } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { Block, Quoted, Text } from "../text.tsx";
import { counted } from "../words.ts";
import { download } from "./download.ts";
import type { Line, StoryEvent } from "./model.ts";

/** The lines of a call one after another, and how to prove its own. */

interface EventsProps {
  readonly events: readonly StoryEvent[];
  readonly own: Line | undefined;
  readonly isOfFleet: boolean;
}

export function Events({ events, own, isOfFleet }: EventsProps): VNode {
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
                  <Text value={nameInSentence(event.who)} max={80} />
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
                <Quoted value={event.said} max={600} />
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
  ["Tenant", ["tenant"]],
];

interface EvidenceProps {
  readonly line: Line;
  /** Id of the line's log; undefined where the service has one log. */
  readonly log: string | undefined;
  /** True when the line may come from another replica, whose log is not available here. */
  readonly isOfFleet: boolean;
}

function proofName(traceId: string): string {
  return `proof-${traceId.replace(/[^\w-]/g, "_")}.json`;
}

export function Evidence({ line, log, isOfFleet }: EvidenceProps): VNode {
  const traceId = asString(line["traceId"]);
  const { seq } = line;
  return (
    <Section id="proof" title="Proof of this line">
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
            onClick={() => void download(`/audit/${encodeURIComponent(traceId)}/proof`, proofName(traceId))}
          >
            Download inclusion proof
          </button>
          <p class="help">
            Proves to anybody who has the public key (under <a href={hrefOf("evidence")}>Evidence</a>) that the log
            holds this line:
          </p>
          <Command value={`stc audit verify-proof ${proofName(traceId)} --key KEY`} label="verify the proof" />
        </div>
      )}
    </Section>
  );
}
