import { computed, signal } from "@preact/signals";
import { FILTER_ROWS, type FieldFilter } from "../../../core/audit-fields.ts";
import type { StreamedEvent } from "../../../core/event-reader.ts";
import { ApiError, follow, request, type Stream, type StreamState } from "../api.ts";
import { announce, errorOf, route } from "../state.ts";
import { counted, UNREADABLE } from "../words.ts";
import { SOURCE, type Sourced } from "./fleet.tsx";
import { type CallShown, callOf, type Line } from "./model.ts";

/** The search that the URL describes: its results, page by page, and new calls while it is followed. */

/** An input of the form. The parameters that are not about one field have no values of their own. */
export interface FilterInput extends Pick<FieldFilter, "label" | "hint" | "suggested" | "values" | "isChoice"> {
  readonly param: string;
}

const TIMES: readonly FilterInput[] = [
  {
    param: "from",
    label: "From",
    hint: "1h, today …",
    suggested: ["15m", "1h", "24h", "today", "yesterday", "7d", "30d"],
  },
  { param: "to", label: "Until", hint: "now", suggested: ["1h", "today", "yesterday"] },
];

/** Filters in the order of the form; `order` is not one, but is kept in the URL with them. */
export const FILTERS: readonly FilterInput[] = [
  { param: "text", label: "Text anywhere" },
  ...TIMES,
  // All calls that an operator sees are of one tenant, or of the service itself.
  ...FILTER_ROWS.filter(({ param }) => param !== "tenant"),
];

const PAGE_ROWS = 100;
/** Maximum rows on the page. Further rows replace them. */
export const ROWS_MAX = 1_000;
/** Requests for one page: each searches for at most a second, and may find nothing. */
const REQUESTS_MAX = 20;
const LIVE_MAX = 500;

/** The filters in the URL, the order and the source; nothing else of it. */
export const query = computed(() => {
  const given = route.value.query;
  const kept = new URLSearchParams();
  for (const name of [...FILTERS.map(({ param }) => param), "order", SOURCE]) {
    const value = given.get(name);
    if (value !== null && value !== "") kept.set(name, value);
  }
  return kept.toString();
});

export interface Results {
  readonly query: string;
  readonly rows: readonly CallShown[];
  /** Number of earlier rows of this search that the page no longer holds. */
  readonly left: number;
  readonly cursor: string | undefined;
  /** True when there are lines that were not searched yet. */
  readonly hasMore: boolean;
  readonly isReading: boolean;
  readonly warnings: readonly string[];
  /** Which logs the newest page is from. */
  readonly from: Sourced;
  readonly error?: ApiError | undefined;
}

export const results = signal<Results | undefined>(undefined);
let reading: AbortController | undefined;

interface AuditPage extends Sourced {
  readonly entries: readonly Line[];
  readonly more: boolean;
  readonly cursor?: string;
  readonly warnings?: readonly string[];
}

/** Starts the search again, or reads the next page of the same search. */
export async function search({ isNext = false } = {}): Promise<void> {
  const before = results.value;
  const wanted = query.value;
  const continues = isNext && before?.query === wanted && before.cursor !== undefined;
  const isFull = continues && before.rows.length >= ROWS_MAX;
  reading?.abort();
  const own = new AbortController();
  reading = own;
  let found: Results = {
    query: wanted,
    rows: continues && !isFull ? before.rows : [],
    left: continues ? before.left + (isFull ? before.rows.length : 0) : 0,
    cursor: continues ? before.cursor : undefined,
    hasMore: true,
    isReading: true,
    warnings: [],
    from: continues ? before.from : {},
  };
  results.value = found;
  const target = found.rows.length + PAGE_ROWS;
  try {
    for (let requests = 0; requests < REQUESTS_MAX && found.hasMore && found.rows.length < target; requests += 1) {
      const page = await readPage(wanted, {
        limit: target - found.rows.length,
        cursor: found.cursor,
        signal: own.signal,
      });
      found = {
        ...found,
        rows: withoutRepeats([...found.rows, ...page.entries.map(callOf)]),
        cursor: page.cursor,
        hasMore: page.more && page.cursor !== undefined,
        warnings: page.warnings ?? [],
        from: page,
      };
      if (reading !== own) return;
      results.value = found;
    }
    results.value = { ...found, isReading: false };
    announce(`${counted(found.rows.length, "call")}${found.hasMore ? ", and more" : ""}.`);
  } catch (error) {
    if (reading === own) results.value = { ...found, isReading: false, error: errorOf(error) };
  }
}

