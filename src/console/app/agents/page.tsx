import type { VNode } from "preact";
import { type PageContent, route } from "../state.ts";
import { Agent } from "./agent.tsx";
import { List } from "./list.tsx";

/** The agents: what each one did, and a way to stop it. */

function AgentsView(): VNode {
  const [iss, sub] = route.value.rest;
  return iss === undefined || sub === undefined ? <List /> : <Agent key={`${iss} ${sub}`} iss={iss} sub={sub} />;
}

export const agentsPage: PageContent = {
  view: AgentsView,
};
