import { computed, signal } from "@preact/signals";
import type { StreamedEvent } from "../../../core/event-reader.ts";
import { ApiError, follow, members, request, type Stream, type StreamState, serviceNow } from "../api.ts";
import { announce, errorOf, navigate, recall, remember, route, tick } from "../state.ts";
import { counted } from "../words.ts";
import { isPending, isViewOfDigest, type ListedRequest, outcomeOf, type ShownRequest } from "./model.ts";

/** The inbox: every request that waits, and those that ended in the last 15 minutes. It follows the service's events. */

const PAGE_REQUESTS = 200;
/** Pages of waiting requests that are read: more than a service lets wait. */
const PAGES_MAX = 25;
const RECENT_REQUESTS = 50;
/** Time for which a decided request stays in the inbox. */
const DECIDED_MS = 15 * 60_000;
/** Minimum time between two readings of the list: a burst of events causes only a few readings. */
const REFRESH_MS_MIN = 300;
/** Interval at which the list is read while there are no events. */
const POLL_MS = 10_000;
const EVENT = /^approval\.([a-z_]{1,20})$/;
const ID = /^[\w-]{1,128}$/;

const requests = signal<ReadonlyMap<string, ListedRequest>>(new Map());
/** Undefined until the list was read for the first time. */
export const readAt = signal<number | undefined>(undefined);
export const listError = signal<ApiError | undefined>(undefined);
export const stream = signal<StreamState>({ is: "connecting" });

/** Requests that wait, the longest-waiting first: a new one does not move the others. */
export const waiting = computed(() => [...requests.value.values()].filter(isPending).sort(compareWaiting));

export function compareWaiting(a: ListedRequest, b: ListedRequest): number {
  return compare(a.createdAt, b.createdAt) || compare(a.id, b.id);
}

/** Requests that ended, the latest first. */
const ended = computed(() =>
  [...requests.value.values()]
    .filter((one) => !isPending(one))
    .sort((a, b) => compare(b.decidedAt ?? b.createdAt, a.decidedAt ?? a.createdAt)),
);

export const waitingCount = computed(() => waiting.value.length);

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

let lately: readonly ListedRequest[] = [];

/** The requests that ended in the last 15 minutes: the same list as long as nothing has changed. */
export const endedLately = computed(() => {
  void tick.value;
  const now = serviceNow();
  const rows = ended.value.filter(({ id, decidedAt, decideBy, createdAt }) => {
    const at = decidedAt ?? seenEnding.get(id) ?? decideBy ?? createdAt;
    return now - Date.parse(at) < DECIDED_MS;
  });
  if (rows.length !== lately.length || rows.some((one, at) => one !== lately[at])) lately = rows;
  return lately;
});

/** Returns what was decided on the same tool before, the latest first. */
/** Returns an ended request that this page has listed. */
export function endedRequest(id: string): ListedRequest | undefined {
  return ended.value.find((one) => one.id === id);
}

export function requestOf(id: string): ListedRequest | undefined {
  return requests.value.get(id);
}

/** Times at which this page saw requests end, by id: the service reports no end time for cancelled and expired requests. */
const seenEnding = new Map<string, string>();
let running: { readonly stream: Stream; readonly timer: ReturnType<typeof setInterval> } | undefined;

/** Starts to follow the inbox. Returns what stops it. */
export function runInbox(): () => void {
  const following = follow("/events", {
    onMessage,
    onOpen: () => void refresh({ whole: true }),
    onState: (state) => {
      stream.value = state;
    },
  });
  const timer = setInterval(() => {
    if (stream.value.is === "waiting" && document.visibilityState === "visible") void refresh({ whole: true });
  }, POLL_MS);
  const retry = (): void => following.retry();
  addEventListener("online", retry);
  running = { stream: following, timer };
  return () => {
    following.close();
    clearInterval(timer);
    removeEventListener("online", retry);
    running = undefined;
    requests.value = new Map();
    readAt.value = undefined;
    listError.value = undefined;
    shown.value = undefined;
    seenEnding.clear();
    changed.clear();
    listedUntil = 0;
  };
}

