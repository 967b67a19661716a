import { approvalsPage } from "./approvals/page.tsx";
import { AGENTS } from "./caller.tsx";
import { homePage } from "./home/page.tsx";
import { later } from "./later.tsx";
import { POLICY } from "./meanings.tsx";
import type { AppPage } from "./state.ts";

/**
 * The pages in the order of the navigation, which shows them by group. A new one is one row here. The code of a page that not every
 * operator opens is read when it is opened.
 */
export const PAGES: readonly AppPage[] = [
  homePage,
  approvalsPage,
  later(
    { name: "calls", title: "Calls", group: "Work", permission: "audit:read" },
    async () => (await import("./calls/page.tsx")).callsPage,
  ),
  later(
    { name: AGENTS, title: "Agents", group: "Work", permission: "audit:read" },
    async () => (await import("./agents/page.tsx")).agentsPage,
  ),
  later(
    { name: "tools", title: "Tools", group: "Systems", permission: "tools:read" },
    async () => (await import("./tools/page.tsx")).toolsPage,
  ),
  later(
    { name: "systems", title: "Systems", group: "Systems", permission: "metrics:read" },
    async () => (await import("./systems/page.tsx")).systemsPage,
  ),
  later(
    { name: "sessions", title: "Sessions", group: "Systems", permission: "modes:manage" },
    async () => (await import("./oversight/sessions.tsx")).sessionsPage,
  ),
  later(
    { name: "limits", title: "Limits", group: "Systems", permission: "halts:read" },
    async () => (await import("./limits/page.tsx")).limitsPage,
  ),
  later(
    { name: POLICY, title: "Policy", group: "Systems", permission: "configuration:read" },
    async () => (await import("./policy/page.tsx")).policyPage,
  ),
  later(
    { name: "evidence", title: "Evidence", group: "Evidence", permission: "audit:read" },
    async () => (await import("./oversight/evidence.tsx")).evidencePage,
  ),
  later(
    { name: "report", title: "Report", group: "Evidence", permission: "approvals:decide" },
    async () => (await import("./oversight/report.tsx")).reportPage,
  ),
];
