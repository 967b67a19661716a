import type { ExporterListing } from "../../../core/api/audit.ts";
import type { HaltListed, HaltListing } from "../../../core/api/halts.ts";
import type { FleetShown, SystemsShown, ToolCatalog } from "../../../core/api/inventory.ts";
import type { OperatorPermission } from "../../../core/operator-permissions.ts";
import { nameInSentence } from "../../../core/printable.ts";
import { refusalSentence } from "../../../core/refusal-words.ts";
import { hrefOf } from "../route.ts";
import { EXPIRES_SOON_DAYS, EXPIRES_SOON_MS, failingStates, isFailing } from "../systems/model.ts";
import { bytesText, counted, timeAgo, timeLeft } from "../words.ts";

/** Matters that need a person, from the state that the service reports. */

/** Something that somebody should deal with. */
export interface Need {
  /** `bad`: calls fail, or evidence is in danger. `warn`: soon, or somebody should look. */
  readonly tone: "bad" | "warn";
  readonly text: string;
  /** The page on which it is dealt with. */
  readonly href: string;
}

interface Judged {
  readonly needs: readonly Need[];
  /** Sentence for a part in which nothing needs a person. */
  readonly fine: string;
}

/** A part of the service that is looked at with one request. */
export interface CheckedPart {
  readonly title: string;
  readonly permission: OperatorPermission;
  readonly path: string;
  /** The page that shows it. */
  readonly href: string;
  readonly judge: (answer: unknown, nowMs: number) => Judged;
}

function checkedPart<Answer>(
  row: Omit<CheckedPart, "judge"> & { readonly judge: (answer: Answer, nowMs: number) => Judged },
): CheckedPart {
  return { ...row, judge: (answer, nowMs) => row.judge(answer as Answer, nowMs) };
}

/** The refusals of the last hour, and of the same hour of the day before. */
const REFUSALS_PATH = "/audit/stats?from=1h&compare=1d";

export const CHECKED_PARTS: readonly CheckedPart[] = [
  checkedPart<SystemsShown>({
    title: "Systems",
    permission: "metrics:read",
    path: "/systems",
    href: hrefOf("systems"),
    judge: (shown, nowMs) => ({
      needs: systemNeeds(shown, nowMs),
      fine: `The service accepts calls. ${counted(shown.systems.length, "system")} without a known failure; no certificate expires within ${EXPIRES_SOON_DAYS} days.`,
    }),
  }),
  checkedPart<HaltListing>({
    title: "Halts",
    permission: "halts:read",
    path: "/halts",
    href: hrefOf("limits"),
    judge: (listing, nowMs) => ({ needs: haltNeeds(listing, nowMs), fine: "Nothing is halted." }),
  }),
  checkedPart<ToolCatalog>({
    title: "Tools",
    permission: "tools:read",
    path: "/catalog",
    href: hrefOf("tools"),
    judge: (catalog) => ({
      needs: toolNeeds(catalog),
      fine: `${counted(catalog.tools.length, "tool")}: none is quarantined, all are loaded.`,
    }),
  }),
  checkedPart<ExporterListing>({
    title: "Export of the audit",
    permission: "audit:read",
    path: "/audit/exporters",
    href: hrefOf("evidence"),
    judge: ({ exporters }, nowMs) => ({
      needs: exporterNeeds(exporters, nowMs),
      fine: exporters.length === 0 ? "The audit is not exported." : "Every exporter is up to date.",
    }),
  }),
  checkedPart<ComparedRefusals>({
    title: "Refusals",
    permission: "audit:read",
    path: REFUSALS_PATH,
    href: hrefOf("calls", [], new URLSearchParams({ from: "1h" })),
    judge: (compared) => ({
      needs: refusalNeeds(compared),
      fine: `${counted(compared.now.calls, "call")} in the last hour; no kind of refusal has risen since yesterday.`,
    }),
  }),
];