interface PageWanted {
  readonly limit: number;
  readonly cursor: string | undefined;
  readonly signal: AbortSignal;
}

async function readPage(wanted: string, { limit, cursor, signal: aborted }: PageWanted): Promise<AuditPage> {
  const params = new URLSearchParams(wanted);
  params.set("limit", String(limit));
  if (cursor !== undefined) params.set("cursor", cursor);
  const page = await request<AuditPage>("GET", `/audit?${params}`, { signal: aborted });
  if (!Array.isArray(page?.entries)) throw new ApiError(UNREADABLE, "The audit's answer cannot be read.");
  return page;
}

/** A line can arrive twice: by a page, and by the stream. */
function withoutRepeats(rows: readonly CallShown[]): readonly CallShown[] {
  return [...new Map(rows.map((row) => [row.key, row])).values()];
}

/** Following new calls. While it is paused, they wait. */
export interface Live {
  readonly state: StreamState;
  readonly isPaused: boolean;
  readonly rows: readonly CallShown[];
  readonly waiting: readonly CallShown[];
  /** Calls that came and are no longer here, because there is an upper limit. */
  readonly dropped: number;
}

export const live = signal<Live | undefined>(undefined);
let stream: Stream | undefined;

/** Starts to show new calls that match the filters; the search's own results stay below. */
export function startLive(): void {
  stopLive();
  live.value = { state: { is: "connecting" }, isPaused: false, rows: [], waiting: [], dropped: 0 };
  const params = new URLSearchParams(query.value);
  params.delete("order");
  params.delete(SOURCE);
  stream = follow(`/audit/tail?${params}`, {
    onMessage,
    onOpen: () => announce("New calls appear at the top."),
    onState: (state) => {
      if (live.value !== undefined) live.value = { ...live.value, state };
    },
  });
}

export function stopLive(): void {
  stream?.close();
  stream = undefined;
  live.value = undefined;
  clearTimeout(showing);
  showing = undefined;
  arrived = [];
}

export function pauseLive(isPaused: boolean): void {
  const now = live.value;
  if (now === undefined) return;
  const rows = isPaused ? now.rows : [...now.waiting, ...now.rows];
  live.value = { ...now, isPaused, rows: rows.slice(0, LIVE_MAX), waiting: isPaused ? now.waiting : [] };
}

export function reconnectLive(): void {
  stream?.retry();
}

/** Messages that arrive within 100 ms are shown together: a busy service sends hundreds a second. */
let arrived: CallShown[] = [];
let showing: ReturnType<typeof setTimeout> | undefined;
const TOGETHER_MS = 100;

function onMessage({ type, data }: StreamedEvent): void {
  if (type !== "entry") return;
  try {
    arrived.push(callOf(JSON.parse(data) as Line));
  } catch {
    return;
  }
  if (arrived.length > LIVE_MAX) arrived = arrived.slice(-LIVE_MAX);
  showing ??= setTimeout(showArrived, TOGETHER_MS);
}

function showArrived(): void {
  showing = undefined;
  const fresh = arrived.toReversed();
  arrived = [];
  const now = live.value;
  if (now === undefined) return;
  const [list, other] = now.isPaused ? [now.waiting, now.rows] : [now.rows, now.waiting];
  const known = new Set([...list, ...other].map(({ key }) => key));
  const all = [...fresh.filter(({ key }) => !known.has(key)), ...list];
  const kept = all.slice(0, LIVE_MAX);
  const dropped = now.dropped + all.length - kept.length;
  live.value = now.isPaused ? { ...now, waiting: kept, dropped } : { ...now, rows: kept, dropped };
}

/** All rows of the list: the newest first, unless the oldest were asked for. */
export const rows = computed<readonly CallShown[]>(() => {
  const found = results.value?.rows ?? [];
  const fresh = live.value?.rows ?? [];
  return fresh.length === 0 ? found : withoutRepeats([...fresh, ...found]);
});
