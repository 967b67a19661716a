import { computed, effect, signal, untracked } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Ago, Badge, Countdown, Dialog, Empty, Heading, Problem, RiskBadge } from "../parts.tsx";
import { hrefOf } from "../route.ts";
import { type AppPage, announce, isCommandKey, navigate, tick } from "../state.ts";
import { Text } from "../text.tsx";
import { counted, timeLeft } from "../words.ts";
import { closeForm, pressApprove, startDenial, startGrant, takeReason } from "./deciding.ts";
import { OutgoingLine, ReasonField } from "./decision-bar.tsx";
import { decideSoon, dropAll, lastUndoable, outgoing, outgoingFor, undo } from "./decisions.ts";
import { Detail } from "./detail.tsx";
import {
  endedLately,
  listError,
  notifications,
  open,
  readAt,
  refresh,
  requestOf,
  retryStream,
  routeId,
  runInbox,
  shown,
  stream,
  toggleNotifications,
  waiting,
  waitingCount,
} from "./inbox.ts";
import { isPending, type ListedRequest, outcomeOf, toneOf } from "./model.ts";
import { openAllParts } from "./reading.ts";

const filter = signal("");
const marked = signal<ReadonlySet<string>>(new Set());
const isDenyingMarked = signal(false);

/** The requests that wait and match the filter. */
const listed = computed(() => {
  const wanted = filter.value.trim().toLowerCase();
  return wanted === "" ? waiting.value : waiting.value.filter((one) => searchedText(one).includes(wanted));
});

const markedWaiting = computed(() => waiting.value.filter(({ id }) => marked.value.has(id)));

function searchedText({ tool, summary, requester, risk, rules = [] }: ListedRequest): string {
  return [tool, summary, requester?.sub ?? "", requester?.session ?? "", risk ?? "", ...rules].join("\n").toLowerCase();
}

