import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ApprovalScope } from "../../../core/types.ts";
import { isReachable } from "../api.ts";
import { tick } from "../state.ts";
import { Quoted, Text } from "../text.tsx";
import { counted } from "../words.ts";
import {
  answer,
  asksReason,
  denying,
  leaveForm,
  missingOf,
  needsReason,
  pressApprove,
  reason,
  startDenial,
  startGrant,
  UNREACHABLE,
} from "./deciding.ts";
import { decideSoon, type Outgoing, outgoingFor, sentence, undo } from "./decisions.ts";
import { GrantForm } from "./grant-form.tsx";
import {
  ANSWER_CHARACTERS_MAX,
  isHighRisk,
  isPending,
  REASON_CHARACTERS_MAX,
  type ShownRequest,
  scopesOf,
} from "./model.ts";
import { confirming, granting, isArmed, openAllParts, planEnd, unseenParts } from "./reading.ts";
import { VouchFields, vouchedIn } from "./vouching.tsx";

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
          {mayApprove && asksReason(request) && <ReasonField label="Reason (required)" />}
          <div class="decide-buttons">
            {mayApprove && <ApproveButtons request={request} />}
            {mayApprove && <Unseen request={request} />}
            {mayDeny && (
              <button
                type="button"
                class="danger"
                aria-disabled={!isReachable.value}
                aria-keyshortcuts="d"
                title={isReachable.value ? undefined : UNREACHABLE}
                onClick={() => startDenial(request)}
              >
                {request.answer === undefined ? "Deny …" : "Do not answer …"} <kbd>d</kbd>
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

/** At high risk, says that the end of the plan was not on the screen yet. Does not prevent an approval. */
function Unseen({ request }: { readonly request: ShownRequest }): VNode | null {
  if (!isHighRisk(request) || planEnd.value !== "unseen" || unseenParts(request).length > 0) return null;
  return <p class="unseen">Not all of what will run was on the screen.</p>;
}

function approvalLabel(request: ShownRequest, scope: ApprovalScope): string {
  if (request.answer !== undefined) return request.answer.text === undefined ? "Send answer" : "Confirm answer";
  const label = scope === "session" ? "Approve for the session" : "Approve once";
  const vouching = vouchedIn(request).length;
  return vouching === 0 ? label : `${label}, and vouch for ${counted(vouching, "value")}`;
}

function ApproveButton({ request, scope }: { readonly request: ShownRequest; readonly scope: ApprovalScope }): VNode {
  const isConfirming = confirming.value?.id === request.id && confirming.value.scope === scope;
  const missing = missingOf(request);
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
      {isConfirming ? "Press again: the risk is high" : approvalLabel(request, scope)}{" "}
      <kbd>{scope === "once" ? "a" : "s"}</kbd>
    </button>
  );
}

/** Height of the buttons that the form of a denial replaces (CSS pixels). */
const BUTTONS_HEIGHT = 36;

function DenyForm({ request }: { readonly request: ShownRequest }): VNode {
  const { id, tool } = request;
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => {
    // The form takes space from the plan. Scrolling keeps the lines above the buttons, which the reason may quote, on the screen.
    const content = document.querySelector(".detail-scroll");
    const [{ height = 0 } = {}] = form.current === null ? [] : [form.current.getBoundingClientRect()];
    const taken = Math.max(0, height - BUTTONS_HEIGHT);
    content?.scrollBy({ top: taken, behavior: "instant" });
    return () => content?.scrollBy({ top: -taken, behavior: "instant" });
  }, []);
  const isMissing = (needsReason(request) && reason.value.trim() === "") || !isReachable.value;
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isMissing) return;
    denying.value = undefined;
    decideSoon([{ id, tool }], { decision: "deny", reason: reason.value.trim() });
    reason.value = "";
  };
  return (
    <form ref={form} class="deny-form" onSubmit={submit}>
      <ReasonField
        label={`Reason for the agent${needsReason(request) ? " (required)" : ""}`}
        takesFocus
        onSubmit={submit}
      />
      <div class="decide-buttons">
        <button type="submit" class="danger solid" aria-disabled={isMissing}>
          Deny
        </button>
        <button type="button" onClick={leaveForm}>
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

function Answer({ request: { id, answer: wanted } }: { readonly request: ShownRequest }): VNode | null {
  if (wanted === undefined) return null;
  if (wanted.text !== undefined) {
    return (
      <p class="because">
        The first approver's answer: <Quoted value={wanted.text} max={600} />. Your approval confirms it.
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
    <fieldset class="choices answers">
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
        {one.isSending ? "now …" : `in ${seconds} s. Leaving the console drops it.`}
        {one.answer !== undefined && (
          <>
            {" "}
            <Quoted value={one.answer} max={200} />
          </>
        )}
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
