import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ruleMeanings } from "../../../core/decision-words.ts";
import { type ApiError, request } from "../api.ts";
import { Badge, Problem } from "../parts.tsx";
import { Section } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { permissions } from "../session.ts";
import { errorOf } from "../state.ts";
import { Text } from "../text.tsx";
import { counted } from "../words.ts";
import { type RuleGroup, type RuleShown, rulesThatDecided } from "./rules.ts";

/** The rules in force. The one that a link names is marked, and how many calls each decided can be counted. */

/** As many lines as the service returns at once. */
const COUNTED_MAX = 1_000;

interface Counted {
  readonly calls: number;
  readonly byRule: ReadonlyMap<string, number>;
}

type CountState = Counted | ApiError | "counting" | undefined;

interface RuleListProps {
  readonly groups: readonly RuleGroup[];
  /** The rule that a link names. */
  readonly named: string | undefined;
}

export function RuleList({ groups, named }: RuleListProps): VNode {
  const counts = useSignal<CountState>(undefined);
  const isKnown = named === undefined || groups.some(({ rules }) => rules.some(({ rule }) => rule === named));
  const { value } = counts;
  const byRule = typeof value === "object" && "byRule" in value ? value.byRule : undefined;
  return (
    <Section id="rules" title="Rules in force">
      <p class="help">
        A call is denied unless every rule lets it through: what denies counts first, then what asks a person.
      </p>
      {permissions.value.has("audit:read") && <CountButton value={value} onCount={() => void count(counts)} />}
      {!isKnown && <Unknown rule={named} />}
      {groups.map((group) => (
        <Group key={group.title} group={group} named={named} byRule={byRule} />
      ))}
    </Section>
  );
}

async function count(counts: { value: CountState }): Promise<void> {
  counts.value = "counting";
  counts.value = await request<{ readonly entries: readonly Readonly<Record<string, unknown>>[] }>(
    "GET",
    `/audit?limit=${COUNTED_MAX}&from=7d`,
  )
    .then(({ entries }): Counted => {
      const byRule = new Map<string, number>();
      for (const rule of entries.flatMap(rulesThatDecided)) byRule.set(rule, (byRule.get(rule) ?? 0) + 1);
      return { calls: entries.length, byRule };
    })
    .catch(errorOf);
}

function CountButton({ value, onCount }: { readonly value: CountState; readonly onCount: () => void }): VNode {
  return (
    <div class="count-rules" aria-live="polite">
      {value instanceof Error && <Problem error={value} />}
      {typeof value === "object" && "byRule" in value ? (
        <p class="meta">
          Next to each rule: how many of the last {counted(value.calls, "call")} within seven days it decided, or had a
          part in.
        </p>
      ) : (
        <button type="button" disabled={value === "counting"} onClick={onCount}>
          {value === "counting" ? "Counting …" : `Count the last ${COUNTED_MAX} calls`}
        </button>
      )}
    </div>
  );
}

function Unknown({ rule }: { readonly rule: string }): VNode {
  // A link can name anything: only the sentence of a rule that is built in is shown.
  const meaning = ruleMeanings([rule]).find(({ text }) => !text.includes(rule));
  return (
    <div class="callout tone-warn">
      <p>
        The configuration in use has no rule{" "}
        <code>
          <Text value={rule} max={120} />
        </code>
        {meaning !== undefined && (
          <>
            {" "}
            (<Text value={meaning.text} max={300} />)
          </>
        )}
        . The history may have a version with it.
      </p>
    </div>
  );
}

interface GroupProps {
  readonly group: RuleGroup;
  readonly named: string | undefined;
  readonly byRule: ReadonlyMap<string, number> | undefined;
}

function Group({ group: { title, rules, isFolded }, named, byRule }: GroupProps): VNode {
  const list = (
    <ul class="policy-rules">
      {rules.map((rule) => (
        <Rule
          key={`${rule.rule} ${rule.setting}`}
          rule={rule}
          isNamed={rule.rule === named}
          count={byRule && (byRule.get(rule.rule) ?? 0)}
        />
      ))}
    </ul>
  );
  if (isFolded === true)
    return (
      <details open={rules.some(({ rule }) => rule === named)}>
        <summary>
          {title} <span class="dim">({counted(rules.length, "built-in rule")})</span>
        </summary>
        {list}
      </details>
    );
  return (
    <div>
      <h3>{title}</h3>
      {list}
    </div>
  );
}

const TONES = { allows: "good", asks: "plain", decides: "plain", denies: "bad", matches: "plain" } as const;

interface RuleProps {
  readonly rule: RuleShown;
  readonly isNamed: boolean;
  readonly count: number | undefined;
}

function Rule({ rule: { does, text, setting, filter, isUncounted }, isNamed, count: decided }: RuleProps): VNode {
  const element = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isNamed) element.current?.scrollIntoView({ block: "center" });
  }, [isNamed]);
  const canList = filter !== undefined && permissions.value.has("audit:read");
  return (
    <li ref={element} class={isNamed ? "named" : undefined} aria-current={isNamed ? "true" : undefined}>
      <Badge tone={TONES[does]}>{does}</Badge>
      <div>
        <p>
          <Text value={text} max={600} />
        </p>
        <p class="meta">
          <code>
            <Text value={setting} max={120} />
          </code>
          {decided !== undefined && isUncounted !== true && ` · ${counted(decided, "call")}`}
          {canList && (
            <>
              {" · "}
              <a
                href={hrefOf("calls", [], new URLSearchParams([[...filter]]))}
                aria-label={`Calls of the rule: ${text}`}
              >
                calls
              </a>
            </>
          )}
        </p>
      </div>
    </li>
  );
}
