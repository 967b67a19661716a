import { effect, signal, untracked } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { serviceNow } from "./api.ts";
import { current, mayOpen, Navigation } from "./navigation.tsx";
import { PAGES } from "./pages.ts";
import { Dialog, Empty, Facts, Heading, localTime, Notices } from "./parts.tsx";
import { hrefOf } from "./route.ts";
import { isAway, probeService, session, settings, signOut } from "./session.ts";
import { Mark, SignIn } from "./sign-in.tsx";
import { announce, hasKeys, isCommandKey, navigate, notifyError, type Theme, theme, tick } from "./state.ts";
import { Text } from "./text.tsx";

const isHelpOpen = signal(false);

const KEYS: readonly (readonly [string, string])[] = [
  ["?", "show this help"],
  ["p then a letter", "go to the next page that begins with the letter"],
  ["Esc", "close what is open"],
];

/** The page around the pages: who is signed in, where one can go, and whether the service can be reached. */
export function Shell(): VNode {
  useEffect(() => effect(runPages), []);
  useEffect(probeService, []);
  useEffect(() => effect(showTitle), []);
  useEffect(() => {
    document.addEventListener("keydown", onKey);
    document.addEventListener("keydown", onScrollKey);
    return () => {
      document.removeEventListener("keydown", onKey);
      document.removeEventListener("keydown", onScrollKey);
    };
  }, []);
  const { is } = session.value;
  return (
    <>
      <button type="button" class="skip" onClick={skip}>
        Skip to the content
      </button>
      {is === "starting" && <p class="starting">Opening …</p>}
      {is === "out" && <SignIn />}
      {is === "in" && <Layout />}
      <Notices />
      {isHelpOpen.value && <Help />}
    </>
  );
}

function skip(): void {
  const main = document.getElementById("main");
  (main?.querySelector("h1") ?? main)?.focus();
}

function Layout(): VNode {
  const page = current.value;
  const View = page?.view;
  return (
    <div class="layout">
      <header class="top">
        <a class="brand" href="#/">
          <Mark size={26} />
          <span>Safe Tool Call</span>
        </a>
        <Navigation />
        <Account />
      </header>
      <Printed />
      {isAway.value && (
        <p class="banner" role="status">
          <strong>The service cannot be reached.</strong> What you see may be old. The console connects again by itself.
        </p>
      )}
      <main id="main" class={`page-${page?.name ?? "none"}`} tabIndex={-1}>
        {View !== undefined ? <View /> : <Nothing />}
      </main>
      {mayOpen.value.map(({ name, overlay: Overlay }) => Overlay !== undefined && <Overlay key={name} />)}
    </div>
  );
}

/** The line on a printed page: version, host, time and operator. */
function Printed(): VNode | null {
  void tick.value;
  if (session.value.is !== "in") return null;
  const { sub, tenant } = session.value.person;
  return (
    <p class="printed" aria-hidden="true">
      Safe Tool Call {settings.value?.version}, {location.host}. Printed{" "}
      {localTime(new Date(serviceNow()).toISOString())} by <Text value={sub} max={80} />
      {tenant !== undefined && (
        <>
          {" "}
          of tenant <Text value={tenant} max={40} />
        </>
      )}
      . Times are those of {Intl.DateTimeFormat().resolvedOptions().timeZone}.
    </p>
  );
}

function Nothing(): VNode {
  if (mayOpen.value.length === 0) {
    return (
      <div class="sheet">
        <Heading>Nothing to see</Heading>
        <Empty title="Your token has none of the permissions that a page needs">
          The pages need{" "}
          {PAGES.flatMap(({ title, permission }) => (permission === undefined ? [] : `${permission} (${title})`)).join(
            ", ",
          )}
          .
        </Empty>
      </div>
    );
  }
  return (
    <div class="sheet">
      <Heading>No such page</Heading>
      <Empty title="This page does not exist, or your token does not permit it">
        <a href="#/">Go to the start</a>
      </Empty>
    </div>
  );
}

