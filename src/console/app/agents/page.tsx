import type { VNode } from "preact";
import { AGENTS } from "../caller.tsx";
import { HaltedMark, StopAgent, useHalts } from "../halting.tsx";
import { Heading, Party } from "../parts.tsx";
import { type AppPage, route } from "../state.ts";

/** The agents: what each one did, and a way to stop it. */

function AgentsView(): VNode {
  const [iss, sub] = route.value.rest;
  useHalts();
  return (
    <div class="sheet story">
      {sub === undefined ? (
        <Heading>Agents</Heading>
      ) : (
        <header class="sheet-head">
          <Heading focusKey={sub}>
            <Party sub={sub} iss={iss} />
          </Heading>
          <HaltedMark sub={sub} iss={iss} />
          <StopAgent sub={sub} iss={iss} />
        </header>
      )}
    </div>
  );
}

export const agentsPage: AppPage = {
  name: AGENTS,
  title: "Agents",
  group: "Work",
  permission: "audit:read",
  view: AgentsView,
};