function systemNeeds(shown: SystemsShown, nowMs: number): readonly Need[] {
  const { reasons, audit, revocations, systems, decisionPoints = [], certificates, listeners } = shown;
  const href = hrefOf("systems");
  const bad = (text: string): Need => ({ tone: "bad", text, href });
  const certified = [
    ...certificates.map(({ system, expiresAt }) => [`for the system ${system}`, expiresAt] as const),
    ...listeners.map(
      ({ listener, certificateExpiresAt }) => [`of the ${listener} listener`, certificateExpiresAt] as const,
    ),
  ];
  return [
    ...(reasons.length > 0 ? [bad(`The service accepts no calls now: ${reasons.join(", ")}.`)] : []),
    ...(audit.status === "failing" ? [bad(`The audit cannot be written: ${String(audit["reason"] ?? "")}`)] : []),
    ...systems.flatMap((system) => {
      const states = failingStates(system);
      return states.length > 0 ? [bad(`Calls to the system ${system.name} may fail: ${states.join(", ")}.`)] : [];
    }),
    ...decisionPoints
      .filter(({ circuit }) => circuit !== undefined && isFailing(circuit))
      .map(({ name }) => bad(`The decision point ${name} does not answer: calls that it decides are denied.`)),
    ...(revocations?.status === "stale"
      ? [{ tone: "warn", text: "The list of revoked tokens is out of date.", href } as const]
      : []),
    ...certified.flatMap(([name, expiresAt]) => {
      const left = expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt) - nowMs;
      if (!(left < EXPIRES_SOON_MS)) return [];
      if (left <= 0) return [bad(`The certificate ${name} has expired.`)];
      return [{ tone: "warn", text: `The certificate ${name} expires in ${timeLeft(left)}.`, href } as const];
    }),
    ...fleetTexts(shown).map((text): Need => ({ tone: "warn", text, href })),
  ];
}

/** Each bundle before a refused or expired one stays in force: calls go on. */
function fleetTexts({ bundle, members }: FleetShown): readonly string[] {
  const membersIn = (wanted: string): string => {
    const found = members?.bundles.find(({ state }) => state === wanted)?.members ?? 0;
    return found === 0 ? "" : counted(found, "connected member");
  };
  const [refusing, expired] = [membersIn("refused"), membersIn("expired")];
  const kept = `version ${bundle?.version} stays in force`;
  return [
    bundle?.state === "refused" && `The newest bundle of the fleet was refused, ${kept}: ${bundle.lastError}`,
    bundle?.state === "expired" && `The bundle of the fleet has expired, ${kept}: nobody has renewed its timestamp.`,
    refusing !== "" && `The newest bundle of the fleet was refused by ${refusing}.`,
    expired !== "" && `The bundle of ${expired} has expired.`,
  ].filter((text) => typeof text === "string");
}

/** Returns what a halt stops, in words. */
function haltedText({ tenant, ...halt }: HaltListed): string {
  const text = stoppedText(halt);
  return tenant === undefined ? text : `In the tenant ${tenant}, ${text.slice(0, 1).toLowerCase()}${text.slice(1)}`;
}

function stoppedText({ kind, tool, system, subject: caller, session }: Omit<HaltListed, "tenant">): string {
  const named: Readonly<Record<string, string>> = {
    all: "All calls are",
    tool: `The tool ${nameInSentence(tool ?? "")} is`,
    system: `The system ${nameInSentence(system ?? "")} is`,
    // In a tenant, a halt of the service for all tenants names no caller and no session.
    caller: caller === undefined ? "A caller is" : `The caller ${nameInSentence(caller)} is`,
    session: session === undefined ? "A session is" : `The session ${session} is`,
  };
  return named[kind] ?? `${kind} is`;
}

function haltNeeds({ halts, state }: HaltListing, nowMs: number): readonly Need[] {
  const href = hrefOf("limits");
  const unread: readonly Need[] =
    state.status === "ok" ? [] : [{ tone: "bad", text: "The halts cannot be read from the database.", href }];
  const set = halts.map((halt): Need => {
    const ago = timeAgo(nowMs - Date.parse(halt.setAt));
    const by = halt.setBy === undefined ? "the service's operators" : nameInSentence(halt.setBy.subject);
    const why = halt.reason === undefined ? "." : `: ${halt.reason}`;
    const text = `${haltedText(halt)} halted by ${by}, ${ago}${why}`;
    return { tone: halt.kind === "all" && halt.tenant === undefined ? "bad" : "warn", text, href };
  });
  return [...unread, ...set];
}

