import type { ComponentChildren, VNode } from "preact";
import { type CallStory, storyOf } from "../../../core/call-story.ts";
import { dataFlowSentences } from "../../../core/data-flow.ts";
import type { RuleMeaning } from "../../../core/decision-words.ts";
import { asString, asStrings } from "../../../core/json.ts";
import { nameInSentence } from "../../../core/printable.ts";
import { members } from "../api.ts";
import { Actor, CallerLink } from "../caller.tsx";
import { agentOf, HaltedMark, StopAgent } from "../halting.tsx";
import { Meaning, Meanings, versionHref } from "../meanings.tsx";
import { AgentSays, Badge } from "../parts.tsx";
import { jsonLines, Names, Sentences } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { permissions } from "../session.ts";
import { Block, Quoted, Text } from "../text.tsx";
import { Arguments } from "./arguments.tsx";
import { callOf, type Line } from "./model.ts";

/** The beginning of a call's story: what was asked, who decided and why, and how it ended. */

interface LeadProps {
  readonly line: Line;
  readonly journal: readonly Line[];
}

export function Lead({ line, journal }: LeadProps): VNode {
  const story = storyOf(line, journal);
  return (
    <div class="lead">
      <Step id="asked" title="What was asked">
        <Asked line={line} />
      </Step>
      <Step id="decided" title="Who decided, and why">
        <Decided line={line} story={story} />
      </Step>
      <Step id="ended" title="How it ended">
        <Ended line={line} story={story} />
      </Step>
      <Step id="arguments" title="Its arguments">
        <Arguments line={line} />
      </Step>
    </div>
  );
}

interface StepProps {
  readonly id: string;
  readonly title: string;
  readonly children: ComponentChildren;
}

function Step({ id, title, children }: StepProps): VNode {
  return (
    <section aria-labelledby={`${id}-title`} class="lead-step">
      <h2 id={`${id}-title`}>{title}</h2>
      <div>{children}</div>
    </section>
  );
}

/** Returns who asked: the caller, and the actors that it acts through. */
function askerOf(line: Line) {
  const caller = members(line["caller"]);
  return {
    sub: asString(caller["sub"]) ?? "unknown",
    iss: asString(caller["iss"]),
    act: asStrings(caller["act"]),
  };
}

/** Stops the agent that asked, at the top of the story: what was decided stays together below it. */
export function StopAsker({ line }: { readonly line: Line }): VNode {
  return <StopAgent {...agentOf(askerOf(line))} />;
}

function Asked({ line }: { readonly line: Line }): VNode {
  const { tool } = callOf(line);
  const asked = members(line["request"]);
  const protocol = members(line["protocol"]);
  const client = asString(members(protocol["client"])["name"]);
  const { act, ...who } = askerOf(line);
  const secrets = asStrings(asked["secrets"]);
  const session = asString(asked["session"]);
  return (
    <>
      <p>
        {act.length > 0 && (
          <>
            <Actor act={act} /> for{" "}
          </>
        )}
        <CallerLink {...who} /> <HaltedMark {...who} act={act} session={session} tool={tool} /> asked to run{" "}
        <code>
          <Text value={tool ?? "(no tool)"} max={200} />
        </code>
        {session !== undefined && (
          <>
            {" "}
            in the session{" "}
            <code>
              <Text value={session} max={120} />
            </code>
          </>
        )}
        .
      </p>
      {secrets.length > 0 && (
        <div class="callout tone-warn">
          The agent sent secrets in: <Names names={secrets} />
        </div>
      )}
      <AgentSays text={asked["reason"]} />
      {(asString(protocol["name"]) !== undefined || asString(asked["callId"]) !== undefined) && (
        <p class="meta">
          {asString(protocol["name"]) !== undefined && (
            <>
              Over <Text value={`${asString(protocol["name"])} ${asString(protocol["version"]) ?? ""}`} max={60} />
              {client !== undefined && (
                <>
                  {" "}
                  from a client that calls itself <Text value={nameInSentence(client)} max={120} />
                </>
              )}
              .{" "}
            </>
          )}
          {asString(asked["callId"]) !== undefined && (
            <>
              The model's id of the call: <Text value={nameInSentence(asString(asked["callId"]) ?? "")} max={120} />
            </>
          )}
        </p>
      )}
    </>
  );
}

interface StoryProps {
  readonly line: Line;
  readonly story: CallStory;
}

function Decided({ line, story: { decisions, votes, approving, noObjection } }: StoryProps): VNode {
  const { dataFlow } = line;
  const id = asString(members(line["approval"])["id"]);
  const denials = votes.filter(({ approves }) => !approves);
  return (
    <>
      {noObjection !== undefined && <p>{noObjection}</p>}
      {decisions.length > 0 && (
        <ul class="reasons">
          {decisions.map(({ does, meanings }, at) => (
            <li key={at}>
              <Badge tone={does === "denies" ? "bad" : "plain"}>{does}</Badge>
              <Why meanings={meanings} />
            </li>
          ))}
        </ul>
      )}
      {[...(approving === undefined ? [] : [approving.text]), ...denials.map(({ text }) => text)].map((text) => (
        <p key={text} class="decided-by">
          <Text value={text} max={600} />
        </p>
      ))}
      {votes.map(
        ({ comment, subject }, at) =>
          comment !== undefined && (
            <p key={at} class="said">
              <Text value={nameInSentence(subject)} max={80} />: <Quoted value={comment} max={600} />
            </p>
          ),
      )}
      {dataFlow !== undefined && (
        <Sentences label="Data flow" value={dataFlow} sentences={dataFlowSentences(dataFlow)} />
      )}
      <p class="meta">
        {id !== undefined && (
          <>
            <a href={hrefOf("approvals", [id])}>The approval request</a>
            {" · "}
          </>
        )}
        <PolicyVersion version={asString(line["policyVersion"])} />
      </p>
    </>
  );
}

function Why({ meanings }: { readonly meanings: readonly RuleMeaning[] }): VNode {
  const [only, ...others] = meanings;
  if (only !== undefined && others.length === 0)
    return (
      <span>
        <Meaning {...only} />
      </span>
    );
  return (
    <div>
      <p>Rules that match the call:</p>
      <Meanings meanings={meanings} />
    </div>
  );
}

const VERSION_SHOWN = 12;

/** The configuration that judged the call, with a link to it for those who may read it. */
function PolicyVersion({ version }: { readonly version: string | undefined }): VNode {
  if (version === undefined) return <>The line does not say which configuration judged it.</>;
  const short = (
    <code>
      <Text value={version.slice(0, VERSION_SHOWN)} max={VERSION_SHOWN} />
    </code>
  );
  return (
    <>
      Judged by the configuration{" "}
      {permissions.value.has("configuration:read") ? <a href={versionHref(version)}>{short}</a> : short}
    </>
  );
}

function Ended({ line, story: { outcome } }: StoryProps): VNode {
  const { code } = callOf(line);
  const { reason, details } = members(line["denial"]);
  return (
    <>
      <p>{outcome}</p>
      {typeof reason === "string" && (
        <p>
          The agent was told:{" "}
          {code !== undefined && (
            <>
              <code>
                <Text value={code} max={60} />
              </code>{" "}
            </>
          )}
          <Quoted value={reason} max={1_000} />
        </p>
      )}
      {details !== undefined && (
        <details>
          <summary>Details of the refusal</summary>
          <Block value={jsonLines(details)} label="Details of the refusal" />
        </details>
      )}
    </>
  );
}
