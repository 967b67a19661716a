import { effect, signal, untracked, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { isReachable } from "../api.ts";
import { useHalts } from "../halting.tsx";
import { Dialog, Empty, Heading, Problem, RiskBadge } from "../parts.tsx";
import { type AppPage, announce, isCommandKey, tick } from "../state.ts";
import { counted, timeLeft } from "../words.ts";
import {
  closeForm,
  leaveForm,
  needsReason,
  pressApprove,
  reason,
  startDenial,
  startGrant,
  takeReason,
  UNREACHABLE,
} from "./deciding.ts";
import { OutgoingLine, ReasonField } from "./decision-bar.tsx";
import { decideSoon, dropAll, lastUndoable, outgoing, undo } from "./decisions.ts";
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
  waitingCount,
} from "./inbox.ts";
import { clearMarks, filter, listed, markedWaiting, openNextAfterDecision, step, toggleMark } from "./list.ts";
import { isPending } from "./model.ts";
import { openAllParts } from "./reading.ts";
import { EndedRow, HeadlineShown, Row, RowSubject } from "./row.tsx";

const isDenyingMarked = signal(false);

function ApprovalsView(): VNode {
  const id = routeId.value;
  useEffect(() => effect(openRoute), []);
  useEffect(() => effect(openNextAfterDecision), []);
  useHalts();
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
        {rows.length > 0 && <Rows />}
        <Ended />
      </div>
      {markedWaiting.value.length > 0 && (
        <div class="marked-bar">
          <span>{markedWaiting.value.length} selected</span>
          <button
            type="button"
            class="danger"
            onClick={() => {
              // The reason that was written for the open request does not apply to the selected requests.
              closeForm();
              takeReason();
              isDenyingMarked.value = true;
            }}
          >
            Deny …
          </button>
          <button type="button" onClick={clearMarks}>
            Clear
          </button>
        </div>
      )}
    </section>
  );
}

/** Rows that are rendered at once: no task is long, however many wait. */
const ROWS_AT_ONCE = 25;

function Rows(): VNode {
  const rows = listed.value;
  const count = useSignal(ROWS_AT_ONCE);
  useEffect(() => {
    if (count.value >= rows.length) return undefined;
    const timer = setTimeout(() => {
      count.value += ROWS_AT_ONCE;
    });
    return () => clearTimeout(timer);
  }, [count.value, rows.length]);
  return (
    <ul class="rows" aria-label="Waiting requests">
      {rows.slice(0, count.value).map((one) => (
        <Row key={one.id} request={one} />
      ))}
    </ul>
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

/** The state of the stream, and the switch of notifications. */
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
        <span class="live-off">
          <span role="status">Not live</span>; next attempt in {timeLeft(state.attemptAt - Date.now())}
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

function Ended(): VNode | null {
  const rows = endedLately.value;
  if (rows.length === 0) return null;
  return (
    <section class="ended" aria-labelledby="ended-title">
      <h2 id="ended-title">Recently ended</h2>
      <ul class="rows">
        {rows.map((one) => (
          <EndedRow key={one.id} request={one} />
        ))}
      </ul>
    </section>
  );
}

function DenyMarked(): VNode {
  const chosen = markedWaiting.value;
  const close = (): void => {
    takeReason();
    isDenyingMarked.value = false;
  };
  const isReasonNeeded = chosen.some(needsReason);
  const isMissing = !isReachable.value || chosen.length === 0 || (isReasonNeeded && reason.value.trim() === "");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isMissing) return;
    decideSoon(
      chosen.map(({ id, tool }) => ({ id, tool })),
      { decision: "deny", reason: reason.value.trim() },
    );
    clearMarks();
    close();
  };
  return (
    <Dialog title={`Deny ${counted(chosen.length, "request")}`} onClose={close}>
      <form onSubmit={submit}>
        <ul class="deny-list" aria-label="What will be denied">
          {chosen.map((one) => (
            <li key={one.id}>
              <HeadlineShown request={one} />
              <div class="row-more">
                <RiskBadge risk={one.risk} />
                <RowSubject request={one} />
              </div>
            </li>
          ))}
        </ul>
        <ReasonField
          label={`One reason for all of them${isReasonNeeded ? " (required)" : ""}`}
          takesFocus
          onSubmit={submit}
        />
        <div class="decide-buttons">
          <button
            type="submit"
            class="danger solid"
            aria-disabled={isMissing}
            title={isReachable.value ? undefined : UNREACHABLE}
          >
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
  if (event.key === "Escape" && document.querySelector("dialog[open]") === null && leaveForm()) return;
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

function focusRow(id: string): void {
  document.querySelector<HTMLElement>(`#row-${CSS.escape(id)} .row-link`)?.focus();
}

function focusDetail(): void {
  document.getElementById("request-title")?.focus();
}

function run(): () => void {
  const stop = runInbox();
  return () => {
    stop();
    dropAll();
    clearMarks();
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
