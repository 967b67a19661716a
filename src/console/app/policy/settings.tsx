import type { VNode } from "preact";
import { jsonLines, Section } from "../records.tsx";
import { Block } from "../text.tsx";
import { counted } from "../words.ts";

/** Sections that say who may do what; the others follow in the alphabet. */
const FIRST = ["approvals", "limits", "jwt", "commands", "systems"];

interface SettingsProps {
  readonly values: Readonly<Record<string, unknown>>;
  /** Keys that a reload changes; left out for a version that is not in use. */
  readonly liveKeys?: readonly string[];
}

/** The sections of a configuration, each folded. */
export function Settings({ values, liveKeys }: SettingsProps): VNode {
  const others = Object.keys(values)
    .filter((name) => !FIRST.includes(name))
    .sort();
  const names = [...FIRST.filter((name) => name in values), ...others];
  return (
    <Section id="values" title="Settings">
      <p class="help">
        With their defaults. Secrets and paths of files are left out.
        {liveKeys !== undefined && " A reload changes what is marked; everything else needs a restart."}
      </p>
      <div class="settings">
        {names.map((name) => (
          <details key={name}>
            <summary>
              <code>{name}</code> <span class="dim">{reloadWords(name, liveKeys ?? [])}</span>
            </summary>
            <Block value={jsonLines(values[name])} label={`Settings of ${name}`} />
          </details>
        ))}
      </div>
    </Section>
  );
}

function reloadWords(name: string, liveKeys: readonly string[]): string {
  if (liveKeys.includes(name)) return "changes with a reload";
  const below = liveKeys.filter((key) => key.startsWith(`${name}.`)).length;
  return below === 0 ? "" : `${counted(below, "key")} change with a reload`;
}
