import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { saidMembers } from "../../../core/approval-view.ts";
import { askingReasons } from "../../../core/decision-words.ts";
import { asStrings } from "../../../core/json.ts";
import { misreadableInAscii } from "../../../core/printable.ts";
import { members } from "../api.ts";
import { Actor, CallerLink } from "../caller.tsx";
import { agentOf, HaltedMark, StopAgent } from "../halting.tsx";
import { Meanings } from "../meanings.tsx";
import { AgentSays, Ago, Badge, Countdown, RiskBadge } from "../parts.tsx";
import { Sentences } from "../records.tsx";
import { Text } from "../text.tsx";
import { UNNAMED_SYSTEMS } from "../words.ts";
import { isPending, outcomeOf, type ShownRequest, toneOf } from "./model.ts";
import { words } from "./plan.ts";
import { shownPlan } from "./reading.ts";

/** Characters of the agent's reason that are shown before it is opened: what will run stays on the screen. */
const REASON_SHOWN = 280;

/** The top of a request: the risk and why it asks, who asks for whom, what the agent says, and the time that is left. */
export function Band({ request }: { readonly request: ShownRequest }): VNode {
  const { risk, state, decideBy, createdAt } = request;
  return (
    <header class="band">
      <div class="band-title">
        <RiskBadge risk={risk} />
        <Title request={request} />
        {isPending(request) ? (
          <span class="band-time">
            <Countdown iso={decideBy} /> <span class="dim">left</span>
          </span>
        ) : (
          <Badge tone={toneOf(state)}>{outcomeOf(request)}</Badge>
        )}
      </div>
      <div class="band-who">
        <p>
          <Asker request={request} /> <span class="dim">·</span> <Ago iso={createdAt} />
        </p>
        <Stop request={request} />
      </div>
      <AgentSays text={members(members(request.view)["reason"])["text"]} max={REASON_SHOWN} />
      <Why request={request} />
    </header>
  );
}

function Title({ request: { id, tool, view } }: { readonly request: ShownRequest }): VNode {
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // On a phone, the row that was pressed is no longer on the page.
    const { activeElement } = document;
    const isLost =
      activeElement === document.body || (activeElement instanceof HTMLElement && activeElement.offsetParent === null);
    if (isLost) title.current?.focus({ preventScroll: true });
  }, [id]);
  const system = members(members(view)["target"])["system"];
  return (
    <h1 id="request-title" ref={title} tabIndex={-1}>
      <Text value={tool} max={200} />
      {typeof system === "string" && !UNNAMED_SYSTEMS.has(system) && (
        <span class="on-system">
          {" "}
          on <Text value={system} max={200} />
        </span>
      )}
    </h1>
  );
}

/** Says who asks for whom: the actor that holds the token, those that it acts through, and the caller whose permissions it has. */
function Asker({ request: { requester, members = [] } }: { readonly request: ShownRequest }): VNode | null {
  if (requester === undefined) return null;
  const { sub, iss, act = [], session } = requester;
  return (
    <>
      {act.length === 0 ? (
        <>
          <CallerLink sub={sub} iss={iss} /> asks on its own behalf
        </>
      ) : (
        <>
          <Actor act={act} /> asks for <CallerLink sub={sub} iss={iss} />
        </>
      )}
      {session !== undefined && (
        <span class="dim">
          {" "}
          in session{" "}
          <code>
            <Text value={session} max={60} />
          </code>
        </span>
      )}
      {members.length > 0 && (
        <span class="dim">
          {" "}
          from {members.length === 1 ? "member" : "members"} <Text value={members.join(", ")} max={120} />
        </span>
      )}
    </>
  );
}

function Stop({ request: { requester, tool } }: { readonly request: ShownRequest }): VNode | null {
  if (requester === undefined) return null;
  const { sub, iss, act, session } = requester;
  return (
    <div class="band-stop">
      <HaltedMark sub={sub} iss={iss} act={act} session={session} tool={tool} />
      <StopAgent {...agentOf(requester)} />
    </div>
  );
}

function Why({ request }: { readonly request: ShownRequest }): VNode {
  const view = members(request.view);
  const { toolMessage } = view;
  const { meanings, notes } = askingReasons(request);
  const others = asStrings(notes);
  const told = meanings.map(({ text }) => text.toLowerCase());
  return (
    <div class="band-why">
      <h2>{isPending(request) ? "Why it asks" : "Why it asked"}</h2>
      {typeof toolMessage === "string" && (
        <p class="tool-message">
          <Text value={toolMessage} max={1_000} />
        </p>
      )}
      <Alike request={request} />
      <Meanings meanings={meanings} />
      {others.length > 0 && <Sentences label="Notes" value={others} sentences={others} />}
      {saidMembers(view, "console").map((member) => (
        <Sentences
          key={member.label}
          {...member}
          label={words(member.label)}
          sentences={member.sentences?.filter((each) => told.every((text) => !text.includes(each.toLowerCase())))}
        />
      ))}
    </div>
  );
}

const ALIKE_SHOWN = 200;

/** Words of the plan whose letters look like others: on a phone, the plan itself is below the buttons. */
function Alike({ request }: { readonly request: ShownRequest }): VNode | null {
  const parts = shownPlan(request).main.flatMap(({ value, end = "" }) => [value, end].flat());
  const ascii = misreadableInAscii(parts.join(" "));
  if (ascii === undefined) return null;
  return (
    <p class="ascii">
      <strong>Letters look like others</strong> or run from right to left in what will run:{" "}
      <code>{ascii.length > ALIKE_SHOWN ? `${ascii.slice(0, ALIKE_SHOWN)}…` : ascii}</code>
    </p>
  );
}