export function retryStream(): void {
  running?.stream.retry();
}

/** Changes after which a request still waits. */
const STILL_WAITING: ReadonlySet<string> = new Set(["voted", "escalated"]);

function onMessage({ type, data }: StreamedEvent): void {
  const change = EVENT.exec(type)?.[1];
  const event = readEvent(data);
  if (change === undefined || event === undefined) return;
  if (change === "requested") noteRequest(event);
  else if (!STILL_WAITING.has(change)) noteEnd(event.id, change);
  if (shown.value?.id === event.id) void loadShown(event.id);
  changed.add(event.id);
  void refresh();
}

interface RequestEvent {
  readonly id: string;
  readonly tool: string;
  readonly summary: string;
  readonly at: string;
}

function readEvent(data: string): RequestEvent | undefined {
  try {
    const { id, tool, summary, at } = members(JSON.parse(data));
    if (typeof id !== "string" || !ID.test(id) || typeof at !== "string") return undefined;
    return { id, tool: typeof tool === "string" ? tool : "", summary: typeof summary === "string" ? summary : "", at };
  } catch {
    return undefined;
  }
}

/** Shows a new request at once, with what the event says; the list adds the rest. */
function noteRequest({ id, tool, summary, at }: RequestEvent): void {
  if (requests.value.has(id)) return;
  put([{ id, tool, summary, createdAt: at, state: "pending" }]);
  announce(`New request: ${tool}. ${counted(waitingCount.value, "request")} waiting.`);
  showNotification({ id, summary });
}

function noteEnd(id: string, state: string): void {
  const known = requests.value.get(id);
  if (known === undefined || known.state === state) return;
  if (isPending(known)) announce(`${known.tool}: ${outcomeOf({ state })}`);
  if (!seenEnding.has(id)) seenEnding.set(id, new Date(serviceNow()).toISOString());
  put([{ ...known, state }]);
}

/** Puts requests into the inbox, in place of what is known of them. One that is as before stays the same object. */
export function put(changed: readonly ListedRequest[]): void {
  const next = new Map(requests.value);
  for (const one of changed) {
    const known = next.get(one.id);
    // The service answers a headline once.
    const { headline = known?.headline, ...others } = one;
    const whole = { ...others, ...(headline !== undefined && { headline }) };
    if (JSON.stringify(known) !== JSON.stringify(whole)) next.set(one.id, whole);
  }
  requests.value = bounded(next);
}

const ENDED_MAX = 400;

function bounded(all: ReadonlyMap<string, ListedRequest>): ReadonlyMap<string, ListedRequest> {
  const over = [...all.values()].filter((one) => !isPending(one)).sort((a, b) => compare(b.createdAt, a.createdAt));
  if (over.length <= ENDED_MAX) return all;
  const gone = new Set(over.slice(ENDED_MAX).map(({ id }) => id));
  for (const id of gone) seenEnding.delete(id);
  return new Map([...all].filter(([id]) => !gone.has(id)));
}

let refreshing: Promise<void> | undefined;
let isWanted = false;
let isWholeWanted = false;
let lastStart = 0;
/** Requests that events were about since the list was read. */
let changed = new Set<string>();

/**
 * Reads the latest requests; while they are being read, once more afterwards. With `whole`, all that wait: whatever happened
 * without a connection is unknown. The service records each reading, so there are no more than needed.
 */
export function refresh({ whole = false } = {}): Promise<void> {
  isWanted = true;
  isWholeWanted ||= whole;
  refreshing ??= (async () => {
    try {
      while (isWanted) {
        const early = lastStart + REFRESH_MS_MIN - Date.now();
        if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
        isWanted = false;
        lastStart = Date.now();
        await readList();
      }
    } finally {
      refreshing = undefined;
    }
  })();
  return refreshing;
}

