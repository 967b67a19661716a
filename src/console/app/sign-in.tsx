import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { Problem } from "./parts.tsx";
import { isBusy, session, settings, signIn, startOidc } from "./session.ts";

/** The page for signing in. */
export function SignIn(): VNode {
  const token = useSignal("");
  const state = session.value;
  const { oidc = false, development = false } = settings.value ?? {};
  const error = state.is === "out" ? state.error : undefined;
  const submit = (event: Event): void => {
    event.preventDefault();
    const pasted = token.value.trim();
    if (pasted === "" || isBusy.value) return;
    // The token does not stay in the page.
    token.value = "";
    void signIn({ token: pasted });
  };
  return (
    <main class="sign-in" id="main">
      <div class="card">
        <Mark />
        <h1>Safe Tool Call</h1>
        <p class="dim">Console for the people who decide what agents may do.</p>
        {state.is === "out" && state.ended && (
          <p class="callout" role="status">
            <strong>Your session has ended.</strong> Sign in again; you come back to the same page. A decision that was
            not sent yet is dropped.
          </p>
        )}
        {error !== undefined && <Problem error={error} />}
        {oidc && (
          <button type="button" class="primary wide" disabled={isBusy.value} onClick={() => void startOidc()}>
            Sign in with your organization
          </button>
        )}
        {oidc && (
          <p class="or">
            <span>or</span>
          </p>
        )}
        <form onSubmit={submit}>
          <label for="token">Operator's token</label>
          <input
            id="token"
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={token.value}
            onInput={({ currentTarget }) => {
              token.value = currentTarget.value;
            }}
            aria-describedby="token-help"
          />
          <p class="help" id="token-help">
            It is sent to the service once and stays there: this page keeps no token.
          </p>
          <button
            type="submit"
            class={oidc ? "wide" : "primary wide"}
            disabled={isBusy.value || token.value.trim() === ""}
          >
            {isBusy.value ? "Signing in …" : "Sign in with the token"}
          </button>
        </form>
        {development && (
          <p class="help">
            On this development stand, <code>stc console --dev</code> prints a link that signs you in.
          </p>
        )}
        <p class="help">The tabs of this browser share the session. When all are closed, sign in again.</p>
      </div>
    </main>
  );
}

export function Mark({ size = 40 }: { readonly size?: number }): VNode {
  return (
    <svg class="mark" viewBox="0 0 24 24" width={size} height={size} aria-hidden="true">
      <rect width="24" height="24" rx="6" />
      <path d="M7 12.5l3.5 3.5L17 8.5" />
    </svg>
  );
}
