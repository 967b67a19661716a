import type { VNode } from "preact";
import { VOUCHED_CHARACTERS_MAX, type VouchableValue, vouchableIn } from "../../../core/vouching.ts";
import { Ago } from "../parts.tsx";
import { Text } from "../text.tsx";
import type { ShownRequest } from "./model.ts";
import { confirming, vouchedValues } from "./reading.ts";

/** Values that an approver can vouch for together with an approval: later calls do not ask because of where they came from. */

interface OfferedValue {
  readonly value: string;
  /** The same value may be in several arguments: vouching is about the value. */
  readonly found: readonly VouchableValue[];
  /** Arguments with several such values: their sources are known for all of them together. */
  readonly shared: ReadonlySet<string>;
}

/** Returns the values that this approver can vouch for with this decision. */
function offeredIn({ view, canDecide }: ShownRequest): readonly OfferedValue[] {
  if (canDecide?.vouch !== true) return [];
  const found = vouchableIn({ view });
  const names = found.map(({ argument }) => argument);
  const shared = new Set(names.filter((name, at) => names.indexOf(name) !== at));
  return [...new Set(found.map(({ value }) => value))].map((value) => ({
    value,
    found: found.filter((one) => one.value === value),
    shared,
  }));
}

/** Returns the ticked values. */
export function vouchedIn(request: ShownRequest): readonly string[] {
  return offeredIn(request)
    .map(({ value }) => value)
    .filter((value) => vouchedValues.value.has(value));
}

export function VouchFields({ request }: { readonly request: ShownRequest }): VNode | null {
  const offered = offeredIn(request);
  if (offered.length === 0) return null;
  const until = request.requester?.session === undefined ? "For one hour" : "In this session";
  return (
    <fieldset class="choices vouch">
      <legend>{until}, do not ask this caller again about where this comes from:</legend>
      {offered.map((one) => (
        <VouchField key={one.value} {...one} />
      ))}
    </fieldset>
  );
}

const SOURCES_SHOWN = 3;

function VouchField({ value, found, shared }: OfferedValue): VNode {
  const sources = found.flatMap(({ argument, sources: all }) => all.map((source) => ({ argument, ...source })));
  return (
    <label>
      <input
        type="checkbox"
        checked={vouchedValues.value.has(value)}
        onChange={({ currentTarget }) => {
          const next = new Set(vouchedValues.value);
          if (currentTarget.checked) next.add(value);
          else next.delete(value);
          vouchedValues.value = next;
          confirming.value = undefined;
        }}
      />
      <span>
        <code>
          <Text value={value} max={VOUCHED_CHARACTERS_MAX} />
        </code>
        {sources.slice(0, SOURCES_SHOWN).map(({ argument, traceId, field, where, at, isPart }) => (
          <span key={`${argument} ${traceId} ${field}`} class="value-source dim">
            <Text value={argument} max={80} />: {shared.has(argument) ? "this or another of its values" : "this value"}{" "}
            {isPart ? "was partly" : "was"} in the answer of <Text value={where} max={200} />
            {at !== "" && (
              <>
                , <Ago iso={at} />
              </>
            )}
          </span>
        ))}
        {sources.length > SOURCES_SHOWN && (
          <span class="value-source dim">and in {sources.length - SOURCES_SHOWN} more, listed above</span>
        )}
      </span>
    </label>
  );
}
