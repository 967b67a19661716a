import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { programsIn } from "../../../core/decision-words.ts";
import { asStrings } from "../../../core/json.ts";
import { nameInSentence } from "../../../core/printable.ts";
import { members } from "../api.ts";
import { Ago, Badge, Facts, Heading, localTime, Party, Problem } from "../parts.tsx";
import { Names } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { permissions } from "../session.ts";
import { Block, Quoted, Text } from "../text.tsx";
import { Band } from "./band.tsx";
import { DecisionBar } from "./decision-bar.tsx";
import { endedRequest, loadShown, shown } from "./inbox.ts";
import { coverageOf, isPending, outcomeOf, type ShownRequest, toneOf } from "./model.ts";
import { confinementWords, isCompact, type PlanPart, type PlanShown } from "./plan.ts";
import { followEnd, isPartOpen, layoutOfPlan, openPart, shownPlan } from "./reading.ts";
import { HeadlineShown } from "./row.tsx";
import { Votes } from "./votes.tsx";

/** The open request: what will run, why it asks, who asks, and the decision. */
export function Detail(): VNode | null {
  const open = shown.value;
  if (open === undefined) return null;
  const { id, request, error } = open;
  if (request === undefined) {
    return (
      <article class="detail">
        <a class="back" href="#/approvals">
          ← All requests
        </a>
        {error === undefined ? (
          <p class="loading" role="status">
            Reading the request …
          </p>
        ) : (
          <>
            <Heading focusKey={id}>Request</Heading>
            <Problem error={error} onRetry={() => void loadShown(id)} />
          </>
        )}
      </article>
    );
  }
  return (
    <article class="detail" aria-labelledby="request-title">
      <div class="detail-scroll">
        <a class="back" href="#/approvals">
          ← All requests
        </a>
        <Band request={request} />
        {error !== undefined && <Problem error={error} onRetry={() => void loadShown(id)} />}
        <Outcome request={request} />
        <Plan request={request} />
        <Votes request={request} />
        <MorePlan plan={shownPlan(request)} />
        <Earlier request={request} />
        <Identifiers request={request} />
      </div>
      <DecisionBar request={request} />
    </article>
  );
}

function Outcome({ request }: { readonly request: ShownRequest }): VNode | null {
  const { state, decidedBy, decidedAt, decisionReason, scope } = request;
  if (isPending(request)) return null;
  return (
    <div class={`callout outcome tone-${toneOf(state)}`}>
      <p>
        <span role="status">
          <strong>{outcomeOf(request)}</strong>
          {coverageOf(scope, request.granted)}
          {decidedBy !== undefined && (
            <>
              {" "}
              by <Party {...decidedBy} />
            </>
          )}
        </span>
        {decidedAt !== undefined && (
          <>
            {" "}
            · <Ago iso={decidedAt} />
          </>
        )}
      </p>
      {decisionReason !== undefined && (
        <p>
          Reason: <Text value={decisionReason} max={600} />
        </p>
      )}
    </div>
  );
}

function Plan({ request }: { readonly request: ShownRequest }): VNode {
  const plan = shownPlan(request);
  const told = programsIn(asStrings(members(request.view)["notes"]));
  const confinement = confinementWords(request.view);
  const end = useRef<HTMLSpanElement>(null);
  const layout = layoutOfPlan();
  useEffect(() => (end.current === null ? undefined : followEnd(end.current)), [layout]);
  return (
    <section class={`plan ${plan.title === "Question" ? "question" : ""}`} aria-labelledby="plan-title">
      <div class="plan-head">
        <h2 id="plan-title">{planTitle(request)}</h2>
        <p class="plan-title">{plan.title === "Question" ? "Its own words. Nobody has checked them." : plan.title}</p>
      </div>
      <div class="plan-card">
        {plan.main.map((part) => (
          <Part key={part.label} part={part} isMain told={part.label === "Script" ? told : []} />
        ))}
        {confinement !== undefined && (
          <p class={`confinement ${confinement.isNone ? "is-none" : ""}`}>
            <Text value={confinement.text} />
          </p>
        )}
        <span ref={end} aria-hidden="true" />
      </div>
    </section>
  );
}

function planTitle(request: ShownRequest): string {
  if (request.answer !== undefined) return isPending(request) ? "What the agent asks you" : "What the agent asked";
  return isPending(request) ? "What will run" : "What was requested";
}

