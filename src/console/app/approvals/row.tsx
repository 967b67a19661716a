import { type Signal, useComputed, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ruleMeanings } from "../../../core/decision-words.ts";
import { nameInSentence } from "../../../core/printable.ts";
import { CallerLink } from "../caller.tsx";
import { HaltedMark } from "../halting.tsx";
import { Ago, Badge, Countdown, RiskBadge } from "../parts.tsx";
import { hrefOf } from "../route.ts";
import { Text } from "../text.tsx";
import { outgoingFor } from "./decisions.ts";
import { routeId } from "./inbox.ts";
import { haveSeveralIssuers, isMarked, toggleMark } from "./list.ts";
import { type ListedRequest, outcomeOf, toneOf } from "./model.ts";

interface RowProps {
  readonly request: ListedRequest;
}

/** A request that waits: what will run, then the tool, who asks, and the time that is left. */
export function Row({ request }: RowProps): VNode {
  const { id, tool, risk, requester, decideBy, createdAt, canDecide } = request;
  const element = useRef<HTMLLIElement>(null);
  const isVisible = useVisible(element);
  const isOpen = useComputed(() => routeId.value === id);
  const isSelected = useComputed(() => isMarked(id));
  const decision = useComputed(() => outgoingFor(id)?.decision);
  return (
    <li ref={element} class={`row ${isOpen.value ? "open" : ""}`} id={`row-${id}`}>
      <label class="mark-box">
        <input
          type="checkbox"
          checked={isSelected.value}
          aria-describedby={`does-${id}`}
          onChange={() => toggleMark(id)}
        />
        <span class="sr-only">
          Select <Text value={tool} max={80} isFixed />
        </span>
      </label>
      <div class="row-body">
        <a
          class="row-link"
          id={`does-${id}`}
          href={hrefOf("approvals", [id])}
          aria-current={isOpen.value ? "true" : undefined}
          onClick={() => isOpen.peek() && document.getElementById("request-title")?.focus()}
        >
          <HeadlineShown request={request} />
        </a>
        <RowReasons request={request} />
        <div class="row-more">
          {risk !== undefined && <RiskBadge risk={risk} />}
          <RowSubject request={request} />
          {requester !== undefined && <HaltedMark {...requester} tool={tool} />}
          {decision.value === undefined ? (
            <span class="row-time">
              {decideBy === undefined ? (
                <Ago iso={createdAt} isStill={!isVisible.value} />
              ) : (
                <>
                  <Countdown iso={decideBy} isStill={!isVisible.value} isShort /> left
                </>
              )}
            </span>
          ) : (
            <span class="row-time row-out">{decision.value === "deny" ? "denying …" : "approving …"}</span>
          )}
        </div>
        {canDecide?.approve === false && <div class="row-note dim">not yours to approve</div>}
      </div>
    </li>
  );
}

/** The call of a request in one line, for every place that names a request which is not open. */
export function HeadlineShown({
  request: { headline, summary },
}: {
  readonly request: Pick<ListedRequest, "headline" | "summary">;
}): VNode {
  if (headline === undefined)
    return (
      <span class="headline">
        <Text value={summary} max={200} isFixed />
      </span>
    );
  const { does, what, more } = headline;
  return (
    <span class="headline">
      {does !== undefined && (
        <span class="does">
          <Text value={does} max={80} isFixed />{" "}
        </span>
      )}
      {what === "" ? <span class="dim">without arguments</span> : <Text value={what} isFixed />}
      {more !== undefined && <span class="dim"> ({more})</span>}
    </span>
  );
}

/** The tool, and who asks for the call. */
export function RowSubject({ request: { tool, requester } }: RowProps): VNode {
  return (
    <span class="row-who">
      <code>
        <Text value={tool} max={80} isFixed />
      </code>
      {" · "}
      <Requester request={{ requester }} />
    </span>
  );
}

/** The requester: the actor if one acts for the caller. Names the issuer if the requests come from several issuers. */
function Requester({ request: { requester } }: { readonly request: Pick<ListedRequest, "requester"> }): VNode {
  if (requester === undefined) return <>…</>;
  const { sub, iss, act: [actor] = [] } = requester;
  return (
    <>
      {actor !== undefined && (
        <>
          <Text value={nameInSentence(actor)} max={60} isFixed /> for{" "}
        </>
      )}
      <CallerLink sub={sub} iss={iss} isShort={!haveSeveralIssuers.value} />
    </>
  );
}

const REASONS_MAX = 2;

/** The meaning of the rules that make the risk of a call high. */
function RowReasons({ request: { risk, rules = [] } }: RowProps): VNode | null {
  if (risk === "low" || risk === "medium") return null;
  const telling = ruleMeanings(rules).filter(({ rule }) => !UNTELLING.has(rule));
  if (telling.length === 0) return null;
  return (
    <div class="row-note dim">
      <Text
        value={telling
          .slice(0, REASONS_MAX)
          .map(({ text }) => text)
          .join(" ")}
        max={200}
        isFixed
      />
    </div>
  );
}

/** Rules that say only that a person is asked. */
const UNTELLING: ReadonlySet<string> = new Set([
  "default",
  "approval.required",
  "category",
  "risk:high",
  "risk:critical",
]);

/** A request that has ended: what was decided, and by whom. */
export function EndedRow({ request }: RowProps): VNode {
  const { id, tool, state, requester, decidedBy, decidedAt, decideBy } = request;
  const isOpen = useComputed(() => routeId.value === id);
  const element = useRef<HTMLLIElement>(null);
  const isVisible = useVisible(element);
  return (
    <li ref={element} class={`row ${isOpen.value ? "open" : ""}`}>
      <div class="row-body">
        <div class="row-main">
          <a class="row-link" href={hrefOf("approvals", [id])} aria-current={isOpen.value ? "true" : undefined}>
            <HeadlineShown request={request} />
          </a>
          <Badge tone={toneOf(state)}>{outcomeOf({ state, decidedBy })}</Badge>
        </div>
        <div class="row-more dim">
          <span class="row-who">
            <code>
              <Text value={tool} max={80} isFixed />
            </code>
            {" · "}
            {decidedBy !== undefined ? (
              <>
                by <Text value={nameInSentence(decidedBy.sub)} max={60} isFixed />
              </>
            ) : (
              <Requester request={{ requester }} />
            )}
          </span>
          <span class="row-time">
            <Ago iso={decidedAt ?? (state === "expired" ? decideBy : undefined)} isStill={!isVisible.value} />
          </span>
        </div>
      </div>
    </li>
  );
}

const seen = new WeakMap<Element, Signal<boolean>>();
const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const isVisible = seen.get(target);
    if (isVisible !== undefined) isVisible.value = isIntersecting;
  }
});

/** Returns whether an element is on the screen: only then its times change every second. */
function useVisible(element: { readonly current: Element | null }): Signal<boolean> {
  const isVisible = useSignal(false);
  useEffect(() => {
    const { current } = element;
    if (current === null) return undefined;
    seen.set(current, isVisible);
    observer.observe(current);
    return () => observer.unobserve(current);
  }, []);
  return isVisible;
}