function ApprovalsView(): VNode {
  const id = routeId.value;
  useEffect(() => effect(openRoute), []);
  const before = useRef<string | undefined>(undefined);
  useEffect(() => {
    // Where only the list or the request is on the page, the focus would be lost with the other.
    if (id === undefined && before.current !== undefined) focusRow(before.current);
    before.current = id;
  }, [id]);
  useEffect(() => {
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return (
    <div class={`inbox ${id === undefined ? "shows-list" : "shows-detail"}`}>
      <List />
      <div class="pane">{id === undefined ? <NoSelection /> : <Detail />}</div>
      {isDenyingMarked.value && <DenyMarked />}
    </div>
  );
}

function openRoute(): void {
  const id = routeId.value;
  untracked(() => open(id));
}

function NoSelection(): VNode {
  if (waitingCount.value === 0) return <Empty title="No request is open" />;
  return (
    <Empty title="Choose a request to read it">
      <p>
        <kbd>j</kbd> opens the next one, <kbd>?</kbd> shows all keys.
      </p>
    </Empty>
  );
}

function List(): VNode {
  const rows = listed.value;
  return (
    <section class="list" aria-label="Requests">
      <header class="list-head">
        <Heading>
          Approvals <span class="dim">{readAt.value === undefined ? "" : `${waitingCount.value} waiting`}</span>
        </Heading>
        <Live />
        <input
          type="search"
          placeholder="Filter by tool, caller, risk"
          aria-label="Filter requests by tool, caller or risk"
          value={filter.value}
          onInput={({ currentTarget }) => {
            filter.value = currentTarget.value;
          }}
        />
      </header>
      <div class="list-scroll">
        {listError.value !== undefined && (
          <Problem error={listError.value} onRetry={() => void refresh({ whole: true })} />
        )}
        {readAt.value === undefined && listError.value === undefined && rows.length === 0 && (
          <p class="loading" role="status">
            Reading the requests …
          </p>
        )}
        {readAt.value !== undefined && rows.length === 0 && <NothingWaits />}
        {rows.length > 0 && (
          <ul class="rows" aria-label="Waiting requests">
            {rows.map((one) => (
              <Row key={one.id} request={one} />
            ))}
          </ul>
        )}
        <Ended />
      </div>
      {markedWaiting.value.length > 0 && (
        <div class="marked-bar">
          <span>{markedWaiting.value.length} selected</span>
          <button
            type="button"
            class="danger"
            onClick={() => {
              isDenyingMarked.value = true;
            }}
          >
            Deny …
          </button>
          <button
            type="button"
            onClick={() => {
              marked.value = new Set();
            }}
          >
            Clear
          </button>
        </div>
      )}
    </section>
  );
}

function NothingWaits(): VNode {
  if (waitingCount.value > 0) return <Empty title="No waiting request matches the filter" />;
  return (
    <Empty title="Nothing waits for you">
      <p>New requests appear here by themselves.</p>
    </Empty>
  );
}

/** Whether the inbox is live, and the switch of notifications. */
function Live(): VNode {
  const state = stream.value;
  void tick.value;
  return (
    <div class="live">
      {state.is === "live" && (
        <span class="live-on">
          <span class="dot" aria-hidden="true" /> Live
        </span>
      )}
      {(state.is === "connecting" || state.is === "ended") && <span class="dim">Connecting …</span>}
      {state.is === "waiting" && (
        <span class="live-off" role="status">
          Not live; next attempt in {timeLeft(state.attemptAt - Date.now())}
          <button type="button" class="link" onClick={retryStream}>
            Connect now
          </button>
        </span>
      )}
      {notifications.value !== "unavailable" && <Bell />}
    </div>
  );
}

const BELL_WORDS = {
  on: "Notifications of new requests are on",
  off: "Notify me of new requests",
  blocked: "The browser blocks notifications from this page",
} as const;

/** The switch of the browser's notifications. */
function Bell(): VNode | null {
  const { value } = notifications;
  if (value === "unavailable") return null;
  return (
    <button
      type="button"
      class="quiet bell"
      aria-label={BELL_WORDS[value]}
      aria-pressed={value === "on"}
      aria-disabled={value === "blocked"}
      title={BELL_WORDS[value]}
      onClick={() => value !== "blocked" && void toggleNotifications()}
    >
      <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
        <path d="M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15zM10 21h4" />
        {value !== "on" && <path d="M4 4l16 17" />}
      </svg>
    </button>
  );
}

const ROW_RULES_MAX = 3;

function Row({ request }: { readonly request: ListedRequest }): VNode {
  const { id, tool, risk, rules = [], requester, decideBy, createdAt, canDecide } = request;
  // The floor's own entry repeats the names of the rules.
  const named = rules.filter((rule) => !rule.startsWith("floor:"));
  const isOpen = routeId.value === id;
  const out = outgoingFor(id);
  return (
    <li class={`row ${isOpen ? "open" : ""}`} id={`row-${id}`}>
      <label class="mark-box">
        <input type="checkbox" checked={marked.value.has(id)} onChange={() => toggleMark(id)} />
        <span class="sr-only">
          Select <Text value={tool} max={80} />
        </span>
      </label>
      <a
        href={hrefOf("approvals", [id])}
        aria-current={isOpen ? "true" : undefined}
        onClick={() => isOpen && focusDetail()}
      >
        <span class="row-main">
          <span class="row-tool">
            <Text value={tool} max={80} />
          </span>
          {risk !== undefined && <RiskBadge risk={risk} />}
        </span>
        <span class="row-more">
          <span class="row-who">{requester === undefined ? "…" : <Text value={requester.sub} max={60} />}</span>
          {out === undefined ? (
            <span>
              <span class="dim">
                <Ago iso={createdAt} />
                {decideBy !== undefined && " · "}
              </span>
              {decideBy !== undefined && (
                <>
                  <Countdown iso={decideBy} />
                  <span class="dim"> left</span>
                </>
              )}
            </span>
          ) : (
            <span class="row-out">{out.decision === "deny" ? "denying …" : "approving …"}</span>
          )}
        </span>
        {named.length > 0 && (
          <span class="row-note dim">
            <Text value={named.slice(0, ROW_RULES_MAX).join(", ")} />
          </span>
        )}
        {canDecide?.approve === false && <span class="row-note dim">not yours to approve</span>}
      </a>
    </li>
  );
}

function Ended(): VNode | null {
  void tick.value;
  const rows = endedLately();
  if (rows.length === 0) return null;
  return (
    <section class="ended" aria-labelledby="ended-title">
      <h2 id="ended-title">Recently ended</h2>
      <ul class="rows">
        {rows.map(({ id, tool, state, requester, decidedBy, decidedAt, decideBy }) => (
          <li key={id} class={`row ${routeId.value === id ? "open" : ""}`}>
            <a href={hrefOf("approvals", [id])} aria-current={routeId.value === id ? "true" : undefined}>
              <span class="row-main">
                <span class="row-tool">
                  <Text value={tool} max={80} />
                </span>
                <Badge tone={toneOf(state)}>{outcomeOf({ state, decidedBy })}</Badge>
              </span>
              <span class="row-more dim">
                <span class="row-who">
                  {decidedBy !== undefined ? (
                    <>
                      by <Text value={decidedBy.sub} max={60} />
                    </>
                  ) : (
                    requester !== undefined && <Text value={requester.sub} max={60} />
                  )}
                </span>
                <Ago iso={decidedAt ?? (state === "expired" ? decideBy : undefined)} />
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function toggleMark(id: string): void {
  const next = new Set(marked.value);
  if (!next.delete(id)) next.add(id);
  marked.value = next;
}

function DenyMarked(): VNode {
  const chosen = markedWaiting.value;
  const close = (): void => {
    isDenyingMarked.value = false;
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    decideSoon(
      chosen.map(({ id, tool }) => ({ id, tool })),
      { decision: "deny", reason: takeReason() },
    );
    marked.value = new Set();
    close();
  };
  return (
    <Dialog title={`Deny ${counted(chosen.length, "request")}`} onClose={close}>
      <form onSubmit={submit}>
        <ul class="names deny-list">
          {chosen.map(({ id, tool, requester }) => (
            <li key={id}>
              <Text value={tool} max={80} />{" "}
              <span class="dim">{requester !== undefined && <Text value={requester.sub} max={60} />}</span>
            </li>
          ))}
        </ul>
        <ReasonField label="One reason for all of them" takesFocus onSubmit={submit} />
        <div class="decide-buttons">
          <button type="submit" class="danger solid">
            Deny {counted(chosen.length, "request")}
          </button>
          <button type="button" onClick={close}>
            Back
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Decisions on their way that the page does not show elsewhere. */
function OutgoingDecisions(): VNode | null {
  const elsewhere = outgoing.value.filter(({ subjects }) => subjects.every(({ id }) => id !== shown.value?.id));
  if (elsewhere.length === 0) return null;
  return (
    <section class="outgoing-list" aria-label="Decisions that are about to be sent">
      {elsewhere.map((one) => (
        <OutgoingLine key={one.number} one={one} />
      ))}
    </section>
  );
}

function onKey(event: KeyboardEvent): void {
  if (event.key === "Escape" && document.querySelector("dialog[open]") === null && closeForm()) return;
  if (!isCommandKey(event)) return;
  const action = KEYS[event.key];
  if (action === undefined) return;
  // Enter and space belong to the button or link that has the focus.
  if (event.key === "Enter" && event.target instanceof HTMLElement && event.target.matches("a, button, summary, input"))
    return;
  event.preventDefault();
  action();
}

const KEYS: Readonly<Record<string, () => void>> = {
  j: () => step(1),
  k: () => step(-1),
  Enter: () => focusDetail(),
  a: () => withRequest((request) => pressApprove(request, "once")),
  s: () => withRequest((request) => pressApprove(request, "session")),
  g: () => withRequest(startGrant),
  d: () => withRequest(startDenial),
  e: () => withRequest(openAllParts),
  u: () => {
    if (!undo()) announce("There is nothing to undo.");
  },
  x: () => {
    const id = routeId.value;
    if (id !== undefined && requestOf(id) !== undefined) toggleMark(id);
  },
  "/": () => document.querySelector<HTMLInputElement>(".list-head input[type=search]")?.focus(),
};

function withRequest(act: (request: NonNullable<NonNullable<typeof shown.value>["request"]>) => void): void {
  const request = shown.value?.request;
  if (request === undefined) announce("No request is open.");
  else if (isPending(request)) act(request);
}

/** Opens the next or the previous request that waits. */
function step(by: 1 | -1): void {
  const rows = listed.value;
  const at = rows.findIndex(({ id }) => id === routeId.value);
  const start = by === 1 ? -1 : rows.length;
  const next = rows[Math.min(rows.length - 1, Math.max(0, (at === -1 ? start : at) + by))];
  if (next === undefined) {
    announce("No request waits.");
    return;
  }
  navigate(hrefOf("approvals", [next.id]));
  document.getElementById(`row-${next.id}`)?.scrollIntoView({ block: "nearest" });
  announce(`${next.tool}, ${next.risk ?? "unknown"} risk, ${next.requester?.sub ?? ""}`);
}

function focusRow(id: string): void {
  document.querySelector<HTMLElement>(`#row-${CSS.escape(id)} a`)?.focus();
}

function focusDetail(): void {
  document.getElementById("request-title")?.focus();
}

function run(): () => void {
  const stop = runInbox();
  return () => {
    stop();
    dropAll();
    marked.value = new Set();
    isDenyingMarked.value = false;
  };
}

export const approvalsPage: AppPage = {
  name: "approvals",
  title: "Approvals",
  group: "Work",
  permission: "approvals:decide",
  view: ApprovalsView,
  overlay: OutgoingDecisions,
  count: waitingCount,
  run,
  keys: [
    ["j", "open the next request"],
    ["k", "open the previous request"],
    ["Enter", "go to the open request"],
    ["a", "approve once"],
    ["s", "approve for the session, where offered"],
    ["g", "approve several calls, where offered"],
    ["d", "deny, with a reason for the agent"],
    ["e", "show all of a long plan"],
    ["u", "undo the last decision before it is sent"],
    ["x", "select the open request, to deny several at once"],
    ["/", "filter the list"],
  ],
};

/** Warns before a page is left that still has to send a decision; without the warning, it would be dropped. */
addEventListener("beforeunload", (event) => {
  if (lastUndoable.value !== undefined) event.preventDefault();
});

// A page that the browser keeps for the back button would send it on return.
addEventListener("pagehide", dropAll);
