import { computed, effect, signal, untracked } from "@preact/signals";
import type { OperatorPermission } from "../../core/operator-permissions.ts";
import { ApiError, isReachable, members, request, setKey, whenSessionEnds } from "./api.ts";
import { readLink } from "./route.ts";
import { errorOf, navigate, notices, replaceUrl } from "./state.ts";

/** The person who is signed in, as the service answers. */
export interface SignedIn {
  readonly sub: string;
  readonly iss: string;
  /** The tenant of the service whose operator this is; undefined for operators of the service itself. */
  readonly tenant?: string;
  readonly permissions: readonly string[];
  /** Expiry of the token, which may be renewed. */
  readonly expiresAt: string;
  /** Latest end of the session. */
  readonly endsAt: string;
}

export type SessionState =
  | { readonly is: "starting" }
  /** `ended`: there was a session before, and the same page opens after the next sign-in. */
  | { readonly is: "out"; readonly ended: boolean; readonly error?: ApiError | undefined }
  | { readonly is: "in"; readonly person: SignedIn };

export interface Settings {
  readonly oidc: boolean;
  readonly development: boolean;
  readonly version: string;
}

const KEY_ITEM = "stc-console-key";
const RETURN_ITEM = "stc-console-return";
const OIDC_PATH = "/console/oidc";
const PAGE_PATH = "/console";
/** Longest time that a new tab waits for another tab to pass the session on. */
const ASK_TABS_MS = 150;
const RESUME_MS = 3_000;

export const session = signal<SessionState>({ is: "starting" });
export const settings = signal<Settings | undefined>(undefined);
export const isBusy = signal(false);

export const permissions = computed<Pick<ReadonlySet<OperatorPermission>, "has">>(
  () => new Set(session.value.is === "in" ? session.value.person.permissions : []),
);

/** True when the page's top message says that the service cannot be reached (signed-in users only): no other part repeats it. */
export const isAway = computed(() => !isReachable.value && session.value.is === "in");

const PROBE_MS = 3_000;

/** Asks, while the service is away, whether it is back. Returns the function that stops this. */
export function probeService(): () => void {
  return effect(() => {
    if (!isAway.value) return undefined;
    const timer = setInterval(() => {
      if (document.visibilityState !== "visible") return;
      void request("GET", "/healthz", { signal: AbortSignal.timeout(PROBE_MS) }).catch(() => {});
    }, PROBE_MS);
    return () => clearInterval(timer);
  });
}

/** Calls `listener` whenever the service can be reached again. Returns the function that stops this. */
export function whenBack(listener: () => void): () => void {
  let wasAway = isAway.value;
  return isAway.subscribe((away) => {
    if (wasAway && !away) untracked(listener);
    wasAway = away;
  });
}

/**
 * Tabs of this origin pass the session on: a new tab asks, a signed-in tab answers. Other origins, also other ports of the same
 * host, take no part in the channel.
 */
const tabs = new BroadcastChannel("stc-console");
tabs.onmessage = ({ data }: MessageEvent) => {
  const { ask, ended, key } = members(data);
  const kept = sessionStorage.getItem(KEY_ITEM);
  if (ask === true && kept !== null && session.value.is === "in") tabs.postMessage({ key: kept });
  if (typeof ended === "string" && ended === kept) end(true);
  // An answer that came late: the page for signing in is already there.
  if (typeof key === "string" && session.value.is === "out" && !session.value.ended && !isBusy.value) {
    setKey(key);
    void resume(key);
  }
};

whenSessionEnds(() => void endOrFollow());

/**
 * A new sign-in in another tab ends this tab's session, because they share the cookie. The same person's tabs follow; a tab never
 * turns into somebody else's.
 */
async function endOrFollow(): Promise<void> {
  const person = session.value.is === "in" ? session.value.person : undefined;
  end(true);
  if (person === undefined) return;
  const key = await askTabs();
  if (key === undefined || session.value.is !== "out" || isBusy.value) return;
  setKey(key);
  try {
    const other = await request<SignedIn>("GET", "/console/session");
    if (isSamePerson(other, person)) enter(key, other);
    else setKey(undefined);
  } catch {
    setKey(undefined);
  }
}

/** Starts the page: finishes a sign-in that the URL carries, or continues the tab's session. */
export async function start(): Promise<void> {
  const link = readLink(location.hash);
  const { pathname, search } = location;
  // Secrets do not stay in the URL or the history.
  if (link !== undefined) replaceUrl(PAGE_PATH);
  const isBegun = sessionStorage.getItem(RETURN_ITEM) !== null;
  if (pathname === OIDC_PATH) replaceUrl(`${PAGE_PATH}${takeReturn()}`);
  void loadSettings();
  if (link !== undefined) return signIn({ link });
  if (pathname === OIDC_PATH) return finishOidc(new URLSearchParams(search), isBegun);
  const key = sessionStorage.getItem(KEY_ITEM) ?? (await askTabs());
  if (key === undefined) {
    session.value = { is: "out", ended: false };
    return;
  }
  setKey(key);
  await resume(key);
}

