import { effect, type ReadonlySignal, signal } from "@preact/signals";
import type { ComponentType } from "preact";
import type { OperatorPermission } from "../../core/operator-permissions.ts";
import { ApiError } from "./api.ts";
import { type AppRoute, readRoute } from "./route.ts";
import { adviceFor } from "./words.ts";

/** State that the parts of the page share: the route, the time, the theme, notices. */

export const route = signal<AppRoute>(readRoute(location.hash));
addEventListener("hashchange", () => {
  route.value = readRoute(location.hash);
});

/** Replaces the page's URL and its route, without a new entry in the history. */
export function replaceUrl(url: string): void {
  history.replaceState(null, "", url);
  route.value = readRoute(location.hash);
}

/** Goes to a route. With `replace`, the back button does not return to the present one. */
export function navigate(href: string, { replace = false } = {}): void {
  if (location.hash === href) return;
  if (replace) {
    replaceUrl(href);
    return;
  }
  location.hash = href;
  // The browser's event comes later: a key that is pressed again must find the new route.
  route.value = readRoute(href);
}

/** Changes every second while the page is visible. Read it in whatever shows a time. */
export const tick = signal(0);
setInterval(() => {
  if (document.visibilityState === "visible") tick.value += 1;
}, 1_000);
document.addEventListener("visibilitychange", () => {
  tick.value += 1;
});

export type Theme = "system" | "light" | "dark";

const THEME_ITEM = "stc-theme";

export const theme = signal<Theme>(readTheme());
effect(() => {
  const { value } = theme;
  if (value === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset["theme"] = value;
  remember(THEME_ITEM, value === "system" ? undefined : value);
});

function readTheme(): Theme {
  const kept = recall(THEME_ITEM);
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** Reads what this browser keeps between visits; undefined also where storage is switched off. */
export function recall(item: string): string | undefined {
  try {
    return localStorage.getItem(item) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a setting in this browser, or forgets it. */
export function remember(item: string, value: string | undefined): void {
  try {
    if (value === undefined) localStorage.removeItem(item);
    else localStorage.setItem(item, value);
  } catch {
    // Storage is switched off: the setting lasts as long as the page.
  }
}

/** Returns whether the window matches a media query, kept up to date. */
export function mediaSignal(query: string): ReadonlySignal<boolean> {
  const media = matchMedia(query);
  const matches = signal(media.matches);
  media.addEventListener("change", () => {
    matches.value = media.matches;
  });
  return matches;
}

/** A short message that appears above the page, and moves it down. */
export interface Notice {
  readonly id: number;
  readonly tone: "done" | "problem";
  readonly text: string;
  /** A second line: what to do. */
  readonly more?: string | undefined;
}

const NOTICES_MAX = 4;
const DONE_MS = 7_000;
let lastNotice = 0;

export const notices = signal<readonly Notice[]>([]);

/** Shows a notice, in place of one with the same text. Problems stay until they are dismissed. */
export function notify(tone: Notice["tone"], text: string, more?: string): void {
  lastNotice += 1;
  const id = lastNotice;
  const others = notices.value.filter((notice) => notice.text !== text);
  notices.value = [...others, { id, tone, text, more }].slice(-NOTICES_MAX);
  if (tone === "done") setTimeout(() => dismiss(id), DONE_MS);
}

export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

/** Shows an error in words: what happened, its code, and what to do. */
export function notifyError(doing: string, error: unknown): void {
  const { code, message } = errorOf(error);
  notify("problem", `${doing}: ${message} (${code})`, adviceFor(code));
}

/** Returns any error as one of the client's. */
export function errorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError("CONSOLE_ERROR", error instanceof Error ? error.message : "Something went wrong in this page.");
}

/** Text that screen readers say; nobody sees it. */
export const announcement = signal("");

export function announce(text: string): void {
  // The same text twice would not be said again.
  announcement.value = announcement.value === text ? `${text}\u00a0` : text;
}

/** A person who types into a field that disappears goes on typing: for this long, keys are no commands. */
const TYPING_MS = 1_500;
let typing: { readonly field: Element; readonly at: number } | undefined;

document.addEventListener(
  "keydown",
  ({ target, key }) => {
    const isDone = key === "Enter" || key === "Escape";
    if (isField(target)) typing = isDone ? undefined : { field: target, at: Date.now() };
    else if (isTypingOn()) typing = typing && { ...typing, at: Date.now() };
  },
  true,
);

function isTypingOn(): boolean {
  return typing !== undefined && !typing.field.isConnected && Date.now() - typing.at < TYPING_MS;
}

function isField(target: EventTarget | null): target is HTMLElement {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches("input:not([type=checkbox], [type=radio]), textarea, select");
}

const KEYS_ITEM = "stc-keys";

/** True when keys are commands. Software that turns speech into keys would decide by accident (WCAG 2.1.4). */
export const hasKeys = signal(recall(KEYS_ITEM) !== "off");
effect(() => remember(KEYS_ITEM, hasKeys.value ? undefined : "off"));

/** Returns whether a key is meant for the page: nobody types, no dialog is open, and no modifier makes it a browser's. */
export function isCommandKey(event: KeyboardEvent): boolean {
  if (!hasKeys.value) return false;
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.defaultPrevented) return false;
  return document.querySelector("dialog[open]") === null && !isField(event.target) && !isTypingOn();
}

/** The groups of the navigation, in its order. */
export const PAGE_GROUPS = ["Work", "Systems", "Evidence"] as const;

/** A page of the console. A new one is one line in `pages.ts`. */
export interface AppPage extends PageHead, PageContent {
  /** Shown on top of every page, for example what this page is about to send. */
  readonly overlay?: ComponentType;
  /** Number next to its name; none at zero. */
  readonly count?: ReadonlySignal<number>;
}

/** The members of a page that the navigation needs. */
export interface PageHead {
  /** First segment of its route: `#/approvals`; empty for the start. */
  readonly name: string;
  readonly title: string;
  readonly group: (typeof PAGE_GROUPS)[number];
  /** Permission of the operators who see it; without one, whoever sees another page does. */
  readonly permission?: OperatorPermission;
}

export interface PageContent {
  readonly view: ComponentType;
  /** Runs while somebody is signed in who may see the page, whatever page is open. Returns what stops it. */
  readonly run?: () => () => void;
  /** Keys and what they do, for the help. */
  readonly keys?: readonly (readonly [keys: string, does: string])[];
}
