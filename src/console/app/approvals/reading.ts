import { computed, effect, signal } from "@preact/signals";
import type { ApprovalScope } from "../../../core/types.ts";
import { isReachable } from "../api.ts";
import { isLong } from "../text.tsx";
import { outgoing } from "./decisions.ts";
import { shown } from "./inbox.ts";
import type { ShownRequest } from "./model.ts";
import { type PlanPart, type PlanShown, planOf } from "./plan.ts";

/** Content that an approver has had on the page. Nothing is approved before all of it was there long enough to be noticed. */

/** An approval counts only this long after its content appeared or changed: a click that was meant for something else does not. */
const ARM_MS = 500;

const openedParts = signal<ReadonlySet<string>>(new Set());
/** Id of the request that is open. */
export const openId = computed(() => shown.value?.id);
effect(() => {
  void openId.value;
  openedParts.value = new Set();
});

export function isPartOpen(label: string): boolean {
  return openedParts.value.has(label);
}

export function openPart(label: string): void {
  openedParts.value = new Set([...openedParts.peek(), label]);
}

export function shownPlan({ view, answer }: ShownRequest): PlanShown {
  return planOf(view, { isQuestion: answer !== undefined });
}

/** Returns the parts of the plan whose rest is still left out. */
export function unseenParts(request: ShownRequest): readonly PlanPart[] {
  return shownPlan(request).main.filter(
    ({ label, value, end }) => !openedParts.value.has(label) && (isLong(value) || (end !== undefined && isLong(end))),
  );
}

export function openAllParts(request: ShownRequest): void {
  openedParts.value = new Set(shownPlan(request).main.map(({ label }) => label));
}

/** Whether the end of what will run was on the screen since it was laid out last. */
export const planEnd = signal<"unknown" | "seen" | "unseen">("unknown");

/** Follows whether the end of the plan of the open request comes onto the screen. Returns what stops it. */
export function followEnd(end: Element): () => void {
  planEnd.value = "unknown";
  const observer = new IntersectionObserver((entries) => {
    if (entries.some(({ isIntersecting }) => isIntersecting)) planEnd.value = "seen";
    else if (planEnd.peek() === "unknown") planEnd.value = "unseen";
  });
  observer.observe(end);
  return () => observer.disconnect();
}

/** Identifies how the plan is laid out: opened parts make it longer. */
export function layoutOfPlan(): string {
  return `${openId.value} ${openedParts.value.size}`;
}

/** The approval that waits to be confirmed: of a call of high risk, the first press only asks for the second. */
export const confirming = signal<{ readonly id: string; readonly scope: ApprovalScope } | undefined>(undefined);
/** Id of the request whose grant is being written. */
export const granting = signal<string | undefined>(undefined);
/** Values of the open request that the approver has ticked: the approval vouches for them in later calls as well. */
export const vouchedValues = signal<ReadonlySet<string>>(new Set());
const CONFIRM_MS = 8_000;

export function askToConfirm(id: string, scope: ApprovalScope): void {
  const asked = { id, scope };
  confirming.value = asked;
  setTimeout(() => {
    if (confirming.value === asked) confirming.value = undefined;
  }, CONFIRM_MS);
}

/** True when an approval counts now. */
export const isArmed = signal(false);

/** True while the person looks at this window: a click that was meant for one in front of it lands here when that one closes. */
const isAttended = signal(hasAttention());
document.addEventListener("visibilitychange", noteAttention);
addEventListener("focus", noteAttention);
addEventListener("blur", noteAttention);

function noteAttention(): void {
  isAttended.value = hasAttention();
}

function hasAttention(): boolean {
  return document.visibilityState === "visible" && document.hasFocus();
}

effect(() => {
  const { id, request, since } = shown.value ?? {};
  // Every change of these shows something new. After an undo, the button to approve is where the button to undo was.
  void [
    id,
    since,
    openedParts.value,
    confirming.value,
    granting.value,
    vouchedValues.value,
    outgoing.value,
    isReachable.value,
  ];
  isArmed.value = false;
  if (request === undefined || !isAttended.value) return undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  // The time starts when the content was painted.
  const frame = requestAnimationFrame(() => {
    timer = setTimeout(() => {
      isArmed.value = true;
    }, ARM_MS);
  });
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
});