async function resume(key: string): Promise<void> {
  try {
    const person = await request<SignedIn>("GET", "/console/session");
    enter(key, person);
  } catch (error) {
    const problem = errorOf(error);
    if (problem.status === 401) end(true);
    else {
      // The key may still be good: the service is only out of reach.
      session.value = { is: "out", ended: false, error: problem };
      setTimeout(() => {
        if (session.value.is === "out" && !isBusy.value && sessionStorage.getItem(KEY_ITEM) === key) void resume(key);
      }, RESUME_MS);
    }
  }
}

/** Signs in with a pasted token, a one-time link, or the answer of the identity provider. */
export async function signIn(proof: Readonly<Record<string, string>>): Promise<void> {
  isBusy.value = true;
  setKey(undefined);
  try {
    const { key, ...person } = await request<SignedIn & { readonly key: string }>("POST", "/console/session", {
      body: proof,
    });
    setKey(key);
    enter(key, person);
  } catch (error) {
    const ended = session.value.is === "out" && session.value.ended;
    session.value = { is: "out", ended, error: errorOf(error) };
  } finally {
    isBusy.value = false;
  }
}

/** Leaves for the identity provider; the route is kept for the return. */
export async function startOidc(): Promise<void> {
  isBusy.value = true;
  try {
    const { url } = await request<{ readonly url: string }>("POST", "/console/sign-in", { body: {} });
    sessionStorage.setItem(RETURN_ITEM, location.hash);
    location.assign(url);
  } catch (error) {
    session.value = { is: "out", ended: false, error: errorOf(error) };
    isBusy.value = false;
  }
}

/** `isBegun`: this tab has left for the provider. Otherwise anybody may have written what the URL says. */
async function finishOidc(query: URLSearchParams, isBegun: boolean): Promise<void> {
  const refused = query.get("error");
  if (refused !== null) {
    const why = isBegun ? `: ${query.get("error_description") ?? refused}` : ".";
    const error = new ApiError("SIGN_IN_REFUSED", `The identity provider did not sign you in${why}`);
    session.value = { is: "out", ended: false, error };
    return;
  }
  const proof: Record<string, string> = {};
  for (const name of ["code", "state", "iss"]) {
    const value = query.get(name);
    if (value !== null) proof[name] = value;
  }
  await signIn(proof);
}

export async function signOut(): Promise<void> {
  const key = sessionStorage.getItem(KEY_ITEM);
  try {
    await request("DELETE", "/console/session");
  } catch (error) {
    // A session that is over is signed out. After any other answer, it may go on.
    if (errorOf(error).status !== 401) throw error;
  }
  tabs.postMessage({ ended: key });
  end(false);
  notices.value = [];
  navigate("#/", { replace: true });
}

async function loadSettings(): Promise<void> {
  try {
    settings.value = await request<Settings>("GET", "/console/settings");
  } catch {
    settings.value = { oidc: false, development: false, version: "" };
  }
}

/** The person that this page was used by. */
let user: SignedIn | undefined;

/** Shows the pages. Nothing that one person has read, searched or written remains for another: the page is loaded again. */
function enter(key: string, person: SignedIn): void {
  sessionStorage.setItem(KEY_ITEM, key);
  if (user !== undefined && !isSamePerson(user, person)) {
    location.reload();
    return;
  }
  user = person;
  session.value = { is: "in", person };
}

function isSamePerson(one: SignedIn, other: SignedIn): boolean {
  return one.sub === other.sub && one.iss === other.iss && one.tenant === other.tenant;
}

function end(ended: boolean): void {
  sessionStorage.removeItem(KEY_ITEM);
  setKey(undefined);
  session.value = { is: "out", ended };
}

function takeReturn(): string {
  const kept = sessionStorage.getItem(RETURN_ITEM) ?? "";
  sessionStorage.removeItem(RETURN_ITEM);
  return kept.startsWith("#/") ? kept : "";
}

async function askTabs(): Promise<string | undefined> {
  return new Promise((resolve) => {
    const asking = new BroadcastChannel("stc-console");
    const done = (key?: string): void => {
      asking.close();
      resolve(key);
    };
    const timer = setTimeout(done, ASK_TABS_MS);
    asking.onmessage = ({ data }: MessageEvent) => {
      const { key } = members(data);
      if (typeof key !== "string") return;
      clearTimeout(timer);
      done(key);
    };
    asking.postMessage({ ask: true });
  });
}
