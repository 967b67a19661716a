import type { VNode } from "preact";
import { type RuleMeaning, ruleMeanings } from "../../core/decision-words.ts";
import { hrefOf } from "./route.ts";
import { permissions } from "./session.ts";
import { Text } from "./text.tsx";

/** Rules by what they mean, for pages that show why a call asks or was refused. */

/** Name of the page of the policy. */
export const POLICY = "policy";
/** First segment of the pages of its versions. */
export const VERSIONS = "versions";

/** Returns the route of a configuration that was in use, by its `policyVersion`. */
export function versionHref(policyVersion: string): string {
  return hrefOf(POLICY, [VERSIONS, policyVersion]);
}

/** Lists what rules mean, by their names in an approval request. */
export function Rules({ names, label }: { readonly names: readonly string[]; readonly label?: string }): VNode {
  return <Meanings meanings={ruleMeanings(names)} label={label} />;
}

interface MeaningsProps {
  readonly meanings: readonly RuleMeaning[];
  readonly label?: string | undefined;
}

export function Meanings({ meanings, label = "Rules" }: MeaningsProps): VNode {
  return (
    <ul class="notes" aria-label={label}>
      {meanings.map((meaning) => (
        <li key={`${meaning.rule} ${meaning.text}`}>
          <Meaning {...meaning} />
        </li>
      ))}
    </ul>
  );
}

/** A rule's sentence, with a link to the rule for those who may read the policy. */
export function Meaning({ rule, text }: RuleMeaning): VNode {
  return (
    <>
      <Text value={text} max={600} />
      {permissions.value.has("configuration:read") && (
        <>
          {" "}
          <a class="rule-link" href={hrefOf(POLICY, [rule])} aria-label={`The rule ${rule}`}>
            rule
          </a>
        </>
      )}
    </>
  );
}