const THEMES: readonly (readonly [Theme, string])[] = [
  ["system", "As the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

function Account(): VNode | null {
  if (session.value.is !== "in") return null;
  const { sub, iss, tenant, endsAt } = session.value.person;
  return (
    <details class="account" onKeyDown={closeOnEscape}>
      <summary>
        <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
          <circle cx="12" cy="8" r="4" />
          <path d="M4 20c1-4 4-6 8-6s7 2 8 6" />
        </svg>
        <span class="sr-only">Signed in as </span>
        <span class="who">
          <Text value={sub} max={24} />
        </span>
        {tenant !== undefined && (
          <span class="tenant">
            <span class="sr-only">, tenant </span>
            <Text value={tenant} max={40} />
          </span>
        )}
      </summary>
      <div class="menu">
        <Facts
          rows={[
            ["Signed in as", <Text key="sub" value={sub} />],
            ["Issuer", <Text key="iss" value={iss} />],
            tenant === undefined ? undefined : ["Tenant", <Text key="tenant" value={tenant} />],
            ["Session until", localTime(endsAt)],
          ]}
        />
        <fieldset>
          <legend>Theme</legend>
          {THEMES.map(([name, label]) => (
            <label key={name}>
              <input
                type="radio"
                name="theme"
                checked={theme.value === name}
                onChange={() => {
                  theme.value = name;
                }}
              />
              {label}
            </label>
          ))}
        </fieldset>
        <div class="buttons">
          <button
            type="button"
            onClick={() => {
              isHelpOpen.value = true;
            }}
          >
            Keyboard help <kbd>?</kbd>
          </button>
          <button type="button" onClick={() => void leave()}>
            Sign out
          </button>
        </div>
        <p class="help">Safe Tool Call {settings.value?.version}</p>
      </div>
    </details>
  );
}

function closeOnEscape(event: KeyboardEvent): void {
  if (event.key !== "Escape" || !(event.currentTarget instanceof HTMLDetailsElement)) return;
  event.currentTarget.open = false;
  event.currentTarget.querySelector("summary")?.focus();
}

async function leave(): Promise<void> {
  try {
    await signOut();
    announce("Signed out");
  } catch (error) {
    notifyError("Not signed out", error);
  }
}

function Help(): VNode {
  const rows = [...(current.value?.keys ?? []), ...KEYS];
  return (
    <Dialog
      title="Keyboard"
      onClose={() => {
        isHelpOpen.value = false;
      }}
    >
      <dl class="keys">
        {rows.map(([keys, does]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <div class="choices">
        <label>
          <input
            type="checkbox"
            checked={hasKeys.value}
            onChange={({ currentTarget }) => {
              hasKeys.value = currentTarget.checked;
            }}
          />
          <span>Use these keys in this browser</span>
        </label>
      </div>
      <p class="help">Keys do nothing while you type into a field.</p>
    </Dialog>
  );
}

/** Scroll distance of each key, in heights of the visible area. */
const SCROLLED: Readonly<Record<string, number>> = { PageDown: 0.9, PageUp: -0.9, End: 1e6, Home: -1e6 };

/** Scrolls the page by keys while the focus is on the navigation or on nothing: the window itself does not scroll. */
function onScrollKey(event: KeyboardEvent): void {
  const share = SCROLLED[event.key];
  const { target } = event;
  if (share === undefined || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  if (event.defaultPrevented || !(target instanceof Element)) return;
  if (target !== document.body && target.closest(".top a") === null) return;
  const page = document.querySelector("main :is(.detail-scroll, .sheet)");
  if (page === null || page.scrollHeight <= page.clientHeight) return;
  event.preventDefault();
  page.scrollBy({ top: share * page.clientHeight });
}

/** A letter that comes later than this after `p` is a key of the page again. */
const GOING_MS = 3_000;
let goingUntil = 0;

function onKey(event: KeyboardEvent): void {
  if (session.value.is !== "in" || !isCommandKey(event)) return;
  const isGoing = event.timeStamp < goingUntil;
  goingUntil = 0;
  if (isGoing) {
    const at = current.value === undefined ? 0 : mayOpen.value.indexOf(current.value) + 1;
    const others = [...mayOpen.value.slice(at), ...mayOpen.value.slice(0, at)];
    const page = others.find(({ title }) => title.toLowerCase().startsWith(event.key));
    if (page !== undefined) {
      event.preventDefault();
      event.stopImmediatePropagation();
      navigate(hrefOf(page.name));
    }
  } else if (event.key === "p") goingUntil = event.timeStamp + GOING_MS;
  else if (event.key === "?") isHelpOpen.value = true;
}

function runPages(): () => void {
  const pages = mayOpen.value;
  const stops = untracked(() => pages.flatMap(({ run }) => (run === undefined ? [] : [run()])));
  return () => {
    for (const stop of stops) stop();
  };
}

function showTitle(): void {
  const waiting = mayOpen.value.reduce((sum, { count }) => sum + (count?.value ?? 0), 0);
  const name = session.value.is === "in" ? (current.value?.title ?? "Console") : "Sign in";
  document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${name} · Safe Tool Call`;
}