function toolNeeds({ tools, notRegistered }: ToolCatalog): readonly Need[] {
  const quarantined = tools
    .filter(({ isQuarantined }) => isQuarantined)
    .map(({ name }): Need => {
      const text = `The tool ${name} is quarantined: its system changed it. Look at the change, then pin it again.`;
      return { tone: "warn", text, href: hrefOf("tools", [name]) };
    });
  if (notRegistered.length === 0) return quarantined;
  const text = `${counted(notRegistered.length, "tool")} not loaded: the manifests have errors.`;
  return [...quarantined, { tone: "warn", text, href: hrefOf("tools") }];
}

/** An exporter sends within seconds while its receiver accepts lines. */
export const BEHIND_SECONDS_MAX = 60;

function exporterNeeds(exporters: ExporterListing["exporters"], nowMs: number): readonly Need[] {
  const href = hrefOf("evidence");
  return [...Map.groupBy(exporters, ({ exporter }) => exporter)].flatMap(([exporter, streams]): readonly Need[] => {
    const name = `The exporter ${exporter}`;
    const backlog = bytesText(streams.reduce((sum, { bytesBehind }) => sum + (bytesBehind ?? 0), 0));
    const failing = streams.flatMap(({ failingSince }) => (failingSince === null ? [] : Date.parse(failingSince)));
    if (failing.length > 0) {
      const since = timeLeft(Math.max(1, nowMs - Math.min(...failing)));
      return [{ tone: "bad", text: `${name} has failed for ${since}: ${backlog} wait.`, href }];
    }
    if (streams.some(({ bytesBehind }) => bytesBehind === null)) {
      return [{ tone: "bad", text: `${name} cannot read the log.`, href }];
    }
    const behind = Math.max(...streams.map(({ secondsBehind }) => secondsBehind ?? 0));
    const dead = streams.reduce((sum, { deadLines }) => sum + deadLines, 0);
    const texts = [
      ...(behind > BEHIND_SECONDS_MAX ? [`${name} is ${timeLeft(behind * 1_000)} behind: ${backlog} wait.`] : []),
      ...(dead > 0 ? [`${name}: its receiver has rejected ${counted(dead, "line")}.`] : []),
    ];
    return texts.map((text) => ({ tone: "warn", text, href }));
  });
}

/** `GET /audit/stats` with `compare`, as far as it is read here. */
export interface ComparedRefusals {
  readonly now: CountedRefusals;
  readonly before: CountedRefusals;
}

interface CountedRefusals {
  readonly calls: number;
  /** Calls by `code stage tool`. */
  readonly refusals: readonly (readonly [name: string, calls: number])[];
}

/** Fewer more refusals than this can be chance. */
const RISE_MIN = 10;
const RISE_FACTOR = 2;
/** Longest tool name on the page: any agent can call an unknown tool with a name of any length. */
const TOOL_CHARACTERS_MAX = 64;

function toolInSentence(name: string): string {
  const shown = name.length > TOOL_CHARACTERS_MAX ? `${name.slice(0, TOOL_CHARACTERS_MAX)}…` : name;
  return nameInSentence(shown);
}

function refusalNeeds({ now, before }: ComparedRefusals): readonly Need[] {
  const earlier = byCode(before);
  return [...byCode(now)].flatMap(([code, { calls, tool }]): readonly Need[] => {
    const then = earlier.get(code)?.calls ?? 0;
    if (calls - then < RISE_MIN || calls < RISE_FACTOR * then) return [];
    const why = refusalSentence(code);
    const text = `${code} rose to ${counted(calls, "call")} in the last hour, from ${then} in the same hour yesterday, most of them to ${toolInSentence(tool)}.${why === undefined ? "" : ` ${why}`}`;
    return [{ tone: "warn", text, href: hrefOf("calls", [], new URLSearchParams({ from: "1h", code })) }];
  });
}

/** Sums up refusals by their code, with the tool that has the most of them. */
function byCode({ refusals }: CountedRefusals): ReadonlyMap<string, { readonly calls: number; readonly tool: string }> {
  const codes = new Map<string, { calls: number; tool: string }>();
  // The highest number comes first.
  for (const [name, calls] of refusals) {
    const [code = "", , ...tool] = name.split(" ");
    const known = codes.get(code);
    codes.set(code, { calls: (known?.calls ?? 0) + calls, tool: known?.tool ?? tool.join(" ") });
  }
  return codes;
}
