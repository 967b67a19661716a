import { useSignal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import type { ApprovalAnswer, ShownGrant, ShownSession } from "../../../core/api/approvals.ts";
import type { QuotaListing } from "../../../core/api/quotas.ts";
import type { OperatorPermission } from "../../../core/operator-permissions.ts";
import { nameInSentence } from "../../../core/printable.ts";
import { serviceNow } from "../api.ts";
import { isPending, outcomeOf, toneOf } from "../approvals/model.ts";
import { HeadlineShown } from "../approvals/row.tsx";
import type { AgentName } from "../caller.tsx";
import { UnusedQuotas } from "../limits/unused.tsx";
import { Ago, Badge, Countdown, Problem } from "../parts.tsx";
import { Section, useRead } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { permissions } from "../session.ts";
import { Text } from "../text.tsx";
import { counted } from "../words.ts";

/** The present state of an agent: waiting requests, labels of data that it has read, quotas, sessions, and approvals of further calls. */

/** A part of the page that is read from one endpoint. */
interface PartOf<Answer> {
  readonly title: string;
  readonly permission: OperatorPermission;
  readonly path: string;
  /** Limits the answer, next to the caller. */
  readonly more?: () => Readonly<Record<string, string>>;
  /** Said where the service has no such endpoint, or it is switched off. */
  readonly off: string;
  readonly view: (answer: Answer) => ComponentChildren;
}

const DAY_MS = 86_400_000;
const REQUESTS_READ = 50;
const ROWS_SHOWN = 8;

const REQUESTS: PartOf<{ readonly approvals: readonly ApprovalAnswer[] }> = {
  title: "Approval requests",
  permission: "approvals:decide",
  path: "/approvals",
  more: () => ({
    state: "all",
    limit: String(REQUESTS_READ),
    headlinesFrom: new Date(serviceNow() - DAY_MS).toISOString(),
  }),
  off: "Nobody is asked here: there is no store of approvals.",
  view: ({ approvals }) => {
    const from = serviceNow() - DAY_MS;
    const recent = approvals.filter((one) => isPending(one) || Date.parse(one.createdAt ?? "") > from);
    const waiting = recent.filter(isPending);
    if (recent.length === 0) return <p class="dim">It asked for nothing in the last day.</p>;
    const outcomes = Map.groupBy(recent, outcomeOf);
    return (
      <>
        <p>
          {recent.length === REQUESTS_READ ? `The newest ${REQUESTS_READ} requests` : "In the last day"}:{" "}
          {[...outcomes].map(([outcome, of]) => `${of.length} ${outcome.toLowerCase()}`).join(" · ")}
        </p>
        <Items of={[...waiting, ...recent.filter((one) => !waiting.includes(one))]} noun="request">
          {(one) => (
            <>
              <a href={hrefOf("approvals", [one.id])}>
                <HeadlineShown request={{ ...one, summary: one.summary === "" ? one.tool : one.summary }} />
              </a>
              <Badge tone={toneOf(one.state)}>{outcomeOf(one)}</Badge>{" "}
              <span class="dim">
                <code>
                  <Text value={one.tool} max={60} isFixed />
                </code>
                {" · "}
                {one.decidedBy !== undefined && (
                  <>
                    by <Text value={nameInSentence(one.decidedBy.sub)} max={60} />{" "}
                  </>
                )}
                <Ago iso={one.decidedAt ?? one.createdAt} />
              </span>
            </>
          )}
        </Items>
      </>
    );
  },
};

interface Label {
  readonly label: string;
  readonly session?: string;
  readonly since: string;
  readonly until: string;
  readonly tool?: string;
  readonly traceId?: string;
}

const LABELS: Readonly<Record<string, string>> = {
  private: "private data",
  untrusted: "untrusted text",
  lost: "untrusted text whose origin is no longer known",
};

const READ: PartOf<{ readonly labels: readonly Label[] }> = {
  title: "What it has read",
  permission: "data-flow:read",
  path: "/data-flow",
  off: "Data flow is off: the service does not remember what callers read.",
  view: ({ labels }) =>
    labels.length === 0 ? (
      <p class="dim">Nothing private or untrusted.</p>
    ) : (
      <Items of={labels} noun="label">
        {({ label, session, since, until, tool, traceId }) => (
          <>
            <Badge tone={label === "private" ? "warn" : "bad"}>
              <Text value={label} max={40} />
            </Badge>{" "}
            {LABELS[label] ?? ""} <Ago iso={since} />
            {tool !== undefined && (
              <>
                , from{" "}
                <a href={hrefOf("calls", [traceId ?? ""])}>
                  <code>
                    <Text value={tool} max={60} isFixed />
                  </code>
                </a>
              </>
            )}
            {session !== undefined && (
              <span class="dim">
                , in the session <Text value={session} max={40} />
              </span>
            )}
            <span class="dim">
              , kept for <Countdown iso={until} />
            </span>
          </>
        )}
      </Items>
    ),
};

const QUOTAS: PartOf<QuotaListing> = {
  title: "Quotas",
  permission: "quotas:read",
  path: "/quotas",
  off: "The configuration has no quotas.",
  view: ({ quotas, use }) =>
    quotas.length === 0 && use.length === 0 ? (
      <p class="dim">{QUOTAS.off}</p>
    ) : (
      <>
        {use.length === 0 && <p class="dim">It has used none of its quotas.</p>}
        {use.length > 0 && <QuotaUse use={use} />}
        <UnusedQuotas quotas={quotas.filter(({ per }) => per.includes("caller"))} use={use} />
      </>
    ),
};

function QuotaUse({ use }: Pick<QuotaListing, "use">): VNode {
  return (
    <Items of={use} noun="quota">
      {({ quota, tool, system, unit, used, limit, endsAt }) => (
        <>
          {limit !== undefined && used >= limit && <Badge tone="bad">used up</Badge>}{" "}
          <code>
            <Text value={[quota, tool, system].filter((name) => name !== undefined).join(" ")} max={80} />
          </code>{" "}
          {used.toLocaleString()} of {limit?.toLocaleString() ?? "any"} {unit},{" "}
          <span class="dim">
            again in <Countdown iso={new Date(endsAt).toISOString()} />
          </span>
        </>
      )}
    </Items>
  );
}

const SESSIONS: PartOf<{ readonly sessions: readonly ShownSession[] }> = {
  title: "Sessions",
  permission: "modes:manage",
  path: "/sessions",
  off: "There are no sessions here: there is no store of approvals.",
  view: ({ sessions }) =>
    sessions.length === 0 ? (
      <p class="dim">No session is open.</p>
    ) : (
      <Items of={sessions} noun="session" more={<a href={hrefOf("sessions")}>Change or end them</a>}>
        {({ id, mode, expiresAt }) => (
          <>
            <code>
              <Text value={id} max={24} />
            </code>{" "}
            <Badge tone={mode === "default" ? "plain" : "warn"}>{mode}</Badge>{" "}
            <span class="dim">
              ends in <Countdown iso={expiresAt} />
            </span>
          </>
        )}
      </Items>
    ),
};

const GRANTS: PartOf<{ readonly grants: readonly ShownGrant[] }> = {
  title: "Approved for several calls",
  permission: "grants:manage",
  path: "/grants",
  off: "There are none here: there is no store of approvals.",
  view: ({ grants }) =>
    grants.length === 0 ? (
      <p class="dim">No approval covers further calls.</p>
    ) : (
      <Items of={grants} noun="approval" more={<a href={hrefOf("sessions")}>Revoke them</a>}>
        {({ tool, summary, expiresAt, bounded, grantedBy }) => (
          <>
            <Text value={summary === "" ? tool : summary} max={160} />
            {bounded !== undefined && `, ${bounded.runsUsed} of ${counted(bounded.runs, "run")} used`}
            {grantedBy !== undefined && (
              <>
                , approved by <Text value={grantedBy.sub} max={60} />
              </>
            )}
            <span class="dim">
              , ends in <Countdown iso={expiresAt} />
            </span>
          </>
        )}
      </Items>
    ),
};

const PARTS = [REQUESTS, READ, QUOTAS, SESSIONS, GRANTS] as readonly PartOf<unknown>[];

export function Standing(who: AgentName): VNode {
  const left = PARTS.filter(({ permission }) => !permissions.value.has(permission));
  return (
    <>
      {PARTS.filter((part) => !left.includes(part)).map((part) => (
        <Part key={part.path} part={part} who={who} />
      ))}
      {left.length > 0 && (
        <p class="help">
          Not shown, because your token does not permit it:{" "}
          {left.map(({ title, permission }) => `${title} (${permission})`).join(", ")}.
        </p>
      )}
    </>
  );
}

interface PartProps {
  readonly part: PartOf<unknown>;
  readonly who: AgentName;
}

/** A service without the endpoint says ROUTE_NOT_FOUND; one where data flow is off, MALFORMED_REQUEST. */
const OFF = ["ROUTE_NOT_FOUND", "MALFORMED_REQUEST"];

function Part({ part: { title, path, more, off, view }, who: { iss, sub } }: PartProps): VNode {
  const [query] = useState(() => new URLSearchParams({ issuer: iss, subject: sub, ...more?.() }).toString());
  const { read, again } = useRead(`${path}?${query}`);
  const { value, error } = read;
  const isOff = error !== undefined && OFF.includes(error.code);
  return (
    <Section id={`agent${path.replaceAll("/", "-")}`} title={title}>
      {isOff && <p class="dim">{off}</p>}
      {error !== undefined && !isOff && <Problem error={error} onRetry={again} />}
      {value !== undefined && view(value)}
    </Section>
  );
}

interface ItemsProps<Item> {
  readonly of: readonly Item[];
  readonly noun: string;
  readonly more?: ComponentChildren;
  readonly children: (item: Item) => ComponentChildren;
}

function Items<Item>({ of, noun, more, children }: ItemsProps<Item>): VNode {
  const isOpen = useSignal(false);
  const left = isOpen.value ? 0 : of.length - ROWS_SHOWN;
  return (
    <>
      <ul class="standing">
        {of.slice(0, isOpen.value ? undefined : ROWS_SHOWN).map((item, at) => (
          <li key={at}>{children(item)}</li>
        ))}
      </ul>
      {left > 0 && (
        <button
          type="button"
          class="show-all"
          onClick={() => {
            isOpen.value = true;
          }}
        >
          Show {counted(left, `more ${noun}`)}
        </button>
      )}
      {more !== undefined && <p class="help">{more}</p>}
    </>
  );
}
