import { effect, signal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ApprovalTerms } from "../../../core/api/approvals.ts";
import type { ApprovalScope } from "../../../core/types.ts";
import { members } from "../api.ts";
import { announce, tick } from "../state.ts";
import { Text } from "../text.tsx";
import { counted } from "../words.ts";
import { decideSoon, type Outgoing, outgoingFor, sentence, undo } from "./decisions.ts";
import {
  ANSWER_CHARACTERS_MAX,
  isHighRisk,
  isPending,
  REASON_CHARACTERS_MAX,
  type ShownRequest,
  scopesOf,
} from "./model.ts";
import {
  askToConfirm,
  confirming,
  granting,
  isArmed,
  openAllParts,
  openId,
  unseenParts,
  vouchedValues,
} from "./reading.ts";
import { VouchFields, vouchedIn } from "./vouching.tsx";

/** Id of the request whose denial is being written. */
const denying = signal<string | undefined>(undefined);
const reason = signal("");
const answer = signal("");
/** The terms of the grant that is being written, as typed, and the arguments that must be as in the call. */
const written = signal<{ readonly runs: string; readonly minutes: string; readonly same: ReadonlySet<string> }>({
  runs: "",
  minutes: "",
  same: new Set(),
});

// Text written about one request never belongs to another.
effect(() => {
  void openId.value;
  denying.value = undefined;
  reason.value = "";
  answer.value = "";
  confirming.value = undefined;
  granting.value = undefined;
  vouchedValues.value = new Set();
});

/** The bar at the bottom of the page, with the actions on a request. */
export function DecisionBar({ request }: { readonly request: ShownRequest }): VNode | null {
  const { id } = request;
  const out = outgoingFor(id);
  if (out !== undefined) {
    return (
      <div class="decision-bar">
        <OutgoingLine one={out} />
      </div>
    );
  }
  if (!isPending(request)) return null;
  const { approve: mayApprove = false, deny: mayDeny = false, because } = request.canDecide ?? {};
  return (
    <div class="decision-bar">
      {because !== undefined && (
        <p class="because">
          <Text value={because} max={600} />
        </p>
      )}
      {denying.value === id ? <DenyForm request={request} /> : null}
      {granting.value === id && mayApprove ? <GrantForm request={request} /> : null}
      {denying.value !== id && granting.value !== id && (mayApprove || mayDeny) && (
        <>
          {mayApprove && <Answer request={request} />}
          {mayApprove && <VouchFields request={request} />}
          {mayApprove && request.quorum?.reasonRequired === "always" && <ReasonField label="Reason (required)" />}
          <div class="decide-buttons">
            {mayApprove && <ApproveButtons request={request} />}
            {mayDeny && (
              <button type="button" class="danger" aria-keyshortcuts="d" onClick={() => startDenial(request)}>
                Deny … <kbd>d</kbd>
              </button>
            )}
          </div>
        </>
      )}
    </div>
  );
}

function ApproveButtons({ request }: { readonly request: ShownRequest }): VNode {
  const unseen = unseenParts(request);
  const scopes = scopesOf(request);
  if (unseen.length > 0) {
    return (
      <button type="button" class="primary" aria-keyshortcuts="e" onClick={() => openAllParts(request)}>
        {unseen.length === 1 ? "Show all of it first" : `Show all ${unseen.length} long parts first`} <kbd>e</kbd>
      </button>
    );
  }
  return (
    <>
      {scopes.map((scope) =>
        scope === "bounded" ? (
          <button key={scope} type="button" aria-keyshortcuts="g" onClick={() => startGrant(request)}>
            Approve several calls … <kbd>g</kbd>
          </button>
        ) : (
          <ApproveButton key={scope} request={request} scope={scope} />
        ),
      )}
    </>
  );
}

function ApproveButton({ request, scope }: { readonly request: ShownRequest; readonly scope: ApprovalScope }): VNode {
  const isConfirming = confirming.value?.id === request.id && confirming.value.scope === scope;
  const missing = missingOf(request);
  const vouching = vouchedIn(request).length;
  const label = `${scope === "session" ? "Approve for the session" : "Approve once"}${vouching === 0 ? "" : `, and vouch for ${counted(vouching, "value")}`}`;
  const isOff = !isArmed.value || missing !== undefined;
  return (
    <button
      type="button"
      class={`${scope === "once" ? "primary" : ""} ${isConfirming ? "confirming" : ""} ${isArmed.value ? "" : "arming"}`}
      aria-disabled={isOff}
      aria-keyshortcuts={scope === "once" ? "a" : "s"}
      title={missing}
      onClick={() => pressApprove(request, scope)}
    >
      {isConfirming ? "Press again: the risk is high" : label} <kbd>{scope === "once" ? "a" : "s"}</kbd>
    </button>
  );
}