interface PartProps {
  readonly part: PlanPart;
  readonly isMain?: boolean;
  readonly told?: readonly string[];
}

function Part({ part, isMain = false, told = [] }: PartProps): VNode {
  const { label, value, as = "plain", omission, end } = part;
  const own = useSignal(false);
  const isOpen = isMain ? isPartOpen(label) : own.value;
  const open = (): void => {
    if (isMain) openPart(label);
    else own.value = true;
  };
  return (
    <div class={`part ${isCompact(part) ? "compact" : ""}`}>
      <h3>{label}</h3>
      <Block value={value} as={as} label={label} isOpen={isOpen} onOpen={open} told={told} />
      {omission !== undefined && <p class="omission">{omission}</p>}
      {end !== undefined && <Block value={end} label={`${label}, end`} isOpen={isOpen} onOpen={open} />}
    </div>
  );
}

const NAMED_PARTS = 5;

function namesOf(parts: readonly PlanPart[]): string {
  const names = parts.slice(0, NAMED_PARTS).map(({ label }) => label.toLowerCase().replace("target: ", ""));
  return parts.length > NAMED_PARTS ? `${names.join(", ")} and ${parts.length - NAMED_PARTS} more` : names.join(", ");
}

function MorePlan({ plan: { more } }: { readonly plan: PlanShown }): VNode | null {
  if (more.length === 0) return null;
  return (
    <details class="more-plan">
      <summary>
        Everything else <span class="dim">({namesOf(more)})</span>
      </summary>
      {more.map((part) => (
        <Part key={part.label} part={part} />
      ))}
    </details>
  );
}

/** The last decisions about the tool, as the service knows them. Shows the headline of each request that this page has listed. */
function Earlier({ request: { earlierDecisions = [] } }: { readonly request: ShownRequest }): VNode {
  if (earlierDecisions.length === 0) return <p class="aside">Nobody has decided about this tool before.</p>;
  return (
    <section aria-labelledby="earlier-title">
      <h2 id="earlier-title">Earlier decisions on this tool</h2>
      <ul class="earlier">
        {earlierDecisions.map(({ id = "", decision, at, by, reason }) => {
          const known = endedRequest(id);
          return (
            <li key={id}>
              <Badge tone={decision === "deny" ? "bad" : "good"}>{decision === "deny" ? "denied" : "approved"}</Badge>
              <span>
                by <Text value={nameInSentence(by.sub)} max={60} />{" "}
                <a href={hrefOf("approvals", [id])}>
                  <Ago iso={at} />
                </a>
                {reason !== undefined && (
                  <>
                    : <Quoted value={reason} max={200} />
                  </>
                )}
                {known !== undefined && <HeadlineShown request={known} />}
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Identifiers({ request }: { readonly request: ShownRequest }): VNode {
  const { id, planDigest, viewDigest, traceId, classification, category } = request;
  const { createdAt, decidedAt, decideBy, executeBy } = request;
  const code = (value: string | undefined) => (value === undefined ? undefined : <code>{value}</code>);
  return (
    <details class="more-plan">
      <summary>
        Identifiers and times <span class="dim">(request, call, digests, kind of tool)</span>
      </summary>
      <Facts
        rows={[
          ["Approval request", code(id)],
          traceId === undefined ? undefined : ["Call", <Call key="call" id={traceId} />],
          planDigest === undefined ? undefined : ["Plan, SHA-256", code(planDigest)],
          viewDigest === undefined ? undefined : ["View, SHA-256", code(viewDigest)],
          ["Kind of tool", <Names key="kind" names={[...new Set([classification ?? [], category ?? []].flat())]} />],
          ["Asked", localTime(createdAt)],
          decidedAt === undefined ? undefined : ["Decided", localTime(decidedAt)],
          decideBy === undefined ? undefined : ["Expires", localTime(decideBy)],
          executeBy === undefined ? undefined : ["Must run by", localTime(executeBy)],
        ]}
      />
    </details>
  );
}

/** The id of a call, with a link to its story for those who may read the audit. */
function Call({ id }: { readonly id: string }): VNode {
  const shown = <code>{id}</code>;
  return permissions.value.has("audit:read") ? <a href={hrefOf("calls", [id])}>{shown}</a> : shown;
}
