import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { nameInSentence } from "../../core/printable.ts";
import { type ApiError, serviceNow } from "./api.ts";
import { isAway } from "./session.ts";
import { announcement, dismiss, notices, tick } from "./state.ts";
import { Sentence, Text } from "./text.tsx";
import { adviceFor, OFFLINE, shortTimeLeft, timeAgo, timeLeft } from "./words.ts";

/** Parts that all pages use. */

/** A page's heading. It takes the focus when the page opens, so that screen readers begin there. */
export function Heading({
  children,
  focusKey,
}: {
  readonly children: ComponentChildren;
  readonly focusKey?: string;
}): VNode {
  const element = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    const { activeElement } = document;
    if (activeElement === document.body || activeElement === null) element.current?.focus({ preventScroll: true });
  }, [focusKey]);
  return (
    <h1 ref={element} tabIndex={-1}>
      {children}
    </h1>
  );
}

type RiskName = "low" | "medium" | "high" | "critical";
const RISK_NAMES: ReadonlySet<string> = new Set(["low", "medium", "high", "critical"] satisfies RiskName[]);

/** A risk in words and colour. An unknown risk looks like the highest. */
export function RiskBadge({ risk }: { readonly risk: string | undefined }): VNode {
  const known = risk !== undefined && RISK_NAMES.has(risk);
  return (
    <span class={`badge risk-${known ? risk : "critical"}`}>
      {known ? risk : <Text value={risk ?? "unknown"} max={20} />} risk
    </span>
  );
}

export function Badge({
  tone = "plain",
  children,
}: {
  readonly tone?: string;
  readonly children: ComponentChildren;
}): VNode {
  return <span class={`badge tone-${tone}`}>{children}</span>;
}

interface TimeProps {
  readonly iso: string | undefined;
  /** Does not change every second, because nobody sees it. */
  readonly isStill?: boolean;
}

/** A time as how long ago it was, with the exact time when pointed at. */
export function Ago({ iso, isStill = false }: TimeProps): VNode | null {
  void (isStill || tick.value);
  if (iso === undefined) return null;
  return (
    <time dateTime={iso} title={localTime(iso)}>
      {timeAgo(serviceNow() - Date.parse(iso))}
    </time>
  );
}

const SOON_MS = 60_000;

/** Counts down to a time. */
export function Countdown({
  iso,
  isStill = false,
  isShort = false,
}: TimeProps & { readonly isShort?: boolean }): VNode | null {
  void (isStill || tick.value);
  if (iso === undefined) return null;
  const left = Date.parse(iso) - serviceNow();
  return (
    <time class={`countdown ${left < SOON_MS ? "soon" : ""}`} dateTime={iso} title={localTime(iso)}>
      {isShort ? shortTimeLeft(left) : timeLeft(left)}
    </time>
  );
}

/** Making one takes a hundred times as long as using it. */
const LOCAL_TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function localTime(iso: string): string {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? iso : LOCAL_TIME.format(at);
}

/** A person or agent: the subject, and the issuer when pointed at or read aloud. */
export function Party({ sub, iss }: { readonly sub: string; readonly iss?: string | undefined }): VNode {
  return (
    <span class="party">
      <strong>
        <Text value={nameInSentence(sub)} max={120} />
      </strong>
      {iss !== undefined && (
        <span class="issuer">
          {" "}
          of <Text value={iss} max={120} />
        </span>
      )}
    </span>
  );
}

/** Shows an agent's own words apart from facts that the service has checked; nothing for a value that is not a text. */
export function AgentSays({ text, max = 600 }: { readonly text: unknown; readonly max?: number }): VNode | null {
  if (typeof text !== "string") return null;
  return (
    <figure class="untrusted">
      <figcaption>The agent says. Nobody has checked it.</figcaption>
      <blockquote>
        <Text value={text} max={max} />
      </blockquote>
    </figure>
  );
}

/** Says that there is nothing, and what will change that. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }): VNode {
  return (
    <div class="empty">
      <svg viewBox="0 0 48 48" width="48" height="48" aria-hidden="true">
        <rect x="6" y="10" width="36" height="28" rx="5" />
        <path d="M6 26h10l3 5h10l3-5h10" />
      </svg>
      <p class="empty-title">{title}</p>
      {children !== undefined && <div class="empty-text">{children}</div>}
    </div>
  );
}

interface ProblemProps {
  readonly error: ApiError;
  readonly onRetry?: () => void;
  readonly retryText?: string;
}

/** An error inside the page: what happened, its code, and what to do. Not for one that the top of the page says already. */
export function Problem({ error, onRetry, retryText = "Try again" }: ProblemProps): VNode | null {
  if (isAway.value && error.code === OFFLINE) return null;
  const advice = adviceFor(error.code);
  return (
    <div class="problem" role="alert">
      <p>
        <strong>
          <Sentence value={error.message} />
        </strong>{" "}
        <code>{error.code}</code>
      </p>
      {advice !== undefined && (
        <p>
          <Sentence value={advice} />
        </p>
      )}
      {onRetry !== undefined && (
        <button type="button" onClick={onRetry}>
          {retryText}
        </button>
      )}
    </div>
  );
}

/** Rows of a name and a value. Rows without a value are left out. */
export function Facts({
  rows,
}: {
  readonly rows: readonly (readonly [string, ComponentChildren] | undefined)[];
}): VNode {
  return (
    <dl class="facts">
      {rows.map(
        (row) =>
          row !== undefined && (
            <div key={row[0]}>
              <dt>{row[0]}</dt>
              <dd>{row[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** A modal dialog: keeps the focus inside, closes with Escape, and gives the focus back. */
export function Dialog({ title, onClose, children }: DialogProps): VNode {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    // The first field is what the dialog is for; the first button in it closes it.
    element.current?.querySelector<HTMLElement>("textarea, input:not([type=checkbox])")?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={element} aria-labelledby="dialog-title" onClose={onClose}>
      <header>
        <h2 id="dialog-title">{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}

/** Notices, and what screen readers say. Both regions exist from the start, otherwise nothing would be said. */
export function Notices(): VNode {
  return (
    <>
      <div class="sr-only" role="status" aria-live="polite">
        {announcement.value}
      </div>
      <section class="notices" aria-live="polite" aria-label="Notices">
        {notices.value.map(({ id, tone, text, more }) => (
          <div key={id} class={`notice ${tone}`}>
            <div>
              <p>
                <Sentence value={text} />
              </p>
              {more !== undefined && (
                <p class="more-text">
                  <Sentence value={more} />
                </p>
              )}
            </div>
            <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(id)}>
              ✕
            </button>
          </div>
        ))}
      </section>
    </>
  );
}
