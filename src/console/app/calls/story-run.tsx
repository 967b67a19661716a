import type { VNode } from "preact";
import { asStrings } from "../../../core/json.ts";
import { members } from "../api.ts";
import { Facts } from "../parts.tsx";
import { codeRow, Names, Section } from "../records.tsx";
import { Text } from "../text.tsx";
import { durationText, type Line, type StageShown, stagesOf } from "./model.ts";

/** The result of a call's run, and the time of each stage. */

export function Answered({ line }: { readonly line: Line }): VNode | null {
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

export function Stages({ line }: { readonly line: Line }): VNode | null {
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
