import { agentsPage } from "./agents/page.tsx";
import { approvalsPage } from "./approvals/page.tsx";
import { callsPage } from "./calls/page.tsx";
import { homePage } from "./home/page.tsx";
import { limitsPage } from "./limits/page.tsx";
import { evidencePage } from "./oversight/evidence.tsx";
import { reportPage } from "./oversight/report.tsx";
import { sessionsPage } from "./oversight/sessions.tsx";
import { policyPage } from "./policy/page.tsx";
import type { AppPage } from "./state.ts";
import { systemsPage } from "./systems/page.tsx";
import { toolsPage } from "./tools/page.tsx";

/** The pages in the order of the navigation, which shows them by group. A new one is one line here. */
export const PAGES: readonly AppPage[] = [
  ...[homePage, approvalsPage, callsPage, agentsPage],
  ...[toolsPage, systemsPage, sessionsPage, limitsPage, policyPage],
  ...[evidencePage, reportPage],
];