async function readList(): Promise<void> {
  const own = running;
  const isWhole = isWholeWanted || readAt.value === undefined;
  const before = isWhole ? waiting.value.map(({ id }) => id) : [];
  const wanted = changed;
  isWholeWanted = false;
  changed = new Set();
  try {
    const latest = readLatest(isWhole ? PAGE_REQUESTS : RECENT_REQUESTS);
    const [pending, first] = await Promise.all([isWhole ? readPages() : [], latest]);
    const areFound = (rows: readonly ListedRequest[]): boolean =>
      isWhole || [...wanted].every((id) => rows.some((one) => one.id === id));
    const recent = areFound(first) ? first : await readLatest(PAGE_REQUESTS);
    // An answer for an ended session must not change the list of the next session.
    if (own === undefined || running !== own) return;
    const found = new Map([...pending, ...recent].map((one) => [one.id, one]));
    put([...found.values()]);
    listedUntil = Math.max(listedUntil, ...[...found.values()].map(({ createdAt }) => Date.parse(createdAt)));
    // More new requests at once than the latest ones: all that wait are read.
    if (!isWhole && [...wanted].some((id) => isUnlisted(requestOf(id)))) {
      isWholeWanted = true;
      isWanted = true;
    }
    // Missing requests ended unnoticed, too long ago to be among the latest.
    for (const id of before) if (!found.has(id)) noteEnd(id, "ended");
    const { id, request: open } = shown.value ?? {};
    // While the page was disconnected, no event reported changes to the open request.
    if (isWhole && id !== undefined && open !== undefined && found.get(id)?.version !== open.version)
      void loadShown(id);
    readAt.value = Date.now();
    listError.value = undefined;
  } catch (error) {
    if (own === undefined || running !== own) return;
    isWholeWanted = true;
    listError.value = errorOf(error);
  }
}

async function readLatest(limit: number): Promise<readonly ListedRequest[]> {
  return (await readPage(new URLSearchParams({ state: "all", limit: String(limit) }))).approvals;
}

interface RequestPage {
  readonly approvals: readonly ListedRequest[];
  readonly cursor?: string;
}

