import { type Signal, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { ApprovalQuorum } from "../../../core/api/approvals.ts";
import { saidMembers } from "../../../core/approval-view.ts";
import { asStrings } from "../../../core/json.ts";
import { members, serviceNow } from "../api.ts";
import { CallerLink } from "../caller.tsx";
import { AgentSays, Ago, Badge, Countdown, Facts, Heading, localTime, Party, Problem, RiskBadge } from "../parts.tsx";
import { Names, Sentences } from "../records.tsx";
import { tick } from "../state.ts";
import { Block, Text } from "../text.tsx";
import { DecisionBar } from "./decision-bar.tsx";
import { earlierOn, loadShown, shown } from "./inbox.ts";
import { coverageOf, isPending, outcomeOf, type ShownRequest, toneOf } from "./model.ts";
import { isCompact, type PlanPart, type PlanShown, planOf, words } from "./plan.ts";
import { isPartOpen, openPart } from "./reading.ts";

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
        <Head request={request} />
        {error !== undefined && <Problem error={error} onRetry={() => void loadShown(id)} />}
        <Outcome request={request} />
        <Plan request={request} />
        <Why request={request} />
        <Who request={request} />
        <Votes request={request} />
        <Earlier request={request} />
        <Identifiers request={request} />
      </div>
      <DecisionBar request={request} />
    </article>
  );
}

function Head({ request }: { readonly request: ShownRequest }): VNode {
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // On a phone, the row that was pressed is no longer on the page.
    const { activeElement } = document;
    const isLost =
      activeElement === document.body || (activeElement instanceof HTMLElement && activeElement.offsetParent === null);
    if (isLost) title.current?.focus({ preventScroll: true });
  }, [request.id]);
  const { tool, classification, category, risk, state, decideBy, createdAt } = request;
  const system = members(members(request.view)["target"])["system"];
  return (
    <header class="detail-head">
      <div class="badges">
        <RiskBadge risk={risk} />
        {classification !== undefined && (
          <Badge tone={classification === "destructive" ? "bad" : "plain"}>{classification}</Badge>
        )}
        {category !== undefined && category !== classification && <Badge>{category}</Badge>}
        {!isPending(request) && <Badge tone={toneOf(state)}>{outcomeOf(request)}</Badge>}
      </div>
      <h1 id="request-title" ref={title} tabIndex={-1}>
        <Text value={tool} max={200} />
        {typeof system === "string" && (
          <span class="on-system">
            {" "}
            on <Text value={system} max={200} />
          </span>
        )}
      </h1>
      <p class="meta">
        Asked <Ago iso={createdAt} />
        {isPending(request) && (
          <>
            {" "}
            · expires in <Countdown iso={decideBy} />
          </>
        )}
      </p>
    </header>
  );
}

function Outcome({ request }: { readonly request: ShownRequest }): VNode | null {
  const { state, decidedBy, decidedAt, decisionReason, scope } = request;
  if (isPending(request)) return null;
  return (
    <div class={`callout outcome tone-${toneOf(state)}`} role="status">
      <p>
        <strong>{outcomeOf(request)}</strong>
        {coverageOf(scope, request.granted)}
        {decidedBy !== undefined && (
          <>
            {" "}
            by <Party {...decidedBy} />
          </>
        )}
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
  const plan = planOf(request.view);
  const view = members(request.view);
  const { description, confinement } = view;
  return (
    <section class="plan" aria-labelledby="plan-title">
      <h2 id="plan-title">{isPending(request) ? "What will run" : "What was requested"}</h2>
      <div class="plan-card">
        <p class="plan-title">{plan.title}</p>
        {plan.main.map((part) => (
          <Part key={part.label} part={part} isMain />
        ))}
        {typeof confinement === "string" && confinement !== "not applicable" && (
          <p class={`confinement ${confinement === "none" ? "is-none" : ""}`}>
            Confinement: <Text value={confinement} />
          </p>
        )}
      </div>
      {typeof description === "string" && (
        <p class="description">
          The tool: <Text value={description} max={600} />
        </p>
      )}
      <MorePlan plan={plan} />
    </section>
  );
}

function Part({ part, isMain = false }: { readonly part: PlanPart; readonly isMain?: boolean }): VNode {
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
      <Block value={value} as={as} label={label} isOpen={isOpen} onOpen={open} />
      {omission !== undefined && <p class="omission">{omission}</p>}
      {end !== undefined && <Block value={end} label={`${label}, end`} isOpen={isOpen} onOpen={open} />}
    </div>
  );
}