/** Returns what is missing before an approval can be sent. */
function missingOf({ answer: wanted, quorum }: ShownRequest): string | undefined {
  if (wanted !== undefined && wanted.text === undefined && answer.value.trim() === "")
    return "The agent waits for an answer.";
  if (quorum?.reasonRequired === "always" && reason.value.trim() === "") return "A policy wants a reason.";
  return undefined;
}

/** Returns why an approval cannot be sent now; undefined when it can. */
function objectionTo(request: ShownRequest, scope: ApprovalScope): string | undefined {
  const { canDecide } = request;
  if (canDecide?.approve !== true) return canDecide?.because ?? "You cannot approve this request.";
  if (!scopesOf(request).includes(scope)) return "This request cannot be approved in this scope.";
  if (unseenParts(request).length > 0) return "Show all of the plan first, with e.";
  if (!isArmed.value) return "The request has only just appeared. Press again.";
  return missingOf(request);
}

/** Approves, as the button or its key does. A call of high risk is approved by the second press. */
export function pressApprove(request: ShownRequest, scope: ApprovalScope): void {
  const { id, tool, viewDigest } = request;
  if (!isPending(request) || outgoingFor(id) !== undefined) return;
  const objection = objectionTo(request, scope);
  if (objection !== undefined) {
    announce(`Not approved: ${objection}`);
    return;
  }
  const isConfirmed = confirming.value?.id === id && confirming.value.scope === scope;
  if (isHighRisk(request) && !isConfirmed) {
    askToConfirm(id, scope);
    announce("The risk is high. Press again to approve.");
    return;
  }
  confirming.value = undefined;
  const wanted = request.answer;
  const text = wanted !== undefined && wanted.text === undefined ? answer.value : undefined;
  const grant = scope === "bounded" ? writtenTerms(request) : undefined;
  if (scope === "bounded" && grant === undefined) return;
  granting.value = undefined;
  // The form of a grant does not show the values that were ticked.
  const vouch = scope === "bounded" ? [] : vouchedIn(request);
  const made = { decision: "approve", scope, grant, answer: text, vouch, reason: reason.value.trim() } as const;
  decideSoon([{ id, tool, viewDigest }], made);
}

/** Opens the form in which a grant of several calls is written. Nothing is granted before it is pressed there. */
export function startGrant(request: ShownRequest): void {
  const { id, offer } = request;
  if (!isPending(request) || outgoingFor(id) !== undefined) return;
  const objection = objectionTo(request, "bounded");
  if (offer === undefined || (objection !== undefined && isArmed.value)) {
    announce(`Not approved: ${objection ?? "This request cannot be approved in this scope."}`);
    return;
  }
  denying.value = undefined;
  written.value = { runs: "", minutes: String(offer.minutes), same: new Set() };
  granting.value = id;
}

/** Returns the terms as written; undefined when a number is not within the offered ones. */
function writtenTerms({ offer }: ShownRequest): ApprovalTerms | undefined {
  if (offer === undefined) return undefined;
  const { runs, minutes, same } = written.value;
  const isWithin = (text: string, max: number): boolean => /^[1-9]\d{0,5}$/.test(text) && Number(text) <= max;
  if (!isWithin(runs, offer.runs) || !isWithin(minutes, offer.minutes)) return undefined;
  const bounds = Object.fromEntries([...same].map((name) => [name, "equal"]));
  return { runs: Number(runs), minutes: Number(minutes), arguments: bounds };
}

/** The form of a grant: how many calls, how long, and what each argument may be. */
function GrantForm({ request }: { readonly request: ShownRequest }): VNode | null {
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
        <button type="button" onClick={() => void closeForm()}>
          Back <kbd>Esc</kbd>
        </button>
      </div>
    </form>
  );
}

