import { computed, signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { nameInSentence } from "../../../core/printable.ts";
import { request, serviceNow } from "../api.ts";
import { listError, readAt, waiting } from "../approvals/inbox.ts";
import type { ListedRequest } from "../approvals/model.ts";
import { HeadlineShown } from "../approvals/row.tsx";
import { Ago, Badge, Countdown, Heading, Problem, RiskBadge } from "../parts.tsx";
import { Section } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { isAway, permissions, whenBack } from "../session.ts";
import { type AppPage, announce, errorOf } from "../state.ts";
import { Text } from "../text.tsx";
import { counted } from "../words.ts";
import { CHECKED_PARTS, type CheckedPart, type Need } from "./attention.ts";

/** The start: what needs somebody now, with where it is dealt with, and what was checked. */

const READ_EVERY_MS = 60_000;
/** Requests that are shown here; the others are on their own page. */
const REQUESTS_MAX = 5;

interface Checked {
  readonly part: CheckedPart;
  readonly needs: readonly Need[];
  readonly fine: string | undefined;
}

interface Check {
  readonly at: string;
  readonly parts: readonly Checked[];
}

const check = signal<Check | undefined>(undefined);
const isChecking = signal(false);
const readable = computed(() => CHECKED_PARTS.filter(({ permission }) => permissions.value.has(permission)));
const mayDecide = computed(() => permissions.value.has("approvals:decide"));

/** Reads every part that the operator may read. One that cannot be read needs somebody, too. */
async function checkAgain(): Promise<void> {
  if (isChecking.value) return;
  isChecking.value = true;
  const parts = await Promise.all(readable.value.map(checkPart));
  // While the service is away, what was found stays: the top of the page says that it may be old.
  if (!isAway.value) check.value = { at: new Date(serviceNow()).toISOString(), parts };
  isChecking.value = false;
}

async function checkPart(part: CheckedPart): Promise<Checked> {
  try {
    const { needs, fine } = part.judge(await request("GET", part.path), serviceNow());
    return { part, needs, fine };
  } catch (error) {
    const { code, message } = errorOf(error);
    const text = `${part.title}: nothing is known now. ${message} (${code})`;
    return { part, needs: [{ tone: "bad", text, href: part.href }], fine: undefined };
  }
}

function HomeView(): VNode {
  useEffect(() => {
    void checkAgain();
    const timer = setInterval(() => document.visibilityState === "visible" && void checkAgain(), READ_EVERY_MS);
    const stopWaiting = whenBack(() => void checkAgain());
    return () => {
      stopWaiting();
      clearInterval(timer);
    };
  }, []);
  const now = check.value;
  return (
    <div class="sheet story">
      <header class="sheet-head">
        <Heading>Home</Heading>
        {now !== undefined && (
          <span class="dim">
            Checked <Ago iso={now.at} />
          </span>
        )}
        <button
          type="button"
          disabled={isChecking.value}
          onClick={() => void checkAgain().then(() => announce("Checked again."))}
        >
          Check again
        </button>
      </header>
      {now === undefined ? (
        <p class="loading" role="status">
          {isAway.value ? "Waiting for the service …" : "Checking …"}
        </p>
      ) : (
        <Found parts={now.parts} />
      )}
      <LeftOut />
    </div>
  );
}

function Found({ parts }: { readonly parts: readonly Checked[] }): VNode {
  const needs = parts.flatMap((one) => one.needs.map((need) => ({ ...need, part: one.part })));
  const sorted = needs.toSorted((one, other) => Number(other.tone === "bad") - Number(one.tone === "bad"));
  const isNobodyAsked = !mayDecide.value || (readAt.value !== undefined && waiting.value.length === 0);
  return (
    <>
      {needs.length === 0 && isNobodyAsked && (
        <p class="callout tone-good" role="status">
          <strong>Nothing needs you now.</strong>
        </p>
      )}
      {needs.length > 0 && (
        <Section id="needs" title="Needs somebody">
          <ul class="needs">
            {sorted.map(({ part, tone, text, href }) => (
              <li key={`${part.title} ${text}`} class={`need tone-${tone}`}>
                <Badge tone={tone}>{part.title}</Badge>
                <a href={href}>
                  <Text value={text} max={400} isFixed />
                </a>
              </li>
            ))}
          </ul>
        </Section>
      )}
      {mayDecide.value && <Waiting />}
      {parts.some((one) => one.needs.length === 0) && (
        <Section id="fine" title="In order">
          <ul class="needs">
            {parts
              .filter((one) => one.needs.length === 0)
              .map(({ part, fine }) => (
                <li key={part.title} class="need">
                  <Badge tone="good">{part.title}</Badge>
                  <a href={part.href}>{fine}</a>
                </li>
              ))}
          </ul>
        </Section>
      )}
    </>
  );
}

/** The requests that wait, the oldest first. The inbox keeps them up to date. */
function Waiting(): VNode | null {
  const all = waiting.value;
  if (listError.value !== undefined) return <Problem error={listError.value} />;
  if (all.length === 0) return null;
  return (
    <Section
      id="waiting"
      title={`${counted(all.length, "request")} ${all.length === 1 ? "waits" : "wait"} for a decision`}
    >
      <ul class="needs">
        {all.slice(0, REQUESTS_MAX).map((one) => (
          <WaitingRow key={one.id} request={one} />
        ))}
        {all.length > REQUESTS_MAX && (
          <li class="need">
            <a href={hrefOf("approvals")}>{counted(all.length - REQUESTS_MAX, "more request")}, which came later</a>
          </li>
        )}
      </ul>
    </Section>
  );
}

function WaitingRow({ request }: { readonly request: ListedRequest }): VNode {
  const { id, tool, risk, requester, createdAt, decideBy } = request;
  return (
    <li class="need">
      {risk === undefined ? <Badge>new</Badge> : <RiskBadge risk={risk} />}
      <a href={hrefOf("approvals", [id])}>
        <HeadlineShown request={request} />
        <span class="dim">
          {" "}
          <Text value={tool} max={80} isFixed />
          {requester !== undefined && (
            <>
              {" "}
              · <Text value={nameInSentence(requester.sub)} max={60} isFixed />
            </>
          )}
        </span>
      </a>
      <span class="dim need-time">
        <Ago iso={createdAt} />
        {decideBy !== undefined && (
          <>
            {" "}
            · <Countdown iso={decideBy} /> left
          </>
        )}
      </span>
    </li>
  );
}

/** Names what the operator may not read: its silence does not mean that it is in order. */
function LeftOut(): VNode | null {
  const others = CHECKED_PARTS.filter((part) => !readable.value.includes(part));
  const left = [
    ...others.map(({ title, permission }) => `${title} (${permission})`),
    ...(mayDecide.value ? [] : ["Approvals (approvals:decide)"]),
  ];
  return left.length === 0 ? null : (
    <p class="help">Not checked, because your token does not permit it: {left.join(", ")}.</p>
  );
}

export const homePage: AppPage = {
  name: "",
  title: "Home",
  group: "Work",
  view: HomeView,
  run: () => () => {
    check.value = undefined;
  },
};