function MorePlan({ plan: { more } }: { readonly plan: PlanShown }): VNode | null {
  if (more.length === 0) return null;
  return (
    <details class="more-plan">
      <summary>
        Everything else in the plan <span class="dim">({more.map(({ label }) => label.toLowerCase()).join(", ")})</span>
      </summary>
      {more.map((part) => (
        <Part key={part.label} part={part} />
      ))}
    </details>
  );
}

function Why({ request }: { readonly request: ShownRequest }): VNode {
  const view = members(request.view);
  const { toolMessage, notes, rules, reason } = view;
  const names = asStrings(rules).length > 0 ? asStrings(rules) : (request.rules ?? []);
  const said = members(reason)["text"];
  const policies = request.quorum?.policies ?? [];
  return (
    <section aria-labelledby="why-title">
      <h2 id="why-title">Why it asks</h2>
      {typeof toolMessage === "string" && (
        <p class="callout">
          <Text value={toolMessage} max={1_000} />
        </p>
      )}
      <Facts
        rows={[
          ["Risk", <RiskBadge key="risk" risk={request.risk} />],
          names.length === 0 ? undefined : ["Rules", <Names key="rules" names={names} />],
          policies.length === 0
            ? undefined
            : ["Policies", <Names key="policies" names={policies.map(({ name }) => name)} />],
        ]}
      />
      {asStrings(notes).length > 0 && (
        <ul class="notes">
          {asStrings(notes).map((note) => (
            <li key={note}>
              <Text value={note} max={1_000} />
            </li>
          ))}
        </ul>
      )}
      {saidMembers(view, "console").map((member) => (
        <Sentences key={member.label} {...member} label={words(member.label)} />
      ))}
      <AgentSays text={said} />
    </section>
  );
}

function Who({ request: { requester } }: { readonly request: ShownRequest }): VNode | null {
  if (requester === undefined) return null;
  const { sub, iss, act = [], session } = requester;
  return (
    <section aria-labelledby="who-title">
      <h2 id="who-title">Who asks</h2>
      <Facts
        rows={[
          ["Caller", <CallerLink key="sub" sub={sub} iss={iss} />],
          [
            "Actors",
            act.length === 0 ? <span class="dim">none: the caller acts alone</span> : <Names key="act" names={act} />,
          ],
          [
            "Session",
            session === undefined ? (
              <span class="dim">none</span>
            ) : (
              <code key="session">
                <Text value={session} max={120} />
              </code>
            ),
          ],
        ]}
      />
    </section>
  );
}

function Votes({ request }: { readonly request: ShownRequest }): VNode {
  const { quorum, decideBy, executeBy } = request;
  return (
    <section aria-labelledby="votes-title">
      <h2 id="votes-title">Time and votes</h2>
      <Facts
        rows={[
          isPending(request) && decideBy !== undefined
            ? ["Expires", <Expiry key="expiry" iso={decideBy} />]
            : ["Expiry", decideBy === undefined ? "unknown" : localTime(decideBy)],
          executeBy === undefined ? undefined : ["Must run by", localTime(executeBy)],
          quorum === undefined ? ["Approvals", "One approver is enough."] : undefined,
        ]}
      />
      {quorum !== undefined && <QuorumShown quorum={quorum} />}
    </section>
  );
}

const DECIDE_MS_TYPICAL = 600_000;

function Expiry({ iso }: { readonly iso: string }): VNode {
  void tick.value;
  const left = Math.max(0, Date.parse(iso) - serviceNow());
  return (
    <span class="expiry">
      <progress max={DECIDE_MS_TYPICAL} value={Math.min(left, DECIDE_MS_TYPICAL)} aria-label="Time left" />
      in <Countdown iso={iso} /> <span class="dim">({localTime(iso)})</span>
    </span>
  );
}