interface GrantBoundProps {
  readonly name: string;
  readonly bound: string;
  /** Whether calls may differ in the argument; the approver can require it to be as in this call. */
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

/** Opens the form in which the reason of a denial is written. */
export function startDenial(request: ShownRequest): void {
  const { id, canDecide } = request;
  if (!isPending(request) || outgoingFor(id) !== undefined) return;
  granting.value = undefined;
  if (canDecide?.deny === true) denying.value = id;
  else announce(canDecide?.because ?? "You cannot deny this request.");
}

/** Closes the form of a denial or of a grant. Returns whether one was open. */
export function closeForm(): boolean {
  const isOpen = denying.value !== undefined || granting.value !== undefined;
  denying.value = undefined;
  granting.value = undefined;
  return isOpen;
}

/** Whether the policies of a request want a reason for a denial. */
function needsReason({ quorum }: ShownRequest): boolean {
  return quorum !== undefined && quorum.reasonRequired !== "never";
}

function DenyForm({ request }: { readonly request: ShownRequest }): VNode {
  const { id, tool } = request;
  const isMissing = needsReason(request) && reason.value.trim() === "";
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isMissing) return;
    denying.value = undefined;
    decideSoon([{ id, tool }], { decision: "deny", reason: reason.value.trim() });
    reason.value = "";
  };
  return (
    <form class="deny-form" onSubmit={submit}>
      <ReasonField
        label={`Reason for the agent${needsReason(request) ? " (required)" : ""}`}
        takesFocus
        onSubmit={submit}
      />
      <div class="decide-buttons">
        <button type="submit" class="danger solid" aria-disabled={isMissing}>
          Deny
        </button>
        <button
          type="button"
          onClick={() => {
            denying.value = undefined;
          }}
        >
          Back <kbd>Esc</kbd>
        </button>
      </div>
    </form>
  );
}

interface ReasonFieldProps {
  readonly label: string;
  readonly takesFocus?: boolean;
  readonly onSubmit?: (event: Event) => void;
}

/** The field of a reason. The Enter key sends it; with Shift it starts a new line. */
export function ReasonField({ label, takesFocus = false, onSubmit }: ReasonFieldProps): VNode {
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    if (takesFocus) field.current?.focus();
  }, []);
  return (
    <label class="field">
      <span>
        {label} <span class="dim">{reason.value.length > 0 && `${reason.value.length}/${REASON_CHARACTERS_MAX}`}</span>
      </span>
      <textarea
        ref={field}
        rows={2}
        maxLength={REASON_CHARACTERS_MAX}
        placeholder="The agent reads it: say what to do instead."
        value={reason.value}
        onInput={({ currentTarget }) => {
          reason.value = currentTarget.value;
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing && onSubmit !== undefined) onSubmit(event);
        }}
      />
    </label>
  );
}

/** Takes what was written into the field of a reason. */
export function takeReason(): string {
  const text = reason.value.trim();
  reason.value = "";
  return text;
}

function Answer({ request: { id, answer: wanted } }: { readonly request: ShownRequest }): VNode | null {
  if (wanted === undefined) return null;
  if (wanted.text !== undefined) {
    return (
      <p class="because">
        The first approver's answer: “<Text value={wanted.text} max={600} />
        ”. Your approval confirms it.
      </p>
    );
  }
  if (wanted.choices === undefined) {
    return (
      <label class="field">
        <span>Your answer to the agent</span>
        <textarea
          rows={2}
          maxLength={ANSWER_CHARACTERS_MAX}
          value={answer.value}
          onInput={({ currentTarget }) => {
            answer.value = currentTarget.value;
          }}
        />
      </label>
    );
  }
  return (
    <fieldset class="choices">
      <legend>Your answer to the agent</legend>
      {wanted.choices.map((choice) => (
        <label key={choice}>
          <input
            type="radio"
            name={`answer-${id}`}
            checked={answer.value === choice}
            onChange={() => {
              answer.value = choice;
            }}
          />
          <Text value={choice} />
        </label>
      ))}
    </fieldset>
  );
}

/** A decision on its way, with the time that is left to take it back. */
export function OutgoingLine({ one }: { readonly one: Outgoing }): VNode {
  void tick.value;
  const seconds = Math.max(0, Math.ceil((one.sendAt - Date.now()) / 1_000));
  return (
    <div class={`outgoing ${one.decision}`}>
      <p>
        <strong>
          <Text value={sentence(one)} max={200} />
        </strong>{" "}
        {one.isSending ? "now …" : `in ${seconds} s. Leaving the page drops it.`}
        {one.vouch?.map((value) => (
          <code key={value} class="vouched-value">
            <Text value={value} max={120} />
          </code>
        ))}
      </p>
      {!one.isSending && (
        <button type="button" aria-keyshortcuts="u" onClick={() => undo(one.number)}>
          Undo <kbd>u</kbd>
        </button>
      )}
    </div>
  );
}
