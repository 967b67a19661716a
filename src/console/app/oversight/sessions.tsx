import { signal } from "@preact/signals";
import type { VNode } from "preact";
import type { ShownGrant, ShownSession } from "../../../core/api/approvals.ts";
import { request } from "../api.ts";
import { CallerLink } from "../caller.tsx";
import { Badge, Countdown, Dialog, Empty, Heading, Problem } from "../parts.tsx";
import { Columns, ROLE, Section, Unread, useRead } from "../records.tsx";
import { permissions } from "../session.ts";
import { notify, notifyError, type PageContent } from "../state.ts";
import { Text } from "../text.tsx";
import { counted } from "../words.ts";

/** Agents' sessions, how much each asks, and which approvals cover further calls. */

/** The session or grant to end once the person has confirmed it. */
interface Ending {
  readonly title: string;
  readonly text: string;
  readonly path: string;
  readonly done: string;
  /** Begins the message when the service refuses. */
  readonly notDone: string;
  readonly after: () => void;
}

const ending = signal<Ending | undefined>(undefined);
/** The session whose mode is being set. */
const changing = signal<{ readonly session: ShownSession; readonly after: () => void } | undefined>(undefined);

function SessionsView(): VNode {
  const { read, again } = useRead<{ readonly sessions: readonly ShownSession[] }>("/sessions");
  return (
    <div class="sheet story">
      {read.value === undefined ? (
        <Unread title="Sessions" read={read} again={again} />
      ) : (
        <>
          <Heading>Sessions</Heading>
          <Sessions sessions={read.value.sessions} again={again} />
        </>
      )}
      {permissions.value.has("grants:manage") && <Grants />}
      {ending.value !== undefined && <Confirm one={ending.value} />}
      {changing.value !== undefined && <SetMode {...changing.value} />}
    </div>
  );
}

const MODES: Readonly<Record<string, readonly [words: string, tone: string]>> = {
  default: ["asks for every change", "plain"],
  autoEdit: ["writes files without asking", "warn"],
  yolo: ["asks for nothing but high risk", "bad"],
};

