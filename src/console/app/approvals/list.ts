import { computed, signal, untracked } from "@preact/signals";
import { headlineText } from "../../../core/headline.ts";
import { hrefOf } from "../route.ts";
import { announce, navigate } from "../state.ts";
import { outgoing, outgoingFor } from "./decisions.ts";
import { compareWaiting, requestOf, routeId, waiting } from "./inbox.ts";
import type { ListedRequest } from "./model.ts";

/** The list of the inbox: which requests it shows, which are selected, and which one comes next. */

export const filter = signal("");
const marked = signal<ReadonlySet<string>>(new Set());

/** The requests that wait and match the filter. */
export const listed = computed(() => {
  const wanted = filter.value.trim().toLowerCase();
  return wanted === "" ? waiting.value : waiting.value.filter((one) => searchedText(one).includes(wanted));
});

/** Whether waiting requests come from several issuers, so that two callers may have the same name. */
export const haveSeveralIssuers = computed(
  () => new Set(waiting.value.flatMap(({ requester }) => requester?.iss ?? [])).size > 1,
);

export const markedWaiting = computed(() => waiting.value.filter(({ id }) => marked.value.has(id)));

function searchedText(request: ListedRequest): string {
  const { tool, requester, risk = "", rules = [] } = request;
  const caller = [requester?.sub ?? "", requester?.session ?? ""];
  return [tool, lineOf(request), ...caller, risk, ...rules].join("\n").toLowerCase();
}

/** Returns what a request's call does, as text. */
export function lineOf({ headline, summary }: ListedRequest): string {
  return headline === undefined ? summary : headlineText(headline);
}

export function isMarked(id: string): boolean {
  return marked.value.has(id);
}

export function toggleMark(id: string): void {
  const next = new Set(marked.value);
  if (!next.delete(id)) next.add(id);
  marked.value = next;
}

export function clearMarks(): void {
  marked.value = new Set();
}

/**
 * Opens the next or the previous request that waits. One that no longer waits, or that the filter hides, keeps its place: the next
 * is the one that comes after it.
 */
export function step(by: 1 | -1): void {
  const next = neighbour(listed.value, by);
  if (next === undefined) announce("No request waits.");
  else openRequest(next);
}

function neighbour(rows: readonly ListedRequest[], by: 1 | -1): ListedRequest | undefined {
  const open = routeId.value === undefined ? undefined : requestOf(routeId.value);
  if (open === undefined) return by === 1 ? rows[0] : rows.at(-1);
  const beyond =
    by === 1
      ? rows.find((one) => compareWaiting(one, open) > 0)
      : rows.findLast((one) => compareWaiting(one, open) < 0);
  return beyond ?? (by === 1 ? rows.at(-1) : rows[0]);
}

function openRequest(one: ListedRequest): void {
  navigate(hrefOf("approvals", [one.id]));
  document.getElementById(`row-${one.id}`)?.scrollIntoView({ block: "nearest" });
  announce(`${lineOf(one)}: ${one.tool}, ${one.risk ?? "unknown"} risk, ${one.requester?.sub ?? ""}`);
}

let lastNumber = 0;

/** Opens the next request once the open one is decided; it stays open when no other waits. */
export function openNextAfterDecision(): void {
  const made = outgoing.value.filter(({ number }) => number > lastNumber);
  lastNumber = Math.max(lastNumber, ...made.map(({ number }) => number));
  untracked(() => {
    if (!made.some(({ subjects }) => subjects.some(({ id }) => id === routeId.value))) return;
    const undecided = listed.value.filter(({ id }) => outgoingFor(id) === undefined);
    const next = neighbour(undecided, 1);
    if (next !== undefined) openRequest(next);
  });
}