function QuorumShown({ quorum: { policies, reasonRequired } }: { readonly quorum: ApprovalQuorum }): VNode {
  return (
    <>
      {policies.map(({ name, stages }) => (
        <div key={name} class="policy">
          <h3>
            <Text value={name} max={120} />
          </h3>
          <ol class="stages">
            {stages.map((stage) => (
              <li key={stage.name} class={`stage ${stage.state}`}>
                <span class="stage-count">
                  {stage.have}/{stage.needed}
                </span>
                <span>
                  <strong>
                    <Text value={stage.name} max={120} />
                  </strong>{" "}
                  <span class="dim">{STAGE_WORDS[stage.state] ?? stage.state}</span>
                  {stage.voters.map((voter) => (
                    <span key={`${voter.iss} ${voter.sub}`} class="voter">
                      ✓ <Party sub={voter.sub} iss={voter.iss} /> <Ago iso={voter.at} />
                      {voter.reason !== undefined && (
                        <>
                          : <Text value={voter.reason} max={600} />
                        </>
                      )}
                    </span>
                  ))}
                  {stage.deciders !== undefined && stage.state !== "complete" && <Deciders deciders={stage.deciders} />}
                </span>
              </li>
            ))}
          </ol>
        </div>
      ))}
      {reasonRequired !== "never" && (
        <p class="dim">{reasonRequired === "always" ? "Every decision needs a reason." : "A denial needs a reason."}</p>
      )}
    </>
  );
}

const STAGE_WORDS: Readonly<Record<string, string>> = {
  open: "waits for approvals",
  complete: "complete",
  later: "comes later",
};

function Deciders({
  deciders: { permissions, subjects },
}: {
  readonly deciders: NonNullable<ApprovalQuorum["policies"][number]["stages"][number]["deciders"]>;
}): VNode {
  return (
    <span class="deciders dim">
      {permissions.length > 0 && (
        <>
          holders of <Text value={permissions.join(", ")} max={300} />
        </>
      )}
      {subjects !== undefined && (
        <>
          {permissions.length > 0 && ", "}
          one of <Text value={subjects.map(({ sub }) => sub).join(", ")} max={300} />
        </>
      )}
    </span>
  );
}

const EARLIER_SHOWN = 5;

function Earlier({ request }: { readonly request: ShownRequest }): VNode {
  const all = earlierOn(request);
  const isOpen: Signal<boolean> = useSignal(false);
  const rows = isOpen.value ? all : all.slice(0, EARLIER_SHOWN);
  return (
    <section aria-labelledby="earlier-title">
      <h2 id="earlier-title">Earlier decisions on this tool</h2>
      {all.length === 0 && <p class="dim">None among the latest requests.</p>}
      {rows.length > 0 && (
        <ul class="earlier">
          {rows.map((one) => (
            <li key={one.id}>
              <Badge tone={toneOf(one.state)}>{outcomeOf(one)}</Badge>
              <span>
                {one.decidedBy !== undefined && (
                  <>
                    by <Text value={one.decidedBy.sub} max={60} />{" "}
                  </>
                )}
                <a href={`#/approvals/${encodeURIComponent(one.id)}`}>
                  <Ago iso={one.decidedAt ?? one.createdAt} />
                </a>
                {one.decisionReason !== undefined && (
                  <>
                    : “<Text value={one.decisionReason} max={200} />”
                  </>
                )}
              </span>
            </li>
          ))}
        </ul>
      )}
      {all.length > EARLIER_SHOWN && !isOpen.value && (
        <button
          type="button"
          class="show-all"
          onClick={() => {
            isOpen.value = true;
          }}
        >
          Show all {all.length}
        </button>
      )}
    </section>
  );
}

function Identifiers({ request }: { readonly request: ShownRequest }): VNode {
  const { id, planDigest, viewDigest, traceId } = request;
  const code = (value: string | undefined) => (value === undefined ? undefined : <code>{value}</code>);
  return (
    <details class="more-plan">
      <summary>Identifiers</summary>
      <Facts
        rows={[
          ["Approval request", code(id)],
          traceId === undefined ? undefined : ["Call", code(traceId)],
          planDigest === undefined ? undefined : ["Plan, SHA-256", code(planDigest)],
          viewDigest === undefined ? undefined : ["View, SHA-256", code(viewDigest)],
        ]}
      />
    </details>
  );
}