async function readPages(): Promise<readonly ListedRequest[]> {
  const all: ListedRequest[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < PAGES_MAX; pages += 1) {
    const query = new URLSearchParams({ state: "pending", limit: String(PAGE_REQUESTS) });
    if (cursor !== undefined) query.set("cursor", cursor);
    const page = await readPage(query);
    all.push(...page.approvals);
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  return all;
}

/** The service may store a request that it created before one that it has listed: so much earlier at most. */
const OVERLAP_MS = 60_000;
/** Creation of the latest request that was listed, in Unix milliseconds. */
let listedUntil = 0;

/** Returns whether the request is known only from an event, not from the list. */
function isUnlisted(one: ListedRequest | undefined): one is ListedRequest {
  return one !== undefined && isPending(one) && one.decideBy === undefined;
}

/** Returns from when headlines are wanted: the page has those of older requests, and each reading is recorded. */
function headlinesFrom(): string {
  if (listedUntil === 0) return new Date(0).toISOString();
  const unlisted = [...requests.value.values()].filter(isUnlisted).map(({ createdAt }) => Date.parse(createdAt));
  return new Date(Math.min(listedUntil - OVERLAP_MS, ...unlisted)).toISOString();
}

async function readPage(query: URLSearchParams): Promise<RequestPage> {
  query.set("headlinesFrom", headlinesFrom());
  const page = await request<RequestPage>("GET", `/approvals?${query}`);
  if (!Array.isArray(page?.approvals))
    throw new ApiError("UNREADABLE_ANSWER", "The list of approval requests cannot be read.");
  return page;
}

/** The request that is open: with its view once it was read. */
export interface OpenRequest {
  readonly id: string;
  readonly request?: ShownRequest;
  readonly error?: ApiError;
  /** Time at which this content was first shown, in the browser's Unix milliseconds. */
  readonly since: number;
}

export const shown = signal<OpenRequest | undefined>(undefined);

/** Opens a request, or closes the one that is open. */
export function open(id: string | undefined): void {
  if (id === undefined || !ID.test(id)) shown.value = undefined;
  else if (shown.value?.id !== id || shown.value.request === undefined) {
    shown.value = { id, since: Date.now() };
    void loadShown(id);
  }
}

let lastLoad = 0;

/** Reads the open request again. The page keeps the former content until the answer arrives. */
export async function loadShown(id: string): Promise<void> {
  lastLoad += 1;
  const own = lastLoad;
  // An answer to an earlier request must not replace that of a later one.
  const isCurrent = (): boolean => own === lastLoad && shown.value?.id === id;
  try {
    const { approval } = await request<{ readonly approval: ShownRequest }>(
      "GET",
      `/approvals/${encodeURIComponent(id)}`,
    );
    if (!(await isViewOfDigest(approval)))
      throw new ApiError("VIEW_MISMATCH", "The view does not match its digest: nothing can be decided.");
    const before = shown.value;
    if (before === undefined || !isCurrent()) return;
    const { view, ...listed } = approval;
    put([{ ...listed, ...headlineIn(view) }]);
    const isSame = contentOf(before.request) === contentOf(approval);
    shown.value = { id, request: approval, since: isSame ? before.since : Date.now() };
  } catch (error) {
    const before = shown.value;
    // Without a connection, what was read stays on the page.
    if (before !== undefined && isCurrent()) shown.value = { ...before, error: errorOf(error) };
  }
}

function headlineIn(view: unknown): Pick<ListedRequest, "headline"> {
  const headline = members(members(view)["headline"]);
  return typeof headline["what"] === "string" ? { headline: headline as ListedRequest["headline"] } : {};
}

/** The content that an approver has read. Changed content has to be read again before a decision. */
function contentOf(request: ShownRequest | undefined): string | undefined {
  if (request === undefined) return undefined;
  const { viewDigest, planDigest, state, options, answer, quorum, canDecide } = request;
  return JSON.stringify([viewDigest, planDigest, state, options, answer, quorum, canDecide]);
}

const NOTIFICATIONS_ITEM = "stc-notifications";

export type NotificationState = "unavailable" | "blocked" | "off" | "on";

export const notifications = signal<NotificationState>(readNotifications());

function readNotifications(): NotificationState {
  if (typeof Notification === "undefined") return "unavailable";
  if (Notification.permission === "denied") return "blocked";
  return Notification.permission === "granted" && recall(NOTIFICATIONS_ITEM) === "on" ? "on" : "off";
}

/** Switches notifications of new requests on or off; the browser asks the person the first time. */
export async function toggleNotifications(): Promise<void> {
  if (notifications.value === "on") {
    remember(NOTIFICATIONS_ITEM, undefined);
    notifications.value = "off";
    return;
  }
  const answer = await Notification.requestPermission();
  remember(NOTIFICATIONS_ITEM, answer === "granted" ? "on" : undefined);
  notifications.value = readNotifications();
}

/** Tells of a new request while the page is hidden. The summary has no arguments, so it holds no secrets. */
function showNotification({ id, summary }: Pick<RequestEvent, "id" | "summary">): void {
  if (notifications.value !== "on" || (document.visibilityState === "visible" && document.hasFocus())) return;
  try {
    const notification = new Notification("An approval is requested", { body: summary.slice(0, 200), tag: id });
    notification.onclick = () => {
      window.focus();
      navigate(`#/approvals/${id}`);
      notification.close();
    };
  } catch {
    // Some browsers show notifications from service workers only.
    notifications.value = "unavailable";
  }
}

/** Id of the request in the URL. */
export const routeId = computed(() => (route.value.page === "approvals" ? route.value.rest[0] : undefined));
