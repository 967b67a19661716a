import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { ConfigurationShown } from "../../../core/api/inventory.ts";
import { VERSIONS } from "../meanings.tsx";
import { Heading, localTime } from "../parts.tsx";
import { Section, Unread, useRead } from "../records.tsx";
import { type PageContent, route } from "../state.ts";
import { Block, Text } from "../text.tsx";
import { RuleList } from "./rule-list.tsx";
import { rulesInForce } from "./rules.ts";
import { Settings } from "./settings.tsx";
import { History, VersionPage, Versions } from "./versions.tsx";

/** The policy in force: its rules in words, its history with differences, and its settings. */

function PolicyView(): VNode {
  const [part, version] = route.value.rest;
  if (part === VERSIONS)
    return (
      <div class="sheet story">{version === undefined ? <Versions /> : <VersionPage policyVersion={version} />}</div>
    );
  return <InForce named={part} />;
}

function InForce({ named }: { readonly named: string | undefined }): VNode {
  const { read, again } = useRead<ConfigurationShown>("/configuration");
  const [readings, setReadings] = useState(0);
  const refresh = (): void => {
    again();
    setReadings(readings + 1);
  };
  return (
    <div class="sheet story">
      {read.value === undefined ? (
        <Unread title="Policy" read={read} again={again} />
      ) : (
        <Shown configuration={read.value} again={refresh} readings={readings} named={named} />
      )}
    </div>
  );
}

interface ShownProps {
  readonly configuration: ConfigurationShown;
  readonly again: () => void;
  /** Number of refreshes: the history is read again after each. */
  readonly readings: number;
  readonly named: string | undefined;
}

function Shown({ configuration: { state, problems, values, liveKeys }, again, readings, named }: ShownProps): VNode {
  return (
    <>
      <header class="sheet-head">
        <Heading>Policy</Heading>
        <button type="button" onClick={again}>
          Refresh
        </button>
      </header>
      {state?.lastRefused != null && (
        <div class="callout tone-bad">
          <p>
            <strong>The last reload was refused</strong> at {localTime(state.lastRefused.at)}; the earlier configuration
            stays in use.
          </p>
          <ul class="notes">
            {problems.map((problem) => (
              <li key={problem}>
                <Text value={problem} max={1_000} />
              </li>
            ))}
          </ul>
        </div>
      )}
      <div class="story-columns">
        <div>
          <RuleList groups={rulesInForce(values)} named={named} />
        </div>
        <div>
          <History key={readings} max={5} />
          <Section id="replay" title="Before you change it">
            <p>
              Try a changed copy on the calls of the last week. The command runs none of them and ends with 1 when a
              verdict differs:
            </p>
            <Block value="stc replay --config candidate.yaml --from 7d" label="Command" />
          </Section>
        </div>
      </div>
      <Settings values={values} liveKeys={liveKeys} />
    </>
  );
}

export const policyPage: PageContent = {
  view: PolicyView,
};
