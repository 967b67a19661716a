import type { VNode } from "preact";
import type { ConfigurationShown } from "../../../core/api/inventory.ts";
import { Facts, Heading, localTime } from "../parts.tsx";
import { codeRow, jsonLines, Section, Unread, useRead } from "../records.tsx";
import type { AppPage } from "../state.ts";
import { Block, Text } from "../text.tsx";
import { counted } from "../words.ts";

/** The configuration in use: who is asked, what is limited, and whether the last reload was refused. */

function PolicyView(): VNode {
  const { read, again } = useRead<ConfigurationShown>("/configuration");
  return (
    <div class="sheet story">
      {read.value === undefined ? (
        <Unread title="Policy" read={read} again={again} />
      ) : (
        <Shown configuration={read.value} again={again} />
      )}
    </div>
  );
}

/** Sections that say who may do what; the others follow in the alphabet. */
const FIRST = ["approvals", "limits", "jwt", "commands", "systems"];

interface ShownProps {
  readonly configuration: ConfigurationShown;
  readonly again: () => void;
}

function Shown({ configuration: { state, problems, values, liveKeys }, again }: ShownProps): VNode {
  const others = Object.keys(values)
    .filter((name) => !FIRST.includes(name))
    .sort();
  const names = [...FIRST.filter((name) => name in values), ...others];
  return (
    <>
      <header class="sheet-head">
        <Heading>Policy</Heading>
        <button type="button" onClick={again}>
          Refresh
        </button>
      </header>
      {state !== undefined && (
        <Section id="state" title="In use">
          <Facts
            rows={[
              ["Since", localTime(state.since)],
              ["Snapshot", String(state.generation)],
              codeRow("SHA-256", state.sha256),
            ]}
          />
        </Section>
      )}
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
      <Section id="replay" title="Before you change it">
        <p>
          Try a changed copy on the calls of the last week. The command runs none of them and ends with 1 when a verdict
          differs:
        </p>
        <Block value="stc replay --config candidate.yaml --from 7d" label="Command" />
      </Section>
      <Section id="values" title="Settings">
        <p class="help">
          With their defaults. Secrets and paths of files are left out. A reload changes what is marked; everything else
          needs a restart.
        </p>
        <div class="settings">
          {names.map((name) => (
            <details key={name} open={name === FIRST[0]}>
              <summary>
                <code>{name}</code> <span class="dim">{reloadWords(name, liveKeys)}</span>
              </summary>
              <Block value={jsonLines(values[name])} label={`Settings of ${name}`} />
            </details>
          ))}
        </div>
      </Section>
    </>
  );
}

function reloadWords(name: string, liveKeys: readonly string[]): string {
  if (liveKeys.includes(name)) return "changes with a reload";
  const below = liveKeys.filter((key) => key.startsWith(`${name}.`)).length;
  return below === 0 ? "" : `${counted(below, "key")} change with a reload`;
}

export const policyPage: AppPage = {
  name: "policy",
  title: "Policy",
  group: "Systems",
  permission: "configuration:read",
  view: PolicyView,
};