function Sessions({
  sessions,
  again,
}: {
  readonly sessions: readonly ShownSession[];
  readonly again: () => void;
}): VNode {
  if (sessions.length === 0) {
    return (
      <Empty title="No session is open">
        <p>A session appears when an agent opens one, or with the first approval for a session that a token names.</p>
      </Empty>
    );
  }
  return (
    <table class="records acted" {...ROLE.table}>
      <caption class="sr-only">Sessions</caption>
      <Columns titles={["Session", "Caller", "Mode", "Ends", "Change"]} />
      <tbody {...ROLE.group}>
        {sessions.map((session) => {
          const { id, issuer, subject, mode, modeUntil, modeSetBy, expiresAt } = session;
          return (
            <tr key={`${issuer} ${subject} ${id}`} {...ROLE.row}>
              <td class="cell-lead" {...ROLE.cell}>
                <code>
                  <Text value={id} max={48} />
                </code>
              </td>
              <td data-label="Caller" {...ROLE.cell}>
                <CallerLink sub={subject} iss={issuer} />
              </td>
              <td class="cell-lead" {...ROLE.cell}>
                <Badge tone={MODES[mode]?.[1] ?? "bad"}>{mode}</Badge> <span class="dim">{MODES[mode]?.[0]}</span>
                {modeUntil !== undefined && (
                  <p class="help">
                    for <Countdown iso={modeUntil} />
                    {modeSetBy !== undefined && (
                      <>
                        , set by <Text value={modeSetBy.sub} max={60} />
                      </>
                    )}
                  </p>
                )}
              </td>
              <td data-label="Ends" {...ROLE.cell}>
                <span>
                  in <Countdown iso={expiresAt} />
                </span>
              </td>
              <td class="cell-action" {...ROLE.cell}>
                <button
                  type="button"
                  onClick={() => {
                    changing.value = { session, after: again };
                  }}
                >
                  Mode …
                </button>{" "}
                <button
                  type="button"
                  class="danger"
                  onClick={() => {
                    ending.value = {
                      title: "End this session",
                      text: "What was approved for the session ends with it. The agent can open another one.",
                      path: `/sessions/${encodeURIComponent(id)}?${new URLSearchParams({ issuer, subject })}`,
                      done: "The session has ended.",
                      notDone: "The session was not ended",
                      after: again,
                    };
                  }}
                >
                  End …
                </button>
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function boundedText({ runs, runsUsed, arguments: bounds }: NonNullable<ShownGrant["bounded"]>): string {
  const varying = Object.entries(bounds).map(([name, bound]) => `${name}: ${bound}`);
  return [`${runsUsed} of ${counted(runs, "run")} used`, ...varying].join("; ");
}

function Grants(): VNode {
  const { read, again } = useRead<{ readonly grants: readonly ShownGrant[] }>("/grants");
  const grants = read.value?.grants;
  return (
    <Section id="grants" title="Approved for several calls">
      {read.error !== undefined && <Problem error={read.error} onRetry={again} />}
      {grants?.length === 0 && <p class="dim">No approval covers further calls now.</p>}
      {grants !== undefined && grants.length > 0 && (
        <table class="records acted" {...ROLE.table}>
          <caption class="sr-only">Approvals that cover further calls</caption>
          <Columns titles={["Call", "Caller", "Approved by", "Ends", "Change"]} />
          <tbody {...ROLE.group}>
            {grants.map(({ id, tool, summary, subject, issuer, grantedBy, expiresAt, bounded }) => (
              <tr key={id} {...ROLE.row}>
                <td class="cell-lead" {...ROLE.cell}>
                  <code>
                    <Text value={tool} max={80} />
                  </code>
                  <p class="help">
                    <Text value={summary} max={160} />
                  </p>
                  {bounded !== undefined && (
                    <p class="help">
                      <Text value={boundedText(bounded)} max={600} />
                    </p>
                  )}
                </td>
                <td data-label="Caller" {...ROLE.cell}>
                  <CallerLink sub={subject} iss={issuer} />
                </td>
                <td data-label="Approved by" {...ROLE.cell}>
                  <Text value={grantedBy?.sub ?? "–"} max={60} />
                </td>
                <td data-label="Ends" {...ROLE.cell}>
                  <span>
                    in <Countdown iso={expiresAt} />
                  </span>
                </td>
                <td class="cell-action" {...ROLE.cell}>
                  <button
                    type="button"
                    class="danger"
                    onClick={() => {
                      ending.value = {
                        title: "Revoke this approval",
                        text: `The next call of ${tool} that it would cover asks again.`,
                        path: `/grants/${encodeURIComponent(id)}`,
                        done: "The approval is revoked.",
                        notDone: "The approval was not revoked",
                        after: again,
                      };
                    }}
                  >
                    Revoke …
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Section>
  );
}

const DURATIONS = [
  [1_800, "30 minutes"],
  [3_600, "an hour"],
  [14_400, "4 hours"],
  [28_800, "8 hours"],
] as const;

/** Sets how much a session asks, for a limited time. */
function SetMode({ session, after }: NonNullable<typeof changing.value>): VNode {
  const { id, issuer, subject } = session;
  const close = (): void => {
    changing.value = undefined;
  };
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const chosen = new FormData(event.currentTarget);
    close();
    const mode = String(chosen.get("mode"));
    const body = { mode, expiresInSeconds: Number(chosen.get("seconds")), issuer, subject };
    try {
      await request("PUT", `/sessions/${encodeURIComponent(id)}/mode`, { body });
      notify("done", `The session's mode is ${mode}.`);
    } catch (error) {
      notifyError("The mode was not set", error);
    }
    after();
  };
  return (
    <Dialog title="Set the mode of this session" onClose={close}>
      <form onSubmit={(event) => void submit(event)}>
        <fieldset class="choices">
          <legend>
            The session of <Text value={subject} max={80} />
          </legend>
          {Object.entries(MODES).map(([mode, [words]]) => (
            <label key={mode}>
              <input type="radio" name="mode" value={mode} defaultChecked={mode === session.mode} />
              <span>
                <strong>{mode}</strong>: {words}
              </span>
            </label>
          ))}
        </fieldset>
        <div class="field">
          <label for="mode-seconds">For</label>
          <select id="mode-seconds" name="seconds">
            {DURATIONS.map(([seconds, words]) => (
              <option key={seconds} value={seconds}>
                {words}
              </option>
            ))}
          </select>
        </div>
        <div class="decide-buttons">
          <button type="submit" class="primary">
            Set the mode
          </button>
          <button type="button" onClick={close}>
            Back
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Confirm({ one }: { readonly one: Ending }): VNode {
  const close = (): void => {
    ending.value = undefined;
  };
  const act = async (): Promise<void> => {
    close();
    try {
      await request("DELETE", one.path);
      notify("done", one.done);
    } catch (error) {
      notifyError(one.notDone, error);
    }
    one.after();
  };
  return (
    <Dialog title={one.title} onClose={close}>
      <p>
        <Text value={one.text} max={300} />
      </p>
      <div class="decide-buttons dialog-buttons">
        <button type="button" class="danger solid" onClick={() => void act()}>
          {one.title}
        </button>
        <button type="button" onClick={close}>
          Back
        </button>
      </div>
    </Dialog>
  );
}

export const sessionsPage: PageContent = {
  view: SessionsView,
  run: () => () => {
    ending.value = undefined;
    changing.value = undefined;
  },
};
