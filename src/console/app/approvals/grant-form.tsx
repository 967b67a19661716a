import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { members } from "../api.ts";
import { announce } from "../state.ts";
import { Text } from "../text.tsx";
import { leaveForm, missingOf, pressApprove, written, writtenTerms } from "./deciding.ts";
import type { ShownRequest } from "./model.ts";
import { isArmed } from "./reading.ts";

/** The form of a grant: how many calls, how long, and what each argument may be. */
export function GrantForm({ request }: { readonly request: ShownRequest }): VNode | null {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const { offer } = request;
  if (offer === undefined) return null;
  const missing =
    missingOf(request) ??
    (writtenTerms(request) === undefined ? "Say how many calls, and for how long, within what is offered." : undefined);
  const words = members(members(members(request.view)["grant"])["arguments"]);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (missing === undefined) pressApprove(request, "bounded");
    else announce(`Not approved: ${missing}`);
  };
  const number = (name: "runs" | "minutes", label: string): VNode => (
    <label class="field">
      <span>
        {label} <span class="dim">1 to {offer[name]}</span>
      </span>
      <input
        {...(name === "runs" && { ref: field })}
        type="number"
        min={1}
        max={offer[name]}
        step={1}
        value={written.value[name]}
        onInput={({ currentTarget }) => {
          written.value = { ...written.value, [name]: currentTarget.value };
        }}
      />
    </label>
  );
  return (
    <form class="grant-form" aria-label="Approve several calls" noValidate onSubmit={submit}>
      <div class="grant-limits">
        {number("runs", "Calls, this one included")}
        {number("minutes", "Minutes from now")}
      </div>
      <fieldset class="choices">
        <legend>Without asking again, while each argument is</legend>
        {Object.entries(words).map(([name, bound]) => (
          <GrantBound key={name} name={name} bound={String(bound)} varies={Object.hasOwn(offer.arguments, name)} />
        ))}
      </fieldset>
      <div class="decide-buttons">
        <button
          type="submit"
          class={`primary ${isArmed.value ? "" : "arming"}`}
          aria-disabled={!isArmed.value || missing !== undefined}
          title={missing}
        >
          Approve these calls
        </button>
        <button type="button" onClick={leaveForm}>
          Back <kbd>Esc</kbd>
        </button>
      </div>
    </form>
  );
}

interface GrantBoundProps {
  readonly name: string;
  readonly bound: string;
  /** True when calls may differ in the argument; the approver can require it to be as in this call. */
  readonly varies: boolean;
}

function GrantBound({ name, bound, varies }: GrantBoundProps): VNode {
  const isSame = written.value.same.has(name);
  return (
    <p class="grant-bound">
      <code>
        <Text value={name} max={120} />
      </code>
      : <Text value={isSame ? "as in this call" : bound} max={600} />
      {varies && (
        <label>
          <input
            type="checkbox"
            checked={isSame}
            onChange={({ currentTarget }) => {
              const same = new Set(written.value.same);
              if (currentTarget.checked) same.add(name);
              else same.delete(name);
              written.value = { ...written.value, same };
            }}
          />
          only as in this call
        </label>
      )}
    </p>
  );
}
