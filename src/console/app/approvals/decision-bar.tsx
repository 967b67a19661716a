import { effect, signal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { announce, tick } from "../state.ts";
import { Text } from "../text.tsx";
import { decideSoon, type Outgoing, outgoingFor, sentence, undo } from "./decisions.ts";
import {
  ANSWER_CHARACTERS_MAX,
  isHighRisk,
  isPending,
  REASON_CHARACTERS_MAX,
  type ShownRequest,
  scopesOf,
} from "./model.ts";
import { askToConfirm, confirming, isArmed, openAllParts, openId, unseenParts } from "./reading.ts";

type ApprovalScope = "once" | "session";

/** Id of the request whose denial is being written. */
const denying = signal<string | undefined>(undefined);
const reason = signal("");
const answer = signal("");

// Text written about one request never belongs to another.
effect(() => {
  void openId.value;
  denying.value = undefined;
  reason.value = "";
  answer.value = "";
  confirming.value = undefined;
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
      {denying.value !== id && (mayApprove || mayDeny) && (
        <>
          {mayApprove && <Answer request={request} />}
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
      {scopes.map((scope) => (
        <ApproveButton key={scope} request={request} scope={scope} />
      ))}
    </>
  );
}

function ApproveButton({ request, scope }: { readonly request: ShownRequest; readonly scope: ApprovalScope }): VNode {
  const isConfirming = confirming.value?.id === request.id && confirming.value.scope === scope;
  const missing = missingOf(request);
  const label = scope === "session" ? "Approve for the session" : "Approve once";
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
  decideSoon([{ id, tool, viewDigest }], { decision: "approve", scope, answer: text, reason: reason.value.trim() });
}

/** Opens the form in which the reason of a denial is written. */
export function startDenial(request: ShownRequest): void {
  const { id, canDecide } = request;
  if (!isPending(request) || outgoingFor(id) !== undefined) return;
  if (canDecide?.deny === true) denying.value = id;
  else announce(canDecide?.because ?? "You cannot deny this request.");
}

/** Closes the form of a denial. Returns whether it was open. */
export function closeDenial(): boolean {
  if (denying.value === undefined) return false;
  denying.value = undefined;
  return true;
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
      </p>
      {!one.isSending && (
        <button type="button" aria-keyshortcuts="u" onClick={() => undo(one.number)}>
          Undo <kbd>u</kbd>
        </button>
      )}
    </div>
  );
}
